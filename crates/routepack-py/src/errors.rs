//! Errors as Python sees them.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyType;
use pyo3::{PyTypeInfo, create_exception};
use routepack::PlanError;
use routepack::formats::FormatError;
use routepack::problem::ProblemError;
use routepack_import::ImportError;

create_exception!(routepack, RoutePackError, PyValueError, "Any refusal of this package.");
create_exception!(
    routepack,
    WindowError,
    RoutePackError,
    "Recorded samples are wrong, or do not fit the job."
);
create_exception!(routepack, JobError, RoutePackError, "The job is wrong, or cannot be done.");
create_exception!(routepack, RoutesError, RoutePackError, "Recorded routes are wrong.");
create_exception!(routepack, FileError, RoutePackError, "A file cannot be read or written, or is damaged.");
create_exception!(routepack, VerifyError, RoutePackError, "A claim was refused.");

/// Every error with its name.
pub(crate) fn all(py: Python<'_>) -> [(&'static str, Bound<'_, PyType>); 6] {
    [
        ("RoutePackError", RoutePackError::type_object(py)),
        ("WindowError", WindowError::type_object(py)),
        ("JobError", JobError::type_object(py)),
        ("RoutesError", RoutesError::type_object(py)),
        ("FileError", FileError::type_object(py)),
        ("VerifyError", VerifyError::type_object(py)),
    ]
}

pub(crate) fn of_plan(error: &PlanError) -> PyErr {
    match error {
        PlanError::Verify(_) => VerifyError::new_err(error.to_string()),
        error if error.concerns_job() => JobError::new_err(error.to_string()),
        error => WindowError::new_err(error.to_string()),
    }
}

pub(crate) fn of_problem(error: &ProblemError) -> PyErr {
    WindowError::new_err(error.to_string())
}

pub(crate) fn of_format(error: &FormatError) -> PyErr {
    FileError::new_err(error.to_string())
}

pub(crate) fn of_import(error: &ImportError) -> PyErr {
    match error {
        ImportError::File(error) => of_format(error),
        error => RoutesError::new_err(error.to_string()),
    }
}
