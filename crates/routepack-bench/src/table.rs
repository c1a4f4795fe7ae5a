//! The tables of a bench: one that grows line by line and survives a kill, one of known optima.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::num::IntErrorKind;
use std::path::{Path, PathBuf};

use csv::{DeserializeErrorKind, StringRecord};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::BenchError;
use crate::record::Record;

/// Reads CSV line by line, columns by their names; `take` is told the number of the line, from 1, and may refuse it.
///
/// # Errors
/// What `take` refuses; else what is wrong: line, column, value and what was expected.
pub fn read_lines<T: DeserializeOwned>(
    text: &[u8],
    delimiter: u8,
    mut take: impl FnMut(u64, T) -> Result<(), String>,
) -> Result<(), String> {
    let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).from_reader(text);
    let titles = reader.headers().map_err(|error| error.to_string())?.clone();
    for record in reader.records() {
        let record = record.map_err(|error| error.to_string())?;
        let line = record.position().map_or(0, csv::Position::line);
        take(
            line,
            record.deserialize(Some(&titles)).map_err(|error| wrong(&error, line, &titles, &record))?,
        )?;
    }
    Ok(())
}

/// What a line of CSV has in place of what it should.
fn wrong(error: &csv::Error, line: u64, titles: &StringRecord, record: &StringRecord) -> String {
    let csv::ErrorKind::Deserialize { err, .. } = error.kind() else { return error.to_string() };
    if let Some(column) = err.kind().to_string().strip_prefix("missing field ") {
        let found: Vec<&str> = titles.iter().collect();
        return format!("no column {column}: found {}", found.join(", "));
    }
    let field = err.field().and_then(|field| usize::try_from(field).ok());
    let Some((title, value)) = field.and_then(|field| Some((titles.get(field)?, record.get(field)?))) else {
        return format!("line {line}: {}", err.kind());
    };
    let expected = match err.kind() {
        DeserializeErrorKind::ParseFloat(_) => "expected a number".to_owned(),
        DeserializeErrorKind::ParseInt(error) => match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => {
                "expected a whole number, this is too large".to_owned()
            }
            _ if value.parse::<i128>().is_ok() => "expected a whole number of at least 0".to_owned(),
            _ => "expected a whole number".to_owned(),
        },
        other => other.to_string(),
    };
    format!("line {line}: {title} = \"{value}\": {expected}")
}

/// What a line of a [`Table`] holds.
pub trait TableLine: Serialize + DeserializeOwned + Sized {
    /// The first line of a table: the names of the fields in their order, and a newline.
    const HEADER: &'static str;

    /// Refuses a line that no run writes.
    ///
    /// # Errors
    /// The field, its value and its limit.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Refuses lines, each with its number, that no run writes into one table.
    ///
    /// # Errors
    /// The number of a line; the field, its value and its limit.
    fn check_together(_lines: &[(u64, Self)]) -> Result<(), (u64, String)> {
        Ok(())
    }
}

impl TableLine for Record {
    const HEADER: &'static str = "instance,class,items,types,capacity,bound,incumbent,optimum,status,seconds,nodes,columns,cuts,programs,certificate_bytes,check_seconds,proved_by,time_limit,seed,version\n";
}

/// A table of records on disk. A line is written whole and flushed; one that a kill left half is dropped when the table
/// is opened again.
#[derive(Debug)]
pub struct Table<R = Record> {
    path: PathBuf,
    file: File,
    records: Vec<R>,
}

impl<R: TableLine> Table<R> {
    /// Opens a table, or begins one where there is no file or an empty one. A file that is something else is left as it is.
    ///
    /// # Errors
    /// [`BenchError::File`], also for what is no regular file; [`BenchError::Table`] for another first line, or a whole
    /// line that is no record.
    pub fn open(path: &Path) -> Result<Self, BenchError> {
        let failed = |source| BenchError::File { path: path.into(), source };
        let refused = |why| BenchError::Table { path: path.into(), why };
        let opened = OpenOptions::new().create(true).truncate(false).read(true).append(true).open(path);
        let mut file = opened.map_err(failed)?;
        // A device may have no end.
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(failed(std::io::Error::other("no regular file")));
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(failed)?;
        if !text.starts_with(R::HEADER.as_bytes()) && !R::HEADER.as_bytes().starts_with(&text) {
            let message = format!("no table of a bench, whose first line is {}", R::HEADER.trim_end());
            return Err(refused(message));
        }
        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let wrong = |(line, why): (u64, String)| refused(format!("line {line}: {why}"));
        let mut lines: Vec<(u64, R)> = Vec::new();
        read_lines(&text[..whole], b',', |at, record: R| {
            record.check().map_err(|why| format!("line {at}: {why}"))?;
            lines.push((at, record));
            Ok(())
        })
        .map_err(refused)?;
        R::check_together(&lines).map_err(wrong)?;
        let records = lines.into_iter().map(|(_, record)| record).collect();
        file.set_len(whole as u64).map_err(failed)?;
        Ok(Self { path: path.into(), file, records })
    }

    /// What was there and what was added.
    pub fn records(&self) -> &[R] {
        &self.records
    }

    /// Appends a record.
    ///
    /// # Errors
    /// [`BenchError::File`] or [`BenchError::Table`].
    pub fn add(&mut self, record: R) -> Result<(), BenchError> {
        let empty = self.file.metadata().map_err(|source| self.failed(source))?.len() == 0;
        let header = if empty { R::HEADER } else { "" };
        let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(header.as_bytes().to_vec());
        let line = writer.serialize(&record).and_then(|()| {
            let bytes = writer.into_inner();
            bytes.map_err(|error| std::io::Error::other(error.to_string()).into())
        });
        let line = line.map_err(|error: csv::Error| BenchError::Table {
            path: self.path.clone(),
            why: error.to_string(),
        })?;
        self.file
            .write_all(&line)
            .and_then(|()| self.file.sync_data())
            .map_err(|source| self.failed(source))?;
        self.records.push(record);
        Ok(())
    }

    fn failed(&self, source: std::io::Error) -> BenchError {
        BenchError::File { path: self.path.clone(), source }
    }
}

/// Optima that others state, by name of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Optima(BTreeMap<String, u64>);

/// A line of a table of optima; other columns don't matter.
#[derive(Deserialize)]
struct Known {
    instance: String,
    optimum: Option<u64>,
}

impl Optima {
    /// Reads a table with the columns `instance` and `optimum` (which may be empty), tab-separated if the name ends with
    /// `.tsv`, else by commas.
    ///
    /// # Errors
    /// [`BenchError::File`] or [`BenchError::Table`].
    pub fn read(path: &Path) -> Result<Self, BenchError> {
        let text = std::fs::read(path).map_err(|source| BenchError::File { path: path.into(), source })?;
        let tabs = path.extension().is_some_and(|ending| ending == "tsv");
        let mut optima = BTreeMap::new();
        read_lines(&text, if tabs { b'\t' } else { b',' }, |_, line: Known| {
            optima.extend(line.optimum.map(|optimum| (line.instance, optimum)));
            Ok(())
        })
        .map_err(|why| BenchError::Table { path: path.into(), why })?;
        Ok(Self(optima))
    }

    /// The optimum of an instance, if it is known.
    pub fn of(&self, instance: &str) -> Option<u64> {
        self.0.get(instance).copied()
    }
}
