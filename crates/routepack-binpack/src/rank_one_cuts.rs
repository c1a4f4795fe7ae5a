//! The cuts of one round: subset-row cuts, and cuts of odd cycles where those are few.

use routepack_certificate::Cut;

use crate::odd_cycle_cuts::odd_cycle_cuts;
use crate::subset_row_cuts::subset_row_cuts;
use crate::types::Pattern;

/// Fewer subset-row cuts than this make room for others.
const FEW_CUTS: usize = 5;

/// Cuts a fractional solution violates, over the original types: these hold in every case.
///
/// `solution`: columns with their values; rows past the types count for nothing. `demands`: `[types]`.
pub(crate) fn rank_one_cuts(mut solution: Vec<(Pattern, f64)>, demands: &[u32]) -> Vec<Cut> {
    solution.iter_mut().for_each(|(column, _)| column.retain(|&row| (row as usize) < demands.len()));
    let mut cuts = subset_row_cuts(&solution, demands);
    if cuts.len() < FEW_CUTS {
        cuts.extend(odd_cycle_cuts(&solution, demands));
    }
    cuts
}
