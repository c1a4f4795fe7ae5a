//! A plan's micro-batches in the shape a framework's own scheduler gives.
//!
//! Indices are those of the samples in input order; a micro-batch of dummies alone is an empty list.

use std::str::FromStr;

use serde::Serialize;

use crate::verification::PlanStep;
use crate::{Plan, formats};

/// Whose shape is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framework {
    /// `steps[].micro_batches [dp][micro-batch][sample]`.
    Verl,
    /// `partitions [dp][sample]`, `micro_batch_indices [dp][micro-batch][position in the partition]`,
    /// `num_microbatches [step]`, `global_batch_sizes [step]`: what `build_dp_schedule` returns.
    Slime,
    /// `steps[].bins [bin][sample]`; rank r runs `bins[r::dp]`.
    NemoRl,
    /// `steps[].groups [dp][group][sample]`.
    Areal,
    /// `steps[].micro_batches [micro-batch][dp][sample]`.
    Megatron,
}

impl Framework {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Verl, Self::Slime, Self::NemoRl, Self::Areal, Self::Megatron];

    /// Its name in commands.
    pub fn name(self) -> &'static str {
        match self {
            Self::Verl => "verl",
            Self::Slime => "slime",
            Self::NemoRl => "nemo-rl",
            Self::Areal => "areal",
            Self::Megatron => "megatron",
        }
    }
}

impl FromStr for Framework {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let names = Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|framework| framework.name() == name);
        found.ok_or_else(|| format!("`{name}`: expected one of {names}"))
    }
}

/// JSON of one pass: its micro-batches, the plan's digest, and `phys2log [layers][slots]`, the expert in every slot.
///
/// The plan is taken as it is: see [`crate::verification::check_alone`].
pub fn export(plan: &Plan, framework: Framework) -> String {
    match framework {
        Framework::Verl => {
            write(plan, steps(plan, |step| MicroBatches { step: step.step, micro_batches: by_rank(step) }))
        }
        Framework::Areal => {
            write(plan, steps(plan, |step| Groups { step: step.step, groups: by_rank(step) }))
        }
        Framework::Megatron => write(
            plan,
            steps(plan, |step| MicroBatches { step: step.step, micro_batches: step.cells.clone() }),
        ),
        Framework::NemoRl => write(
            plan,
            steps(plan, |step| Bins {
                step: step.step,
                bins: step.cells.iter().flatten().map(Vec::as_slice).collect(),
            }),
        ),
        Framework::Slime => write(plan, schedule(plan)),
    }
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
