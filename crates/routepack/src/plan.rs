//! From a window to a verified plan: prepare → place → rows → arrange → assemble (DESIGN §1.4).

use std::sync::Arc;
use std::time::{Duration, Instant};

use routepack_arrange::{ArrangeProgress, arrange, spread_bins};
use routepack_binpack::{PackProgress, Packed, pack};
use routepack_certificate::Limits;
use routepack_lp::Backend;
use routepack_place::place;
use routepack_problem::{
    Batch, Instance, Layout, Placement, Prepared, ProblemError, RowsPolicy, Score, prepare,
};
use routepack_verify::{AssembleInputs, Plan, StepDecisions, assemble, statement, window_sha256};

use crate::{Control, Job, PlanError, Progress, Stage};

/// Time kept for assembling the plan when a deadline is set, as a multiple of the time that reading all counts for the
/// instance and for the hash took.
const ASSEMBLE_PER_PREPARE: u32 = 3;

/// Plans every optimizer step of a batch: one placement, and per step certified rows and a layout.
///
/// A valid plan exists early; when the control says stop, the best so far is returned (`finished = false`).
/// The same batch, job and LP backend give the same bytes for any number of threads, unless stopped.
///
/// # Errors
/// Bad input or an infeasible job, naming the place, the value and the limit.
pub fn plan(batch: &Arc<Batch>, job: &Job, control: &mut Control<'_>) -> Result<Plan, PlanError> {
    job.pack.validate()?;
    job.place.validate()?;
    job.arrange.validate()?;
    let clock = Instant::now();
    control.say(Stage::Prepare, (1, 1), 0.0, format!("{} samples", batch.num_samples()));
    let (prepared, window_sha256) =
        rayon::join(|| prepare(Arc::clone(batch), &job.setting()), || window_sha256(batch));
    let prepared = prepared?;
    let reserve = clock.elapsed() * ASSEMBLE_PER_PREPARE + Duration::from_millis(5);
    let stop = control.stop(reserve);

    let (placement, placed_fully) = place_experts(&prepared, job, &stop, control)?;
    let first: Vec<FirstPlan> = steps(&prepared)
        .map(|(at, instance)| {
            pack_step(instance, job, &stop, at, control).map_err(|error| match (&error, at) {
                (PlanError::Rows { .. }, _) | (_, (_, 1)) => error,
                _ => PlanError::Step { step: instance.step(), error: Box::new(error) },
            })
        })
        .collect::<Result<_, _>>()?;
    let planned: Vec<StepPlan> = steps(&prepared)
        .zip(first)
        .map(|((at, _), first)| arrange_step(first, &placement, job, reserve, at, control))
        .collect::<Result<_, _>>()?;

    control.say(Stage::Assemble, (1, 1), 0.0, "recomputing every figure".to_owned());
    let finished = placed_fully && planned.iter().all(|step| step.finished);
    Ok(assemble(AssembleInputs {
        steps: planned.iter().map(StepPlan::decisions).collect(),
        dropped: &prepared.dropped,
        placement: (batch.num_layers() > 0).then_some(&placement),
        window_sha256: Some(window_sha256),
        tool: concat!("routepack ", env!("CARGO_PKG_VERSION")).to_owned(),
        options: job.options(),
        seed: job.seed,
        lp_backend: Backend::default().name_and_version()?,
        fallback: None,
        finished,
        limits: Limits::default(),
    })?)
}

/// A step with its packing and a valid first layout per number of rows to try.
struct FirstPlan {
    packed: Packed,
    /// Instance (with dummies where cells need them) and first layout, fewest rows first.
    candidates: Vec<(Instance, Layout)>,
}

/// A step with its chosen layout.
struct StepPlan {
    packed: Packed,
    instance: Instance,
    layout: Layout,
    finished: bool,
}

impl StepPlan {
    fn decisions(&self) -> StepDecisions<'_> {
        StepDecisions {
            instance: &self.instance,
            layout: &self.layout,
            certificate: self.packed.certificate.to_text(&statement(&self.instance)),
        }
    }
}

fn steps(prepared: &Prepared) -> impl Iterator<Item = ((usize, usize), &Instance)> {
    let count = prepared.instances.len();
    prepared.instances.iter().enumerate().map(move |(index, instance)| ((index + 1, count), instance))
}

/// One placement for the whole batch; the empty one when no routes were recorded.
fn place_experts(
    prepared: &Prepared,
    job: &Job,
    stop: &(dyn Fn() -> bool + Sync),
    control: &mut Control<'_>,
) -> Result<(Placement, bool), PlanError> {
    let mut loads = prepared.instances[0].expert_loads();
    for instance in &prepared.instances[1..] {
        for (sums, layer) in loads.iter_mut().zip(instance.expert_loads()) {
            sums.iter_mut().zip(layer).for_each(|(sum, load)| *sum += load);
        }
    }
    control.say(Stage::Place, (1, 1), 0.0, format!("{} layers", loads.len()));
    let ranks = prepared.instances[0].topology().num_ranks();
    if loads.is_empty() {
        return Ok((Placement::identity(0, 0, ranks)?, true));
    }
    let placed = place(&loads, ranks, &job.place, stop)?;
    Ok((placed.placement, placed.finished))
}

/// Certified rows and, for every number of rows to try, a valid layout from the witness.
fn pack_step(
    instance: &Instance,
    job: &Job,
    stop: &(dyn Fn() -> bool + Sync),
    at: (usize, usize),
    control: &mut Control<'_>,
) -> Result<FirstPlan, PlanError> {
    control.say(Stage::Rows, at, 0.0, String::new());
    let packed = pack(&statement(instance), &job.pack, job.seed, stop, &mut |progress: &PackProgress| {
        let message = format!("{} cells, at least {}", progress.cells, progress.cells_bound);
        control.say(Stage::Rows, at, 0.5, message);
    })?;
    let candidates = rows_to_try(instance, job, &packed)?
        .into_iter()
        .enumerate()
        .filter_map(|(index, rows)| match first_layout(instance, &packed, rows) {
            // More rows than the units can fill are not worth an error when fewer are at hand.
            Err(PlanError::Problem(ProblemError::FewerUnitsThanCells { .. })) if index > 0 => None,
            other => Some(other),
        })
        .collect::<Result<_, _>>()?;
    Ok(FirstPlan { packed, candidates })
}

/// The numbers of rows the policy asks for, fewest first.
fn rows_to_try(instance: &Instance, job: &Job, packed: &Packed) -> Result<Vec<u64>, PlanError> {
    let multiple = u64::from(job.packing.rows_multiple);
    match job.packing.rows {
        RowsPolicy::Min => Ok(vec![packed.rows]),
        RowsPolicy::Fixed(rows) if u64::from(rows) >= packed.rows => Ok(vec![u64::from(rows)]),
        RowsPolicy::Fixed(rows) => Err(PlanError::Rows {
            asked: u64::from(rows),
            bound: packed.rows_bound,
            found: packed.rows,
            step: instance.step(),
        }),
        RowsPolicy::Search { extra_rows, .. } => {
            Ok((0..=u64::from(extra_rows) / multiple).map(|extra| packed.rows + extra * multiple).collect())
        }
    }
}

fn first_layout(instance: &Instance, packed: &Packed, rows: u64) -> Result<(Instance, Layout), PlanError> {
    let slots = instance.topology().num_slots();
    let (cells, units) = (rows * slots as u64, instance.num_units());
    let mut bins = packed.bins.clone();
    if units as u64 >= cells {
        return Ok((instance.clone(), spread_bins(instance, &bins, rows as usize)?));
    }
    if instance.setting().packing.dummies.is_none() {
        return Err(ProblemError::FewerUnitsThanCells { units, cells, rows, slots: slots as u32 }.into());
    }
    // One unit a cell, and a dummy in each cell that is left.
    let filled = instance.with_dummies(cells as usize - units)?;
    bins.clear();
    bins.extend((0..filled.num_units()).map(|unit| vec![unit as u32]));
    let layout = spread_bins(&filled, &bins, rows as usize)?;
    Ok((filled, layout))
}

/// The best layout of the best number of rows.
fn arrange_step(
    first: FirstPlan,
    placement: &Placement,
    job: &Job,
    reserve: Duration,
    at: (usize, usize),
    control: &mut Control<'_>,
) -> Result<StepPlan, PlanError> {
    let count = first.candidates.len();
    let mut best: Option<(u128, Score, Instance, Layout)> = None;
    let mut finished = first.packed.finished;
    for (index, (instance, layout)) in first.candidates.into_iter().enumerate() {
        let shares_left = (at.1 - at.0) * count + count - index;
        let stop = control.stop_within_share(reserve, shares_left);
        let rows = layout.num_rows();
        let unit = (u64::from(job.packing.capacity) << instance.charges().scale_bits()) as f64;
        let rungs = f64::from(job.arrange.temperatures);
        let mut observe = |progress: &ArrangeProgress| {
            let message = format!("{rows} rows, joint score {:.4}", progress.score.worst_shard as f64 / unit);
            let within = progress.report.as_ref().map_or(0.0, |report| f64::from(report.rung) / rungs);
            let fraction = (f64::from(progress.round) + within) / f64::from(job.arrange.rounds);
            control.say(Stage::Arrange, at, (index as f64 + fraction) / count as f64, message);
        };
        let arranged = arrange(&instance, placement, &layout, &job.arrange, job.seed, &stop, &mut observe)?;
        finished &= arranged.finished;
        let cost = u128::from(arranged.score.worst_shard) + rows as u128 * row_cost(&instance);
        if best.as_ref().is_none_or(|(least, score, ..)| (cost, arranged.score) < (*least, *score)) {
            best = Some((cost, arranged.score, instance, arranged.layout));
        }
    }
    let (_, _, instance, layout) = best.expect("the policy names at least one number of rows");
    Ok(StepPlan { packed: first.packed, instance, layout, finished })
}

/// Scaled cost of one more row under `rows = { row_cost }`, 0 otherwise.
fn row_cost(instance: &Instance) -> u128 {
    let RowsPolicy::Search { row_cost, .. } = instance.setting().packing.rows else { return 0 };
    let (mantissa, exponent) = row_cost.fraction();
    (mantissa.unsigned_abs() << instance.charges().scale_bits()) / 10u128.pow(exponent)
}

impl Control<'_> {
    fn say(&mut self, stage: Stage, step: (usize, usize), fraction: f64, message: String) {
        (self.observe)(&Progress { stage, step, fraction, message });
    }
}
