//! Integer types of recorded ids.

use routepack_formats::{ArrayHeader, ArrayKind};

/// An integer type, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say all")]
pub enum Dtype {
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
}

impl Dtype {
    const ALL: [Self; 8] =
        [Self::I8, Self::I16, Self::I32, Self::I64, Self::U8, Self::U16, Self::U32, Self::U64];

    /// Name as NumPy and PyTorch write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::I8 => "int8",
            Self::I16 => "int16",
            Self::I32 => "int32",
            Self::I64 => "int64",
            Self::U8 => "uint8",
            Self::U16 => "uint16",
            Self::U32 => "uint32",
            Self::U64 => "uint64",
        }
    }

    /// The type of a name, also with `torch.` or `np.` in front.
    pub fn named(name: &str) -> Option<Self> {
        let name = name.rsplit_once('.').map_or(name, |(_, name)| name);
        let code = name.trim_start_matches(['<', '|']);
        let is_coded = |dtype: &Self| {
            let sign = if dtype.name().starts_with('u') { 'u' } else { 'i' };
            code == format!("{sign}{}", dtype.width())
        };
        Self::ALL.into_iter().find(|dtype| dtype.name() == name || is_coded(dtype))
    }

    /// Bytes of one value.
    pub fn width(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 => 4,
            Self::I64 | Self::U64 => 8,
        }
    }

    /// Largest value.
    pub fn largest(self) -> u64 {
        match self {
            Self::I8 => i8::MAX as u64,
            Self::I16 => i16::MAX as u64,
            Self::I32 => i32::MAX as u64,
            Self::I64 => i64::MAX as u64,
            Self::U8 => u64::from(u8::MAX),
            Self::U16 => u64::from(u16::MAX),
            Self::U32 => u64::from(u32::MAX),
            Self::U64 => u64::MAX,
        }
    }

    /// The value at a position of `bytes`; what exceeds an i64 is as large as it gets.
    pub(crate) fn value(self, bytes: &[u8], position: usize) -> i64 {
        let bytes = &bytes[position * self.width()..][..self.width()];
        let mut wide = [0u8; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        let unsigned = u64::from_le_bytes(wide);
        match self {
            Self::I8 => i64::from(unsigned as i8),
            Self::I16 => i64::from(unsigned as i16),
            Self::I32 => i64::from(unsigned as i32),
            Self::I64 => unsigned as i64,
            _ => i64::try_from(unsigned).unwrap_or(i64::MAX),
        }
    }

    /// The type an array's header declares; its text if it is no row-major little-endian integer type.
    pub(crate) fn of(header: &ArrayHeader) -> Result<Self, String> {
        let name = match header.kind {
            ArrayKind::Signed => "int",
            ArrayKind::Unsigned => "uint",
            ArrayKind::Boolean | ArrayKind::Other => "",
        };
        match Self::named(&format!("{name}{}", 8 * header.width)) {
            _ if header.fortran_order => Err("Fortran order: save numpy.ascontiguousarray".to_owned()),
            Some(dtype) if !header.big_endian => Ok(dtype),
            _ => Err(format!("dtype {}: expected a little-endian integer type", header.descr)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_the_names_of_numpy_and_torch() {
        for (name, dtype) in [
            ("torch.int16", Dtype::I16),
            ("np.uint8", Dtype::U8),
            ("<i2", Dtype::I16),
            ("|u1", Dtype::U8),
            ("u4", Dtype::U32),
        ] {
            assert_eq!(Dtype::named(name), Some(dtype), "{name}");
        }
        for name in [">i2", "float16", "<f2", "i16", "", "<"] {
            assert_eq!(Dtype::named(name), None, "{name}");
        }
    }
}
