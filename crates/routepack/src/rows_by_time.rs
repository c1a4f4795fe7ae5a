//! Rows by simulated step time: `rows = { extra_rows = N }` on the job's `[machine]` (DESIGN §1.2).
//!
//! Problem: R* is the fewest rows, but under a pipeline of pp stages more can be faster: its bubble is about (pp − 1)/R of
//! the work, while every row adds a slowest slot and busiest ranks. No cost per row describes a bubble that shrinks. Find
//! the R from R* to R* + N whose layout takes the least simulated seconds under the plan's placement.
//! Method: every R is arranged alike under the first placement and simulated; the fastest goes on to refinement. The others
//! stay as witnesses. Refinement changes the placement, so at the end all are simulated again under the plan's, each with
//! its rows in the faster order ([`crate::row_order`]), and the fastest is the plan: what [`routepack_verify`] recomputes.
//! Complexity: N/v + 1 searches of a layout, v the multiple of rows; of each two simulations before and after refinement.
//! Reference: the bubble of pipelines is that of D. Narayanan and others, Efficient large-scale language model training on
//! GPU clusters using Megatron-LM, SC 2021, doi 10.1145/3458817.3476209. Deviation: only R* is certified, that another R is
//! faster is a figure of the machine's model.

use routepack_problem::{Instance, Layout, Placement, ProblemError, RowsPolicy, Score, evaluate};
use routepack_simulate::{Machine, SimulateError};

use crate::row_order::{Ordered, order_rows};
use crate::{Job, PlanError};

/// The machine whose step time decides how many rows there are, if the job asks for that.
///
/// # Errors
/// It asks and names none, or figures of the job's machine are out of range.
pub(crate) fn machine_of(job: &Job) -> Result<Option<&Machine>, PlanError> {
    job.machine.as_ref().map_or(Ok(()), Machine::check_figures)?;
    let RowsPolicy::Search { extra_rows, row_cost: None } = job.packing.rows else { return Ok(None) };
    match &job.machine {
        Some(machine) => Ok(Some(machine)),
        None => Err(ProblemError::Setting {
            field: "packing.rows",
            value: format!("{{ extra_rows = {extra_rows} }}"),
            limit: "expected a row_cost beside it, or a [machine] with model and cluster, whose step time decides"
                .to_owned(),
        }
        .into()),
    }
}

/// The machine, where it decides about the order of so many rows alone: the step has a pipeline and recorded routes.
///
/// # Errors
/// The window was recorded with another model, or stages are without a layer.
pub(crate) fn machine_for_order<'a>(
    job: &'a Job,
    instance: &Instance,
    rows: usize,
) -> Result<Option<&'a Machine>, SimulateError> {
    let Some(machine) = job.machine.as_ref().filter(|_| instance.num_layers() > 0) else { return Ok(None) };
    match machine.check(instance, rows) {
        Ok(()) => Ok(Some(machine).filter(|_| instance.topology().num_stages() > 1)),
        // As many rows as no interleaved pipeline runs: a plan all the same, in the order found.
        Err(SimulateError::Interleaved { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The layout with its rows in the faster order, and the simulated time of the step; moves are the same for any rows and
/// not charged.
pub(crate) fn in_fastest_order(
    machine: &Machine,
    instance: &Instance,
    placement: &Placement,
    layout: &Layout,
    stop: &dyn Fn() -> bool,
) -> Result<Ordered, SimulateError> {
    let times = machine.time_rows(instance, placement, layout)?;
    Ok(order_rows(layout, &times, instance.topology().num_stages(), stop))
}

/// Takes the fastest of a step's layouts, each with its window, under the placement that the plan has now, all with rows in
/// the faster order; the score of the new one if it is another, and whether every order was sought to its end.
pub(crate) fn settle_rows(
    (instance, layout): (&mut Instance, &mut Layout),
    others: &mut [(Instance, Layout)],
    placement: &Placement,
    machine: &Machine,
    stop: &dyn Fn() -> bool,
) -> Result<(Option<Score>, bool), SimulateError> {
    let own = in_fastest_order(machine, instance, placement, layout, stop)?;
    let (mut least, mut finished, mut score) = (own.time.seconds, own.finished, None);
    *layout = own.layout;
    for (other, faster) in others {
        let ordered = in_fastest_order(machine, other, placement, faster, stop)?;
        finished &= ordered.finished;
        *faster = ordered.layout;
        if ordered.time.seconds < least {
            least = ordered.time.seconds;
            std::mem::swap(instance, other);
            std::mem::swap(layout, faster);
            score = Some(evaluate(instance, placement, layout).score);
        }
    }
    Ok((score, finished))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use routepack_generate::{Preset, window};
    use routepack_problem::{Batch, Packing};
    use routepack_simulate::{SimulateOptions, presets};
    use routepack_verify::{Plan, verify};

    use super::*;
    use crate::{Control, filter, plan, plan_passes, simulate_plan};

    fn machine() -> Machine {
        Machine {
            model: presets::model("mixed-half-qwen3").expect("a preset"),
            cluster: presets::cluster("h20").expect("a preset"),
            options: SimulateOptions::default(),
        }
    }

    /// A window and a job of so many slots and pipeline stages, little searched.
    fn case(dp: u32, pp: u32, extra_rows: u32) -> (Arc<Batch>, Job) {
        let mut recipe = Preset::Mixed.recipe();
        recipe.prompts = 24;
        let made = window(&recipe, 1).expect("valid");
        let mut job = Job::new(made.setting);
        (job.topology.dp, job.topology.ep, job.topology.pp) = (dp, 4, pp);
        (job.arrange.proposals_per_unit, job.refine.turns) = (20, 1);
        job.packing.rows = RowsPolicy::Search { extra_rows, row_cost: None };
        job.machine = Some(machine());
        (Arc::new(made.batch), job)
    }

    fn planned(batch: &Arc<Batch>, job: &Job) -> Plan {
        let plan = plan(batch, job, &mut Control::new()).expect("a plan");
        verify(&plan, batch).expect("every claim holds");
        plan
    }

    /// Seconds of an arm as `simulate` has them.
    fn seconds_of(arm: usize, plan: &Plan, batch: &Arc<Batch>) -> f64 {
        let Machine { model, cluster, options } = machine();
        let simulated = simulate_plan(plan, batch, None, &model, &cluster, &options).expect("simulated");
        assert_eq!(simulated.arms.len(), 4);
        simulated.arms[arm].time.seconds
    }

    fn seconds(plan: &Plan, batch: &Arc<Batch>) -> f64 {
        seconds_of(3, plan, batch)
    }

    #[test]
    fn a_pipeline_takes_more_rows_than_the_fewest_where_that_is_faster() {
        let (batch, mut job) = case(4, 4, 5);
        let plan = planned(&batch, &job);
        let step = &plan.steps[0];
        assert!(step.rows > step.rows_found && step.rows_proved, "{} rows, {}", step.rows, step.rows_found);
        let rows: Vec<u64> = step.rows_tried.iter().map(|tried| tried.rows).collect();
        assert_eq!(rows, (step.rows_found..=step.rows_found + 5).collect::<Vec<_>>());
        let used = step.rows_tried.iter().find(|tried| tried.rows == step.rows).expect("used");
        assert!(step.rows_tried.iter().all(|tried| tried.seconds >= used.seconds));
        assert!((seconds(&plan, &batch) - used.seconds).abs() < 1e-12);
        // Not only against its own witnesses: the same job with the fewest rows is slower too.
        job.packing.rows = RowsPolicy::Min;
        let fewest = planned(&batch, &job);
        assert_eq!(
            (fewest.steps[0].rows, &fewest.machine),
            (step.rows_found, &job.machine),
            "its machine stays"
        );
        assert!(fewest.steps[0].rows_tried.is_empty());
        assert!(seconds(&fewest, &batch) > used.seconds);
        // The baseline has the rows that are better for it.
        assert!(seconds_of(0, &plan, &batch) <= seconds_of(0, &fewest, &batch));
    }

    #[test]
    fn without_a_pipeline_the_fewest_rows_are_the_fastest() {
        let (batch, job) = case(4, 1, 3);
        let plan = planned(&batch, &job);
        let step = &plan.steps[0];
        assert_eq!((step.rows, step.rows_tried.len()), (step.rows_found, 4));
    }

    #[test]
    fn rows_of_a_pipeline_stand_in_the_faster_order() {
        let (batch, mut job) = case(4, 4, 5);
        stand_in_the_faster_order(&batch, &job);
        job.packing.rows = RowsPolicy::Min;
        stand_in_the_faster_order(&batch, &job);
        // The machine decides about nothing else: without it the same rows, in the order found.
        let (with, without) = (planned(&batch, &job), planned(&batch, &Job { machine: None, ..job.clone() }));
        assert_eq!(
            (with.steps[0].score, with.steps[0].rows),
            (without.steps[0].score, without.steps[0].rows)
        );
        assert!(seconds(&with, &batch) < seconds(&without, &batch));
        let mut forged = with.clone();
        forged.machine.as_mut().expect("there").cluster.tile_rows = 0;
        forged.sha256 = routepack_verify::plan_sha256(&forged);
        let refused = verify(&forged, &batch).expect_err("no machine").to_string();
        assert!(refused.contains("tile_rows = 0"), "{refused}");
        job.machine.as_mut().expect("there").model = presets::model("glm-4.5").expect("a preset");
        let error = plan(&batch, &job, &mut Control::new()).expect_err("another model").to_string();
        assert!(error.contains("[machine]: the window has 24 expert layers"), "{error}");
    }

    fn stand_in_the_faster_order(batch: &Arc<Batch>, job: &Job) {
        let plan = planned(batch, job);
        let verified = verify(&plan, batch).expect("holds");
        let (instance, layout) = (&verified.instances[0], &verified.layouts[0]);
        let placement = verified.placement.as_ref().expect("routes");
        let slots = layout.num_slots();
        let mut longest = vec![(0, 0); layout.num_rows()];
        for (sample, &cell) in layout.cell_of().iter().enumerate() {
            let row = cell as usize / slots;
            longest[row] = (longest[row].0 + instance.padded_length(sample), row);
        }
        longest.sort_unstable_by(|one, other| other.cmp(one));
        let mut place = vec![0; longest.len()];
        longest.iter().enumerate().for_each(|(at, &(_, row))| place[row] = at);
        let moved = |&cell: &u32| (place[cell as usize / slots] * slots + cell as usize % slots) as u32;
        let falling = Layout::new(longest.len(), slots, layout.cell_of().iter().map(moved).collect());
        let seconds =
            |layout: &Layout| machine().step_time(instance, placement, layout).expect("runs").seconds;
        let (own, falling) = (seconds(layout), seconds(&falling));
        assert!(own < 0.99 * falling, "{own} s against {falling} s with the longest first");
    }

    /// A change of a plan, given which of its rows tried are not the ones used.
    type Change = fn(&mut Plan, usize);

    #[test]
    fn no_claim_about_rows_can_be_changed() {
        let (batch, job) = case(4, 4, 2);
        let plan = planned(&batch, &job);
        let used = plan.steps[0].rows;
        let other = plan.steps[0].rows_tried.iter().position(|tried| tried.rows != used).expect("two others");
        let changes: [(&str, Change); 10] = [
            ("rows_tried", |plan, other| plan.steps[0].rows_tried[other].seconds += 1e-9),
            ("step 0: ", |plan, other| plan.steps[0].rows_tried[other].rows += 7),
            ("rows_tried", |plan, other| {
                let twice = plan.steps[0].rows_tried[other].clone();
                plan.steps[0].rows_tried.push(twice);
            }),
            ("step 0: ", |plan, other| plan.steps[0].rows_tried[other].cell_of[0] += 1 << 20),
            ("step 0: ", |plan, other| plan.steps[0].rows_tried[other].cell_of.truncate(3)),
            ("step 0: ", |plan, other| plan.steps[0].rows_tried[other].cell_of.clear()),
            ("machine", |plan, _| plan.machine = None),
            // Divided by 0, and sought a kind that is not there.
            ("tile_rows = 0", |plan, _| plan.machine.as_mut().expect("there").cluster.tile_rows = 0),
            ("pattern", |plan, _| {
                plan.machine.as_mut().expect("there").model.pattern = vec!["no".to_owned()];
            }),
            ("rows_tried", |plan, _| {
                plan.machine.as_mut().expect("there").cluster.peak_tflops *= 2.0;
            }),
        ];
        for (index, (field, change)) in changes.into_iter().enumerate() {
            let mut changed = plan.clone();
            change(&mut changed, other);
            changed.sha256 = routepack_verify::plan_sha256(&changed);
            let refused = verify(&changed, &batch).expect_err("a claim that does not hold").to_string();
            assert!(refused.contains(field), "change {index}: {refused}");
        }
        let mut alone = plan.clone();
        alone.steps[0].rows_tried.retain(|tried| tried.rows == used);
        alone.sha256 = routepack_verify::plan_sha256(&alone);
        verify(&alone, &batch).expect("fewer witnesses claim less");
    }

    #[test]
    fn a_filtered_plan_keeps_its_rows_and_claims_nothing_about_their_time() {
        let (batch, job) = case(4, 4, 2);
        let plan = planned(&batch, &job);
        let filtered = filter(&plan, &batch, &[0, 5], 1, None).expect("filtered");
        verify(&filtered, &batch).expect("every claim holds");
        assert_eq!((filtered.steps[0].rows, &filtered.machine), (plan.steps[0].rows, &plan.machine));
        assert!(filtered.steps[0].rows_tried.is_empty());
    }

    #[test]
    fn a_plan_that_is_not_the_fastest_it_names_is_refused() {
        let (batch, job) = case(4, 4, 2);
        let mut plan = planned(&batch, &job);
        let slots = job.topology.dp as usize;
        // The first slower layout takes the place of the one used.
        let step = &mut plan.steps[0];
        let slower = step.rows_tried.iter().position(|tried| tried.rows != step.rows).expect("others");
        let used = step.rows_tried.iter().position(|tried| tried.rows == step.rows).expect("used");
        let cell_of = std::mem::take(&mut step.rows_tried[slower].cell_of);
        step.rows_tried[used].cell_of = vec![0; cell_of.len()];
        for (cell, samples) in step.cells.iter().flatten().enumerate() {
            samples.iter().for_each(|&sample| step.rows_tried[used].cell_of[sample as usize] = cell as u32);
        }
        step.rows = step.rows_tried[slower].rows;
        step.cells = vec![vec![Vec::new(); slots]; step.rows as usize];
        for (sample, cell) in cell_of.into_iter().enumerate() {
            step.cells[cell as usize / slots][cell as usize % slots].push(sample as u32);
        }
        step.dummies = vec![vec![0; slots]; step.cells.len()];
        let refused = verify(&plan, &batch).expect_err("another layout is faster").to_string();
        assert!(refused.contains("no faster than the"), "{refused}");
    }

    #[test]
    fn the_fastest_is_taken_wherever_it_stands() {
        let (batch, job) = case(4, 4, 3);
        let plan = planned(&batch, &job);
        let verified = verify(&plan, &batch).expect("holds");
        let placement = verified.placement.as_ref().expect("routes");
        let machine = machine();
        let used = (verified.instances[0].clone(), verified.layouts[0].clone());
        let mut all = verified.other_rows[0].clone();
        all.push(used.clone());
        let score = evaluate(&used.0, placement, &used.1).score;
        for first in 0..all.len() {
            let mut others = all.clone();
            let (mut instance, mut layout) = others.remove(first);
            let already = layout == used.1;
            let found =
                settle_rows((&mut instance, &mut layout), &mut others, placement, &machine, &|| false);
            assert_eq!(found.expect("simulated"), ((!already).then_some(score), true));
            assert_eq!(layout, used.1);
            let mut rows: Vec<usize> = others.iter().map(|(_, layout)| layout.num_rows()).collect();
            rows.push(layout.num_rows());
            rows.sort_unstable();
            let found = plan.steps[0].rows_found as usize;
            assert_eq!(rows, (found..=found + 3).collect::<Vec<_>>(), "none is lost");
        }
    }

    #[test]
    fn what_cannot_be_simulated_is_refused_before_any_search() {
        let (batch, job) = case(4, 1, 2);
        let refused = |job: &Job| {
            let error = plan_passes(&batch, job, &mut Control::new()).expect_err("refused");
            assert!(error.concerns_job(), "{error}");
            error.to_string()
        };
        let without = Job { machine: None, ..job.clone() };
        assert!(refused(&without).contains("packing.rows = { extra_rows = 2 }"), "{}", refused(&without));
        let mut other = job.clone();
        other.machine.as_mut().expect("there").model = presets::model("glm-4.5").expect("a preset");
        assert!(
            refused(&other).starts_with("[machine]: the window has 24 expert layers"),
            "{}",
            refused(&other)
        );
        let mut wrong = job.clone();
        wrong.machine.as_mut().expect("there").cluster.peak_tflops = f64::NAN;
        assert!(refused(&wrong).contains("peak_tflops = NaN"), "{}", refused(&wrong));
        let mut pass = job.clone();
        let rows = RowsPolicy::Search { extra_rows: 1, row_cost: None };
        pass.passes.insert("log-prob".to_owned(), Packing { rows, ..Packing::new(1 << 15) });
        assert!(refused(&pass).contains("in pass log-prob"), "{}", refused(&pass));
    }
}
