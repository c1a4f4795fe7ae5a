//! Picture: a drawing, what it says, and its numbers.

use maud::{Markup, PreEscaped, html};

use crate::frame::WIDTH;

/// Colours and strokes of every drawing; on the page and in a file of its own.
pub(crate) const STYLE: &str = include_str!("picture.css");

/// A drawing with everything that is to be said about it.
pub struct Picture {
    /// Identifier: anchor on the page, name of the file.
    pub id: String,
    /// What is shown.
    pub title: String,
    /// How to read it, and what stands out.
    pub caption: String,
    /// The drawing, an `svg` element.
    pub drawing: Markup,
    /// The numbers that are drawn.
    pub numbers: NumberTable,
}

/// Numbers as text, exact where they are integers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumberTable {
    /// Column titles, units included.
    pub header: Vec<String>,
    /// Rows, the first cell a title.
    pub rows: Vec<Vec<String>>,
}

impl Picture {
    /// The drawing as a file of its own: SVG with its style inside.
    pub fn svg(&self) -> String {
        let drawing = self.drawing.0.replacen('>', &format!("><style>{STYLE}</style>"), 1);
        format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{drawing}\n")
    }

    /// The figure of a page: drawing, caption, and the numbers behind a disclosure.
    pub(crate) fn figure(&self) -> Markup {
        html! {
            figure id=(self.id) {
                h3 { (self.title) }
                div.drawing tabindex="0" role="group" aria-label=(self.title) { (self.drawing) }
                figcaption { (self.caption) }
                details {
                    summary { "Numbers" }
                    div.numbers tabindex="0" role="group" aria-label={ "Numbers of: " (self.title) } { (self.numbers.markup()) }
                }
            }
        }
    }
}

impl NumberTable {
    /// The table's markup.
    pub(crate) fn markup(&self) -> Markup {
        html! {
            table {
                thead { tr { @for title in &self.header { th scope="col" { (title) } } } }
                tbody {
                    @for row in &self.rows {
                        tr {
                            @for (column, cell) in row.iter().enumerate() {
                                @if column == 0 { th scope="row" { (cell) } } @else { td { (cell) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The `svg` element of a drawing of this size, with a title for those who hear it.
pub(crate) fn svg(width: f64, height: f64, title: &str, content: Markup) -> Markup {
    // Drawn smaller its letters could not be read: it is scrolled.
    let wide = if width > WIDTH { " wide" } else { "" };
    html! {
        (PreEscaped(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"picture{wide}\" role=\"img\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             width=\"{width:.0}\" height=\"{height:.0}\">"
        )))
        title { (title) }
        (content)
        (PreEscaped("</svg>"))
    }
}
