//! Certified rows of lengths alone, and the check of their certificates.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use routepack::binpack::{Goal, PackOptions, pack};
use routepack::certificate::{CheckError, Checked, Form, Lengths, Limits, Statement, check_lengths};
use routepack::formats::{self, LengthsForm};

use crate::errors::{JobError, VerifyError, WindowError, of_format};
use crate::work::run;

/// The fewest rows of `dp` cells, with a certificate; a cell's samples are its bin.
#[pyfunction]
#[pyo3(signature = (lengths, capacity, dp=1, rows_multiple=1, max_samples=None, pad_multiple=1, cells=false, deadline_ms=None, seed=0, threads=None))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
pub(crate) fn rows<'py>(
    py: Python<'py>,
    lengths: PyReadonlyArray1<'py, u64>,
    capacity: u64,
    dp: u64,
    rows_multiple: u64,
    max_samples: Option<u32>,
    pad_multiple: u64,
    cells: bool,
    deadline_ms: Option<u64>,
    seed: u64,
    threads: Option<usize>,
) -> PyResult<Bound<'py, PyDict>> {
    let until = deadline_ms.and_then(|limit| Instant::now().checked_add(Duration::from_millis(limit)));
    let mut sizes = Vec::new();
    for (sample, &length) in lengths.as_array().iter().enumerate() {
        let padded = (pad_multiple > 0).then(|| length.checked_next_multiple_of(pad_multiple)).flatten();
        match padded {
            Some(padded) if (1..=capacity).contains(&padded) => sizes.push(padded),
            Some(padded) => {
                let why = format!(
                    "lengths[{sample}] = {length}, padded {padded}: expected 1 to {capacity}, the capacity"
                );
                return Err(WindowError::new_err(why));
            }
            None => {
                return Err(JobError::new_err(format!("pad_multiple = {pad_multiple}: expected at least 1")));
            }
        }
    }
    let statement = Statement { sizes, capacity, max_items: max_samples, slots: dp, rows_multiple };
    statement.validate().map_err(|error| JobError::new_err(error.to_string()))?;
    if statement.sizes.is_empty() {
        return Err(WindowError::new_err("lengths: no samples"));
    }
    let goal = if cells { Goal::Cells } else { Goal::Rows };
    let options = PackOptions { goal, ..PackOptions::default() };
    let packed = run(py, threads, move |cancel| {
        let stop = || cancel.load(Ordering::Relaxed) || until.is_some_and(|until| Instant::now() >= until);
        pack(&statement, &options, seed, &stop, &mut |_| {})
            .map(|packed| Arc::new((packed.certificate.to_text(&statement), packed)))
            .map_err(|error| error.to_string())
    })?;
    let packed = packed.map_err(JobError::new_err)?;
    let (certificate, packed) = &*packed;
    let answer = PyDict::new(py);
    answer.set_item("rows", packed.rows)?;
    answer.set_item("rows_bound", packed.rows_bound)?;
    answer.set_item("cells", packed.cells)?;
    answer.set_item("cells_bound", packed.cells_bound)?;
    answer.set_item("proved_by", &packed.proved_by)?;
    answer.set_item("finished", packed.finished)?;
    answer.set_item("certificate", certificate)?;
    answer.set_item("bins", &packed.bins)?;
    Ok(answer)
}

/// Lengths of a file, and its capacity where it states one. `form`: lines, bins or window.
#[pyfunction]
pub(crate) fn read_lengths<'py>(
    py: Python<'py>,
    path: PathBuf,
    form: &str,
) -> PyResult<(Bound<'py, PyArray1<u64>>, Option<u64>)> {
    let form = match form {
        "lines" => LengthsForm::Lines,
        "bins" => LengthsForm::Bins,
        "window" => LengthsForm::Window,
        other => return Err(JobError::new_err(format!("form = {other:?}: expected lines, bins or window"))),
    };
    let lengths = formats::read_lengths(&path, &form).map_err(|error| of_format(&error))?;
    Ok((PyArray1::from_vec(py, lengths.sizes), lengths.capacity))
}

/// Checks a certificate against lengths; what it proves.
#[pyfunction]
#[pyo3(signature = (certificate, lengths, pad_multiple=1))]
pub(crate) fn check<'py>(
    py: Python<'py>,
    certificate: String,
    lengths: PyReadonlyArray1<'py, u64>,
    pad_multiple: u64,
) -> PyResult<Bound<'py, PyDict>> {
    let mut text = String::new();
    for length in lengths.as_array() {
        writeln!(text, "{length}").expect("text takes every line");
    }
    let checked: Result<Arc<(Statement, Checked)>, CheckError> = run(py, Some(1), move |_| {
        let limits = Limits::default();
        let lengths = Lengths::parse(text.as_bytes(), &Form::Lines, pad_multiple, &limits)?;
        check_lengths(&lengths, certificate.as_bytes(), &limits).map(Arc::new)
    })?;
    let checked = checked.map_err(|error| VerifyError::new_err(error.to_string()))?;
    let (statement, checked) = &*checked;
    let answer = PyDict::new(py);
    answer.set_item("samples", statement.sizes.len())?;
    answer.set_item("capacity", statement.capacity)?;
    answer.set_item("max_samples", statement.max_items)?;
    answer.set_item("dp", statement.slots)?;
    answer.set_item("rows_multiple", statement.rows_multiple)?;
    answer.set_item("cells_bound", checked.cells_lower)?;
    answer.set_item("cells", checked.cells_upper)?;
    answer.set_item("rows_bound", checked.rows_lower)?;
    answer.set_item("rows", checked.rows_upper)?;
    Ok(answer)
}
