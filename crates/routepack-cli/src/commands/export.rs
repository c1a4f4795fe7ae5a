//! `routepack export`: a plan's micro-batches in the shape a framework's own scheduler gives.

use std::path::PathBuf;

use clap::ValueEnum;
use routepack::Plan;
use routepack::formats;
use routepack::verification::{PlanStep, check_alone};
use serde::Serialize;

use super::is_stdout;
use super::outputs::check_outputs;
use crate::exit::Failure;
use crate::output::print;

/// Arguments of `routepack export`.
#[derive(clap::Args)]
#[command(after_help = "\
Indices are those of the samples in input order. Every file holds the plan's sha256 and the placement,
phys2log [layers][slots]: the expert in every slot. A micro-batch of dummies alone is an empty list.

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
    #[arg(long, value_enum)]
    to: Framework,
    /// JSON file to write (`-` for standard output).
    #[arg(short, long, default_value = "-")]
    output: PathBuf,
}

/// Whose shape is asked for.
#[derive(Clone, Copy, ValueEnum)]
enum Framework {
    Verl,
    Slime,
    NemoRl,
    Areal,
    Megatron,
}

/// One file.
#[derive(Serialize)]
struct Exported<'p, S> {
    sha256: &'p str,
    #[serde(flatten)]
    schedule: S,
    phys2log: Option<Vec<Vec<u32>>>,
}

#[derive(Serialize)]
struct Steps<T> {
    steps: Vec<T>,
}

/// Micro-batches of one step, rank-major or row-major.
#[derive(Serialize)]
struct MicroBatches {
    step: i64,
    micro_batches: Vec<Vec<Vec<u32>>>,
}

#[derive(Serialize)]
struct Groups {
    step: i64,
    groups: Vec<Vec<Vec<u32>>>,
}

#[derive(Serialize)]
struct Bins<'p> {
    step: i64,
    bins: Vec<&'p [u32]>,
}

/// What `build_dp_schedule` returns.
#[derive(Serialize)]
struct Schedule {
    partitions: Vec<Vec<u32>>,
    micro_batch_indices: Vec<Vec<Vec<u32>>>,
    num_microbatches: Vec<u64>,
    global_batch_sizes: Vec<u64>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    check_outputs(&[("PLAN", &arguments.plan)], &[("--output", &arguments.output)])?;
    let plan = formats::read_plan(&arguments.plan)?;
    check_alone(&plan).map_err(|error| Failure::input(arguments.plan.display(), error))?;
    let text = match arguments.to {
        Framework::Verl => {
            write(&plan, steps(&plan, |step| MicroBatches { step: step.step, micro_batches: by_rank(step) }))
        }
        Framework::Areal => {
            write(&plan, steps(&plan, |step| Groups { step: step.step, groups: by_rank(step) }))
        }
        Framework::Megatron => write(
            &plan,
            steps(&plan, |step| MicroBatches { step: step.step, micro_batches: step.cells.clone() }),
        ),
        Framework::NemoRl => write(
            &plan,
            steps(&plan, |step| Bins {
                step: step.step,
                bins: step.cells.iter().flatten().map(Vec::as_slice).collect(),
            }),
        ),
        Framework::Slime => write(&plan, schedule(&plan)),
    };
    if is_stdout(&arguments.output) {
        return print(text.trim_end());
    }
    formats::write_atomically(&arguments.output, text.as_bytes())?;
    Ok(())
}

fn write<S: Serialize>(plan: &Plan, schedule: S) -> String {
    let phys2log = plan
        .placement
        .as_ref()
        .map(|placement| placement.log2phys.iter().map(|slots| inverse(slots)).collect());
    formats::compact_json(&Exported { sha256: &plan.sha256, schedule, phys2log })
}

fn steps<'p, T>(plan: &'p Plan, of_step: impl Fn(&'p PlanStep) -> T) -> Steps<T> {
    Steps { steps: plan.steps.iter().map(of_step).collect() }
}

/// `[rows][slots]` → `[slots][rows]`.
fn by_rank(step: &PlanStep) -> Vec<Vec<Vec<u32>>> {
    let slots = step.cells.first().map_or(0, Vec::len);
    (0..slots).map(|slot| step.cells.iter().map(|row| row[slot].clone()).collect()).collect()
}

/// Ranks run all steps one after another; positions count on.
fn schedule(plan: &Plan) -> Schedule {
    let slots = plan.steps.first().and_then(|step| step.cells.first()).map_or(0, Vec::len);
    let mut schedule = Schedule {
        partitions: vec![Vec::new(); slots],
        micro_batch_indices: vec![Vec::new(); slots],
        num_microbatches: plan.steps.iter().map(|step| step.rows).collect(),
        global_batch_sizes: plan.steps.iter().map(|step| step.totals.samples).collect(),
    };
    for cells in plan.steps.iter().flat_map(|step| &step.cells) {
        for ((cell, partition), micro_batches) in
            cells.iter().zip(&mut schedule.partitions).zip(&mut schedule.micro_batch_indices)
        {
            let start = partition.len() as u32;
            partition.extend(cell);
            micro_batches.push((start..partition.len() as u32).collect());
        }
    }
    schedule
}

fn inverse(slots: &[u32]) -> Vec<u32> {
    let mut experts = vec![0; slots.len()];
    for (expert, &slot) in slots.iter().enumerate() {
        if let Some(held) = experts.get_mut(slot as usize) {
            *held = expert as u32;
        }
    }
    experts
}
