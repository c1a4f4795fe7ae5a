//! Archives of arrays (`.npz`): a zip file, stored or deflated, with one `.npy` entry per array.

use std::io::{Cursor, Read, Seek, Write};

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::FormatError;
use crate::npy::{Array, Header, Place, Target};
use crate::npy_write::Encoded;

/// Arrays of an open archive.
pub(crate) struct Npz<R> {
    file: String,
    archive: ZipArchive<R>,
    names: Vec<String>,
}

impl<R: Read + Seek> Npz<R> {
    /// Opens an archive and lists its arrays.
    pub(crate) fn open(reader: R, file: &str) -> Result<Self, FormatError> {
        let damaged = |error: &dyn std::fmt::Display| {
            FormatError::form(file, format!("not a whole .npz archive: {error}"))
        };
        let archive = ZipArchive::new(reader).map_err(|error| damaged(&error))?;
        let mut names = Vec::with_capacity(archive.len());
        for name in archive.file_names() {
            let name = name.map_err(|error| damaged(&error))?;
            let Some(array) = name.strip_suffix(".npy") else {
                return Err(FormatError::form(file, format!("entry `{name}` is no .npy array")));
            };
            names.push(array.to_owned());
        }
        names.sort_unstable();
        if archive.has_duplicate_names() || names.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(FormatError::form(file, "two arrays have the same name"));
        }
        Ok(Self { file: file.to_owned(), archive, names })
    }

    /// Names of all arrays, sorted.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Reads the header of an array, checks it with `accept`, and its values with `values`.
    pub(crate) fn read<T>(
        &mut self,
        array: &str,
        accept: &dyn Fn(&[usize]) -> Result<(), String>,
        values: impl FnOnce(&Header, &mut dyn Read, Place<'_>) -> Result<T, FormatError>,
    ) -> Result<T, FormatError> {
        let place = Place { file: &self.file, array };
        let entry = self.archive.by_name(&format!("{array}.npy"));
        let mut entry = entry.map_err(|error| place.wrong(format!("damaged: {error}")))?;
        let header = Header::read(&mut entry, place)?;
        accept(header.shape())
            .map_err(|expected| place.wrong(format!("shape {:?}, expected {expected}", header.shape())))?;
        if entry.size() != header.total_bytes() {
            return Err(place.wrong(format!(
                "shape {:?} needs {} bytes, the archive holds {}",
                header.shape(),
                header.total_bytes(),
                entry.size()
            )));
        }
        values(&header, &mut entry, place)
    }

    /// An array of integers whose shape `accept` allows.
    pub(crate) fn integers<T: Target>(
        &mut self,
        array: &str,
        accept: &dyn Fn(&[usize]) -> Result<(), String>,
    ) -> Result<Array<T>, FormatError> {
        self.read(array, accept, |header, mut reader, place| header.integers(&mut reader, place))
    }

    /// An array of text or integers whose shape `accept` allows.
    pub(crate) fn texts_or_integers(
        &mut self,
        array: &str,
        accept: &dyn Fn(&[usize]) -> Result<(), String>,
    ) -> Result<Result<Array<String>, Array<i64>>, FormatError> {
        self.read(array, accept, |header, mut reader, place| {
            Ok(if header.is_text() {
                Ok(header.texts(&mut reader, place)?)
            } else {
                Err(header.integers(&mut reader, place)?)
            })
        })
    }
}

/// An archive of these arrays, deflated; the same arrays give the same bytes.
pub(crate) fn encode(arrays: &[Encoded]) -> Vec<u8> {
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .compression_level(Some(6))
        .last_modified_time(zip::DateTime::default());
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for array in arrays {
        let large = array.bytes.len() as u64 >= u64::from(u32::MAX);
        archive
            .start_file(format!("{}.npy", array.name), options.large_file(large))
            .expect("distinct plain names");
        archive.write_all(&array.bytes).expect("memory takes every byte");
    }
    archive.finish().expect("memory takes every byte").into_inner()
}
