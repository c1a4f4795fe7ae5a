//! The page: one file that opens from disk, without network or scripts.

use maud::{DOCTYPE, PreEscaped, html};

use crate::picture::STYLE;
use crate::{NumberTable, Picture};

/// What the page says.
pub struct Page<'a> {
    /// Title.
    pub title: &'a str,
    /// Facts: what, and how much.
    pub facts: &'a [(String, String)],
    /// Tables with their headings.
    pub tables: &'a [(String, NumberTable)],
    /// Pictures by section.
    pub sections: &'a [(String, Vec<Picture>)],
}

/// The page as HTML.
pub fn page(page: &Page<'_>) -> String {
    let style = format!("{}{STYLE}", include_str!("page.css"));
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                // Nothing is asked for at the place the page is opened from.
                link rel="icon" href="data:,";
                title { (page.title) }
                style { (PreEscaped(style)) }
            }
            body {
                a.skip href="#pictures" { "To the pictures" }
                header {
                    h1 { (page.title) }
                    dl { @for (what, value) in page.facts { dt { (what) } dd { (value) } } }
                }
                nav aria-label="Pictures" {
                    ul { @for (heading, pictures) in page.sections {
                        li { (heading) ul { @for picture in pictures {
                            li { a href={ "#" (picture.id) } { (picture.title) } }
                        } } }
                    } }
                }
                main {
                    @for (heading, table) in page.tables {
                        section {
                            h2 { (heading) }
                            div.numbers tabindex="0" role="group" aria-label=(heading) { (table.markup()) }
                        }
                    }
                    div id="pictures" {
                        @for (heading, pictures) in page.sections {
                            section {
                                h2 { (heading) }
                                @for picture in pictures { (picture.figure()) }
                            }
                        }
                    }
                }
            }
        }
    }
    .into_string()
}
