//! TRL: best-fit decreasing over the window, bins dealt in turn.
//!
//! TRL packs without knowing of DP ranks: what bins are missing to whole rows is made up by splitting the one with most
//! tokens, as the other rules do.
//!
//! Written from a description of `trl/data_utils.py` (commit f2cd5771: `pack_dataset`, strategy `bfd`); not from its code.
//! O(n·bins).

use routepack_binpack::best_fit_decreasing;
use routepack_problem::Instance;

use crate::deal::{fill_rows, layout_of, unit_sizes};
use crate::{BaselineError, BaselineLayout};

/// Best-fit decreasing over the window.
///
/// # Errors
/// Fewer units than cells, or groups of samples under a limit on samples per cell.
pub fn trl(instance: &Instance, rows: usize) -> Result<BaselineLayout, BaselineError> {
    const RULE: &str = "TRL best-fit decreasing";
    let sizes = unit_sizes(instance, RULE)?;
    let (capacity, limit) = (u64::from(instance.cell_capacity()), instance.setting().packing.max_samples);
    let mut bins = best_fit_decreasing(&sizes, capacity, limit);
    let used = fill_rows(instance, &mut bins, &sizes, 1, RULE)?;
    Ok(BaselineLayout { layout: layout_of(instance, used, &bins), own_rows: used > rows })
}
