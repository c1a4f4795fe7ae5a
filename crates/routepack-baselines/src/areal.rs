//! AReaL: samples to DP ranks by LPT on tokens, then a first-fit-decreasing of its own in each.
//!
//! `ffd_allocate`: longest first; the first `least` items open a group each; a later item opens one only where it does not
//! fit the emptiest, else joins, of the groups it fits in, the one with fewest items (of these, fewest tokens). All ranks ask for the most groups any
//! needs until they agree.
//!
//! Written from a description of `areal/utils/seqpack.py` (PyPI 1.0.4: `balanced_greedy_partition`, `ffd_allocate`,
//! `allocate_balanced_mbs_synced`); not from its code. O(n·groups) a try.

use std::cmp::Reverse;

use routepack_problem::Instance;

use crate::deal::{cells_by_slot, longest_first, rows_for, unit_sizes};
use crate::{BaselineError, BaselineLayout};

const RULE: &str = "AReaL ffd_allocate";

/// LPT over slots, then groups that fit, all slots with as many.
///
/// # Errors
/// A slot has fewer units than groups are asked of it; a limit on samples per cell.
pub fn areal(instance: &Instance, rows: usize) -> Result<BaselineLayout, BaselineError> {
    let sizes = unit_sizes(instance, RULE)?;
    let packing = &instance.setting().packing;
    if packing.max_samples.is_some() {
        return Err(BaselineError::Unsupported { rule: RULE, constraint: "max_samples" });
    }
    let slots = longest_first(&sizes, instance.topology().num_slots());
    let capacity = u64::from(instance.cell_capacity());
    let mut least = rows_for(1, packing.rows_multiple);
    loop {
        if let Some((slot, units)) = slots.iter().enumerate().find(|(_, units)| units.len() < least) {
            let (units, place) = (units.len(), format!("DP slot {slot}"));
            return Err(BaselineError::EmptyCells { rule: RULE, units, cells: least, place });
        }
        let groups: Vec<Vec<Vec<u32>>> =
            slots.iter().map(|units| ffd_allocate(units, &sizes, capacity, least)).collect();
        let most = rows_for(groups.iter().map(Vec::len).max().unwrap_or(0), packing.rows_multiple);
        if groups.iter().all(|groups| groups.len() == most) {
            return Ok(BaselineLayout {
                layout: cells_by_slot(instance, most, &groups),
                own_rows: most > rows,
            });
        }
        least = most.max(least + usize::from(most == least));
    }
}

/// Groups of at most `capacity` tokens, at least `least` of them.
fn ffd_allocate(units: &[u32], sizes: &[u64], capacity: u64, least: usize) -> Vec<Vec<u32>> {
    let mut order = units.to_vec();
    order.sort_by_key(|&unit| Reverse(sizes[unit as usize]));
    let mut groups: Vec<(u64, Vec<u32>)> = Vec::new();
    for unit in order {
        let size = sizes[unit as usize];
        let emptiest = groups.iter().map(|(tokens, _)| *tokens).min();
        let fits = |tokens: u64| tokens + size <= capacity;
        if groups.len() < least || !emptiest.is_some_and(fits) {
            groups.push((size, vec![unit]));
            continue;
        }
        let fitting = groups.iter_mut().filter(|(tokens, _)| fits(*tokens));
        let (tokens, group) =
            fitting.min_by_key(|(tokens, group)| (group.len(), *tokens)).expect("the emptiest fits");
        *tokens += size;
        group.push(unit);
    }
    groups.into_iter().map(|(_, group)| group).collect()
}
