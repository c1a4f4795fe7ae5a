//! One array as `NumPy` writes it (`.npy`, versions 1 to 3): header and values, integers and text only.
//!
//! Format: `NumPy` documentation, "NPY format" (`numpy.lib.format`). A header is a Python dictionary with `descr`,
//! `fortran_order` and `shape`. Nothing is allocated from what a header says: values are read in blocks, so memory
//! follows the bytes that are really there. Pickled objects are refused, never read.

use std::fmt::Display;
use std::io::Read;

use crate::FormatError;
use crate::error::shown;
use crate::npy_header::{Declared, Kind, parse};

/// Most bytes of a header; `NumPy` itself reads no more than 10,000.
const MAX_HEADER: u32 = 1 << 16;
/// Most values of one array.
const MAX_VALUES: u64 = 1 << 32;
/// Most bytes of one text value.
const MAX_TEXT: usize = 1 << 16;
/// Bytes decoded at once; a multiple of every integer width.
const BLOCK: usize = 1 << 16;

/// An array in memory, row-major.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Array<T> {
    /// Dimensions.
    pub(crate) shape: Vec<usize>,
    /// Values in row-major order.
    pub(crate) values: Vec<T>,
}

/// Where an array comes from, for messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) file: &'a str,
    pub(crate) array: &'a str,
}

impl Place<'_> {
    pub(crate) fn wrong(self, why: impl Into<String>) -> FormatError {
        FormatError::array(self.file, self.array, why)
    }

    pub(crate) fn wrong_value(
        self,
        index: &[usize],
        value: &dyn Display,
        limit: impl Into<String>,
    ) -> FormatError {
        let index = index.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        FormatError::Value {
            file: self.file.to_owned(),
            array: self.array.to_owned(),
            index,
            value: shown(&value.to_string()),
            limit: limit.into(),
        }
    }

    fn unreadable(self, error: &std::io::Error) -> FormatError {
        self.wrong(match error.kind() {
            std::io::ErrorKind::UnexpectedEof => "truncated: the data ends early".to_owned(),
            _ => format!("damaged: {error}"),
        })
    }
}

/// What an array's values must fit into.
pub(crate) trait Target: Copy {
    /// Allowed values, for messages.
    const LIMIT: &'static str;
    fn from_i64(value: i64) -> Option<Self>;
    fn from_u64(value: u64) -> Option<Self>;
}

macro_rules! target {
    ($type:ty, $limit:literal) => {
        impl Target for $type {
            const LIMIT: &'static str = $limit;
            fn from_i64(value: i64) -> Option<Self> {
                value.try_into().ok()
            }
            fn from_u64(value: u64) -> Option<Self> {
                value.try_into().ok()
            }
        }
    };
}
target!(u16, "expected 0 to 65535");
target!(u32, "expected 0 to 4294967295");
target!(i64, "expected -2^63 to 2^63 - 1");

/// The header of one array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    declared: Declared,
    /// Values in all.
    count: usize,
    /// Bytes of the header itself.
    own_bytes: u64,
}

impl Header {
    /// Reads the header and leaves the reader at the first value.
    pub(crate) fn read(reader: &mut impl Read, place: Place<'_>) -> Result<Self, FormatError> {
        let mut start = [0u8; 8];
        reader.read_exact(&mut start).map_err(|error| place.unreadable(&error))?;
        if &start[..6] != b"\x93NUMPY" {
            return Err(place.wrong("not an .npy array: it does not begin with \\x93NUMPY"));
        }
        let length_bytes = match start[6] {
            1 => 2,
            2 | 3 => 4,
            version => return Err(place.wrong(format!(".npy version {version}, expected 1, 2 or 3"))),
        };
        let mut length = [0u8; 4];
        reader.read_exact(&mut length[..length_bytes]).map_err(|error| place.unreadable(&error))?;
        let length = u32::from_le_bytes(length);
        if length > MAX_HEADER {
            return Err(place.wrong(format!("a header of {length} bytes, at most {MAX_HEADER} are read")));
        }
        let mut text = vec![0u8; length as usize];
        reader.read_exact(&mut text).map_err(|error| place.unreadable(&error))?;
        let text = String::from_utf8(text).map_err(|_| place.wrong("the header is no text"))?;
        let declared = parse(&text).map_err(|why| place.wrong(format!("header: {why}")))?;
        let own_bytes = 8 + length_bytes as u64 + u64::from(length);
        let count = count_values(&declared, place)?;
        Ok(Self { declared, count, own_bytes })
    }

    /// Dimensions.
    pub(crate) fn shape(&self) -> &[usize] {
        &self.declared.shape
    }

    /// What the header says.
    pub(crate) fn declared(&self) -> &Declared {
        &self.declared
    }

    /// Bytes of the values.
    pub(crate) fn value_bytes(&self) -> u64 {
        self.count as u64 * self.declared.width as u64
    }

    /// Bytes of header and values together; what the archive must hold.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.own_bytes + self.value_bytes()
    }

    /// Whether the values are text.
    pub(crate) fn is_text(&self) -> bool {
        matches!(self.declared.kind, Kind::Bytes | Kind::Unicode)
    }

    /// Multi-index of the value at a position of the file.
    fn index(&self, position: usize) -> Vec<usize> {
        let mut rest = position;
        let mut index = vec![0; self.declared.shape.len()];
        let mut place_digit = |axis: usize| {
            index[axis] = rest % self.declared.shape[axis];
            rest /= self.declared.shape[axis];
        };
        if self.declared.fortran_order {
            (0..self.declared.shape.len()).for_each(&mut place_digit);
        } else {
            (0..self.declared.shape.len()).rev().for_each(&mut place_digit);
        }
        index
    }

    /// Reads integers behind this header.
    pub(crate) fn integers<T: Target>(
        &self,
        reader: &mut impl Read,
        place: Place<'_>,
    ) -> Result<Array<T>, FormatError> {
        macro_rules! decode {
            ($type:ty, $convert:path) => {{
                let big = self.declared.big_endian;
                self.decode(reader, place, |bytes: &[u8]| {
                    let bytes = bytes.try_into().expect("blocks hold whole values");
                    let value =
                        if big { <$type>::from_be_bytes(bytes) } else { <$type>::from_le_bytes(bytes) };
                    $convert(value.into()).ok_or(value.to_string())
                })
            }};
        }
        let values = match (self.declared.kind, self.declared.width) {
            (Kind::Signed, 1) => decode!(i8, T::from_i64),
            (Kind::Signed, 2) => decode!(i16, T::from_i64),
            (Kind::Signed, 4) => decode!(i32, T::from_i64),
            (Kind::Signed, 8) => decode!(i64, T::from_i64),
            (Kind::Unsigned, 1) => decode!(u8, T::from_u64),
            (Kind::Unsigned, 2) => decode!(u16, T::from_u64),
            (Kind::Unsigned, 4) => decode!(u32, T::from_u64),
            (Kind::Unsigned, 8) => decode!(u64, T::from_u64),
            (Kind::Float, 4) => return Err(self.refuse_floats::<4>(reader, place)),
            (Kind::Float, 8) => return Err(self.refuse_floats::<8>(reader, place)),
            _ => return Err(self.refuse(place)),
        }?;
        Ok(Array { shape: self.declared.shape.clone(), values: self.row_major(values) })
    }

    fn refuse(&self, place: Place<'_>) -> FormatError {
        place.wrong(format!("dtype {}: expected an integer type", self.declared.descr))
    }

    /// The error for an array of floats: the first value that is no whole number, or else the data type.
    fn refuse_floats<const W: usize>(&self, reader: &mut impl Read, place: Place<'_>) -> FormatError {
        let big = self.declared.big_endian;
        let scanned = self.decode(reader, place, |bytes: &[u8]| {
            let value = if W == 4 {
                let bytes = bytes.try_into().expect("blocks hold whole values");
                f64::from(if big { f32::from_be_bytes(bytes) } else { f32::from_le_bytes(bytes) })
            } else {
                let bytes = bytes.try_into().expect("blocks hold whole values");
                if big { f64::from_be_bytes(bytes) } else { f64::from_le_bytes(bytes) }
            };
            if value.is_finite() && value.fract() == 0.0 { Ok(0u16) } else { Err(value.to_string()) }
        });
        match scanned {
            Err(FormatError::Value { file, array, index, value, .. }) => {
                let limit =
                    format!("expected whole numbers of an integer type, found dtype {}", self.declared.descr);
                FormatError::Value { file, array, index, value, limit }
            }
            _ => self.refuse(place),
        }
    }

    /// Reads text behind this header.
    pub(crate) fn texts(
        &self,
        reader: &mut impl Read,
        place: Place<'_>,
    ) -> Result<Array<String>, FormatError> {
        if !self.is_text() || self.declared.width == 0 || self.declared.width > MAX_TEXT {
            return Err(
                place.wrong(format!("dtype {}: expected text of 1 to {MAX_TEXT} bytes", self.declared.descr))
            );
        }
        let (mut values, mut bytes) = (Vec::new(), vec![0u8; self.declared.width]);
        for position in 0..self.count {
            reader.read_exact(&mut bytes).map_err(|error| place.unreadable(&error))?;
            let text =
                if self.declared.kind == Kind::Bytes { Self::utf8(&bytes) } else { self.utf32(&bytes) };
            let Some(text) = text else {
                return Err(place.wrong_value(
                    &self.index(position),
                    &format!("{bytes:x?}"),
                    "no valid Unicode",
                ));
            };
            values.push(text);
        }
        finish(reader, place)?;
        Ok(Array { shape: self.declared.shape.clone(), values: self.row_major(values) })
    }

    fn utf8(bytes: &[u8]) -> Option<String> {
        let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        String::from_utf8(bytes[..end].to_vec()).ok()
    }

    fn utf32(&self, bytes: &[u8]) -> Option<String> {
        let points = bytes.chunks_exact(4).map(|bytes| {
            let bytes = bytes.try_into().expect("four bytes");
            if self.declared.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
        });
        let text: String = points.map(char::from_u32).collect::<Option<_>>()?;
        Some(text.trim_end_matches('\0').to_owned())
    }

    /// Reads all values block by block; `convert` gives the value or its text if it does not fit.
    fn decode<T: Target>(
        &self,
        reader: &mut impl Read,
        place: Place<'_>,
        convert: impl Fn(&[u8]) -> Result<T, String>,
    ) -> Result<Vec<T>, FormatError> {
        let mut values = Vec::new();
        let mut block = vec![0u8; BLOCK];
        while values.len() < self.count {
            let now = (self.count - values.len()).min(BLOCK / self.declared.width);
            let bytes = &mut block[..now * self.declared.width];
            reader.read_exact(bytes).map_err(|error| place.unreadable(&error))?;
            for bytes in bytes.chunks_exact(self.declared.width) {
                match convert(bytes) {
                    Ok(value) => values.push(value),
                    Err(value) => return Err(place.wrong_value(&self.index(values.len()), &value, T::LIMIT)),
                }
            }
        }
        finish(reader, place)?;
        Ok(values)
    }

    /// File order → row-major order.
    fn row_major<T: Clone>(&self, values: Vec<T>) -> Vec<T> {
        if !self.declared.fortran_order || self.declared.shape.len() < 2 || values.is_empty() {
            return values;
        }
        // Strides of the file, and a counter over indices in row-major order.
        let mut strides = vec![1usize; self.declared.shape.len()];
        for axis in 1..self.declared.shape.len() {
            strides[axis] = strides[axis - 1] * self.declared.shape[axis - 1];
        }
        let mut index = vec![0usize; self.declared.shape.len()];
        let mut position = 0;
        let mut ordered = Vec::with_capacity(values.len());
        while ordered.len() < values.len() {
            ordered.push(values[position].clone());
            for axis in (0..self.declared.shape.len()).rev() {
                index[axis] += 1;
                position += strides[axis];
                if index[axis] < self.declared.shape[axis] {
                    break;
                }
                position -= strides[axis] * self.declared.shape[axis];
                index[axis] = 0;
            }
        }
        ordered
    }
}

/// Nothing may follow the last value; reading on to the end also makes the archive check its CRC.
fn finish(reader: &mut impl Read, place: Place<'_>) -> Result<(), FormatError> {
    match reader.read(&mut [0u8; 1]) {
        Ok(0) => Ok(()),
        Ok(_) => Err(place.wrong("more data than the shape says")),
        Err(error) => Err(place.unreadable(&error)),
    }
}

/// Values of an array as declared, within the limit.
fn count_values(declared: &Declared, place: Place<'_>) -> Result<usize, FormatError> {
    if declared.kind == Kind::Object {
        return Err(place.wrong("dtype object: pickled objects are refused; save an array of numbers"));
    }
    let shape = &declared.shape;
    let count = shape.iter().try_fold(1u64, |count, &dimension| count.checked_mul(dimension as u64));
    match count.filter(|&count| count <= MAX_VALUES) {
        Some(count) => Ok(count as usize),
        None => Err(place.wrong(format!("shape {shape:?}: more than {MAX_VALUES} values"))),
    }
}
