//! What can be refused of a plan without its batch: for those who hand it on before it is verified.

use std::collections::HashSet;

use routepack_problem::Placement;

use crate::{FORMAT, Plan, PlanStep, VerifyError, plan_sha256};

/// Checks that a plan is what its digest says, that its placements are placements, and that every step has a grid of one
/// cell a row and DP slot with no sample in two cells. No figure is recomputed: see [`crate::verify`].
///
/// # Errors
/// The first of these that does not hold.
pub fn check_alone(plan: &Plan) -> Result<(), VerifyError> {
    if plan.format != FORMAT {
        return Err(VerifyError::mismatch("format", &plan.format, &FORMAT));
    }
    let digest = plan_sha256(plan);
    if plan.sha256 != digest {
        return Err(VerifyError::mismatch("sha256", &plan.sha256, &digest));
    }
    if let Some(placed) = &plan.placement {
        let maps =
            std::iter::once(&placed.log2phys).chain(placed.resident.as_ref().map(|kept| &kept.log2phys));
        let mut shapes = HashSet::new();
        for map in maps {
            let placement = Placement::new(placed.num_ranks as usize, map.clone())?;
            shapes.insert((placement.num_layers(), placement.num_experts()));
        }
        if shapes.len() > 1 || shapes.iter().any(|&(layers, experts)| layers == 0 || experts == 0) {
            let found = format!("(layers, experts) = {shapes:?}");
            return Err(VerifyError::mismatch("placement", &found, &"one shape, not empty"));
        }
    }
    let numbers: Vec<i64> = plan.steps.iter().map(|step| step.step).collect();
    if numbers.is_empty() || !numbers.is_sorted_by(|one, next| one < next) {
        return Err(VerifyError::mismatch("steps", &format!("{numbers:?}"), &"one or more, ascending"));
    }
    let mut seen = HashSet::new();
    for step in &plan.steps {
        check_grids(step, plan.setting.topology.dp as usize)?;
        for (row, cells) in step.cells.iter().enumerate() {
            for (slot, cell) in cells.iter().enumerate() {
                if let Some(sample) = cell.iter().find(|&&sample| !seen.insert(sample)) {
                    let field = format!("step {}: cells[{row}][{slot}]", step.step);
                    return Err(VerifyError::mismatch(field, sample, &"a sample of another cell"));
                }
            }
        }
    }
    Ok(())
}

/// Every table of a step is `[rows][slots]`.
fn check_grids(step: &PlanStep, slots: usize) -> Result<(), VerifyError> {
    fn widths<T>(grid: &[Vec<T>]) -> Vec<usize> {
        grid.iter().map(Vec::len).collect()
    }
    let tokens = &step.tokens;
    let of_tokens = [&tokens.samples, &tokens.raw, &tokens.padded, &tokens.routed].map(|grid| widths(grid));
    let of_loss = tokens.loss.iter().map(|grid| widths(grid));
    let named = [("cells", widths(&step.cells)), ("dummies", widths(&step.dummies))];
    let grids = named.into_iter().chain(of_tokens.into_iter().chain(of_loss).map(|grid| ("tokens", grid)));
    for (name, widths) in grids {
        let full = !widths.is_empty() && slots > 0 && widths.iter().all(|&width| width == slots);
        if !full || widths.len() as u64 != step.rows {
            let field = format!("step {}: {name}", step.step);
            let grid = format!("{} rows of {slots} slots", step.rows.max(1));
            return Err(VerifyError::mismatch(field, &format!("rows of {widths:?} slots"), &grid));
        }
    }
    Ok(())
}
