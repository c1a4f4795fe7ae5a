//! Arrays of `.npy` and `.npz` files one at a time and unconverted, for readers that stream.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use crate::FormatError;
use crate::atomic::{Source, open};
use crate::npy::{Header, Place};
use crate::npy_header::Kind;
use crate::npz::Npz;

/// Kind of an array's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayKind {
    /// Signed integers.
    Signed,
    /// Unsigned integers.
    Unsigned,
    /// Booleans of one byte.
    Boolean,
    /// Anything else.
    Other,
}

/// What an array's header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayHeader {
    /// The data type as written, such as `<i2`.
    pub descr: String,
    /// Kind of the values.
    pub kind: ArrayKind,
    /// Bytes of one value.
    pub width: usize,
    /// Whether values are stored most significant byte first.
    pub big_endian: bool,
    /// Whether the first index runs fastest.
    pub fortran_order: bool,
    /// Dimensions.
    pub shape: Vec<usize>,
}

/// Arrays of one file: an `.npz` archive, or the single array of an `.npy` file, whose name is empty.
pub struct Arrays {
    file: String,
    source: Form,
}

enum Form {
    Npy(Box<dyn Source>),
    Npz(Npz<Box<dyn Source>>),
}

impl Arrays {
    /// Opens a file (`-`: the standard input); which of the two forms it has is told by its first bytes.
    ///
    /// # Errors
    /// The file cannot be read, or is neither.
    pub fn open(path: &Path) -> Result<Self, FormatError> {
        let (mut source, file) = open(path)?;
        let mut magic = [0u8; 6];
        let unread = |error: &dyn std::fmt::Display| FormatError::access(&file, "read", error);
        let read = source.by_ref().take(6).read(&mut magic).map_err(|error| unread(&error))?;
        source.seek(SeekFrom::Start(0)).map_err(|error| unread(&error))?;
        let source = if &magic[..read] == b"\x93NUMPY" {
            Form::Npy(source)
        } else {
            Form::Npz(Npz::open(source, &file)?)
        };
        Ok(Self { file, source })
    }

    /// Names of all arrays, sorted; one empty name for an `.npy` file.
    pub fn names(&self) -> Vec<String> {
        match &self.source {
            Form::Npy(_) => vec![String::new()],
            Form::Npz(archive) => archive.names().to_vec(),
        }
    }

    /// Calls `work` with the header of an array and a reader of exactly its values; what `work` leaves unread is
    /// skipped.
    ///
    /// # Errors
    /// There is no such array or it is damaged; the inner result is that of `work`.
    pub fn read<T>(
        &mut self,
        array: &str,
        work: impl FnOnce(&ArrayHeader, &mut dyn Read) -> T,
    ) -> Result<T, FormatError> {
        match &mut self.source {
            Form::Npz(archive) => archive.read(array, &|_| Ok(()), |header, mut reader, _| {
                Ok(work(&describe(header), &mut (&mut reader).take(header.value_bytes())))
            }),
            Form::Npy(source) => {
                let place = Place { file: &self.file, array: "array" };
                let failed = |error: std::io::Error| FormatError::access(&self.file, "read", &error);
                let total = source.seek(SeekFrom::End(0)).map_err(failed)?;
                source.seek(SeekFrom::Start(0)).map_err(failed)?;
                let header = Header::read(source, place)?;
                if header.total_bytes() != total {
                    return Err(place.wrong(format!(
                        "shape {:?} needs {} bytes, the file holds {total}",
                        header.shape(),
                        header.total_bytes()
                    )));
                }
                Ok(work(&describe(&header), source))
            }
        }
    }
}

/// The header of one array in `.npy` form, and the bytes of its values.
///
/// # Errors
/// No header, or not as many bytes behind it as its shape says.
pub fn split_npy<'a>(bytes: &'a [u8], place: &str) -> Result<(ArrayHeader, &'a [u8]), FormatError> {
    let place = Place { file: place, array: "npy" };
    let mut rest = bytes;
    let header = Header::read(&mut rest, place)?;
    if header.value_bytes() != rest.len() as u64 {
        return Err(place.wrong(format!(
            "shape {:?} needs {} bytes, {} follow the header",
            header.shape(),
            header.value_bytes(),
            rest.len()
        )));
    }
    Ok((describe(&header), rest))
}

fn describe(header: &Header) -> ArrayHeader {
    let declared = header.declared();
    let kind = match declared.kind {
        Kind::Signed => ArrayKind::Signed,
        Kind::Unsigned => ArrayKind::Unsigned,
        Kind::Other if declared.descr.ends_with("b1") => ArrayKind::Boolean,
        _ => ArrayKind::Other,
    };
    ArrayHeader {
        descr: declared.descr.clone(),
        kind,
        width: declared.width,
        big_endian: declared.big_endian && declared.width > 1,
        fortran_order: declared.fortran_order && declared.shape.len() > 1,
        shape: declared.shape.clone(),
    }
}
