//! First-fit decreasing over the whole window: the paper's baseline layout.
//!
//! Bin b goes to row ⌊b/D⌋, slot b mod D; too few bins are made up by `split_heaviest`, too many take rows of their
//! own (DESIGN §1.4). O(U log U). Deals as slime, miles and NeMo-RL do (first-fit decreasing, then bins in turn).

use routepack_binpack::first_fit_decreasing;
use routepack_problem::Instance;

use crate::deal::{fill_rows, layout_of, unit_sizes};
use crate::{BaselineError, BaselineLayout};

/// First-fit decreasing over the window, dealt to rows and slots in turn.
///
/// # Errors
/// The window has fewer units than cells, or groups of samples under a limit on samples per cell.
pub fn global_ffd(instance: &Instance, rows: usize) -> Result<BaselineLayout, BaselineError> {
    const RULE: &str = "first-fit decreasing";
    let sizes = unit_sizes(instance, RULE)?;
    let (capacity, limit) = (u64::from(instance.cell_capacity()), instance.setting().packing.max_samples);
    let mut bins = first_fit_decreasing(&sizes, capacity, limit);
    let used = fill_rows(instance, &mut bins, &sizes, rows, RULE)?;
    Ok(BaselineLayout { layout: layout_of(instance, used, &bins), own_rows: used > rows })
}
