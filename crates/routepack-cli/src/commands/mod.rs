//! One file a command.

pub(crate) mod generate;
pub(crate) mod place;
pub(crate) mod plan;
pub(crate) mod report;
pub(crate) mod rows;
pub(crate) mod schema;
pub(crate) mod verify;

use std::path::Path;
use std::sync::Arc;

use routepack::Batch;
use routepack::formats::{self, FormatError, Lengths, LengthsForm};

use crate::exit::Failure;

/// Reads a window, `-` for JSON or npz on standard input.
fn read_window(path: &Path) -> Result<Arc<Batch>, Failure> {
    Ok(Arc::new(formats::read_batch(path)?))
}

/// Whether a path is one by its ending.
fn ends_with(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|found| found.eq_ignore_ascii_case(ending))
}

/// Reads lengths; from the named columns of a table where they are given.
fn read_lengths(path: &Path, columns: Option<&str>) -> Result<Lengths, Failure> {
    if ends_with(path, "npz") || ends_with(path, "json") {
        let batch = formats::read_batch(path)?;
        let sizes = batch.lengths.iter().map(|&length| u64::from(length)).collect();
        return Ok(Lengths { sizes, capacity: None });
    }
    let form = columns.map_or(LengthsForm::Auto, |columns| LengthsForm::Columns(columns.to_owned()));
    Ok(formats::read_lengths(path, &form)?)
}

/// Writes a window in the form its name asks for; JSON on standard output.
fn write_window(path: &Path, batch: &Batch) -> Result<(), Failure> {
    if ends_with(path, "npz") {
        formats::write_batch_npz(path, batch)?;
    } else {
        formats::write_batch_json(path, batch)?;
    }
    Ok(())
}

/// Runs `work` in a pool of this many threads; the ambient pool when absent.
fn in_pool<T: Send>(threads: Option<u16>, work: impl FnOnce() -> T + Send) -> Result<T, Failure> {
    let Some(threads) = threads else { return Ok(work()) };
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(usize::from(threads))
        .build()
        .map_err(|error| Failure::Input(format!("--threads {threads}: {error}")))?;
    Ok(pool.install(work))
}

impl From<FormatError> for Failure {
    fn from(error: FormatError) -> Self {
        match error {
            FormatError::Access { .. } => Self::File(error.to_string()),
            _ => Self::Input(error.to_string()),
        }
    }
}
