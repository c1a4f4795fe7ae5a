//! From a value of a rollout to token-major rows of bytes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use routepack_formats::split_npy;

use crate::form::{Order, TextForm};
use crate::routes_value::{Nested, Turn};
use crate::{Dtype, Form, ImportError, ImportOptions, Place};

/// One piece of a sample's routes as it was found.
#[derive(Clone, Copy)]
pub(crate) enum Source<'v> {
    Text(&'v str),
    Nested(&'v Nested),
    Turn(&'v Turn<'v>),
}

/// Token-major rows.
#[derive(Clone, Copy)]
pub(crate) struct Decoded<'b> {
    pub(crate) dtype: Dtype,
    /// `[rows, layers, k]`.
    pub(crate) shape: [usize; 3],
    pub(crate) bytes: &'b [u8],
}

/// Memory for decoding, reused from sample to sample.
#[derive(Default)]
pub(crate) struct Scratch {
    decoded: Vec<u8>,
    turned: Vec<u8>,
}

/// What decoding must know beside the value.
#[derive(Clone, Copy)]
pub(crate) struct Decoder<'a> {
    pub(crate) form: Form,
    pub(crate) options: &'a ImportOptions,
    pub(crate) place: &'a Place,
}

impl Decoder<'_> {
    /// Decodes one piece.
    pub(crate) fn decode<'b>(
        self,
        source: Source<'b>,
        scratch: &'b mut Scratch,
    ) -> Result<Decoded<'b>, ImportError> {
        let Scratch { decoded, turned } = scratch;
        let (dtype, shape, bytes) = match source {
            Source::Text(text) => self.decode_text(text, decoded)?,
            Source::Nested(nested) => (Dtype::I32, self.three(&nested.shape)?, &nested.bytes[..]),
            Source::Turn(turn) => self.decode_turn(turn, decoded)?,
        };
        let expected = shape.iter().try_fold(dtype.width(), |product, &n| product.checked_mul(n));
        if expected != Some(bytes.len()) {
            return Err(self.wrong(format!(
                "{} bytes, shape {shape:?} of {} needs {}",
                bytes.len(),
                dtype.name(),
                expected.map_or_else(|| "more than there can be".to_owned(), |expected| expected.to_string())
            )));
        }
        // Without values the other sizes mean nothing.
        if bytes.is_empty() {
            return Ok(Decoded { dtype, shape: [0, 0, 0], bytes });
        }
        if self.form.order() == Order::TokenMajor {
            return Ok(Decoded { dtype, shape, bytes });
        }
        let [layers, rows, top_k] = shape;
        to_token_major(bytes, [layers, rows, top_k * dtype.width()], turned);
        Ok(Decoded { dtype, shape: [rows, layers, top_k], bytes: turned })
    }

    fn decode_text<'b>(
        self,
        text: &str,
        decoded: &'b mut Vec<u8>,
    ) -> Result<(Dtype, [usize; 3], &'b [u8]), ImportError> {
        let Some(text_form) = self.form.text_form() else {
            return Err(self.wrong(format!("a text: {} routes are lists or dictionaries", self.form.name())));
        };
        match text_form {
            TextForm::Npy => {
                self.base64(text, decoded)?;
                let place = format!("{}: routed_experts", self.place);
                let (header, values) = split_npy(decoded, &place)?;
                let dtype = Dtype::of(&header).map_err(|why| self.wrong(why))?;
                Ok((dtype, self.three(&header.shape)?, values))
            }
            TextForm::FlatInt32 => {
                let layers = self.declared("num_layers", self.options.num_layers)?;
                let top_k = self.declared("top_k", self.options.top_k)?;
                self.base64(text, decoded)?;
                let row = layers * top_k * Dtype::I32.width();
                if !decoded.len().is_multiple_of(row) {
                    return Err(self.wrong(format!(
                        "{} bytes of int32 are no whole number of rows of {layers} layers and k = {top_k}, {row} bytes each",
                        decoded.len()
                    )));
                }
                Ok((Dtype::I32, [decoded.len() / row, layers, top_k], decoded))
            }
            TextForm::Envelope => {
                let mut parts = text.splitn(4, ':');
                let (magic, dtype, shape, data) = (parts.next(), parts.next(), parts.next(), parts.next());
                let (Some("nrlre1"), Some(dtype), Some(shape), Some(data)) = (magic, dtype, shape, data)
                else {
                    let start: String = text.chars().take(24).collect();
                    return Err(self.wrong(format!("`{start}`: expected nrlre1:dtype:SxLxK:base64")));
                };
                let Some(dtype @ (Dtype::I8 | Dtype::I16 | Dtype::I32)) = Dtype::named(dtype) else {
                    return Err(self.wrong(format!("dtype {dtype}: expected int8, int16 or int32")));
                };
                let sizes: Option<Vec<usize>> = shape.split('x').map(|size| size.parse().ok()).collect();
                let sizes = sizes.ok_or_else(|| self.wrong(format!("shape {shape}: expected SxLxK")))?;
                self.base64(data, decoded)?;
                Ok((dtype, self.three(&sizes)?, decoded))
            }
        }
    }

    fn decode_turn<'b>(
        self,
        turn: &Turn<'_>,
        decoded: &'b mut Vec<u8>,
    ) -> Result<(Dtype, [usize; 3], &'b [u8]), ImportError> {
        let dtype = Dtype::named(&turn.dtype)
            .ok_or_else(|| self.wrong(format!("dtype {}: expected an integer type", turn.dtype)))?;
        self.base64(&turn.data, decoded)?;
        Ok((dtype, self.three(&turn.shape)?, decoded))
    }

    fn base64(self, text: &str, decoded: &mut Vec<u8>) -> Result<(), ImportError> {
        decoded.clear();
        STANDARD.decode_vec(text, decoded).map_err(|error| self.wrong(format!("base64: {error}")))
    }

    fn declared(self, option: &'static str, value: Option<u32>) -> Result<usize, ImportError> {
        let why = "routes come without a shape";
        let value = value.ok_or(ImportError::Undeclared { form: self.form.name(), option, why })?;
        match value {
            0 => Err(ImportError::option(option, value, "expected at least 1")),
            value => Ok(value as usize),
        }
    }

    fn three(self, shape: &[usize]) -> Result<[usize; 3], ImportError> {
        match *shape {
            // Lists without rows tell nothing about k.
            [0] => Ok([0, 0, 0]),
            [_, 0] if self.form.order() == Order::LayerMajor => Ok([0, 0, 0]),
            [a, b, c] => Ok([a, b, c]),
            _ => {
                let expected = match self.form.order() {
                    Order::TokenMajor => "[rows, layers, k]",
                    Order::LayerMajor => "[layers, rows, k]",
                };
                Err(self.wrong(format!("shape {shape:?}, expected {expected}")))
            }
        }
    }

    fn wrong(self, why: impl Into<String>) -> ImportError {
        ImportError::sample(self.place, "routed_experts", why)
    }
}

/// `[layers, rows, group]` → `[rows, layers, group]`, sizes in bytes for the group.
pub(crate) fn to_token_major(bytes: &[u8], [layers, rows, group]: [usize; 3], turned: &mut Vec<u8>) {
    turned.clear();
    turned.resize(bytes.len(), 0);
    if rows == 0 || group == 0 {
        return;
    }
    for (layer, bytes) in bytes.chunks_exact(rows * group).enumerate() {
        for (row, group_bytes) in bytes.chunks_exact(group).enumerate() {
            turned[(row * layers + layer) * group..][..group].copy_from_slice(group_bytes);
        }
    }
}
