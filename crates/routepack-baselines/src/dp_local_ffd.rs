//! DP-local first-fit decreasing: what trainers do that shard first and pack each shard.
//!
//! Units are dealt to the D slots by LPT on tokens (longest first, to the slot with fewest tokens), each slot packs its
//! own by first-fit decreasing, and all are brought to one row count by [`split_heaviest`] (DESIGN §1.4). O(U log U).

use routepack_binpack::first_fit_decreasing;
use routepack_problem::Instance;

use crate::deal::{cells_by_slot, longest_first, rows_for, unit_sizes};
use crate::split_heaviest::split_heaviest;
use crate::{BaselineError, BaselineLayout};

/// LPT over slots, then first-fit decreasing in each slot.
///
/// # Errors
/// A slot has fewer units than rows, or groups of samples meet a limit on samples per cell.
pub fn dp_local_ffd(instance: &Instance, rows: usize) -> Result<BaselineLayout, BaselineError> {
    const RULE: &str = "DP-local first-fit decreasing";
    let sizes = unit_sizes(instance, RULE)?;
    let packing = &instance.setting().packing;
    let slots = instance.topology().num_slots();
    let shards = longest_first(&sizes, slots);

    let mut packed: Vec<Vec<Vec<u32>>> = shards
        .iter()
        .map(|units| {
            let own: Vec<u64> = units.iter().map(|&unit| sizes[unit as usize]).collect();
            let bins = first_fit_decreasing(&own, u64::from(instance.cell_capacity()), packing.max_samples);
            bins.into_iter().map(|bin| bin.into_iter().map(|item| units[item as usize]).collect()).collect()
        })
        .collect();
    let most = packed.iter().map(Vec::len).max().unwrap_or(0);
    let used = rows.max(rows_for(most, packing.rows_multiple));
    for (slot, bins) in packed.iter_mut().enumerate() {
        split_heaviest(bins, used, &sizes).map_err(|units| BaselineError::EmptyCells {
            rule: RULE,
            units,
            cells: used,
            place: format!("DP slot {slot}"),
        })?;
    }
    Ok(BaselineLayout { layout: cells_by_slot(instance, used, &packed), own_rows: used > rows })
}
