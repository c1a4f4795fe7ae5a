//! Recorded samples as arrays.

use std::path::PathBuf;
use std::sync::Arc;

use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use routepack::formats;
use routepack::problem::CostTable;
use routepack::verification::window_sha256;
use routepack::{Batch, SampleIds};

use crate::counts::Counts;
use crate::errors::{of_format, of_problem};
use crate::work::run;

/// A window of recorded samples; immutable.
#[pyclass(frozen, module = "routepack._native")]
pub(crate) struct NativeBatch {
    pub(crate) batch: Arc<Batch>,
    /// Digest of the window when it came, which plans state: hashing takes longer than preparing, and a deadline does not
    /// wait for it. Absent without counts, where it takes no time.
    pub(crate) digest: Option<String>,
}

impl NativeBatch {
    /// The batch with its digest.
    pub(crate) fn held(py: Python<'_>, batch: Arc<Batch>) -> PyResult<Self> {
        let of_counts = batch.expert_counts.is_some().then(|| Arc::clone(&batch));
        let digest = of_counts.map(|batch| run(py, None, move |_| window_sha256(&batch))).transpose()?;
        Ok(Self { batch, digest })
    }
}

/// Ids as they come.
#[derive(FromPyObject)]
pub(crate) enum Ids {
    Integers(Vec<i64>),
    Strings(Vec<String>),
}

#[pymethods]
impl NativeBatch {
    #[new]
    #[pyo3(signature = (lengths, counts=None, routed_rows=None, loss_tokens=None, ids=None, prompt_ids=None, atomic_groups=None, step=None, cost=None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn new(
        py: Python<'_>,
        lengths: PyReadonlyArray1<'_, u32>,
        counts: Option<Counts<'_>>,
        routed_rows: Option<PyReadonlyArray1<'_, u32>>,
        loss_tokens: Option<PyReadonlyArray1<'_, u32>>,
        ids: Option<Ids>,
        prompt_ids: Option<PyReadonlyArray1<'_, i64>>,
        atomic_groups: Option<PyReadonlyArray1<'_, i64>>,
        step: Option<PyReadonlyArray1<'_, i64>>,
        cost: Option<PyReadonlyArray2<'_, u32>>,
    ) -> PyResult<Self> {
        let batch = Batch {
            lengths: lengths.as_array().to_vec(),
            expert_counts: counts.map(|counts| counts.hold()).transpose()?,
            routed_rows: routed_rows.map(|rows| rows.as_array().to_vec()),
            loss_tokens: loss_tokens.map(|tokens| tokens.as_array().to_vec()),
            sample_ids: ids.map(|ids| match ids {
                Ids::Integers(ids) => SampleIds::Integers(ids),
                Ids::Strings(ids) => SampleIds::Strings(ids),
            }),
            prompt_ids: prompt_ids.map(|ids| ids.as_array().to_vec()),
            atomic_groups: atomic_groups.map(|groups| groups.as_array().to_vec()),
            step: step.map(|step| step.as_array().to_vec()),
            cost: cost.map(|cost| CostTable {
                kinds: cost.shape()[1],
                values: cost.as_array().iter().copied().collect(),
            }),
        };
        Self::held(py, Arc::new(batch))
    }

    /// Reads a window file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let read = run(py, None, move |_| formats::read_batch(&path).map(Arc::new).map_err(Arc::new))?;
        Self::held(py, read.map_err(|error| of_format(&error))?)
    }

    /// Writes a window file, `.npz`, or `.json` by its name.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let json = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
        let write = if json { formats::write_batch_json } else { formats::write_batch_npz };
        let batch = Arc::clone(&self.batch);
        let written = run(py, None, move |_| write(&path, &batch).map_err(Arc::new))?;
        written.map_err(|error| of_format(&error))
    }

    /// Checks the samples against each other, and against the experts a token chooses.
    fn check(&self, py: Python<'_>, top_k: u32) -> PyResult<()> {
        let batch = Arc::clone(&self.batch);
        run(py, None, move |_| batch.check(top_k))?.map_err(|error| of_problem(&error))
    }

    fn __len__(&self) -> usize {
        self.batch.num_samples()
    }

    /// The arrays, by the names of the constructor.
    fn arrays<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let batch = &self.batch;
        let arrays = PyDict::new(py);
        arrays.set_item("lengths", PyArray1::from_slice(py, &batch.lengths))?;
        if let Some(counts) = &batch.expert_counts {
            let [samples, parts, layers, experts] = counts.shape();
            let flat = PyArray1::from_vec(py, counts.by_sample().concat());
            let shaped = match parts {
                1 => flat.reshape([samples, layers, experts])?.into_any(),
                _ => flat.reshape([samples, parts, layers, experts])?.into_any(),
            };
            arrays.set_item("counts", shaped)?;
        }
        for (name, values) in [("routed_rows", &batch.routed_rows), ("loss_tokens", &batch.loss_tokens)] {
            if let Some(values) = values {
                arrays.set_item(name, PyArray1::from_slice(py, values))?;
            }
        }
        for (name, values) in [
            ("prompt_ids", &batch.prompt_ids),
            ("atomic_groups", &batch.atomic_groups),
            ("step", &batch.step),
        ] {
            if let Some(values) = values {
                arrays.set_item(name, PyArray1::from_slice(py, values))?;
            }
        }
        if let Some(table) = &batch.cost {
            let cost = PyArray1::from_slice(py, &table.values);
            arrays.set_item("cost", cost.reshape([batch.num_samples(), table.kinds])?)?;
        }
        if let Some(ids) = self.ids(py)? {
            arrays.set_item("ids", ids)?;
        }
        Ok(arrays)
    }

    /// The ids as a list, where there are any.
    fn ids<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match &self.batch.sample_ids {
            Some(SampleIds::Integers(ids)) => Ok(Some(ids.into_pyobject(py)?.into_any())),
            Some(SampleIds::Strings(ids)) => Ok(Some(ids.into_pyobject(py)?.into_any())),
            None => Ok(None),
        }
    }

    /// Digest of the window as it is now.
    pub(crate) fn sha256(&self, py: Python<'_>) -> PyResult<String> {
        let batch = Arc::clone(&self.batch);
        run(py, None, move |_| window_sha256(&batch))
    }
}
