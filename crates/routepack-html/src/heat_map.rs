//! Heat map: a matrix of values, the more the darker.

use maud::{Markup, html};

use crate::frame::{LEFT, WIDTH, px};
use crate::picture::svg;

/// A matrix to draw.
pub(crate) struct HeatMap<'a> {
    /// What is shown, for those who hear it.
    pub(crate) title: &'a str,
    /// What a row is; they are numbered from 0.
    pub(crate) row: &'a str,
    /// What a column is; they are numbered from 0.
    pub(crate) column: &'a str,
    /// Values `[rows][columns]`.
    pub(crate) values: &'a [Vec<f64>],
    /// Value of the lightest and of the darkest shade; from the values when absent.
    pub(crate) range: Option<(f64, f64)>,
    /// Cells to frame: row, column.
    pub(crate) marked: &'a [(usize, usize)],
    /// A cell's value in words.
    pub(crate) words: &'a dyn Fn(usize, usize) -> String,
}

/// Draws the matrix with the scale of its shades.
pub(crate) fn heat_map(map: &HeatMap<'_>) -> Markup {
    let columns = map.values.first().map_or(0, Vec::len).max(1);
    let (low, high) = map.range.unwrap_or_else(|| {
        let all = || map.values.iter().flatten().copied();
        (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max))
    });
    let shade = |value: f64| if high > low { 0.04 + 0.96 * (value - low) / (high - low) } else { 0.5 };
    let side = ((WIDTH - LEFT - 16.0) / columns as f64).clamp(3.0, 34.0);
    let tall = side.clamp(8.0, 22.0);
    let (top, bottom) = (44.0, 44.0 + tall * map.values.len() as f64);
    // Numbers that do not run into each other.
    let (every_row, every_column) = ((14.0 / tall).ceil() as usize, (26.0 / side).ceil() as usize);
    let content = html! {
        text x="4" y="14" { (map.row) " (down), " (map.column) " (across)" }
        @for step in 0..5usize {
            rect.heat x=(px(WIDTH - 250.0 + 20.0 * step as f64)) y="4" width="20" height="12" fill-opacity=(format!("{:.2}", shade(low + (high - low) * step as f64 / 4.0))) {}
        }
        text.end.soft x=(px(WIDTH - 256.0)) y="14" { (crate::frame::number(low)) }
        text.soft x=(px(WIDTH - 144.0)) y="14" { (crate::frame::number(high)) }
        @for column in (0..columns).step_by(every_column) {
            text.soft.middle x=(px(LEFT + side * (column as f64 + 0.5))) y="38" { (column) }
        }
        @for (row, values) in map.values.iter().enumerate() {
            @if row % every_row == 0 {
                text.soft.end x=(px(LEFT - 6.0)) y=(px(top + tall * (row as f64 + 0.5) + 4.0)) { (row) }
            }
            @for (column, &value) in values.iter().enumerate() {
                rect.heat x=(px(LEFT + side * column as f64)) y=(px(top + tall * row as f64)) width=(px(side)) height=(px(tall)) fill-opacity=(format!("{:.3}", shade(value).clamp(0.0, 1.0))) {
                    title { (map.row) " " (row) ", " (map.column) " " (column) ": " ((map.words)(row, column)) }
                }
            }
        }
        @for &(row, column) in map.marked {
            rect.pace x=(px(LEFT + side * column as f64 + 1.0)) y=(px(top + tall * row as f64 + 1.0)) width=(px(side - 2.0)) height=(px(tall - 2.0)) {}
        }
    };
    // Cells are no narrower than can be seen, so many columns need more room.
    svg(WIDTH.max(LEFT + side * columns as f64 + 16.0), bottom + 8.0, map.title, content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_column_lies_in_the_drawing() {
        for (columns, width) in [(1, 720), (209, 720), (256, 76 + 3 * 256 + 16)] {
            let values = vec![vec![1.0; columns]];
            let words = |_: usize, _: usize| String::new();
            let map = HeatMap {
                title: "",
                row: "row",
                column: "column",
                values: &values,
                range: None,
                marked: &[],
                words: &words,
            };
            let drawing = heat_map(&map).0;
            assert!(drawing.contains(&format!("viewBox=\"0 0 {width} ")), "{columns} columns: {drawing}");
        }
    }
}
