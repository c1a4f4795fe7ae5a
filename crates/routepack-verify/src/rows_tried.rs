//! Why a step has its rows, where the simulated step time decides: the layouts found with other numbers of rows.
//!
//! Claim: under the plan's placement, on the plan's machine, none of these layouts is faster than the one used. Each is a
//! witness of its own: a layout of the step's window within every limit of a cell, in rows that the policy allows, with
//! its seconds recomputed. That a still faster layout does not exist is *not* claimed.

use std::ops::RangeInclusive;

use routepack_problem::{Instance, Layout, LayoutError, Placement, check_layout};
use routepack_simulate::Machine;

use crate::{PlanRows, StepDecisions, VerifyError};

/// The numbers of rows of a step with their step times, rows ascending.
///
/// # Errors
/// A layout that is none, in rows that are not `allowed` or come twice, or that is faster than the one used.
pub(crate) fn rows_tried(
    decisions: &StepDecisions<'_>,
    placement: &Placement,
    machine: &Machine,
    allowed: &RangeInclusive<u64>,
) -> Result<Vec<PlanRows>, VerifyError> {
    let step = decisions.instance.step();
    let seconds = |instance: &Instance, layout: &Layout| {
        machine.step_time(instance, placement, layout).map(|time| time.seconds)
    };
    let used = seconds(decisions.instance, decisions.layout)?;
    let mut tried =
        vec![PlanRows { rows: decisions.layout.num_rows() as u64, seconds: used, cell_of: Vec::new() }];
    for (instance, layout) in decisions.other_rows {
        check_layout(instance, layout).map_err(|error| VerifyError::Layout { step, error })?;
        let rows = layout.num_rows() as u64;
        let field = || format!("step {step}: rows_tried: {rows} rows");
        if !allowed.contains(&rows) {
            let expected = format!("{} to {} by the rows policy", allowed.start(), allowed.end());
            return Err(VerifyError::mismatch(field(), &rows, &expected));
        }
        let seconds = seconds(instance, layout)?;
        if seconds < used {
            let claimed = format!("no faster than the {} used", decisions.layout.num_rows());
            return Err(VerifyError::mismatch(field(), &claimed, &format!("{seconds} s against {used} s")));
        }
        tried.push(PlanRows { rows, seconds, cell_of: layout.cell_of().to_vec() });
    }
    tried.sort_by_key(|tried| tried.rows);
    match tried.windows(2).find(|pair| pair[0].rows == pair[1].rows) {
        Some(pair) => {
            Err(VerifyError::mismatch(format!("step {step}: rows_tried"), &pair[0].rows, &"each number once"))
        }
        None => Ok(tried),
    }
}

/// The layouts beside the one used that a plan names, with the dummies they hold.
///
/// # Errors
/// Rows or cells that make no layout of the window.
pub(crate) fn rebuild_other_rows(
    tried: &[PlanRows],
    used: u64,
    window: &Instance,
) -> Result<Vec<(Instance, Layout)>, VerifyError> {
    let slots = window.topology().num_slots();
    let rebuild = |tried: &PlanRows| {
        let (found, recorded) = (tried.cell_of.len(), window.num_samples());
        let rows = usize::try_from(tried.rows).ok().filter(|&rows| rows <= found);
        let (Some(rows), Some(dummies)) = (rows, found.checked_sub(recorded)) else {
            let error = LayoutError::Size { what: "samples", found, expected: recorded.max(slots) };
            return Err(VerifyError::Layout { step: window.step(), error });
        };
        let instance = if dummies == 0 { window.clone() } else { window.with_dummies(dummies)? };
        Ok((instance, Layout::new(rows, slots, tried.cell_of.clone())))
    };
    tried.iter().filter(|tried| tried.rows != used || !tried.cell_of.is_empty()).map(rebuild).collect()
}
