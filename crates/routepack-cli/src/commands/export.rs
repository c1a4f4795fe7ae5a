//! `routepack export`: a plan's micro-batches in the shape a framework's own scheduler gives.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use routepack::verification::check_alone;
use routepack::{Framework, export, formats};

use super::is_stdout;
use super::outputs::check_outputs;
use crate::exit::Failure;
use crate::output::print;

/// Arguments of `routepack export`.
#[derive(clap::Args)]
#[command(after_help = "\
Indices are those of the samples in input order. Every file holds the plan's sha256 and the placement,
phys2log [layers][slots]: the expert in every slot. A micro-batch of dummies alone is an empty list. Passes beside
training are plans in files of their own, exported one by one; the training plan's sha256 stands for all.

  verl      steps[].micro_batches [dp][micro-batch][sample]
  areal     steps[].groups [dp][group][sample]
  nemo-rl   steps[].bins [bin][sample]; rank r runs bins[r::dp]
  megatron  steps[].micro_batches [micro-batch][dp][sample]
  slime     partitions [dp][sample], micro_batch_indices [dp][micro-batch][position in the partition],
            num_microbatches [step], global_batch_sizes [step]

Example:
  routepack export plan.json --to slime -o schedule.json")]
pub(crate) struct Arguments {
    /// Plan (`-` for standard input).
    plan: PathBuf,
    /// Framework.
    #[arg(long, value_parser = PossibleValuesParser::new(Framework::ALL.map(Framework::name)).map(|name| {
        name.parse::<Framework>().expect("one of the possible values")
    }))]
    to: Framework,
    /// JSON file to write (`-` for standard output).
    #[arg(short, long, default_value = "-")]
    output: PathBuf,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    check_outputs(&[("PLAN", &arguments.plan)], &[("--output", &arguments.output)])?;
    let plan = formats::read_plan(&arguments.plan)?;
    check_alone(&plan).map_err(|error| Failure::input(arguments.plan.display(), error))?;
    let text = export(&plan, arguments.to);
    if is_stdout(&arguments.output) {
        return print(text.trim_end());
    }
    formats::write_atomically(&arguments.output, text.as_bytes())?;
    Ok(())
}
