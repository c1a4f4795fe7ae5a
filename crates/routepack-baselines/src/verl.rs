//! verl: workloads to DP ranks by largest differencing, then each rank's samples to micro-batches the same way.
//!
//! Workload of t tokens: 24576·t + t². Ranks get equal numbers of samples. A rank asks for ⌈tokens/C⌉ micro-batches, all run
//! the most that any asks for; up to 0.8 nothing keeps a part below the capacity, from 0.9 on all ranks take one more until
//! every part fits. Each rank's micro-batches are ordered by workload, the light ones at both ends.
//!
//! Written from a description of `verl/utils/seqlen_balancing.py` (`get_seqlen_balanced_partitions`,
//! `rearrange_micro_batches`), PyPI 0.8 and 0.9.1; not from its code. O(n·k·log n) a try.

use routepack_problem::Instance;

use crate::deal::{cells_by_slot, rows_for, unit_sizes};
use crate::karmarkar_karp::karmarkar_karp;
use crate::{BaselineError, BaselineLayout};

/// The rule up to 0.8: cells may hold more than their capacity.
///
/// # Errors
/// Samples that are no multiple of the DP slots, or fewer than the micro-batches asked for; a limit on samples per cell.
pub fn verl_0_8(instance: &Instance, rows: usize) -> Result<BaselineLayout, BaselineError> {
    balanced(instance, rows, "verl 0.8", false)
}

/// The rule from 0.9 on: a micro-batch more on every slot until all fit.
///
/// # Errors
/// As [`verl_0_8`].
pub fn verl_0_9(instance: &Instance, rows: usize) -> Result<BaselineLayout, BaselineError> {
    balanced(instance, rows, "verl 0.9", true)
}

fn balanced(
    instance: &Instance,
    rows: usize,
    rule: &'static str,
    keep_capacity: bool,
) -> Result<BaselineLayout, BaselineError> {
    let sizes = unit_sizes(instance, rule)?;
    let (slots, packing) = (instance.topology().num_slots(), &instance.setting().packing);
    if packing.max_samples.is_some() {
        return Err(BaselineError::Unsupported { rule, constraint: "max_samples" });
    }
    if !sizes.len().is_multiple_of(slots) {
        return Err(BaselineError::Unsupported {
            rule,
            constraint: "samples that are no multiple of the slots",
        });
    }
    let capacity = u64::from(instance.cell_capacity());
    let workloads: Vec<u64> = sizes.iter().map(|&size| 24_576 * size + size * size).collect();
    let ranks = karmarkar_karp(&workloads, slots, true);
    let tokens = |units: &[u32]| units.iter().map(|&unit| sizes[unit as usize]).sum::<u64>();
    let asked = ranks.iter().map(|units| tokens(units).div_ceil(capacity) as usize).max().unwrap_or(1);
    let mut count = rows_for(asked, packing.rows_multiple);
    loop {
        let split: Result<Vec<_>, _> =
            ranks.iter().map(|units| micro_batches(units, &workloads, count, rule)).collect();
        let split = split?;
        if !keep_capacity || split.iter().flatten().all(|cell| tokens(cell) <= capacity) {
            let own_rows = count > rows;
            return Ok(BaselineLayout { layout: cells_by_slot(instance, count, &split), own_rows });
        }
        count += packing.rows_multiple as usize;
    }
}

/// One rank's units in `count` parts, heaviest in the middle.
fn micro_batches(
    units: &[u32],
    workloads: &[u64],
    count: usize,
    rule: &'static str,
) -> Result<Vec<Vec<u32>>, BaselineError> {
    if units.len() < count {
        let place = "a DP slot".to_owned();
        return Err(BaselineError::EmptyCells { rule, units: units.len(), cells: count, place });
    }
    let own: Vec<u64> = units.iter().map(|&unit| workloads[unit as usize]).collect();
    let mut parts = karmarkar_karp(&own, count, false);
    let work = |part: &Vec<u32>| part.iter().map(|&item| own[item as usize]).sum::<u64>();
    parts.sort_by_key(|part| std::cmp::Reverse((work(part), part.first().copied())));
    let mut order: Vec<Vec<u32>> = parts.iter().step_by(2).rev().cloned().collect();
    order.extend(parts.into_iter().skip(1).step_by(2));
    for part in &mut order {
        part.iter_mut().for_each(|item| *item = units[*item as usize]);
    }
    Ok(order)
}
