//! `routepack bench`: tables that take a while, one file each.

mod bins;
mod layouts;
mod paper;

use std::path::Path;

use routepack_bench::BenchError;

use super::is_stdout;
use crate::exit::Failure;

/// Arguments of `routepack bench`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Bin-packing instances: fewest bins, with certificates. Goes on where a killed run stopped.
    Bins(bins::Arguments),
    /// Trainers' packing rules beside ours: the same windows under the same placement.
    Layouts(layouts::Arguments),
    /// The paper's table: simulated throughput of its arms and ours on generated windows. Goes on where a run stopped.
    Paper(paper::Arguments),
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.what {
        What::Bins(arguments) => bins::run(arguments),
        What::Layouts(arguments) => layouts::run(arguments),
        What::Paper(arguments) => paper::run(arguments),
    }
}

/// Refuses the standard output for a table that is read again and grows line by line.
fn check_table(output: &Path) -> Result<(), Failure> {
    if is_stdout(output) {
        let message =
            format!("--output {}: the table grows line by line in a file, name one", output.display());
        return Err(Failure::Input(message));
    }
    Ok(())
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Self {
        match error {
            BenchError::File { .. } => Self::File(error.to_string()),
            _ => Self::Input(error.to_string()),
        }
    }
}
