//! What layouts of a window's steps come to under a placement, whether or not they keep the capacity.

use routepack::problem::evaluate;
use routepack::simulation::{Cluster, Model, SimulateError, SimulateOptions, StepTime, simulate};
use routepack::{Instance, Layout, Placement};

/// Figures of an arm, summed over the steps; costs in the paper's unit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ArmFigures {
    /// Rows.
    pub rows: u64,
    /// Cells.
    pub cells: u64,
    /// Cells that hold more tokens than a cell may.
    pub over_cap: u64,
    /// Most tokens of a cell, padding included.
    pub largest_cell: u64,
    /// Σ over rows and shards of the slowest slot's attention.
    pub attention_cost: f64,
    /// Σ over rows, shards and layers of the busiest rank, routed rows; nothing without recorded routes.
    pub peak_sum: Option<u64>,
    /// The largest of these.
    pub worst_peak: Option<u64>,
    /// Cost of the slowest shard.
    pub joint_score: f64,
}

/// Measures the layouts of every step.
pub(crate) fn measure(instances: &[Instance], placement: &Placement, layouts: &[Layout]) -> ArmFigures {
    let mut sum = ArmFigures::default();
    for (instance, layout) in instances.iter().zip(layouts) {
        let evaluation = evaluate(instance, placement, layout);
        let unit = (u64::from(instance.setting().packing.capacity) << instance.charges().scale_bits()) as f64;
        let tokens = layout.cells().into_iter().map(|cell| {
            let own: u64 =
                cell.iter().map(|&sample| u64::from(instance.padded_length(sample as usize))).sum();
            own + instance.cell_padding(own)
        });
        let tokens: Vec<u64> = tokens.collect();
        let limit = u64::from(instance.cell_capacity());
        sum.rows += layout.num_rows() as u64;
        sum.cells += tokens.len() as u64;
        sum.over_cap += tokens.iter().filter(|&&tokens| tokens > limit).count() as u64;
        sum.largest_cell = tokens.into_iter().fold(sum.largest_cell, u64::max);
        sum.attention_cost += evaluation.attention.iter().sum::<u64>() as f64 / unit;
        if let Some(&worst) = evaluation.peaks.iter().max() {
            sum.peak_sum = Some(sum.peak_sum.unwrap_or(0) + evaluation.peaks.iter().sum::<u64>());
            sum.worst_peak = sum.worst_peak.max(Some(worst));
        }
        sum.joint_score += evaluation.score.worst_shard as f64 / unit;
    }
    sum
}

/// Simulated time of every step together; experts are where the placement has them when the first begins.
pub(crate) fn step_time(
    instances: &[Instance],
    placement: &Placement,
    layouts: &[Layout],
    machine: (&Model, &Cluster, &SimulateOptions),
) -> Result<StepTime, SimulateError> {
    let (model, cluster, options) = machine;
    let mut sum = StepTime::default();
    for (instance, layout) in instances.iter().zip(layouts) {
        sum += simulate(instance, placement, layout, None, model, cluster, options)?;
    }
    Ok(sum)
}
