//! Step time of a layout under a placement: rows through pipelines, then everything that a step does once.
//!
//! Every EDP shard runs its rows as one pipeline; the step waits for the slowest shard, then reduces gradients, updates,
//! and moves experts. Terms are those of the slowest shard's busiest stage, `bubble` the rest of its makespan, so that
//! they add up to the step. O(n·L·E + R·G·L·P).

use std::ops::AddAssign;

use rayon::prelude::*;
use routepack_problem::{Instance, Layout, Placement};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::chunks::chunks;
use crate::row_time::{ChunkTime, Running, row_time};
use crate::{Cluster, Model, RowTimes, SimulateError, SimulateOptions, Work};

/// Bytes the optimizer touches for every parameter it owns: gradient, master and two moments read, all but the gradient
/// written, in FP32, and the BF16 weight written.
const OPTIMIZER_BYTES: f64 = 4.0 * 4.0 + 3.0 * 4.0 + 2.0;

/// Seconds of one optimizer step, and where they go.
///
/// Seconds and tokens of several steps add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepTime {
    /// Seconds of the step: all terms together.
    pub seconds: f64,
    /// Forward and backward work of the slowest shard's busiest pipeline stage.
    #[serde(flatten)]
    pub work: Work,
    /// What this stage waits: pipeline bubble and hand-overs.
    pub bubble: f64,
    /// Reduction of gradients and gathering of weights that computation does not hide.
    pub gradients: f64,
    /// Optimizer update.
    pub optimizer: f64,
    /// Moves of expert state before the step.
    pub moves: f64,
    /// Planning that the rollouts do not hide.
    pub planning: f64,
    /// Raw tokens trained.
    pub tokens: u64,
}

impl StepTime {
    /// Raw tokens a second.
    pub fn tokens_per_second(&self) -> f64 {
        self.tokens as f64 / self.seconds
    }
}

impl AddAssign for StepTime {
    fn add_assign(&mut self, other: Self) {
        self.seconds += other.seconds;
        self.work += other.work;
        self.bubble += other.bubble;
        self.gradients += other.gradients;
        self.optimizer += other.optimizer;
        self.moves += other.moves;
        self.planning += other.planning;
        self.tokens += other.tokens;
    }
}

/// The step time of a layout.
///
/// `resident`: where experts live before the step; their moves are charged when it is given.
///
/// # Errors
/// The window has other layers, experts or top-k than the model, an option is out of range, or an interleaved pipeline
/// is given rows that are no multiple of its stages.
pub fn simulate(
    instance: &Instance,
    placement: &Placement,
    layout: &Layout,
    resident: Option<&Placement>,
    model: &Model,
    cluster: &Cluster,
    options: &SimulateOptions,
) -> Result<StepTime, SimulateError> {
    let times = time_rows(instance, placement, layout, resident, model, cluster, options)?;
    let as_they_stand: Vec<usize> = (0..layout.num_rows()).collect();
    Ok(times.step_time(&as_they_stand))
}

/// The times of a layout's rows, for the step time of any order of them.
///
/// # Errors
/// As [`simulate`].
pub fn time_rows(
    instance: &Instance,
    placement: &Placement,
    layout: &Layout,
    resident: Option<&Placement>,
    model: &Model,
    cluster: &Cluster,
    options: &SimulateOptions,
) -> Result<RowTimes, SimulateError> {
    options.check()?;
    check_window(instance, model)?;
    check_stages(instance, model)?;
    check_rows(instance, layout.num_rows())?;
    let parallel = &instance.setting().topology;
    let stages = instance.topology().num_stages();
    let stage_of = instance.topology().layer_stage();
    let chunks = chunks(stage_of, stages, parallel.vpp as usize, model.dense_layers as usize);
    let running = Running { instance, placement, model, cluster, options, chunks: &chunks };
    let topology = instance.topology();
    let cells = layout.cells();
    let row = |shard: usize, row: usize| {
        let slots = topology.shard_slots(shard);
        let cells: Vec<&[u32]> =
            slots.map(|slot| cells[row * topology.num_slots() + slot].as_slice()).collect();
        row_time(&running, shard, &cells)
    };
    let rows: Vec<(usize, usize)> = (0..topology.num_shards())
        .flat_map(|shard| (0..layout.num_rows()).map(move |row| (shard, row)))
        .collect();
    let times: Vec<Vec<ChunkTime>> = rows.into_par_iter().map(|(shard, index)| row(shard, index)).collect();
    let gradients = gradient_seconds(&running);
    let optimizer = optimizer_seconds(&running);
    let moves = resident.map_or(0.0, |resident| move_seconds(&running, resident));
    let planning = options.planning_seconds;
    let samples = 0..instance.num_samples() - instance.num_dummies();
    let tokens = samples.map(|sample| u64::from(instance.length(sample))).sum();
    let seconds = gradients + optimizer + moves + planning;
    Ok(RowTimes {
        stages,
        hand_over: hand_over_seconds(&running),
        shards: times.chunks(layout.num_rows()).map(<[_]>::to_vec).collect(),
        besides: StepTime { seconds, gradients, optimizer, moves, planning, tokens, ..StepTime::default() },
    })
}

/// The window was recorded with this model.
pub(crate) fn check_window(instance: &Instance, model: &Model) -> Result<(), SimulateError> {
    let top_k = instance.setting().routing.top_k;
    for (what, found, expected) in [
        ("expert layer", instance.num_layers(), model.moe_layers as usize),
        ("expert", instance.num_experts(), model.experts as usize),
        ("top-k expert", top_k as usize, model.top_k as usize),
    ] {
        if found != expected {
            return Err(SimulateError::OtherModel { model: model.name.clone(), what, found, expected });
        }
    }
    Ok(())
}

/// There are at least as many layers as pipeline chunks.
pub(crate) fn check_stages(instance: &Instance, model: &Model) -> Result<(), SimulateError> {
    let (stages, vpp) = (instance.topology().num_stages(), instance.setting().topology.vpp);
    if stages * vpp as usize > model.num_layers() {
        let (model, layers) = (model.name.clone(), model.num_layers());
        return Err(SimulateError::Stages { model, layers, stages, vpp });
    }
    Ok(())
}

/// An interleaved pipeline takes rows in groups of its stages.
pub(crate) fn check_rows(instance: &Instance, rows: usize) -> Result<(), SimulateError> {
    let (stages, vpp) = (instance.topology().num_stages(), instance.setting().topology.vpp);
    if vpp > 1 && !rows.is_multiple_of(stages) {
        return Err(SimulateError::Interleaved { rows, stages, vpp });
    }
    Ok(())
}

/// Seconds to hand a full cell's activations to the next stage.
fn hand_over_seconds(running: &Running<'_>) -> f64 {
    let parallel = &running.instance.setting().topology;
    if parallel.pp == 1 {
        return 0.0;
    }
    let values = f64::from(running.instance.cell_capacity()) * f64::from(running.model.hidden);
    let link = running.cluster.network;
    link.seconds(2.0 * values / f64::from(parallel.tp * parallel.cp)) + link.latency()
}

/// Parameters of the fullest stage on one GPU: those all slots share, and those of the experts.
fn parameters_of_gpu(running: &Running<'_>) -> (f64, f64) {
    let Running { model, instance, chunks, .. } = running;
    let (parallel, stages) = (&instance.setting().topology, instance.topology().num_stages());
    let of_stage = |stage: usize| {
        let layers = || (stage..chunks.len()).step_by(stages).flat_map(|chunk| chunks[chunk].iter().copied());
        let embedding = u64::from(stage == 0) * model.embedding_parameters()
            + u64::from(stage + 1 == stages) * model.embedding_parameters();
        let common: u64 = layers().map(|layer| model.common_parameters(layer)).sum::<u64>() + embedding;
        let experts = layers().filter(|&layer| model.has_experts(layer)).count() as u64
            * model.expert_parameters()
            * u64::from(model.experts);
        (common as f64 / f64::from(parallel.tp), experts as f64 / f64::from(parallel.ep * parallel.etp()))
    };
    (0..stages).map(of_stage).max_by(|a, b| (a.0 + a.1).total_cmp(&(b.0 + b.1))).unwrap_or((0.0, 0.0))
}

/// Copies of what all slots share, and of the experts: DP·CP, and the EDP shards.
fn copies(running: &Running<'_>) -> (usize, usize) {
    let parallel = &running.instance.setting().topology;
    ((parallel.dp * parallel.cp) as usize, running.instance.topology().num_shards())
}

/// Reduce-scatter of FP32 gradients and all-gather of BF16 weights, as far as they are not hidden.
fn gradient_seconds(running: &Running<'_>) -> f64 {
    let (common, experts) = parameters_of_gpu(running);
    let (all, shards) = copies(running);
    let topology = &running.instance.setting().topology;
    let reach = [all * topology.tp as usize, shards * (topology.ep * topology.etp()) as usize];
    let ring = |parameters: f64, copies: usize, reach: usize| {
        let bytes = 6.0 * parameters * (copies - 1) as f64 / copies as f64;
        running.cluster.link_of(reach).seconds(bytes)
    };
    running.options.exposed_gradients * (ring(common, all, reach[0]) + ring(experts, shards, reach[1]))
}

fn optimizer_seconds(running: &Running<'_>) -> f64 {
    let (common, experts) = parameters_of_gpu(running);
    let (all, shards) = copies(running);
    let owned = common / all as f64 + experts / shards as f64;
    owned * OPTIMIZER_BYTES / (running.cluster.memory_tb_s * 1e12)
}

/// Seconds to move expert state: the GPU that sends or receives most, over the slower link it uses.
fn move_seconds(running: &Running<'_>, resident: &Placement) -> f64 {
    let Running { model, placement, cluster, instance, options, .. } = running;
    let ranks = placement.num_ranks();
    let etp = instance.setting().topology.etp() as usize;
    let stages = instance.topology().num_stages();
    let bytes = model.expert_parameters() as f64 / etp as f64 * options.move_bytes;
    let mut traffic = vec![[0.0f64; 2]; ranks * stages];
    for layer in 0..placement.num_layers() {
        let stage = instance.topology().layer_stage()[layer] as usize;
        for expert in 0..placement.num_experts() {
            let (from, to) = (resident.rank_of(layer, expert), placement.rank_of(layer, expert));
            if from != to {
                traffic[stage * ranks + from][0] += bytes;
                traffic[stage * ranks + to][1] += bytes;
            }
        }
    }
    let most = traffic.into_iter().flatten().fold(0.0, f64::max);
    cluster.link_of(ranks * etp).seconds(most)
}
