//! Figures of a layout under a placement: one line of a report's table.

use routepack_problem::{Evaluation, Instance, Layout, Placement, Score, evaluate_projected, project};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::costs::{bound_costs, gap, placement_in_force};
use crate::tokens::count_tokens;
use crate::{PlanBounds, TokenGrid, TokenTotals, VerifyError};

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
    /// peaks and an equal part of each row's attention cost, rounded up. With `pace = slowest-stage` the largest is the
    /// score's worst shard.
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

/// The figures of a layout of the instance under a placement (`None` without recorded routes), bounded as a plan's that
/// `finished` or did not ([`Plan::finished`](crate::Plan::finished)).
///
/// O(n·parts·L·P + R·G·L·P).
///
/// # Errors
/// The layout violates the instance, or the placement has other dimensions.
pub fn figures(
    instance: &Instance,
    placement: Option<&Placement>,
    layout: &Layout,
    finished: bool,
) -> Result<Figures, VerifyError> {
    let placement = placement_in_force(instance, placement)?;
    routepack_problem::check_layout(instance, layout)
        .map_err(|error| VerifyError::Layout { step: instance.step(), error })?;
    Ok(Measured::of(instance, &placement, layout, finished).figures())
}

/// Everything a step is charged with, computed once for plan and figures.
pub(crate) struct Measured<'a> {
    instance: &'a Instance,
    rows: usize,
    pub(crate) evaluation: Evaluation,
    pub(crate) grid: TokenGrid,
    pub(crate) totals: TokenTotals,
    pub(crate) bounds: PlanBounds,
}

impl<'a> Measured<'a> {
    /// Measures a layout that passes its check, under a placement of the instance's dimensions.
    pub(crate) fn of(instance: &'a Instance, placement: &Placement, layout: &Layout, finished: bool) -> Self {
        let (grid, totals) = count_tokens(instance, layout);
        let demand = project(instance, placement);
        Self {
            instance,
            rows: layout.num_rows(),
            evaluation: evaluate_projected(instance, placement, &demand, layout),
            grid,
            totals,
            bounds: bound_costs(instance, placement, &demand, layout.num_rows(), finished),
        }
    }

    /// The figures of what was measured.
    pub(crate) fn figures(&self) -> Figures {
        let Self { instance, evaluation, .. } = self;
        let mut figures = Figures {
            rows: self.rows as u64,
            tokens: self.totals,
            cv: 0.0,
            peak_sum: evaluation.peaks.iter().sum(),
            worst_peak: evaluation.peaks.iter().copied().max().unwrap_or(0),
            balance_efficiency: 1.0,
            busiest_rank_rows: busiest_rank_rows(evaluation),
            largest_cell: self.grid.padded.iter().flatten().copied().max().unwrap_or(0),
            attention: evaluation.attention.iter().sum(),
            expert: evaluation.expert.iter().sum(),
            score: evaluation.score,
            shard_cost: evaluation.shard_cost.clone(),
            stage_cost: stage_cost(instance, evaluation),
            bounds: self.bounds,
            gap_to_placement: 0.0,
            gap_to_free: 0.0,
            attention_cost: 0.0,
            joint_score: 0.0,
            rank_loads: rank_loads(evaluation),
            unit: u64::from(instance.setting().packing.capacity) << instance.charges().scale_bits(),
        };
        figures.derive_floats();
        figures
    }
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

/// Mean over the layers of standard deviation over mean: √(P·Σw² − (Σw)²) / Σw, the radicand an exact integer (beyond
/// 2^48 rows a layer, of loads rounded down to 48 bits).
fn coefficient_of_variation(rank_loads: &[Vec<u64>]) -> f64 {
    let of_layer = |loads: &Vec<u64>| {
        let total: u128 = loads.iter().map(|&load| u128::from(load)).sum();
        let shift = (128 - total.leading_zeros()).saturating_sub(48);
        let loads = || loads.iter().map(|&load| u128::from(load >> shift));
        let (sum, squares): (u128, u128) = (loads().sum(), loads().map(|load| load * load).sum());
        let radicand = loads().len() as u128 * squares - sum * sum;
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
    let stages = instance.topology().num_stages();
    let of_stage = |stage: usize| evaluation.stage_cost.iter().skip(stage).step_by(stages);
    (0..stages).map(|stage| of_stage(stage).copied().max().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use routepack_problem::{AttentionKind, Batch, ExactDecimal, ExpertCounts, Gamma, Pace, Setting};

    use super::*;

    /// D = 2, P = 2, pp = 2, two layers of two experts; φ = t, γ = 1, so S = 1.
    fn instance() -> Instance {
        instance_with(Pace::AllLayers)
    }

    fn instance_with(pace: Pace) -> Instance {
        let counts = vec![3, 1, 0, 4, 1, 1, 2, 0, 5, 0, 2, 3, 0, 2, 1, 1];
        let batch = Batch {
            expert_counts: Some(ExpertCounts::new([4, 1, 2, 2], counts).expect("shape")),
            ..Batch::from_lengths(vec![4, 2, 5, 2])
        };
        let mut setting = Setting::new(2, 2, 8);
        setting.topology.pp = 2;
        setting.cost.pace = pace;
        setting.routing.top_k = 1;
        setting.cost.kinds = Some(vec![AttentionKind {
            name: "linear".into(),
            alpha: ExactDecimal::ONE,
            beta: ExactDecimal::ZERO,
        }]);
        setting.cost.gamma = Some(Gamma::Every(ExactDecimal::ONE));
        Instance::single(batch, &setting).expect("valid")
    }

    #[test]
    fn figures_are_those_of_the_definitions() {
        let instance = instance();
        assert_eq!(instance.charges().scale_bits(), 0);
        let placement = Placement::identity(2, 2, 2).expect("divisible");
        // Row 0: samples 0 and 1, row 1: samples 2 and 3.
        let layout = Layout::new(2, 2, vec![0, 1, 2, 3]);
        let figures = figures(&instance, Some(&placement), &layout, true).expect("valid");
        // W: row 0 layer 0 [4, 2], layer 1 [2, 4]; row 1 layer 0 [5, 2], layer 1 [3, 4].
        assert_eq!((figures.rows, figures.peak_sum, figures.worst_peak), (2, 4 + 4 + 5 + 4, 5));
        assert_eq!(figures.rank_loads, [[9, 4], [5, 8]]);
        assert_eq!(figures.busiest_rank_rows, 5 + 3);
        assert_eq!(figures.largest_cell, 5);
        assert_eq!((figures.attention, figures.expert), (4 + 5, 17));
        assert_eq!(figures.score, Score { worst_shard: 26, total: 26, worst_row: 5 + 9 });
        // Stage 0: half of 4 and of 5, rounded up, and the peaks of layer 0.
        assert_eq!(figures.stage_cost, [2 + 3 + 4 + 5, 2 + 3 + 4 + 4]);
        let slowest = instance_with(Pace::SlowestStage);
        let slowest = super::figures(&slowest, Some(&placement), &layout, true).expect("valid");
        assert_eq!(slowest.stage_cost, figures.stage_cost);
        // Row 1: ⌈5/2⌉ and 5 on stage 0.
        assert_eq!(slowest.score, Score { worst_shard: 14, total: 14, worst_row: 3 + 5 });
        assert!(slowest.bounds.given_placement.worst_shard <= 14);
        assert_eq!(figures.unit, 8);
        let close =
            |value: f64, expected: f64| assert!((value - expected).abs() < 1e-12, "{value} {expected}");
        // Two ranks: standard deviation is half the difference.
        close(figures.cv, f64::midpoint(2.5 / 6.5, 1.5 / 6.5));
        close(figures.balance_efficiency, 13.0 / 17.0);
        close(figures.joint_score, 26.0 / 8.0);
        close(figures.attention_cost, 9.0 / 8.0);
        close(figures.gap_to_placement, (26 - figures.bounds.given_placement.worst_shard) as f64 / 26.0);
        assert!(figures.bounds.placement_free.worst_shard <= figures.bounds.given_placement.worst_shard);
    }

    #[test]
    fn steps_add_up() {
        let instance = instance();
        let placement = Placement::identity(2, 2, 2).expect("divisible");
        let of = |cells: Vec<u32>| {
            figures(&instance, Some(&placement), &Layout::new(2, 2, cells), true).expect("valid")
        };
        let (one, other) = (of(vec![0, 1, 2, 3]), of(vec![0, 2, 1, 3]));
        let sum = Figures::sum(&[one.clone(), other.clone()]).expect("two steps");
        assert_eq!(sum.rows, 4);
        assert_eq!(sum.peak_sum, one.peak_sum + other.peak_sum);
        assert_eq!(sum.worst_peak, one.worst_peak.max(other.worst_peak));
        assert_eq!(sum.score.worst_shard, one.score.worst_shard + other.score.worst_shard);
        assert_eq!(sum.score.worst_row, one.score.worst_row.max(other.score.worst_row));
        assert_eq!(sum.rank_loads, [[18, 8], [10, 16]]);
        assert!((sum.cv - one.cv).abs() < 1e-12, "the same loads twice vary the same");
        assert!(Figures::sum(&[]).is_none());
        assert_eq!(Figures::sum(std::slice::from_ref(&one)), Some(one));
    }

    #[test]
    fn without_routes_only_attention_counts() {
        let instance =
            Instance::single(Batch::from_lengths(vec![4, 2]), &Setting::new(2, 2, 8)).expect("valid");
        let figures = figures(&instance, None, &Layout::new(1, 2, vec![0, 1]), true).expect("valid");
        assert_eq!((figures.peak_sum, figures.expert, figures.busiest_rank_rows), (0, 0, 0));
        assert_eq!(figures.attention, figures.score.worst_shard);
        assert!(figures.cv.abs() < f64::EPSILON);
        let placement = Placement::identity(1, 2, 2).expect("divisible");
        let layout = Layout::new(1, 2, vec![0, 1]);
        assert!(super::figures(&instance, Some(&placement), &layout, true).is_err());
    }
}
