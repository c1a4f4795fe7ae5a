//! Certified rows of one step, and a packing to start from (DESIGN §1.4, stage 2).
//!
//! The bin-packing crate answers the question of [`statement`] within the job's counts and the deadline. Where its packing
//! takes more rows than a plan may have (`rows = N`, or too few units to fill them) and nothing proves fewer impossible, no
//! plan exists yet: then packing goes on with ever larger counts, up to [`GRACE`] past the deadline. Atomic groups of
//! different sizes under a limit of samples a cell are packed again by [`pack_groups`]: the question knows their tokens
//! only.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use routepack_anneal::Stream;
use routepack_binpack::{PackOptions, PackProgress, Packed, pack};
use routepack_certificate::Certificate;
use routepack_problem::{Instance, ProblemError, RowsPolicy};
use routepack_verify::{sample_bound, statement, witness_counts};

use crate::pack_groups::pack_groups;
use crate::{Control, Job, PlanError, Stage};

/// How long a packing may be sought past the deadline where no plan exists without.
const GRACE: Duration = Duration::from_secs(1);
/// Times that packing is tried again where no plan exists yet, each with four times the counts of the one before.
const EFFORTS: u32 = 3;
/// Orders tried for groups of different sizes under a limit of samples.
const GROUP_TRIES: u32 = 64;

/// A packing of a step's units and what is proved about it.
pub(crate) struct PackedStep {
    /// Units of every cell, within every limit of a cell.
    pub(crate) bins: Vec<Vec<u32>>,
    /// Fewest rows found.
    pub(crate) rows: u64,
    /// Rows that are necessary.
    pub(crate) rows_bound: u64,
    /// `bins`, and the proof of what is necessary.
    pub(crate) certificate: Certificate,
    /// Whether the search ended by itself.
    pub(crate) finished: bool,
}

/// Packs a step into rows that a plan may have.
///
/// # Errors
/// No plan can have as few (or as many) rows as necessary, or none was found within the budget.
pub(crate) fn pack_step(
    instance: &Instance,
    job: &Job,
    stop: &(dyn Fn() -> bool + Sync),
    at: (usize, usize),
    control: &mut Control<'_>,
) -> Result<PackedStep, PlanError> {
    let most = most_rows(instance)?;
    let stop_late = control.limit.stop_late(GRACE);
    control.say(Stage::Rows, at, 0.0, String::new());
    let mut say = |progress: &PackProgress| {
        let message = format!("{} cells, at least {}", progress.cells, progress.cells_bound);
        control.say(Stage::Rows, at, 0.5, message);
    };
    let mut packed = pack_once(instance, &job.pack, (job.seed, 0), stop, &mut say)?;
    for effort in 1..=EFFORTS {
        if packed.rows <= most || packed.rows_bound > most || stop_late() {
            break;
        }
        let enough = AtomicBool::new(false);
        let stop = || enough.load(Ordering::Relaxed) || stop_late();
        let mut observe = |progress: &PackProgress| {
            say(progress);
            enough.fetch_or(progress.rows <= most, Ordering::Relaxed);
        };
        let options = strengthen(&job.pack, effort);
        let again = pack_once(instance, &options, (job.seed, effort), &stop, &mut observe)?;
        let rows_bound = packed.rows_bound.max(again.rows_bound);
        packed = PackedStep { rows_bound, ..if again.rows < packed.rows { again } else { packed } };
    }
    if packed.rows <= most { Ok(packed) } else { Err(refuse(instance, &packed, most)) }
}

/// The most rows a plan may have by the rows policy and the units at hand.
fn most_rows(instance: &Instance) -> Result<u64, PlanError> {
    let packing = &instance.setting().packing;
    let (units, slots) = (instance.num_units(), instance.topology().num_slots() as u64);
    let multiple = u64::from(packing.rows_multiple);
    let filled = match packing.dummies {
        Some(_) => u64::MAX,
        None => units as u64 / slots / multiple * multiple,
    };
    let asked = match packing.rows {
        RowsPolicy::Fixed(rows) => u64::from(rows),
        RowsPolicy::Min | RowsPolicy::Search { .. } => multiple,
    };
    if asked > filled {
        return Err(fewer_units(instance, asked).into());
    }
    Ok(if matches!(packing.rows, RowsPolicy::Fixed(_)) { asked } else { filled })
}

fn fewer_units(instance: &Instance, rows: u64) -> ProblemError {
    let slots = instance.topology().num_slots();
    let cells = rows.saturating_mul(slots as u64);
    ProblemError::FewerUnitsThanCells { units: instance.num_units(), cells, rows, slots: slots as u32 }
}

/// Why there is no plan of at most `most` rows: proved, or not found.
fn refuse(instance: &Instance, packed: &PackedStep, most: u64) -> PlanError {
    let fixed = matches!(instance.setting().packing.rows, RowsPolicy::Fixed(_));
    let (bound, found, step) = (packed.rows_bound, packed.rows, instance.step());
    match (bound > most, fixed) {
        (false, _) => PlanError::NotFound { most, bound, found, step },
        (true, true) => PlanError::Rows { asked: most, bound, step },
        (true, false) => fewer_units(instance, bound).into(),
    }
}

/// The default counts or the job's, whichever are larger, four times larger with every effort after the first.
fn strengthen(options: &PackOptions, effort: u32) -> PackOptions {
    let (least, factor) = (PackOptions::default(), 4u32.pow(effort - 1));
    let more = |own: u32, least: u32| own.max(least).saturating_mul(factor);
    let wide = |own: u64, least: u64| own.max(least).saturating_mul(factor.into());
    PackOptions {
        fill_tries: more(options.fill_tries, least.fill_tries),
        fill_window: options.fill_window.max(least.fill_window),
        repack_tries: more(options.repack_tries, least.repack_tries),
        column_rounds: more(options.column_rounds, least.column_rounds),
        column_types: options.column_types.max(least.column_types),
        group_types: options.group_types.max(least.group_types),
        dives: more(options.dives, least.dives),
        cases: wide(options.cases, least.cases),
        program_nodes: wide(options.program_nodes, least.program_nodes),
        ..options.clone()
    }
}

/// One search with these options; the stream is that of a seed and an effort.
fn pack_once(
    instance: &Instance,
    options: &PackOptions,
    (seed, effort): (u64, u32),
    stop: &(dyn Fn() -> bool + Sync),
    observe: &mut dyn FnMut(&PackProgress),
) -> Result<PackedStep, PlanError> {
    let question = statement(instance);
    let Packed { mut bins, mut certificate, cells_bound, finished, .. } =
        pack(&question, options, seed.wrapping_add(effort.into()), stop, observe)?;
    let cells_bound = cells_bound.max(sample_bound(instance));
    if let Some(limit) = instance.setting().packing.max_samples.filter(|_| !witness_counts(instance, &bins)) {
        let aim = question.slots.saturating_mul(question.rows_for(cells_bound));
        let stream = Stream::new(seed).child(effort.into());
        bins = pack_groups(instance, limit, aim, GROUP_TRIES << (2 * effort), &stream, stop);
        certificate.witness = Some(bins.clone());
    }
    Ok(PackedStep {
        rows: question.rows_for(bins.len() as u64),
        rows_bound: question.rows_for(cells_bound),
        bins,
        certificate,
        finished,
    })
}
