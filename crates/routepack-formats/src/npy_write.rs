//! Arrays as `NumPy` would write them (`.npy`, version 1), in the smallest type that fits.

/// An array in `.npy` version 1, ready to be put in an archive.
pub(crate) struct Encoded {
    pub(crate) name: &'static str,
    pub(crate) bytes: Vec<u8>,
}

impl Encoded {
    fn new(name: &'static str, descr: &str, shape: &[usize], data: impl FnOnce(&mut Vec<u8>)) -> Self {
        let tuple = match shape {
            [one] => format!("({one},)"),
            more => format!("({})", more.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
        };
        let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {tuple}, }}");
        // Padded so that values begin at a multiple of 64 bytes; ends with a newline.
        let padding = 63 - (10 + header.len()) % 64;
        header.extend(std::iter::repeat_n(' ', padding));
        header.push('\n');
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        data(&mut bytes);
        Self { name, bytes }
    }

    /// Unsigned values in 2 or 4 bytes, whatever fits; they may lie apart.
    pub(crate) fn counts(name: &'static str, shape: &[usize], pieces: &[&[u32]]) -> Self {
        let values = || pieces.iter().copied().flatten();
        if values().all(|&value| u16::try_from(value).is_ok()) {
            Self::new(name, "<u2", shape, |bytes| {
                bytes.extend(values().flat_map(|&value| (value as u16).to_le_bytes()));
            })
        } else {
            Self::new(name, "<u4", shape, |bytes| {
                bytes.extend(values().flat_map(|value| value.to_le_bytes()));
            })
        }
    }

    /// Signed values in 4 or 8 bytes, whatever fits.
    pub(crate) fn integers(name: &'static str, shape: &[usize], values: &[i64]) -> Self {
        if values.iter().all(|&value| i32::try_from(value).is_ok()) {
            Self::new(name, "<i4", shape, |bytes| {
                bytes.extend(values.iter().flat_map(|&value| (value as i32).to_le_bytes()));
            })
        } else {
            Self::long_integers(name, shape, values)
        }
    }

    /// Signed values in 8 bytes.
    pub(crate) fn long_integers(name: &'static str, shape: &[usize], values: &[i64]) -> Self {
        Self::new(name, "<i8", shape, |bytes| {
            bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        })
    }

    /// Text as code points of 4 bytes; a trailing zero character cannot be written.
    pub(crate) fn texts(name: &'static str, values: &[String]) -> Self {
        let width = values.iter().map(|text| text.chars().count()).max().unwrap_or(0).max(1);
        Self::new(name, &format!("<U{width}"), &[values.len()], |bytes| {
            for text in values {
                let end = bytes.len() + 4 * width;
                bytes.extend(text.chars().flat_map(|point| u32::from(point).to_le_bytes()));
                bytes.resize(end, 0);
            }
        })
    }
}
