//! Counts that NumPy holds: read where they lie, if nobody may write there.

use std::sync::Arc;

use numpy::ndarray::Dimension;
use numpy::{PyReadonlyArray, PyReadonlyArray2, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;
use routepack::ExpertCounts;
use routepack::problem::CountsMemory;

use crate::errors::{WindowError, of_problem};

/// Counts as they come: `[samples, layers, experts]` at once, or one `[layers, experts]` a sample.
#[derive(FromPyObject)]
pub(crate) enum Counts<'py> {
    Whole(PyReadonlyArrayDyn<'py, u32>),
    Short(PyReadonlyArrayDyn<'py, u16>),
    Each(Vec<PyReadonlyArray2<'py, u32>>),
}

impl Counts<'_> {
    /// The counts that planning works on; read-only arrays stay where they are.
    pub(crate) fn hold(&self) -> PyResult<ExpertCounts> {
        let in_one = |shape: &[usize], memory: CountsMemory| {
            let shape = match *shape {
                [samples, layers, experts] => [samples, 1, layers, experts],
                [samples, parts, layers, experts] => [samples, parts, layers, experts],
                _ => {
                    return Err(WindowError::new_err(format!(
                        "counts: shape {shape:?}, expected [samples, layers, experts]"
                    )));
                }
            };
            ExpertCounts::in_one(shape, memory).map_err(|error| of_problem(&error))
        };
        match self {
            Self::Whole(counts) => in_one(counts.shape(), memory(counts)?),
            Self::Short(counts) => {
                let wide: Vec<u32> = counts.as_array().iter().map(|&count| count.into()).collect();
                in_one(counts.shape(), Arc::new(wide))
            }
            Self::Each(counts) => {
                let shape = counts.first().map_or([1, 1], |counts| [counts.shape()[0], counts.shape()[1]]);
                for (sample, counts) in counts.iter().enumerate() {
                    if counts.shape() != shape {
                        return Err(WindowError::new_err(format!(
                            "counts of sample {sample}: shape {:?}, expected {shape:?} as the samples before",
                            counts.shape(),
                        )));
                    }
                }
                let samples = counts.iter().map(memory).collect::<PyResult<_>>()?;
                ExpertCounts::of_each(shape, samples).map_err(|error| of_problem(&error))
            }
        }
    }
}

/// Values of a read-only, contiguous array where they are; of any other a copy.
fn memory<D: Dimension>(array: &PyReadonlyArray<'_, u32, D>) -> PyResult<CountsMemory> {
    let writable: bool = array.getattr("flags")?.getattr("writeable")?.extract()?;
    match array.as_slice() {
        Ok(values) if !writable => {
            let (first, len) = (values.as_ptr(), values.len());
            Ok(Arc::new(Held { _array: Bound::clone(array).into_any().unbind(), first, len }))
        }
        _ => Ok(Arc::new(array.as_array().iter().copied().collect::<Vec<u32>>())),
    }
}

/// Values of an array that this keeps alive.
struct Held {
    _array: Py<PyAny>,
    first: *const u32,
    len: usize,
}

// SAFETY: `first` points to `len` values of `_array`, which lives as long as this and is never resized while it is
// referred to. Values are read, never written; that nobody else writes them is what read-only means, and what
// `Batch` asks of whoever still has a writable view.
#[expect(unsafe_code, reason = "memory of NumPy has no lifetime that Rust knows")]
unsafe impl Send for Held {}
// SAFETY: as above.
#[expect(unsafe_code, reason = "memory of NumPy has no lifetime that Rust knows")]
unsafe impl Sync for Held {}

impl AsRef<[u32]> for Held {
    fn as_ref(&self) -> &[u32] {
        // SAFETY: as above; pointer and length are those of a slice.
        #[expect(unsafe_code, reason = "memory of NumPy has no lifetime that Rust knows")]
        unsafe {
            std::slice::from_raw_parts(self.first, self.len)
        }
    }
}
