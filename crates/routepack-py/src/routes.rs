//! Recorded routes: in memory, and in files.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use numpy::{
    PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArrayDyn, PyUntypedArrayMethods,
};
use pyo3::prelude::*;
use routepack_import::{Dtype, Form, ImportOptions, Routes, count_routes};

use crate::batch::NativeBatch;
use crate::errors::{RoutePackError, RoutesError, of_import};
use crate::work::run;

/// Ids as they come, in any integer type; they are read where they are.
#[derive(FromPyObject)]
pub(crate) enum Ids<'py> {
    I16(PyReadonlyArrayDyn<'py, i16>),
    I32(PyReadonlyArrayDyn<'py, i32>),
    U8(PyReadonlyArrayDyn<'py, u8>),
    I64(PyReadonlyArrayDyn<'py, i64>),
    U16(PyReadonlyArrayDyn<'py, u16>),
    I8(PyReadonlyArrayDyn<'py, i8>),
    U32(PyReadonlyArrayDyn<'py, u32>),
    U64(PyReadonlyArrayDyn<'py, u64>),
}

/// Counts `[layers, experts]` of ids `[rows, layers, k]`, and how many rows were counted.
#[pyfunction]
#[pyo3(signature = (ids, num_experts, mask=None))]
pub(crate) fn count<'py>(
    py: Python<'py>,
    ids: Ids<'py>,
    num_experts: u32,
    mask: Option<PyReadonlyArray1<'py, bool>>,
) -> PyResult<(Bound<'py, PyArray2<u32>>, u32)> {
    macro_rules! bytes {
        ($array:expr, $dtype:ident) => {{
            let values =
                $array.as_slice().map_err(|_| RoutesError::new_err("ids: expected a contiguous array"))?;
            (Dtype::$dtype, $array.shape(), bytemuck::cast_slice::<_, u8>(values))
        }};
    }
    let (dtype, shape, bytes) = match &ids {
        Ids::I8(ids) => bytes!(ids, I8),
        Ids::I16(ids) => bytes!(ids, I16),
        Ids::I32(ids) => bytes!(ids, I32),
        Ids::I64(ids) => bytes!(ids, I64),
        Ids::U8(ids) => bytes!(ids, U8),
        Ids::U16(ids) => bytes!(ids, U16),
        Ids::U32(ids) => bytes!(ids, U32),
        Ids::U64(ids) => bytes!(ids, U64),
    };
    let &[rows, layers, top_k] = shape else {
        return Err(RoutesError::new_err(format!("ids: shape {shape:?}, expected [rows, layers, k]")));
    };
    let mask = mask.map(|mask| mask.as_array().to_vec());
    let routes = Routes { dtype, shape: [rows, layers, top_k], bytes };
    let counted = py.detach(|| count_routes(routes, num_experts, mask.as_deref()));
    let (counts, rows) = counted.map_err(|error| of_import(&error))?;
    // Memory of NumPy's own: `Batch` can keep it as it is.
    Ok((PyArray1::from_slice(py, &counts).reshape([layers, num_experts as usize])?, rows))
}

/// Counts the routes of a file; the window, and a summary as JSON. `options` is JSON.
#[pyfunction]
pub(crate) fn import_rollouts(
    py: Python<'_>,
    path: PathBuf,
    form: &str,
    options: &str,
) -> PyResult<(NativeBatch, String)> {
    let form: Form = form.parse().map_err(|error| of_import(&error))?;
    let options: ImportOptions =
        serde_json::from_str(options).map_err(|error| RoutesError::new_err(format!("options: {error}")))?;
    let imported = run(py, Some(1), move |cancel| {
        let stop = || cancel.load(Ordering::Relaxed);
        routepack_import::import(&path, form, &options, &stop, &mut |_| {})
            .map(|imported| (Arc::new(imported.batch), imported.summary))
    })?;
    let (batch, summary) = imported.map_err(|error| of_import(&error))?;
    let summary =
        serde_json::to_string(&summary).map_err(|error| RoutePackError::new_err(error.to_string()))?;
    Ok((NativeBatch::held(py, batch)?, summary))
}
