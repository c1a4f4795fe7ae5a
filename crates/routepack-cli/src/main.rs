//! The `routepack` command: plans, certifies, verifies and reports from a shell.

mod chart;
mod commands;
mod exit;
mod interrupt;
mod output;
mod progress;
mod sparkline;
mod table;

use clap::{Parser, Subcommand};

use crate::exit::Failure;

/// Plans the optimizer step of MoE reinforcement-learning training, and proves what it claims.
///
/// From a recorded window (sample lengths, expert counts) and a job (topology, capacity, cost) to a verified plan:
/// where every expert lives, the fewest execution rows with a certificate, and which sample goes to which micro-batch.
#[derive(Parser)]
#[command(name = "routepack", version, propagate_version = true, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  routepack generate window --preset tiny -o tiny.npz --job-output tiny.toml
  routepack plan tiny.npz --job tiny.toml -o tiny.plan.json
  routepack verify tiny.plan.json --window tiny.npz
  routepack report tiny.plan.json --window tiny.npz
  routepack rows lengths.txt --capacity 8192 --dp 8 -o rows.cert
  routepack-check rows.cert lengths.txt

Exit codes:
  0  done; a plan may still state a gap
  1  a claim was refused by verification
  2  wrong usage
  3  the input is bad or infeasible
  4  a file could not be read or written
  5  no plan was found within the budget, and none was proved impossible";

#[derive(Subcommand)]
enum Command {
    /// Plan a window: placement, certified rows, layout.
    Plan(commands::plan::Arguments),
    /// Plan windows one after another, each from where the one before left the weights.
    Sequence(commands::sequence::Arguments),
    /// Certify the fewest rows of token-capped cells, from lengths alone.
    Rows(commands::rows::Arguments),
    /// Place experts onto EP ranks, with bounds.
    Place(commands::place::Arguments),
    /// Recompute everything a plan claims.
    Verify(commands::verify::Arguments),
    /// Compare a plan with reference arms.
    Report(commands::report::Arguments),
    /// Simulate a plan's step time, and that of its reference arms, on a described model and cluster.
    Simulate(commands::simulate::Arguments),
    /// Fit cost weights to measured micro-batches.
    Calibrate(commands::calibrate::Arguments),
    /// Write a plan's micro-batches in the shape of a framework's scheduler.
    Export(commands::export::Arguments),
    /// Count the routes that a rollout engine or trainer recorded: a window from rollouts.
    Import(commands::import::Arguments),
    /// Rewrite a checkpoint's experts from slots to logical order, or back.
    Checkpoint(commands::checkpoint::Arguments),
    /// Make realistic windows and bin-packing instances.
    Generate(commands::generate::Arguments),
    /// Tables that take a while: bin-packing instances, trainers' packing rules beside ours, the paper's gains.
    Bench(commands::bench::Arguments),
    /// Print the JSON Schema of a file format.
    Schema(commands::schema::Arguments),
}

fn main() -> std::process::ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.command {
        Command::Plan(arguments) => commands::plan::run(&arguments),
        Command::Sequence(arguments) => commands::sequence::run(&arguments),
        Command::Rows(arguments) => commands::rows::run(&arguments),
        Command::Place(arguments) => commands::place::run(&arguments),
        Command::Verify(arguments) => commands::verify::run(&arguments),
        Command::Report(arguments) => commands::report::run(&arguments),
        Command::Simulate(arguments) => commands::simulate::run(&arguments),
        Command::Calibrate(arguments) => commands::calibrate::run(&arguments),
        Command::Export(arguments) => commands::export::run(&arguments),
        Command::Import(arguments) => commands::import::run(&arguments),
        Command::Checkpoint(arguments) => commands::checkpoint::run(&arguments),
        Command::Generate(arguments) => commands::generate::run(&arguments),
        Command::Bench(arguments) => commands::bench::run(&arguments),
        Command::Schema(arguments) => commands::schema::run(&arguments),
    };
    match outcome {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

impl Failure {
    fn report(&self) -> std::process::ExitCode {
        output::say(&self.to_string());
        self.code()
    }
}
