//! Plain tables of at most 80 columns: the first column left, the others right; and tables for machines, as CSV.

use std::path::Path;

use csv::{ErrorKind, StringRecord};
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

/// Reads a table of CSV with at least one line, as [`read_csv_lines`].
pub(crate) fn read_csv<T: DeserializeOwned>(
    path: &Path,
    check: impl FnMut(&T, u64) -> Result<(), String>,
) -> Result<Vec<T>, Failure> {
    let lines = read_csv_lines(path, check)?;
    if lines.is_empty() {
        return Err(Failure::input(path.display(), "a table without lines"));
    }
    Ok(lines)
}

/// Reads the lines of a table of CSV, each as `check` wants it, which is told its line; columns are found by name, and what is wrong is named with
/// its line.
pub(crate) fn read_csv_lines<T: DeserializeOwned>(
    path: &Path,
    mut check: impl FnMut(&T, u64) -> Result<(), String>,
) -> Result<Vec<T>, Failure> {
    let (text, shown) = formats::read_text(path)?;
    // The reader counts lines too few where they end in two bytes.
    let text = text.replace("\r\n", "\n");
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let titles = reader.headers().map_err(|error| Failure::input(&shown, error))?.clone();
    let read = |record: Result<StringRecord, csv::Error>| {
        let record = record.map_err(|error| Failure::input(&shown, error))?;
        let line = record.position().map_or(0, csv::Position::line);
        let refuse = |message: String| Failure::input(format!("{shown}: line {line}"), message);
        let one: T = record.deserialize(Some(&titles)).map_err(|error| match error.kind() {
            ErrorKind::Deserialize { err, .. } => {
                let field = err.field().and_then(|field| usize::try_from(field).ok());
                let named = field.and_then(|field| Some((titles.get(field)?, record.get(field)?)));
                let named = named.map(|(title, value)| format!("{title} = \"{value}\": "));
                refuse(format!("{}{}", named.unwrap_or_default(), err.kind()))
            }
            _ => refuse(error.to_string()),
        })?;
        check(&one, line).map_err(refuse)?;
        Ok(one)
    };
    if titles.is_empty() {
        return Err(Failure::input(&shown, "an empty file, expected a table with a header"));
    }
    reader.records().map(read).collect()
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
