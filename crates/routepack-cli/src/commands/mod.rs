//! One file a command.

pub(crate) mod bench;
pub(crate) mod calibrate;
pub(crate) mod checkpoint;
pub(crate) mod export;
pub(crate) mod generate;
pub(crate) mod import;
mod machine;
mod outputs;
pub(crate) mod place;
pub(crate) mod plan;
pub(crate) mod report;
mod resident;
pub(crate) mod rows;
mod rows_table;
pub(crate) mod schema;
mod search_trace;
pub(crate) mod sequence;
pub(crate) mod simulate;
pub(crate) mod verify;

use std::path::Path;
use std::sync::Arc;

use clap::ValueEnum;
use routepack::formats::{self, FormatError, LengthsForm};
use routepack::verification::VerifyError;
use routepack::{Batch, PlanError};
use serde::Serialize;

use crate::exit::Failure;
use crate::output::print_json;

/// Reads a window, `-` for JSON or npz on standard input.
fn read_window(path: &Path) -> Result<Arc<Batch>, Failure> {
    Ok(Arc::new(formats::read_batch(path)?))
}

/// Whether a path is one by its ending.
fn ends_with(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|found| found.eq_ignore_ascii_case(ending))
}

/// What a file of lengths is; `routepack-check` has the same options, with the same meaning.
#[derive(clap::Args)]
struct FormArguments {
    /// What the file is; never guessed from its numbers. An .npz or JSON window needs no option.
    #[arg(long, value_enum)]
    form: Option<Form>,
    /// Column of a table, or a sum of columns such as `prompt_tokens+response_tokens`.
    #[arg(long, value_name = "NAME")]
    column: Option<String>,
}

/// A form of a file of lengths.
#[derive(Clone, Copy, ValueEnum)]
enum Form {
    /// One length a line.
    Lines,
    /// Number of items, capacity, then one size a line; or number of sizes, capacity, then `size demand` lines.
    Bins,
    /// Tab-separated with a header line; needs --column.
    Table,
    /// A window: .npz or JSON.
    Window,
}

impl FormArguments {
    /// The form asked for; a column is one of a table.
    fn asked(&self) -> Result<Option<LengthsForm>, Failure> {
        Ok(match (self.form, &self.column) {
            (None, None) => None,
            (None | Some(Form::Table), Some(columns)) => Some(LengthsForm::Table(columns.clone())),
            (Some(Form::Lines), None) => Some(LengthsForm::Lines),
            (Some(Form::Bins), None) => Some(LengthsForm::Bins),
            (Some(Form::Window), None) => Some(LengthsForm::Window),
            (Some(Form::Table), None) => {
                return Err(Failure::Input("--form table: --column is missing".to_owned()));
            }
            (Some(_), Some(columns)) => {
                return Err(Failure::Input(format!("--column {columns}: only a table has columns")));
            }
        })
    }
}

/// The words for a form, in answers.
fn form_in_words(form: &LengthsForm) -> &'static str {
    match form {
        LengthsForm::Lines => "one a line",
        LengthsForm::Bins => "from a bin-packing instance",
        LengthsForm::Table(_) => "from a table",
        LengthsForm::Window => "from a window",
    }
}

/// Whether an output is the standard output.
fn is_stdout(output: &Path) -> bool {
    output == Path::new("-") || output == Path::new("/dev/stdout")
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

/// What is said about a plan that does not verify, for machines.
#[derive(Serialize)]
struct Refusal {
    verified: bool,
    error: String,
}

/// The failure of a plan that does not verify against a window.
fn refused(plan: &Path, window: &Path, error: &VerifyError, json: bool) -> Result<(), Failure> {
    let (plan, window) = (plan.display(), window.display());
    let error = match error {
        VerifyError::Mismatch { field, claimed, recomputed } if field == "window_sha256" => {
            format!("{plan}: window_sha256 = {claimed}: of another window, that of {window} is {recomputed}")
        }
        _ => format!("{plan}: {error}"),
    };
    if json {
        print_json(&Refusal { verified: false, error: error.clone() })?;
    }
    Err(Failure::Refused(error))
}

/// The file that is at fault when a window cannot be planned.
fn blamed<'a>(error: &PlanError, window: &'a Path, job: &'a Path, resident: Option<&'a Path>) -> &'a Path {
    let resident = resident.filter(|_| error.concerns_resident());
    resident.unwrap_or(if error.concerns_job() { job } else { window })
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
