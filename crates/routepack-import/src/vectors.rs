//! Arrays beside the routes as they are stored: a number a sample, or a mask of its positions.

use std::ops::Range;

use routepack_formats::{ArrayKind, FormatError};

use crate::batch_arrays::{dtype_of, read_exact, wrong_array};
use crate::carrier::Carrier;
use crate::window::Window;
use crate::{Dtype, ImportError};

/// A vector of integers, one a sample.
pub(crate) fn read_vector(
    window: &Window<'_>,
    carrier: &mut Carrier,
    name: &str,
) -> Result<Vec<i64>, ImportError> {
    carrier.read(name, |header, values| {
        let dtype = dtype_of(window, name, header)?;
        let [count] = header.shape[..] else {
            return Err(wrong_array(window, name, format!("shape {:?}, expected [samples]", header.shape)));
        };
        let mut value = vec![0u8; dtype.width()];
        let mut vector = Vec::new();
        for _ in 0..count {
            read_exact(values, &mut value, &window.file)?;
            vector.push(dtype.value(&value, 0));
        }
        Ok(vector)
    })
}

/// Positions a sample has, and the runs of ones there.
pub(crate) type Mask = (usize, Vec<Vec<Range<usize>>>);

/// A mask `[batch, sequence]` of 0 and 1.
pub(crate) fn read_mask(window: &Window<'_>, carrier: &mut Carrier, name: &str) -> Result<Mask, ImportError> {
    carrier.read(name, |header, values| {
        let dtype = match header.kind {
            ArrayKind::Boolean => Dtype::U8,
            _ => dtype_of(window, name, header)?,
        };
        let [batch, sequence] = header.shape[..] else {
            let why = format!("shape {:?}, expected [batch, sequence]", header.shape);
            return Err(wrong_array(window, name, why));
        };
        if batch == 0 {
            return Ok((sequence, Vec::new()));
        }
        // Without positions the shape may speak of any number of samples.
        if sequence == 0 {
            return Err(wrong_array(window, name, format!("shape [{batch}, 0]: no positions")));
        }
        let mut line = vec![0u8; sequence * dtype.width()];
        let mut masks = Vec::new();
        for sample in 0..batch {
            read_exact(values, &mut line, &window.file)?;
            let mut runs: Vec<Range<usize>> = Vec::new();
            for at in 0..sequence {
                match (dtype.value(&line, at), runs.last_mut()) {
                    (0, _) => {}
                    (1, Some(run)) if run.end == at => run.end += 1,
                    (1, _) => runs.push(at..at + 1),
                    (value, _) => {
                        return Err(FormatError::Value {
                            file: window.file.clone(),
                            array: name.to_owned(),
                            index: format!("{sample}, {at}"),
                            value: value.to_string(),
                            limit: "expected 0 or 1".to_owned(),
                        }
                        .into());
                    }
                }
            }
            masks.push(runs);
        }
        Ok((sequence, masks))
    })
}
