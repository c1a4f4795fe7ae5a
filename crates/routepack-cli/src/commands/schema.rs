//! `routepack schema`: the JSON Schema of a file format, made from the types.

use clap::ValueEnum;
use routepack::{Job, Plan, Report, formats};

use crate::exit::Failure;
use crate::output::print_json;

/// Arguments of `routepack schema`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  routepack schema job > job.schema.json
  routepack schema window | jq '.properties | keys'

Exit codes: 0 done; 2 wrong usage; 4 a file.")]
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
    /// What `routepack report --json` prints.
    Report,
    /// What `routepack rows --json` prints.
    Rows,
    /// What `routepack sequence --json` prints.
    Sequence,
    /// What `routepack place --json` prints; also the placement file.
    Place,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    print_json(&match arguments.format {
        Format::Job => formats::schema_of::<Job>(),
        Format::Window => formats::window_schema(),
        Format::Plan => formats::schema_of::<Plan>(),
        Format::Rows => formats::schema_of::<super::rows::Answer>(),
        Format::Sequence => formats::schema_of::<super::sequence::Answer>(),
        Format::Place => formats::schema_of::<super::place::Answer>(),
        Format::Report => formats::schema_of::<Report>(),
    })
}
