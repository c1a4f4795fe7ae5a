//! Plain tables of at most 80 columns: the first column left, the others right; and tables for machines, as CSV.

use std::path::Path;

use routepack::formats;
use routepack_bench::read_lines;
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
) -> Result<(Vec<T>, Vec<u64>), Failure> {
    let lines = read_csv_lines(path, check)?;
    if lines.0.is_empty() {
        return Err(Failure::input(path.display(), "a table without lines"));
    }
    Ok(lines)
}

/// Reads the lines of a table of CSV and their numbers, each as `check` wants it, which is told its number; columns are found
/// by name, and what is wrong is named with its line.
pub(crate) fn read_csv_lines<T: DeserializeOwned>(
    path: &Path,
    mut check: impl FnMut(&T, u64) -> Result<(), String>,
) -> Result<(Vec<T>, Vec<u64>), Failure> {
    let (text, shown) = formats::read_text(path)?;
    if text.is_empty() {
        return Err(Failure::input(&shown, "an empty file, expected a table with a header"));
    }
    // The reader counts lines too few where they end in two bytes.
    let text = text.replace("\r\n", "\n");
    let (mut found, mut lines) = (Vec::new(), Vec::new());
    let read = read_lines(text.as_bytes(), b',', |line, one: T| {
        check(&one, line).map_err(|why| format!("line {line}: {why}"))?;
        found.push(one);
        lines.push(line);
        Ok(())
    });
    read.map_err(|why| Failure::input(&shown, why))?;
    Ok((found, lines))
}

/// Most columns of a terminal that a table takes.
const WIDTH: usize = 80;

/// Renders rows of cells under a header. What is too wide goes on below, under the first column again.
pub(crate) fn render(header: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = header.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut parts: Vec<Vec<usize>> = vec![vec![0]];
    let mut taken = widths[0];
    for (column, width) in widths.iter().enumerate().skip(1) {
        taken += 2 + width;
        if taken > WIDTH && parts.last().is_some_and(|part| part.len() > 1) {
            parts.push(vec![0]);
            taken = widths[0] + 2 + width;
        }
        parts.last_mut().expect("there is a part").push(column);
    }
    let line = |cells: &dyn Fn(usize) -> String, part: &[usize]| {
        let padded = |&column: &usize| {
            let (cell, width) = (cells(column), widths[column]);
            if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        };
        part.iter().map(padded).collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let text = |part: &Vec<usize>| {
        let first = line(&|column| header[column].to_owned(), part);
        let rows = rows.iter().map(|row| line(&|column| row.get(column).cloned().unwrap_or_default(), part));
        std::iter::once(first).chain(rows).collect::<Vec<_>>().join("\n")
    };
    parts.iter().map(text).collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    #[test]
    fn columns_line_up() {
        let rows = vec![vec!["a".to_owned(), "10".to_owned()], vec!["bcd".to_owned(), "7".to_owned()]];
        assert_eq!(super::render(&["x", "n"], &rows), "x     n\na    10\nbcd   7");
    }

    /// Large figures made lines of 81 columns.
    #[test]
    fn what_is_too_wide_goes_on_below() {
        let rows = vec![vec!["name".to_owned(), "1".repeat(40), "2".repeat(32), "3".repeat(33)]];
        let table = super::render(&["", "a", "b", "c"], &rows);
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
        let names: Vec<&str> = table.lines().filter(|line| line.starts_with("name")).collect();
        assert_eq!(names.len(), 2, "80 columns are not too wide, 81 are: {table}");
        assert!(names[0].ends_with(&"2".repeat(32)) && names[1].ends_with(&"3".repeat(33)), "{table}");
    }
}
