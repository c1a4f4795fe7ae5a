//! The tables of a bench: one that grows line by line and survives a kill, one of known optima.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::BenchError;
use crate::record::Record;

/// A table of records on disk. A line is written whole and flushed; one that a kill left half is dropped when the table
/// is opened again.
#[derive(Debug)]
pub struct Table {
    path: PathBuf,
    file: File,
    records: Vec<Record>,
}

impl Table {
    /// Opens a table, or begins one.
    ///
    /// # Errors
    /// [`BenchError::File`], or [`BenchError::Table`] for a whole line that is no record.
    pub fn open(path: &Path) -> Result<Self, BenchError> {
        let failed = |source| BenchError::File { path: path.into(), source };
        let text = if path.exists() { std::fs::read(path).map_err(failed)? } else { Vec::new() };
        let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let records: Result<Vec<Record>, _> =
            csv::Reader::from_reader(&text[..whole]).deserialize().collect();
        let records = records.map_err(|source| BenchError::Table { path: path.into(), source })?;
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path).map_err(failed)?;
        file.set_len(whole as u64).map_err(failed)?;
        let file = OpenOptions::new().append(true).open(path).map_err(failed)?;
        Ok(Self { path: path.into(), file, records })
    }

    /// What was there and what was added.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Appends a record.
    ///
    /// # Errors
    /// [`BenchError::File`] or [`BenchError::Table`].
    pub fn add(&mut self, record: Record) -> Result<(), BenchError> {
        let header = self.file.metadata().map_err(|source| self.failed(source))?.len() == 0;
        let mut writer = csv::WriterBuilder::new().has_headers(header).from_writer(Vec::new());
        let line = writer.serialize(&record).and_then(|()| {
            let bytes = writer.into_inner();
            bytes.map_err(|error| std::io::Error::other(error.to_string()).into())
        });
        let line = line.map_err(|source| BenchError::Table { path: self.path.clone(), source })?;
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
    /// [`BenchError::Table`].
    pub fn read(path: &Path) -> Result<Self, BenchError> {
        let failed = |source| BenchError::Table { path: path.into(), source };
        let tabs = path.extension().is_some_and(|ending| ending == "tsv");
        let delimiter = if tabs { b'\t' } else { b',' };
        let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).from_path(path).map_err(failed)?;
        let lines: Result<Vec<Known>, _> = reader.deserialize().collect();
        let known = lines.map_err(failed)?.into_iter();
        Ok(Self(known.filter_map(|line| Some((line.instance, line.optimum?))).collect()))
    }

    /// The optimum of an instance, if it is known.
    pub fn of(&self, instance: &str) -> Option<u64> {
        self.0.get(instance).copied()
    }
}
