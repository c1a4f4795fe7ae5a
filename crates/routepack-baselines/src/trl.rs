//! TRL: best-fit decreasing over the window, bins dealt in turn.
//!
//! TRL packs without knowing of DP ranks: what bins are missing to whole rows is made up by splitting the one with most
//! tokens, as the other rules do.
//!
//! Written from a description of `trl/data_utils.py` (commit f2cd5771: `pack_dataset`, strategy `bfd`); not from its code.
//! O(n·bins).

use routepack_binpack::best_fit_decreasing;
use routepack_problem::Instance;

use crate::deal::{layout_of, rows_for, unit_sizes};
use crate::split_heaviest::split_heaviest;
use crate::{BaselineError, BaselineLayout};

/// Best-fit decreasing over the window.
///
/// # Errors
/// Fewer units than cells, or groups of samples under a limit on samples per cell.
pub fn trl(instance: &Instance, rows: usize) -> Result<BaselineLayout, BaselineError> {
    const RULE: &str = "TRL best-fit decreasing";
    let sizes = unit_sizes(instance, RULE)?;
    let (packing, slots) = (&instance.setting().packing, instance.topology().num_slots());
    let mut bins = best_fit_decreasing(&sizes, u64::from(instance.cell_capacity()), packing.max_samples);
    let used = rows_for(bins.len().div_ceil(slots), packing.rows_multiple);
    split_heaviest(&mut bins, used * slots, &sizes).map_err(|units| BaselineError::EmptyCells {
        rule: RULE,
        units,
        cells: used * slots,
        place: "the window".into(),
    })?;
    Ok(BaselineLayout { layout: layout_of(instance, used, &bins), own_rows: used > rows })
}
