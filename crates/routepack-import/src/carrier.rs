//! Files of named arrays: `.npy`, `.npz`, safetensors; and how a file's first bytes tell what it is.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use routepack_formats::{ArrayHeader, ArrayKind, Arrays, FormatError};
use safetensors::Dtype as TensorType;
use safetensors::tensor::Metadata;

use crate::ImportError;
use crate::error::read_error;

/// Most bytes of a safetensors header, as the library itself has it.
const MAX_HEADER: u64 = 100_000_000;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Gzip,
    Numpy,
    Safetensors,
    /// Anything else is taken for lines of JSON.
    Lines,
}

/// What other files begin with, and what to do with them.
const OTHERS: [(&[u8], &str); 8] = [
    (b"\x28\xb5\x2f\xfd", "compressed by zstd: unpack it, or use gzip"),
    (b"\xfd7zXZ\0", "compressed by xz: unpack it, or use gzip"),
    (b"BZh", "compressed by bzip2: unpack it, or use gzip"),
    (b"PAR1", "Parquet: write lines of JSON (datasets: to_json), .npz or safetensors"),
    (b"ARROW1", "Arrow: write lines of JSON (datasets: to_json), .npz or safetensors"),
    (b"\x89HDF", "HDF5: write .npz or safetensors"),
    (b"\xff\xfe", "UTF-16: write lines of JSON in UTF-8"),
    (b"\xfe\xff", "UTF-16: write lines of JSON in UTF-8"),
];

/// Tells what a file is from its first bytes; pickles are refused, and what is known to be something else.
pub(crate) fn kind(start: &[u8], file: &str) -> Result<Kind, ImportError> {
    let refuse = |what| Err(ImportError::Pickle { file: file.to_owned(), what });
    // Before all others: the length of the header may begin as they do.
    if is_safetensors(start) {
        return Ok(Kind::Safetensors);
    }
    if let Some((_, why)) = OTHERS.iter().find(|(magic, _)| start.starts_with(magic)) {
        return Err(FormatError::Form { file: file.to_owned(), why: (*why).to_owned() }.into());
    }
    match start {
        [0x1f, 0x8b, ..] => Ok(Kind::Gzip),
        _ if start.starts_with(b"\x93NUMPY") => Ok(Kind::Numpy),
        // A PyTorch file is a zip archive around a pickle.
        _ if start.starts_with(b"PK") && start.windows(8).any(|name| name == b"data.pkl") => {
            refuse("a PyTorch file (a pickle)")
        }
        _ if start.starts_with(b"PK") => Ok(Kind::Numpy),
        [0x80, 1..=5, ..] => refuse("a pickle"),
        // Protocols 0 and 1 have no mark of their own, but JSON never begins as their containers and objects do.
        [b'(' | b']' | b'}' | b'c', ..] => refuse("a pickle"),
        _ => Ok(Kind::Lines),
    }
}

/// The length of a JSON header, then the header.
fn is_safetensors(start: &[u8]) -> bool {
    let Some((length, header)) = start.split_first_chunk::<8>() else { return false };
    (2..=MAX_HEADER).contains(&u64::from_le_bytes(*length)) && header.first() == Some(&b'{')
}

/// Named arrays of one file.
pub(crate) enum Carrier {
    Numpy(Arrays),
    Safetensors { file: String, source: BufReader<File>, data: u64, metadata: Metadata },
}

impl Carrier {
    pub(crate) fn open_numpy(path: &Path) -> Result<Self, ImportError> {
        Ok(Self::Numpy(Arrays::open(path)?))
    }

    pub(crate) fn open_safetensors(path: &Path, file: &str) -> Result<Self, ImportError> {
        let access = |error: std::io::Error| read_error(file, &error);
        let damaged = |why: String| FormatError::Form { file: file.to_owned(), why };
        let mut source = BufReader::new(File::open(path).map_err(access)?);
        let mut length = [0u8; 8];
        source.read_exact(&mut length).map_err(access)?;
        let length = u64::from_le_bytes(length);
        let mut header = Vec::new();
        source.by_ref().take(length.min(MAX_HEADER)).read_to_end(&mut header).map_err(access)?;
        let metadata: Metadata = serde_json::from_slice(&header)
            .map_err(|error| damaged(format!("not a whole safetensors file: {error}")))?;
        let total = source.seek(SeekFrom::End(0)).map_err(access)?;
        let expected = (metadata.data_len() as u64).checked_add(8 + length);
        if expected != Some(total) {
            let expected = expected.map_or("more than 2^64".to_owned(), |expected| expected.to_string());
            let why = format!("the header speaks of {expected} bytes, the file has {total}");
            return Err(damaged(why).into());
        }
        Ok(Self::Safetensors { file: file.to_owned(), source, data: 8 + length, metadata })
    }

    /// Names of all arrays, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        match self {
            Self::Numpy(arrays) => arrays.names(),
            Self::Safetensors { metadata, .. } => {
                let mut names: Vec<String> = metadata.tensors().into_keys().collect();
                names.sort_unstable();
                names
            }
        }
    }

    /// Calls `work` with the header of an array and a reader of its values.
    pub(crate) fn read<T>(
        &mut self,
        name: &str,
        work: impl FnOnce(&ArrayHeader, &mut dyn Read) -> Result<T, ImportError>,
    ) -> Result<T, ImportError> {
        match self {
            Self::Numpy(arrays) => arrays.read(name, work)?,
            Self::Safetensors { file, source, data, metadata } => {
                let info = metadata.info(name).ok_or_else(|| FormatError::MissingArray {
                    file: file.clone(),
                    array: name.to_owned(),
                    present: metadata.offset_keys().join(", "),
                })?;
                let (from, end) = info.data_offsets;
                source
                    .seek(SeekFrom::Start(*data + from as u64))
                    .map_err(|error| read_error(file, &error))?;
                work(&describe(info.dtype, &info.shape), &mut source.take((end - from) as u64))
            }
        }
    }
}

fn describe(dtype: TensorType, shape: &[usize]) -> ArrayHeader {
    let (kind, width) = match dtype {
        TensorType::BOOL => (ArrayKind::Boolean, 1),
        TensorType::I8 => (ArrayKind::Signed, 1),
        TensorType::I16 => (ArrayKind::Signed, 2),
        TensorType::I32 => (ArrayKind::Signed, 4),
        TensorType::I64 => (ArrayKind::Signed, 8),
        TensorType::U8 => (ArrayKind::Unsigned, 1),
        TensorType::U16 => (ArrayKind::Unsigned, 2),
        TensorType::U32 => (ArrayKind::Unsigned, 4),
        TensorType::U64 => (ArrayKind::Unsigned, 8),
        _ => (ArrayKind::Other, 0),
    };
    ArrayHeader {
        descr: format!("{dtype:?}"),
        kind,
        width,
        big_endian: false,
        fortran_order: false,
        shape: shape.to_vec(),
    }
}
