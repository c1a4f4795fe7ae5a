//! Heat map: a matrix of values, the more the darker; of too many rows for a page, neighbours share a line.

use std::ops::Range;

use maud::{Markup, html};

use crate::NumberTable;
use crate::frame::{LEFT, WIDTH, px, round_up, short};
use crate::picture::svg;

/// Most lines and most cells of a drawing: more make a page that nobody can read or open.
const LINES: usize = 128;
const CELLS: usize = 1 << 15;

/// A matrix to draw.
pub(crate) struct HeatMap<'a> {
    /// What is shown, for those who hear it.
    pub(crate) title: &'a str,
    /// What a row is; they are numbered from 0.
    pub(crate) row: &'a str,
    /// What a column is; they are numbered from 0.
    pub(crate) column: &'a str,
    /// The same in the table of numbers, in short.
    pub(crate) names: [&'a str; 2],
    /// What a value is, with its unit.
    pub(crate) unit: &'a str,
    /// Values `[rows][columns]`.
    pub(crate) values: &'a [Vec<f64>],
    /// Value of the lightest and of the darkest shade; from the values when absent.
    pub(crate) range: Option<(f64, f64)>,
    /// Cells to frame: row, column; none where rows share a line.
    pub(crate) marked: &'a [(usize, usize)],
    /// A cell's value in words.
    pub(crate) words: &'a dyn Fn(usize, usize) -> String,
    /// A cell's value in the table of numbers.
    pub(crate) number: &'a dyn Fn(usize, usize) -> String,
}

/// Rows that share a line of a drawing; one each as long as a page holds them.
pub(crate) fn rows_a_line(rows: usize, columns: usize) -> usize {
    round_up(rows.div_ceil(LINES.min(CELLS / columns.max(1)).max(1)) as u64) as usize
}

/// What a caption says where rows share lines.
pub(crate) fn shared_in_words(values: &[Vec<f64>], row: &str, column: &str) -> String {
    match rows_a_line(values.len(), columns(values)) {
        1 => String::new(),
        every => format!(" A line stands for {every} {row}s and shows the largest value of every {column}."),
    }
}

fn columns(values: &[Vec<f64>]) -> usize {
    values.first().map_or(0, Vec::len)
}

/// Draws the matrix with the scale of its shades, and tells the numbers that are drawn.
pub(crate) fn heat_map(map: &HeatMap<'_>) -> (Markup, NumberTable) {
    let columns = columns(map.values).max(1);
    let every = rows_a_line(map.values.len(), columns);
    let lines: Vec<Range<usize>> = (0..map.values.len())
        .step_by(every)
        .map(|first| first..(first + every).min(map.values.len()))
        .collect();
    // The row of a line whose value is shown.
    let largest = |line: &Range<usize>, column: usize| {
        let of = |row: &usize| map.values[*row][column];
        line.clone().rev().max_by(|one, other| of(one).total_cmp(&of(other))).expect("a line has rows")
    };
    let (low, high) = map.range.unwrap_or_else(|| {
        let all = || map.values.iter().flatten().copied();
        (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max))
    });
    let shade = |value: f64| if high > low { 0.04 + 0.96 * (value - low) / (high - low) } else { 0.5 };
    let side = ((WIDTH - LEFT - 16.0) / columns as f64).clamp(3.0, 34.0);
    let tall = side.clamp(8.0, 22.0).min((1000.0 / lines.len() as f64).max(8.0));
    let (top, bottom) = (62.0, 62.0 + tall * lines.len() as f64);
    // Numbers that do not run into each other.
    let apart = |room: f64, one: f64| round_up((room / one).ceil() as u64) as usize;
    let (every_line, every_column) = (apart(14.0, tall), apart(26.0, side));
    // A frame leaves its cell in view.
    let stroke = (side / 4.0).min(2.0);
    let content = html! {
        text x="4" y="14" {
            (map.row) " (down" @if every > 1 { ", " (every) " a line" } "), " (map.column) " (across)"
        }
        text.end.soft x=(px(LEFT - 6.0)) y="33" { (short(low)) }
        @for step in 0..5usize {
            rect.heat x=(px(LEFT + 20.0 * step as f64)) y="23" width="20" height="12" fill-opacity=(format!("{:.2}", shade(low + (high - low) * step as f64 / 4.0))) {}
        }
        text.soft x=(px(LEFT + 106.0)) y="33" { (short(high)) " " (map.unit) }
        @for column in (0..columns).step_by(every_column) {
            text.soft.middle x=(px(LEFT + side * (column as f64 + 0.5))) y="56" { (column) }
        }
        @for (at, line) in lines.iter().enumerate() {
            @if at % every_line == 0 {
                text.soft.end x=(px(LEFT - 6.0)) y=(px(top + tall * (at as f64 + 0.5) + 4.0)) { (line.start) }
            }
            @for column in 0..map.values[line.start].len() {
                @let row = largest(line, column);
                rect.heat x=(px(LEFT + side * column as f64)) y=(px(top + tall * at as f64)) width=(px(side)) height=(px(tall)) fill-opacity=(format!("{:.3}", shade(map.values[row][column]).clamp(0.0, 1.0))) {
                    title { (map.row) " " (row) ", " (map.column) " " (column) ": " ((map.words)(row, column)) }
                }
            }
        }
        @if every == 1 {
            @for &(row, column) in map.marked {
                rect.pace x=(px(LEFT + side * column as f64 + stroke / 2.0)) y=(px(top + tall * row as f64 + stroke / 2.0)) width=(px(side - stroke)) height=(px(tall - stroke)) stroke-width=(px(stroke)) {}
            }
        }
    };
    // Cells are no narrower than can be seen, so many columns need more room.
    let drawing = svg(WIDTH.max(LEFT + side * columns as f64 + 16.0), bottom + 8.0, map.title, content);
    let [row_name, column_name] = map.names;
    let header = (0..self::columns(map.values)).map(|column| format!("{column_name} {column}"));
    let numbers = |line: &Range<usize>| {
        let name =
            if every == 1 { line.start.to_string() } else { format!("{} to {}", line.start, line.end - 1) };
        let cells =
            (0..map.values[line.start].len()).map(|column| (map.number)(largest(line, column), column));
        std::iter::once(name).chain(cells).collect()
    };
    let numbers = NumberTable {
        header: std::iter::once(row_name.to_owned()).chain(header).collect(),
        rows: lines.iter().map(numbers).collect(),
    };
    (drawing, numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(values: &[Vec<f64>]) -> (String, NumberTable) {
        let number = |row: usize, column: usize| values[row][column].to_string();
        let (drawing, numbers) = heat_map(&HeatMap {
            title: "",
            row: "row",
            column: "column",
            names: ["row", "column"],
            unit: "tokens",
            values,
            range: None,
            marked: &[],
            words: &number,
            number: &number,
        });
        (drawing.0, numbers)
    }

    #[test]
    fn the_last_column_lies_in_the_drawing() {
        for (columns, width) in [(1, 720), (209, 720), (256, 76 + 3 * 256 + 16)] {
            let (drawing, _) = drawn(&[vec![1.0; columns]]);
            assert!(drawing.contains(&format!("viewBox=\"0 0 {width} ")), "{columns} columns: {drawing}");
            assert!(drawing.contains(">1 tokens</text>"), "a scale without its unit: {drawing}");
        }
    }

    /// Thousands of rows made a drawing of forty thousand pixels.
    #[test]
    fn many_rows_share_lines_that_show_the_largest() {
        // Distinct, and largest in the midst of every line.
        let value = |row: usize, column: usize| ((row * 7919 + column * 31) % 10_007) as f64;
        for (rows, columns) in [(128, 8), (129, 8), (4995, 8), (4995, 512), (3, 40_000)] {
            let values: Vec<Vec<f64>> =
                (0..rows).map(|row| (0..columns).map(|column| value(row, column)).collect()).collect();
            let (drawing, numbers) = drawn(&values);
            let every = rows_a_line(rows, columns);
            assert_eq!(every == 1, rows <= 128 && rows * columns <= CELLS, "{rows} rows");
            let lines = rows.div_ceil(every);
            assert!(lines <= LINES && (lines == 1 || lines * columns <= CELLS), "{lines} lines");
            assert_eq!(drawing.matches("<title>row ").count(), lines * columns);
            assert_eq!(numbers.rows.len(), lines);
            for (line, shown) in numbers.rows.iter().enumerate() {
                let rows = line * every..((line + 1) * every).min(rows);
                let name = format!("{} to {}", rows.start, rows.end - 1);
                assert_eq!(shown[0], if every == 1 { line.to_string() } else { name });
                for (column, shown) in shown[1..].iter().enumerate() {
                    let largest = rows.clone().map(|row| value(row, column)).fold(0.0, f64::max);
                    assert_eq!(*shown, largest.to_string());
                }
            }
        }
    }
}
