//! Simulated step time by the number of rows: with pipelines, more rows than the fewest can be faster (DESIGN §1.1).
//!
//! Problem: a pipeline's bubble is about (pp − 1)/R of its work, which more rows R make smaller, while every row adds
//! slowest slots and busiest ranks. Show the step time from the plan's R on.
//! Method: under the plan's placement every R is arranged anew, from the plan's layout with cells split, with the plan's
//! options and seed; then simulated, its rows in the fastest order found ([`crate::row_order`]).
//! Complexity: a search of layouts for every R.

use std::sync::Arc;

use routepack_arrange::{ArrangeOptions, arrange, spread_bins};
use routepack_html::RowsPoint;
use routepack_problem::{Batch, Instance, Layout, Score, evaluate};
use routepack_simulate::{Cluster, Model, SimulateOptions, StepTime, time_rows};
use routepack_verify::{Plan, Verified, VerifyError, verify};

use crate::SimulatedError;
use crate::row_order::order_rows;

/// The plan's own rows first, then up to `extra_rows` more in steps of the trainer's multiple; numbers that no layout fills
/// and that an interleaved pipeline cannot run are left out. Once `stop` says so the curve ends, after the plan's own: a
/// search cut short is no point of it.
///
/// # Errors
/// As [`crate::simulate_plan`].
pub fn rows_curve(
    plan: &Plan,
    batch: &Arc<Batch>,
    extra_rows: u32,
    (model, cluster, options): (&Model, &Cluster, &SimulateOptions),
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<RowsPoint>, SimulatedError> {
    let verified = verify(plan, batch)?;
    let placement = verified.placement.as_ref().ok_or(SimulatedError::NoRoutes)?;
    let arrange_options: ArrangeOptions =
        serde_json::from_value(plan.options["arrange"].clone()).unwrap_or_default();
    let setting = &plan.setting;
    let multiple = setting.packing.rows_multiple as usize;
    let stages = verified.instances[0].topology().num_stages();
    let mut curve = Vec::new();
    for extra in (0..=extra_rows as usize).step_by(multiple) {
        let (mut time, mut rows, mut score) = (StepTime::default(), 0, 0.0);
        let mut complete = true;
        for (instance, own) in verified.instances.iter().zip(&verified.layouts) {
            let wanted = own.num_rows() + extra;
            let runs = setting.topology.vpp == 1 || wanted.is_multiple_of(stages);
            let own_rows = extra == 0;
            if !own_rows && stop() || !runs || instance.num_units() < wanted * own.num_slots() {
                complete = false;
                break;
            }
            let found = if own_rows {
                own.clone()
            } else {
                let first = spread_bins(instance, &bins_of(instance, own), wanted)?;
                let arranged =
                    arrange(instance, placement, &first, &arrange_options, plan.seed, stop, &mut |_| {})?;
                complete &= arranged.finished;
                arranged.layout
            };
            let times = time_rows(instance, placement, &found, None, model, cluster, options)?;
            let ordered = order_rows(&found, &times, if own_rows { 1 } else { stages }, stop);
            complete &= ordered.finished;
            time += ordered.time;
            score += joint_score(instance, evaluate(instance, placement, &found).score);
            rows += wanted as u64;
        }
        if complete {
            curve.push(point(rows, &time, score));
        }
    }
    Ok(curve)
}

/// The points of every step whose rows the simulated step time decided, rows ascending; of no step elsewhere.
pub(crate) fn rows_tried(plan: &Plan, verified: &Verified) -> Result<Vec<Vec<RowsPoint>>, VerifyError> {
    let (Some(machine), Some(placement)) = (&plan.machine, &verified.placement) else {
        return Ok(Vec::new());
    };
    if plan.steps.iter().all(|step| step.rows_tried.is_empty()) {
        return Ok(Vec::new());
    }
    let of = |instance: &Instance, layout: &Layout| {
        let time = machine.step_time(instance, placement, layout)?;
        let score = joint_score(instance, evaluate(instance, placement, layout).score);
        Ok(point(layout.num_rows() as u64, &time, score))
    };
    let steps = verified.instances.iter().zip(&verified.layouts).zip(&verified.other_rows);
    let points = steps.map(|((instance, layout), others)| {
        let others = others.iter().map(|(instance, layout)| of(instance, layout));
        let mut points: Vec<RowsPoint> =
            std::iter::once(of(instance, layout)).chain(others).collect::<Result<_, VerifyError>>()?;
        points.sort_by_key(|point| point.rows);
        Ok(points)
    });
    points.collect()
}

fn point(rows: u64, time: &StepTime, joint_score: f64) -> RowsPoint {
    RowsPoint {
        rows,
        seconds: time.seconds,
        tokens_per_second: time.tokens_per_second(),
        bubble: time.bubble,
        joint_score,
    }
}

/// Cost of the slowest shard in the unit of the paper.
fn joint_score(instance: &Instance, score: Score) -> f64 {
    let unit = u64::from(instance.setting().packing.capacity) << instance.charges().scale_bits();
    score.worst_shard as f64 / unit as f64
}

/// Units of every cell.
fn bins_of(instance: &Instance, layout: &Layout) -> Vec<Vec<u32>> {
    let mut bins = vec![Vec::new(); layout.num_cells()];
    for unit in 0..instance.num_units() {
        let first = instance.unit(unit)[0];
        bins[layout.cell_of()[first as usize] as usize].push(unit as u32);
    }
    bins
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicU32, Ordering};

    use routepack_generate::{Preset, window};
    use routepack_simulate::presets;

    use super::*;
    use crate::{Control, Job, plan, simulate_plan};

    /// A plan in so many stages, little searched, and its window.
    fn planned(stages: u32) -> (Plan, Arc<Batch>) {
        let mut recipe = Preset::Mixed.recipe();
        recipe.prompts = 24;
        let made = window(&recipe, 1).expect("valid");
        let mut job = Job::new(made.setting);
        (job.topology.dp, job.topology.pp) = (4, stages);
        (job.topology.ep, job.arrange.proposals_per_unit, job.refine.turns) = (4, 20, 0);
        let batch = Arc::new(made.batch);
        (plan(&batch, &job, &mut Control::new()).expect("a plan"), batch)
    }

    fn machine() -> (Model, Cluster, SimulateOptions) {
        let model = presets::model("mixed-half-qwen3").expect("a preset");
        (model, presets::cluster("h20").expect("a preset"), SimulateOptions::default())
    }

    #[test]
    fn the_curve_begins_with_the_plan_and_more_rows_shrink_the_bubble() {
        let ((plan, batch), (model, cluster, options)) = (planned(2), machine());
        let machine = (&model, &cluster, &options);
        let curve = rows_curve(&plan, &batch, 2, machine, &|| false).expect("a curve");
        let rows: Vec<u64> = curve.iter().map(|point| point.rows).collect();
        let own = plan.steps[0].rows;
        assert_eq!(rows, [own, own + 1, own + 2]);
        let simulated = simulate_plan(&plan, &batch, None, &model, &cluster, &options).expect("simulated");
        let ours = simulated.arms.last().expect("the plan");
        assert!((curve[0].seconds - ours.time.seconds).abs() < 1e-12);
        assert!((curve[0].bubble - ours.time.bubble).abs() < 1e-12);
        let share = |point: &RowsPoint| point.bubble / point.seconds;
        assert!(share(&curve[2]) < share(&curve[0]), "{curve:?}");
        assert_eq!(rows_curve(&plan, &batch, 2, machine, &|| true).expect("stopped"), curve[..1]);
    }

    /// With one stage no order is sought, which would hear the stop, too.
    #[test]
    fn a_curve_that_is_stopped_ends_with_a_point_searched_in_full() {
        let (model, cluster, options) = machine();
        for stages in [1, 2] {
            let (plan, batch) = planned(stages);
            let curve = |most: u32| {
                let asked = AtomicU32::new(0);
                let stop = || asked.fetch_add(1, Ordering::Relaxed) >= most;
                rows_curve(&plan, &batch, 2, (&model, &cluster, &options), &stop).expect("a curve")
            };
            let whole = curve(u32::MAX);
            let mut lengths = BTreeSet::new();
            for most in (0..14).map(|power| 1 << power) {
                let stopped = curve(most);
                assert_eq!(stopped, whole[..stopped.len()], "{stages} stages, after {most}");
                lengths.insert(stopped.len());
            }
            assert!(lengths.len() > 1, "{lengths:?}");
        }
    }
}
