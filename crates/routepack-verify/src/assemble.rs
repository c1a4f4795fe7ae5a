//! Puts a plan together: decisions in, every figure recomputed from the inputs.

use std::ops::RangeInclusive;

use routepack_bounds::peak_bounds;
use routepack_certificate::{Certificate, Limits, check_text};
use routepack_problem::{
    Attribution, Batch, Instance, Layout, Oversize, Placement, RowsPolicy, SampleIds, Setting, check_layout,
};
use routepack_simulate::Machine;

use crate::costs::placement_in_force;
use crate::figures::Measured;
use crate::rows_tried::rows_tried;
use crate::{
    FORMAT, Figures, OutsideId, Plan, PlanDropped, PlanPlacement, PlanResident, PlanStep, Status,
    VerifyError, plan_sha256, sample_bound, statement, window_sha256, witness_counts,
};

/// The decisions for one optimizer step.
#[derive(Clone, Debug)]
pub struct StepDecisions<'a> {
    /// The step's window, with as many dummies as the layout holds.
    pub instance: &'a Instance,
    /// Samples → cells.
    pub layout: &'a Layout,
    /// Text of a certificate of [`statement`]`(instance)`.
    pub certificate: String,
    /// Layouts in other numbers of rows, each with its window and the dummies it holds; where the step time decides.
    pub other_rows: &'a [(Instance, Layout)],
}

/// What a plan consists of before anything is claimed about it.
#[derive(Clone, Debug)]
pub struct AssembleInputs<'a> {
    /// One entry per optimizer step, steps ascending; at least one.
    pub steps: Vec<StepDecisions<'a>>,
    /// Samples left out of all steps.
    pub dropped: &'a [Oversize],
    /// Samples a filter took away after planning, ascending; the instances are without them. The rows are then given.
    pub filtered: &'a [u32],
    /// The placement shared by all steps; `None` without recorded routes.
    pub placement: Option<&'a Placement>,
    /// The placement the weights have before, to state what moves.
    pub resident: Option<&'a Placement>,
    /// What steps run on; needed where the step time decides about rows, of no effect elsewhere.
    pub machine: Option<&'a Machine>,
    /// [`window_sha256`] of the batch if it is at hand; computed when absent.
    pub window_sha256: Option<String>,
    /// Program and version.
    pub tool: String,
    /// Effective options of the job.
    pub options: serde_json::Value,
    /// Seed of all random streams.
    pub seed: u64,
    /// LP backend and version.
    pub lp_backend: String,
    /// Why the plan was made another way than asked, if it was.
    pub fallback: Option<String>,
    /// Whether every stage used its whole budget.
    pub finished: bool,
    /// What the check of a certificate may spend.
    pub limits: Limits,
}

/// The plan of these decisions, with every figure computed by the functions [`crate::verify`] uses.
///
/// # Errors
/// A layout that violates its window, a placement of other dimensions, or a certificate that is not accepted.
pub fn assemble(inputs: AssembleInputs<'_>) -> Result<Plan, VerifyError> {
    assemble_measured(inputs).map(|(plan, _)| plan)
}

/// The plan, and the figures of its steps.
pub(crate) fn assemble_measured(inputs: AssembleInputs<'_>) -> Result<(Plan, Vec<Figures>), VerifyError> {
    let Some(first) = inputs.steps.first().map(|step| step.instance) else {
        return Err(routepack_problem::ProblemError::Empty.into());
    };
    let (batch, setting) = (first.batch(), first.setting());
    let placement = placement_in_force(first, inputs.placement)?;
    let resident = match inputs.resident {
        Some(resident) if first.num_layers() > 0 => Some(placement_in_force(first, Some(resident))?),
        _ => None,
    };
    let rows_given = inputs.fallback.is_some() || !inputs.filtered.is_empty();
    let by_time = setting.packing.rows.by_step_time() && !rows_given;
    if let Some(machine) = inputs.machine {
        machine.check_figures()?;
    }
    let machine = inputs.machine.filter(|_| by_time);
    if by_time && machine.is_none() {
        return Err(VerifyError::mismatch("machine", &"none", &"one: the step time decides about rows"));
    }
    let (mut steps, mut figures) = (Vec::new(), Vec::new());
    for decisions in &inputs.steps {
        let (step, of_step) = assemble_step(decisions, &placement, machine, rows_given, &inputs)?;
        steps.push(step);
        figures.push(of_step);
    }
    let proved = steps.iter().all(|step| step.rows_proved);
    let parts = first.topology().num_parts();
    let dropped = inputs.dropped.iter().map(|oversize| PlanDropped {
        sample: oversize.sample,
        id: outside_id(batch, oversize.sample as usize),
        length: oversize.length,
    });
    let mut plan = Plan {
        format: FORMAT.to_owned(),
        sha256: String::new(),
        window_sha256: inputs.window_sha256.unwrap_or_else(|| window_sha256(batch)),
        tool: inputs.tool,
        status: match inputs.fallback {
            Some(why) => Status::Fallback(why),
            None if proved => Status::Ok,
            None => Status::Gap,
        },
        finished: inputs.finished,
        seed: inputs.seed,
        lp_backend: inputs.lp_backend,
        options: inputs.options,
        setting: setting.clone(),
        machine: inputs.machine.cloned(),
        cost: first.cost().clone(),
        scale_bits: first.charges().scale_bits(),
        estimate: first.num_layers() > 0 && parts > 1 && is_spread(batch, setting),
        placement: inputs
            .placement
            .map(|placement| describe_placement(&inputs.steps, placement, resident.as_ref())),
        dropped: dropped.collect(),
        filtered: inputs.filtered.to_vec(),
        steps,
    };
    plan.sha256 = plan_sha256(&plan);
    Ok((plan, figures))
}

fn assemble_step(
    decisions: &StepDecisions<'_>,
    placement: &Placement,
    machine: Option<&Machine>,
    rows_given: bool,
    inputs: &AssembleInputs<'_>,
) -> Result<(PlanStep, Figures), VerifyError> {
    let StepDecisions { instance, layout, certificate, .. } = decisions;
    let step = instance.step();
    check_layout(instance, layout).map_err(|error| VerifyError::Layout { step, error })?;
    let rows = certify_rows(instance, layout, certificate, rows_given, &inputs.limits)?;
    let rows_tried = match machine {
        Some(machine) => rows_tried(decisions, placement, machine, &rows.allowed)?,
        None => Vec::new(),
    };
    let measured = Measured::of(instance, placement, layout, inputs.finished);
    let figures = measured.figures();
    let (cells, dummies) = list_cells(instance, layout);
    let batch = instance.batch();
    let ids = batch.sample_ids.as_ref().map(|_| {
        let id_of = |&sample: &u32| outside_id(batch, sample as usize).expect("the batch has ids");
        cells
            .iter()
            .map(|row| row.iter().map(|cell: &Vec<u32>| cell.iter().map(id_of).collect()).collect())
            .collect()
    });
    let plan_step = PlanStep {
        step,
        rows: layout.num_rows() as u64,
        rows_policy: instance.setting().packing.rows.clone(),
        rows_tried,
        rows_found: rows.found,
        rows_bound: rows.bound,
        rows_proved: rows.found == rows.bound,
        cells_found: rows.cells_found,
        cells_bound: rows.cells_bound,
        certificate: certificate.clone(),
        cells,
        ids,
        dummies,
        tokens: measured.grid,
        totals: measured.totals,
        score: measured.evaluation.score,
        shard_cost: measured.evaluation.shard_cost,
        bounds: measured.bounds,
        gap_to_placement: figures.gap_to_placement,
        gap_to_free: figures.gap_to_free,
    };
    Ok((plan_step, figures))
}

struct CertifiedRows {
    found: u64,
    bound: u64,
    cells_found: u64,
    cells_bound: u64,
    /// By the rows policy.
    allowed: RangeInclusive<u64>,
}

/// Checks the certificate and what it says about the rows, and that the rows used follow the policy.
fn certify_rows(
    instance: &Instance,
    layout: &Layout,
    certificate: &str,
    rows_given: bool,
    limits: &Limits,
) -> Result<CertifiedRows, VerifyError> {
    let step = instance.step();
    let question = statement(instance);
    let refused = |error| VerifyError::Certificate { step, error };
    let checked = check_text(&question, certificate.as_bytes(), limits).map_err(refused)?;
    // A window has a sample, so one cell is necessary whatever the certificate says.
    let cells_bound = checked.cells_lower.max(sample_bound(instance)).max(1);
    let used = layout.num_rows() as u64;
    // The question may know less of the limit of samples than the window does; the layout is a packing too.
    let counts = checked.cells_upper.is_some()
        && (instance.setting().packing.max_samples.is_none() || {
            let parsed = Certificate::parse(&question, certificate.as_bytes(), limits).map_err(refused)?;
            parsed.witness.is_some_and(|bins| witness_counts(instance, &bins))
        });
    let witnessed = checked.cells_upper.filter(|_| counts);
    let cells_found = witnessed.unwrap_or_else(|| filled_cells(instance, layout));
    let found = question.rows_for(cells_found).min(used);
    let allowed = match instance.setting().packing.rows {
        _ if rows_given => found..=u64::MAX,
        RowsPolicy::Min => found..=found,
        RowsPolicy::Fixed(rows) => u64::from(rows)..=u64::from(rows),
        RowsPolicy::Search { extra_rows, .. } => found..=found + u64::from(extra_rows),
    };
    if !allowed.contains(&used) {
        let expected = if allowed.start() == allowed.end() {
            format!("{} by the rows policy", allowed.start())
        } else {
            format!("{} to {} by the rows policy", allowed.start(), allowed.end())
        };
        return Err(VerifyError::mismatch(format!("step {step}: rows"), &used, &expected));
    }
    Ok(CertifiedRows { found, bound: question.rows_for(cells_bound), cells_found, cells_bound, allowed })
}

/// Cells that hold a recorded sample.
fn filled_cells(instance: &Instance, layout: &Layout) -> u64 {
    let mut filled = vec![false; layout.num_cells()];
    for &cell in &layout.cell_of()[..instance.num_samples() - instance.num_dummies()] {
        filled[cell as usize] = true;
    }
    filled.into_iter().filter(|&filled| filled).count() as u64
}

/// Batch indices per row and slot, and the dummies beside them.
fn list_cells(instance: &Instance, layout: &Layout) -> (Vec<Vec<Vec<u32>>>, Vec<Vec<u32>>) {
    let (rows, slots) = (layout.num_rows(), layout.num_slots());
    let mut cells = vec![vec![Vec::new(); slots]; rows];
    let mut dummies = vec![vec![0; slots]; rows];
    for (sample, &cell) in layout.cell_of().iter().enumerate() {
        let (row, slot) = (cell as usize / slots, cell as usize % slots);
        match instance.batch_index(sample) {
            Some(index) => cells[row][slot].push(index as u32),
            None => dummies[row][slot] += 1,
        }
    }
    (cells, dummies)
}

/// The placement with its peaks over the whole batch.
fn describe_placement(
    steps: &[StepDecisions<'_>],
    placement: &Placement,
    resident: Option<&Placement>,
) -> PlanPlacement {
    let (layers, experts) = (placement.num_layers(), placement.num_experts());
    let mut loads = vec![vec![0u64; experts]; layers];
    for step in steps {
        for (total, part) in loads.iter_mut().zip(step.instance.expert_loads()) {
            total.iter_mut().zip(part).for_each(|(total, part)| *total += part);
        }
    }
    let peak = loads.iter().enumerate().map(|(layer, loads)| placement.peak(layer, loads));
    let slots_of =
        |placement: &Placement| (0..layers).map(|layer| placement.slots(layer).to_vec()).collect::<Vec<_>>();
    let moved = |resident: &Placement, layer| {
        placement
            .slots(layer)
            .iter()
            .zip(resident.slots(layer))
            .filter(|(slot, before)| slot != before)
            .count()
    };
    PlanPlacement {
        num_ranks: placement.num_ranks() as u32,
        log2phys: slots_of(placement),
        peak: peak.collect(),
        bound: loads.iter().map(|loads| peak_bounds(loads, placement.num_ranks()).best()).collect(),
        resident: resident.map(|resident| PlanResident {
            log2phys: slots_of(resident),
            moved: (0..layers).map(|layer| moved(resident, layer) as u32).collect(),
        }),
    }
}

fn is_spread(batch: &Batch, setting: &Setting) -> bool {
    let parts = batch.expert_counts.as_ref().map_or(1, routepack_problem::ExpertCounts::parts);
    setting.routing.attribution == Attribution::Spread && parts == 1
}

fn outside_id(batch: &Batch, sample: usize) -> Option<OutsideId> {
    batch.sample_ids.as_ref().map(|ids| match ids {
        SampleIds::Integers(ids) => OutsideId::Integer(ids[sample]),
        SampleIds::Strings(ids) => OutsideId::Text(ids[sample].clone()),
    })
}
