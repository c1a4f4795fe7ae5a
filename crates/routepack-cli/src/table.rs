//! Plain tables of at most 80 columns: the first column left, the others right; and tables for machines, as CSV.

use std::path::Path;

use routepack::formats;
use serde::de::DeserializeOwned;

use crate::exit::Failure;

/// Writes a table as CSV.
pub(crate) fn write_csv(path: &Path, header: &[&str], rows: &[Vec<String>]) -> Result<(), Failure> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let written = writer
        .write_record(header)
        .and_then(|()| rows.iter().try_for_each(|row| writer.write_record(row)))
        .map_err(|error| error.to_string())
        .and_then(|()| writer.into_inner().map_err(|error| error.to_string()));
    let bytes = written.map_err(|error| Failure::File(format!("{}: {error}", path.display())))?;
    formats::write_atomically(path, &bytes)?;
    Ok(())
}

/// Reads a table of CSV with at least one line; columns are found by name, and what is wrong is named with its line.
pub(crate) fn read_csv<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, Failure> {
    let (text, shown) = formats::read_text(path)?;
    let lines: Result<Vec<T>, _> = csv::Reader::from_reader(text.as_bytes()).deserialize().collect();
    let lines = lines.map_err(|error| Failure::input(&shown, error))?;
    if lines.is_empty() {
        return Err(Failure::input(&shown, "a table without lines"));
    }
    Ok(lines)
}

/// Renders rows of cells under a header.
pub(crate) fn render(header: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = header.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> = cells
            .zip(&widths)
            .enumerate()
            .map(
                |(column, (cell, &width))| {
                    if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
                },
            )
            .collect();
        padded.join("  ").trim_end().to_owned()
    };
    let mut text = line(&mut header.iter().copied());
    for row in rows {
        text.push('\n');
        text.push_str(&line(&mut row.iter().map(String::as_str)));
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn columns_line_up() {
        let rows = vec![vec!["a".to_owned(), "10".to_owned()], vec!["bcd".to_owned(), "7".to_owned()]];
        assert_eq!(super::render(&["x", "n"], &rows), "x     n\na    10\nbcd   7");
    }
}
