//! From a window to a verified plan: prepare → place → rows → arrange → assemble (DESIGN §1.4).

use std::sync::Arc;
use std::time::{Duration, Instant};

use routepack_arrange::{ArrangeProgress, arrange_among, spread_bins};
use routepack_certificate::Limits;
use routepack_lp::Backend;
use routepack_place::{PlaceOptions, check_resident, match_ranks, place, place_incrementally};
use routepack_problem::{Batch, Instance, Layout, Placement, Prepared, RowsPolicy, Score, prepare};
use routepack_simulate::Machine;
use routepack_verify::{AssembleInputs, Plan, StepDecisions, assemble, statement, window_sha256};

use crate::moves::Tether;
use crate::refine::{Draft, Search, co_refine};
use crate::rows::{PackedStep, pack_step};
use crate::rows_by_time::{in_fastest_order, machine_for_order, machine_of, settle_rows};
use crate::{Aim, Control, Job, PlanError, Progress, Stage};

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
    job.moves.validate()?;
    job.arrange.validate()?;
    job.refine.validate()?;
    let machine = machine_of(job)?;
    let clock = Instant::now();
    control.say(Stage::Prepare, (1, 1), 0.0, format!("{} samples", batch.num_samples()));
    let known = control.window_sha256.clone();
    let digest = || known.unwrap_or_else(|| window_sha256(batch));
    let (prepared, window_sha256) = rayon::join(|| prepare(Arc::clone(batch), &job.setting()), digest);
    let prepared = prepared?;
    let reserve = clock.elapsed() * ASSEMBLE_PER_PREPARE + Duration::from_millis(5);
    let stop = control.limit.stop(reserve);

    let Start { placement, tether, finished: placed_fully } = place_experts(&prepared, job, &stop, control)?;
    let first: Vec<FirstPlan<'_>> = steps(&prepared)
        .map(|(at, instance)| {
            begin_step(instance, job, machine, &stop, at, control)
                .map_err(|error| error.in_step(instance.step(), at.1))
        })
        .collect::<Result<_, _>>()?;
    let planned: Vec<StepPlan> = steps(&prepared)
        .zip(first)
        .map(|((at, _), first)| arrange_step(first, &placement, job, machine, reserve, at, control))
        .collect::<Result<_, _>>()?;
    let (mut placement, mut planned) =
        refine_steps(placement, tether.as_ref(), planned, job, reserve, control)?;
    let resident = job.place.resident.as_ref().filter(|_| placement.num_layers() > 0);
    let renames = job.refine.placement != Aim::Fixed && job.place.node_groups.is_none();
    if let Some(resident) = resident.filter(|_| renames) {
        // The names of ranks cost nothing: as many experts as can be stay.
        placement = match_ranks(&placement, resident);
    }

    // Orders are sought in what the searches leave of the time for assembling: else a deadline leaves them none.
    let stop = control.limit.stop(Duration::ZERO);
    if let Some(machine) = machine {
        for step in &mut planned {
            let own = (&mut step.instance, &mut step.layout);
            let (score, ordered) = settle_rows(own, &mut step.other_rows, &placement, machine, &stop)?;
            step.score = score.or(step.score);
            step.finished &= ordered;
        }
    } else {
        for step in &mut planned {
            let rows = step.layout.num_rows();
            if let Some(machine) = machine_for_order(job, &step.instance, rows)? {
                let ordered = in_fastest_order(machine, &step.instance, &placement, &step.layout, &stop)?;
                step.layout = ordered.layout;
                step.finished &= ordered.finished;
            }
        }
    }

    control.say(Stage::Assemble, (1, 1), 0.0, "recomputing every figure".to_owned());
    let finished = placed_fully && planned.iter().all(|step| step.finished);
    Ok(assemble(AssembleInputs {
        steps: planned.iter().map(StepPlan::decisions).collect(),
        dropped: &prepared.dropped,
        filtered: &[],
        placement: (batch.num_layers() > 0).then_some(&placement),
        resident,
        machine: job.machine.as_ref(),
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

/// A step with its packing and a first layout.
struct FirstPlan<'a> {
    /// The step's window, without dummies.
    window: &'a Instance,
    packed: PackedStep,
    /// The numbers of rows to try, fewest first.
    rows: Vec<u64>,
    /// The window with as many dummies as the layout holds.
    instance: Instance,
    /// A valid layout of the fewest rows.
    layout: Layout,
}

/// A step with its chosen layout.
struct StepPlan {
    packed: PackedStep,
    instance: Instance,
    /// The layout that the search began with.
    packed_layout: Layout,
    layout: Layout,
    /// Absent where there was no time for a search, and so for anything that only compares layouts.
    score: Option<Score>,
    /// The best layouts found with other numbers of rows, each with its window, where the step time decides.
    other_rows: Vec<(Instance, Layout)>,
    finished: bool,
}

impl StepPlan {
    fn decisions(&self) -> StepDecisions<'_> {
        StepDecisions {
            instance: &self.instance,
            layout: &self.layout,
            certificate: self.packed.certificate.to_text(&statement(&self.instance)),
            other_rows: &self.other_rows,
        }
    }
}

fn steps(prepared: &Prepared) -> impl Iterator<Item = ((usize, usize), &Instance)> {
    let count = prepared.instances.len();
    prepared.instances.iter().enumerate().map(move |(index, instance)| ((index + 1, count), instance))
}

/// The placement to begin with.
struct Start {
    placement: Placement,
    /// How far it may change, where moves are not free.
    tether: Option<Tether>,
    finished: bool,
}

/// One placement for the whole batch; the empty one when no routes were recorded.
fn place_experts(
    prepared: &Prepared,
    job: &Job,
    stop: &(dyn Fn() -> bool + Sync),
    control: &mut Control<'_>,
) -> Result<Start, PlanError> {
    let loads = total_loads(&prepared.instances);
    control.say(Stage::Place, (1, 1), 0.0, format!("{} layers", loads.len()));
    let ranks = prepared.instances[0].topology().num_ranks();
    if loads.is_empty() || job.refine.placement == Aim::Fixed {
        let placement = resident_or_identity(&loads, ranks, job)?;
        return Ok(Start { placement, tether: None, finished: true });
    }
    let Some(goal) = job.moves.goal else {
        let placed = place(&loads, ranks, &job.place, stop)?;
        return Ok(Start { placement: placed.placement, tether: None, finished: placed.finished });
    };
    let resident = resident_or_identity(&loads, ranks, job)?;
    let weights = prepared.instances[0].charges().expert();
    let options = PlaceOptions { layer_weights: weights.to_vec(), ..job.place.clone() };
    let moved = place_incrementally(&loads, &resident, goal, &options, stop)?;
    let tether = Some(Tether::after(&moved, resident, weights, goal, job.moves.refine_up_to));
    Ok(Start { placement: moved.placement, tether, finished: moved.finished })
}

/// Where the weights are.
fn resident_or_identity(loads: &[Vec<u64>], ranks: usize, job: &Job) -> Result<Placement, PlanError> {
    let experts = loads.first().map_or(0, Vec::len);
    match &job.place.resident {
        Some(resident) if !loads.is_empty() => {
            check_resident(resident, loads.len(), experts, ranks)?;
            Ok(resident.clone())
        }
        _ => Ok(Placement::identity(loads.len(), experts, ranks)?),
    }
}

/// Load of every expert over all steps, `[layers][experts]` in routed rows.
pub(crate) fn total_loads(instances: &[Instance]) -> Vec<Vec<u64>> {
    let (first, others) = instances.split_first().expect("a batch has a step");
    let mut loads = first.expert_loads().to_vec();
    for instance in others {
        for (sums, layer) in loads.iter_mut().zip(instance.expert_loads()) {
            sums.iter_mut().zip(layer).for_each(|(sum, load)| *sum += load);
        }
    }
    loads
}

/// Certified rows and a valid layout from the witness.
fn begin_step<'a>(
    instance: &'a Instance,
    job: &Job,
    machine: Option<&Machine>,
    stop: &(dyn Fn() -> bool + Sync),
    at: (usize, usize),
    control: &mut Control<'_>,
) -> Result<FirstPlan<'a>, PlanError> {
    let packed = pack_step(instance, job, stop, at, control)?;
    let multiple = u64::from(job.packing.rows_multiple);
    let rows = match job.packing.rows {
        RowsPolicy::Min => vec![packed.rows],
        RowsPolicy::Fixed(rows) => vec![rows.into()],
        RowsPolicy::Search { extra_rows, .. } => {
            (0..=u64::from(extra_rows) / multiple).map(|extra| packed.rows + extra * multiple).collect()
        }
    };
    match machine {
        Some(machine) => machine.check(instance, rows[0] as usize)?,
        None => machine_for_order(job, instance, rows[0] as usize).map(|_| ())?,
    }
    let (with_dummies, layout) = first_layout(instance, &packed.bins, rows[0])?;
    Ok(FirstPlan { window: instance, packed, rows, instance: with_dummies, layout })
}

/// The bins as a layout of so many rows, and the window with the dummies it holds.
fn first_layout(instance: &Instance, bins: &[Vec<u32>], rows: u64) -> Result<(Instance, Layout), PlanError> {
    let cells = rows * instance.topology().num_slots() as u64;
    let units = instance.num_units();
    if units as u64 >= cells {
        return Ok((instance.clone(), spread_bins(instance, bins, rows as usize)?));
    }
    // One unit a cell, and a dummy in each cell that is left.
    let filled = instance.with_dummies(cells as usize - units)?;
    let single: Vec<Vec<u32>> = (0..filled.num_units()).map(|unit| vec![unit as u32]).collect();
    let layout = spread_bins(&filled, &single, rows as usize)?;
    Ok((filled, layout))
}

/// The best layout of the best number of rows: by step time where there is a machine, else by score and cost of rows.
fn arrange_step(
    first: FirstPlan<'_>,
    placement: &Placement,
    job: &Job,
    machine: Option<&Machine>,
    reserve: Duration,
    at: (usize, usize),
    control: &mut Control<'_>,
) -> Result<StepPlan, PlanError> {
    let FirstPlan { window, packed, rows: to_try, instance, layout } = first;
    if to_try.len() == 1 && control.limit.stop(reserve)() {
        let packed_layout = layout.clone();
        let (score, other_rows, finished) = (None, Vec::new(), false);
        return Ok(StepPlan { packed, instance, packed_layout, layout, score, other_rows, finished });
    }
    let peers = control.peers;
    let mut found: Vec<((u128, Score), Instance, [Layout; 2])> = Vec::new();
    let mut finished = packed.finished;
    let refines = job.refines(placement);
    let options = if refines { job.start_options() } else { job.arrange.clone() };
    let mut begun = Some((instance, layout));
    let later = if refines { job.shares() as usize - 1 } else { 0 } * at.1;
    for (index, &rows) in to_try.iter().enumerate() {
        let shares_left = (at.1 - at.0) * to_try.len() + to_try.len() - index + later;
        let stop = control.limit.stop_within_share(reserve, shares_left);
        let (instance, layout) = match begun.take() {
            Some(begun) => begun,
            None if !can_fill(window, rows) => break,
            None if stop() => {
                finished = false;
                break;
            }
            None => first_layout(window, &packed.bins, rows)?,
        };
        let unit = score_unit(&instance);
        let rungs = f64::from(job.arrange.temperatures);
        let mut observe = |progress: &ArrangeProgress| {
            let message = format!("{rows} rows, joint score {:.4}", progress.score.worst_shard as f64 / unit);
            let within = progress.report.as_ref().map_or(0.0, |report| f64::from(report.rung) / rungs);
            let fraction = (f64::from(progress.round) + within) / f64::from(job.arrange.rounds);
            let (fraction, temperature) =
                ((index as f64 + fraction) / to_try.len() as f64, progress.report.clone());
            (control.observe)(&Progress { stage: Stage::Arrange, step: at, fraction, message, temperature });
        };
        let arranged =
            arrange_among(&instance, placement, &layout, &options, job.seed, &stop, &mut observe, peers)?;
        finished &= arranged.finished;
        let (cost, found_layout) = if let Some(machine) = machine {
            let ordered = in_fastest_order(machine, &instance, placement, &arranged.layout, &stop)?;
            finished &= ordered.finished;
            // Floats that are not negative are ordered as their bits.
            (ordered.time.seconds.to_bits().into(), ordered.layout)
        } else {
            let of_rows = u128::from(rows) * u128::from(window.row_cost());
            (u128::from(arranged.score.worst_shard) + of_rows, arranged.layout)
        };
        found.push(((cost, arranged.score), instance, [layout, found_layout]));
    }
    let best = (0..found.len()).min_by_key(|&index| found[index].0);
    let best = best.expect("the policy names at least one number of rows");
    let ((_, score), instance, [packed_layout, layout]) = found.swap_remove(best);
    let others = found.into_iter().filter(|_| machine.is_some());
    let other_rows = others.map(|(_, instance, [_, layout])| (instance, layout)).collect();
    Ok(StepPlan { packed, instance, packed_layout, layout, score: Some(score), other_rows, finished })
}

/// Placement and layouts made for each other, where the job asks for it and there is anything to place.
fn refine_steps(
    placement: Placement,
    tether: Option<&Tether>,
    mut planned: Vec<StepPlan>,
    job: &Job,
    reserve: Duration,
    control: &mut Control<'_>,
) -> Result<(Placement, Vec<StepPlan>), PlanError> {
    let scores: Option<Vec<Score>> = planned.iter().map(|step| step.score).collect();
    let Some(scores) = scores.filter(|_| job.refines(&placement)) else { return Ok((placement, planned)) };
    let layouts = planned.iter().map(|step| step.layout.clone()).collect();
    let first = Draft { placement, layouts, scores };
    let instances: Vec<&Instance> = planned.iter().map(|step| &step.instance).collect();
    let unit = score_unit(instances[0]);
    let (limit, peers) = (control.limit, control.peers);
    let stops = |shares: usize| -> Box<dyn Fn() -> bool + Sync> {
        Box::new(limit.stop_within_share(reserve, shares))
    };
    let mut observe = |fraction: f64, best: &Draft| {
        let total: f64 = best.scores.iter().map(|score| score.worst_shard as f64).sum();
        control.say(Stage::Refine, (1, 1), fraction, format!("joint score {:.4}", total / unit));
    };
    let packed = planned.iter().map(|step| &step.packed_layout).collect();
    let search = Search { instances: &instances, packed, job, tether, peers };
    let (draft, finished) = co_refine(&search, first, &stops, &mut observe)?;
    for ((step, layout), score) in planned.iter_mut().zip(draft.layouts).zip(draft.scores) {
        (step.layout, step.score) = (layout, Some(score));
        step.finished &= finished;
    }
    Ok((draft.placement, planned))
}

/// S·C: what a scaled score is divided by for a person.
fn score_unit(instance: &Instance) -> f64 {
    (u64::from(instance.setting().packing.capacity) << instance.charges().scale_bits()) as f64
}

/// Whether no cell of so many rows would stay empty.
fn can_fill(window: &Instance, rows: u64) -> bool {
    let cells = rows * window.topology().num_slots() as u64;
    window.setting().packing.dummies.is_some() || window.num_units() as u64 >= cells
}

impl Control<'_> {
    pub(crate) fn say(&mut self, stage: Stage, step: (usize, usize), fraction: f64, message: String) {
        (self.observe)(&Progress { stage, step, fraction, message, temperature: None });
    }
}
