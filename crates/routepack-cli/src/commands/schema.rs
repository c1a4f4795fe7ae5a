//! `routepack schema`: the JSON Schema of a file format, made from the types.

use clap::ValueEnum;
use routepack::{Job, Plan, Report, formats};

use crate::exit::Failure;
use crate::output::print_json;

/// Arguments of `routepack schema`.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  routepack schema job > job.schema.json")]
pub(crate) struct Arguments {
    /// The format.
    format: Format,
    /// Print JSON; a schema is JSON in any case.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// The job file (TOML, same structure).
    Job,
    /// A window as JSON; the arrays of an .npz have the same names and shapes.
    Window,
    /// The plan file.
    Plan,
    /// `routepack report --json`.
    Report,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    print_json(&match arguments.format {
        Format::Job => formats::schema_of::<Job>(),
        Format::Window => formats::window_schema(),
        Format::Plan => formats::schema_of::<Plan>(),
        Format::Report => formats::schema_of::<Report>(),
    })
}
