//! slime: first fit in arrival order over the window, bins grown to a multiple of the slots, dealt in turn.
//!
//! While the bins are no multiple of the slots, the one with most tokens and at least two samples is split in two by LPT.
//! miles is the same with first-fit decreasing.
//!
//! Written from a description of `slime/utils/dp_schedule.py` (commit 624b824a: `build_dp_schedule`, `first_fit_pack`) and of
//! its fork miles (31f1ca96); not from their code. O(n·bins).

use routepack_binpack::first_fit_decreasing;
use routepack_problem::Instance;

use crate::deal::{layout_of, unit_sizes};
use crate::{BaselineError, BaselineLayout};

/// First fit in arrival order.
///
/// # Errors
/// Fewer units than cells; a limit on samples per cell.
pub fn slime(instance: &Instance, rows: usize) -> Result<BaselineLayout, BaselineError> {
    packed(instance, rows, "slime first fit", first_fit)
}

/// First-fit decreasing.
///
/// # Errors
/// As [`slime`].
pub fn miles(instance: &Instance, rows: usize) -> Result<BaselineLayout, BaselineError> {
    packed(instance, rows, "miles first-fit decreasing", |sizes, capacity| {
        first_fit_decreasing(sizes, capacity, None)
    })
}

fn packed(
    instance: &Instance,
    rows: usize,
    rule: &'static str,
    pack: fn(&[u64], u64) -> Vec<Vec<u32>>,
) -> Result<BaselineLayout, BaselineError> {
    let sizes = unit_sizes(instance, rule)?;
    let packing = &instance.setting().packing;
    if packing.max_samples.is_some() {
        return Err(BaselineError::Unsupported { rule, constraint: "max_samples" });
    }
    let align = instance.topology().num_slots() * packing.rows_multiple as usize;
    let mut bins = pack(&sizes, u64::from(instance.cell_capacity()));
    let target = bins.len().next_multiple_of(align);
    let tokens = |bin: &[u32]| bin.iter().map(|&unit| sizes[unit as usize]).sum::<u64>();
    while bins.len() < target {
        let largest = (0..bins.len()).filter(|&bin| bins[bin].len() > 1);
        let Some(largest) = largest.max_by_key(|&bin| (tokens(&bins[bin]), std::cmp::Reverse(bin))) else {
            let place = "the window".to_owned();
            return Err(BaselineError::EmptyCells { rule, units: sizes.len(), cells: target, place });
        };
        let mut units = std::mem::take(&mut bins[largest]);
        units.sort_by_key(|&unit| std::cmp::Reverse(sizes[unit as usize]));
        let mut halves = [Vec::new(), Vec::new()];
        for unit in units {
            let lighter = usize::from(tokens(&halves[1]) < tokens(&halves[0]));
            halves[lighter].push(unit);
        }
        let [one, other] = halves;
        bins[largest] = one;
        bins.push(other);
    }
    let used = target / instance.topology().num_slots();
    Ok(BaselineLayout { layout: layout_of(instance, used, &bins), own_rows: used > rows })
}

/// Every item into the first bin it fits in, in the order given.
fn first_fit(sizes: &[u64], capacity: u64) -> Vec<Vec<u32>> {
    let mut bins: Vec<(u64, Vec<u32>)> = Vec::new();
    for (item, &size) in (0..).zip(sizes) {
        match bins.iter_mut().find(|(tokens, _)| tokens + size <= capacity) {
            Some((tokens, bin)) => {
                *tokens += size;
                bin.push(item);
            }
            None => bins.push((size, vec![item])),
        }
    }
    bins.into_iter().map(|(_, bin)| bin).collect()
}
