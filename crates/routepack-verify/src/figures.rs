//! Figures of a layout under a placement: one line of a report's table.

use routepack_problem::{Evaluation, Instance, Layout, Placement, Score, evaluate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::costs::{bound_costs, gap, placement_in_force};
use crate::tokens::count_tokens;
use crate::{PlanBounds, TokenTotals, VerifyError};

/// Figures of one step, or of several added up by [`Figures::sum`]. Integers are exact; floats are prose.
///
/// Loads and peaks are routed rows, padding included where the trainer routes it. Scaled costs are integers with scale
/// S; `*_cost` and `*_score` floats are those divided by S·C, the paper's unit (arXiv 2608.12146).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// Rows R (several steps: their sum).
    pub rows: u64,
    /// Tokens and samples.
    pub tokens: TokenTotals,
    /// Coefficient of variation of the EP ranks' loads over the window: per layer standard deviation (of the
    /// population of ranks) over mean, averaged over the layers; 0 without routes.
    pub cv: f64,
    /// `Σ_{r,g,l} max_p W`, EP peak sum over rows, shards and layers.
    pub peak_sum: u64,
    /// `max_{r,g,l} max_p W`, worst row-layer peak.
    pub worst_peak: u64,
    /// Balance efficiency, ideal over peak: `Σ_{r,g,l} mean_p W / Σ_{r,g,l} max_p W`; 1 without routes.
    pub balance_efficiency: f64,
    /// Memory: routed rows that the busiest rank holds in one row over all recorded layers, `max_{r,g,p} Σ_l W`.
    pub busiest_rank_rows: u64,
    /// Most tokens a cell runs, padding included.
    pub largest_cell: u64,
    /// `Σ_{r,g} A`, scaled.
    pub attention: u64,
    /// `Σ_{r,g} X`, scaled.
    pub expert: u64,
    /// The exact score, scaled (several steps: sums, and the worst row of all).
    pub score: Score,
    /// U of every shard, scaled, `[shards]`.
    pub shard_cost: Vec<u64>,
    /// Cost of the slowest shard per pipeline stage, scaled, `[stages]`: a stage is charged with its own layers' expert
    /// peaks and an equal part of the attention cost, rounded up.
    pub stage_cost: Vec<u64>,
    /// Lower bounds for this number of rows.
    pub bounds: PlanBounds,
    /// (worst shard − bound)/worst shard under this placement.
    pub gap_to_placement: f64,
    /// The same for every placement.
    pub gap_to_free: f64,
    /// Attention cost in the paper's unit.
    pub attention_cost: f64,
    /// Joint score (worst shard) in the paper's unit.
    pub joint_score: f64,
    /// Load of every rank over the window, `[layers][ranks]`.
    pub rank_loads: Vec<Vec<u64>>,
    /// S·C, the divisor of the paper's unit.
    pub unit: u64,
}

/// The figures of a layout of the instance under a placement (`None` without recorded routes).
///
/// O(n·parts·L·P + R·G·L·P).
///
/// # Errors
/// The layout violates the instance, or the placement has other dimensions.
pub fn figures(
    instance: &Instance,
    placement: Option<&Placement>,
    layout: &Layout,
) -> Result<Figures, VerifyError> {
    let placement = placement_in_force(instance, placement)?;
    routepack_problem::check_layout(instance, layout)
        .map_err(|error| VerifyError::Layout { step: instance.step(), error })?;
    let evaluation = evaluate(instance, &placement, layout);
    let (grid, tokens) = count_tokens(instance, layout);
    let bounds = bound_costs(instance, &placement, layout.num_rows());
    let mut figures = Figures {
        rows: layout.num_rows() as u64,
        tokens,
        cv: 0.0,
        peak_sum: evaluation.peaks.iter().sum(),
        worst_peak: evaluation.peaks.iter().copied().max().unwrap_or(0),
        balance_efficiency: 1.0,
        busiest_rank_rows: busiest_rank_rows(&evaluation),
        largest_cell: grid.padded.iter().flatten().copied().max().unwrap_or(0),
        attention: evaluation.attention.iter().sum(),
        expert: evaluation.expert.iter().sum(),
        score: evaluation.score,
        stage_cost: stage_cost(instance, &evaluation),
        bounds,
        gap_to_placement: 0.0,
        gap_to_free: 0.0,
        attention_cost: 0.0,
        joint_score: 0.0,
        rank_loads: rank_loads(&evaluation),
        unit: u64::from(instance.setting().packing.capacity) << instance.charges().scale_bits(),
        shard_cost: evaluation.shard_cost,
    };
    figures.derive_floats();
    Ok(figures)
}

impl Figures {
    /// The figures of several steps of one batch: sums of rows, tokens, peaks, loads, costs and bounds; the worst of
    /// the worst; `None` for no steps.
    pub fn sum(steps: &[Self]) -> Option<Self> {
        let (first, rest) = steps.split_first()?;
        let mut sum = first.clone();
        for step in rest {
            sum.rows += step.rows;
            let (tokens, more) = (&mut sum.tokens, &step.tokens);
            tokens.samples += more.samples;
            tokens.dummies += more.dummies;
            tokens.raw += more.raw;
            tokens.padded += more.padded;
            tokens.routed += more.routed;
            tokens.loss = tokens.loss.zip(more.loss).map(|(one, other)| one + other);
            sum.peak_sum += step.peak_sum;
            sum.worst_peak = sum.worst_peak.max(step.worst_peak);
            sum.busiest_rank_rows = sum.busiest_rank_rows.max(step.busiest_rank_rows);
            sum.largest_cell = sum.largest_cell.max(step.largest_cell);
            sum.attention += step.attention;
            sum.expert += step.expert;
            sum.score.worst_shard += step.score.worst_shard;
            sum.score.total += step.score.total;
            sum.score.worst_row = sum.score.worst_row.max(step.score.worst_row);
            add(&mut sum.shard_cost, &step.shard_cost);
            add(&mut sum.stage_cost, &step.stage_cost);
            for (one, other) in [
                (&mut sum.bounds.given_placement, &step.bounds.given_placement),
                (&mut sum.bounds.placement_free, &step.bounds.placement_free),
            ] {
                one.attention += other.attention;
                one.expert += other.expert;
                one.total += other.total;
                one.worst_shard += other.worst_shard;
                one.worst_row = one.worst_row.max(other.worst_row);
            }
            for (one, other) in sum.rank_loads.iter_mut().zip(&step.rank_loads) {
                add(one, other);
            }
        }
        sum.derive_floats();
        Some(sum)
    }

    fn derive_floats(&mut self) {
        let worst_shard = self.score.worst_shard;
        self.cv = coefficient_of_variation(&self.rank_loads);
        self.balance_efficiency = balance_efficiency(&self.rank_loads, self.peak_sum);
        self.gap_to_placement = gap(worst_shard, self.bounds.given_placement.worst_shard);
        self.gap_to_free = gap(worst_shard, self.bounds.placement_free.worst_shard);
        self.attention_cost = self.attention as f64 / self.unit as f64;
        self.joint_score = worst_shard as f64 / self.unit as f64;
    }
}

fn add(one: &mut [u64], other: &[u64]) {
    one.iter_mut().zip(other).for_each(|(one, other)| *one += other);
}

/// Loads over rows and shards, `[layers][ranks]`.
fn rank_loads(evaluation: &Evaluation) -> Vec<Vec<u64>> {
    let (layers, ranks) = (evaluation.num_layers, evaluation.num_ranks);
    let mut sums = vec![vec![0u64; ranks]; layers];
    for (block, loads) in evaluation.loads.chunks_exact(ranks).enumerate() {
        add(&mut sums[block % layers], loads);
    }
    sums
}

/// Mean over the layers of standard deviation over mean: √(P·Σw² − (Σw)²) / Σw, the radicand an exact integer.
fn coefficient_of_variation(rank_loads: &[Vec<u64>]) -> f64 {
    let of_layer = |loads: &Vec<u64>| {
        let sum: u128 = loads.iter().map(|&load| u128::from(load)).sum();
        let squares: u128 = loads.iter().map(|&load| u128::from(load).pow(2)).sum();
        let radicand = loads.len() as u128 * squares - sum * sum;
        if sum == 0 { 0.0 } else { (radicand as f64).sqrt() / sum as f64 }
    };
    if rank_loads.is_empty() {
        return 0.0;
    }
    rank_loads.iter().map(of_layer).sum::<f64>() / rank_loads.len() as f64
}

/// (Σ W / P) / Σ peaks.
fn balance_efficiency(rank_loads: &[Vec<u64>], peak_sum: u64) -> f64 {
    let ranks = rank_loads.first().map_or(1, Vec::len);
    let total: u64 = rank_loads.iter().flatten().sum();
    if peak_sum == 0 { 1.0 } else { total as f64 / (ranks as f64 * peak_sum as f64) }
}

/// `max_{r,g,p} Σ_l W`.
fn busiest_rank_rows(evaluation: &Evaluation) -> u64 {
    let (layers, ranks) = (evaluation.num_layers, evaluation.num_ranks);
    if layers == 0 {
        return 0;
    }
    let of_block = |loads: &[u64]| {
        (0..ranks).map(|rank| loads.iter().skip(rank).step_by(ranks).sum::<u64>()).max().unwrap_or(0)
    };
    evaluation.loads.chunks_exact(layers * ranks).map(of_block).max().unwrap_or(0)
}

/// Per stage the accumulated cost of its slowest shard.
fn stage_cost(instance: &Instance, evaluation: &Evaluation) -> Vec<u64> {
    let topology = instance.topology();
    let (stages, shards) = (topology.num_stages(), evaluation.num_shards);
    let (layers, weights) = (evaluation.num_layers, instance.charges().expert());
    let mut cost = vec![vec![0u64; shards]; stages];
    for (block, attention) in evaluation.attention.iter().enumerate() {
        for stage in &mut cost {
            stage[block % shards] += attention.div_ceil(stages as u64);
        }
        let peaks = &evaluation.peaks[block * layers..(block + 1) * layers];
        for (layer, (peak, weight)) in peaks.iter().zip(weights).enumerate() {
            cost[topology.layer_stage()[layer] as usize][block % shards] += peak * weight;
        }
    }
    cost.iter().map(|shards| shards.iter().copied().max().unwrap_or(0)).collect()
}
