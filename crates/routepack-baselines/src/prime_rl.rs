//! prime-rl: first-fit decreasing over the window, then bins to DP ranks by work, refined by swaps.
//!
//! The heaviest bins are split until whole rows are full; largest differencing gives every rank as many bins, and while a
//! swap of a bin of the most loaded rank with one of another lowers the larger of the two loads, the best such swap is made.
//! Work is what the job's cost model charges for attention.
//!
//! Written from a description of prime-rl's `trainer/batch.py` (commit 559b4477); not from its code. O(bins²) a swap.

use routepack_binpack::first_fit_decreasing;
use routepack_problem::Instance;

use crate::deal::{cells_by_slot, fill_rows, unit_sizes};
use crate::karmarkar_karp::karmarkar_karp;
use crate::{BaselineError, BaselineLayout};

/// First-fit decreasing, largest differencing over ranks, swaps.
///
/// # Errors
/// Fewer units than cells, or groups of samples under a limit on samples per cell.
pub fn prime_rl(instance: &Instance, rows: usize) -> Result<BaselineLayout, BaselineError> {
    const RULE: &str = "prime-rl refinement";
    let sizes = unit_sizes(instance, RULE)?;
    let (capacity, limit) = (u64::from(instance.cell_capacity()), instance.setting().packing.max_samples);
    let mut bins = first_fit_decreasing(&sizes, capacity, limit);
    let used = fill_rows(instance, &mut bins, &sizes, 1, RULE)?;
    let work: Vec<u64> = bins.iter().map(|bin| work_of(instance, bin)).collect();
    let mut ranks = karmarkar_karp(&work, instance.topology().num_slots(), true);
    while swap_once(&mut ranks, &work) {}
    let cells: Vec<Vec<Vec<u32>>> = ranks
        .into_iter()
        .map(|mut of_rank| {
            // Heaviest first on every rank: rows of like bins.
            of_rank.sort_by_key(|&bin| (std::cmp::Reverse(work[bin as usize]), bin));
            of_rank.into_iter().map(|bin| bins[bin as usize].clone()).collect()
        })
        .collect();
    Ok(BaselineLayout { layout: cells_by_slot(instance, used, &cells), own_rows: used > rows })
}

fn work_of(instance: &Instance, bin: &[u32]) -> u64 {
    let samples = bin.iter().flat_map(|&unit| instance.unit(unit as usize));
    samples.flat_map(|&sample| instance.charges().attention(sample as usize)).sum()
}

/// Makes the best swap of the most loaded rank, if one lowers the larger load of the two ranks.
fn swap_once(ranks: &mut [Vec<u32>], work: &[u64]) -> bool {
    let loads: Vec<u64> = ranks.iter().map(|bins| bins.iter().map(|&bin| work[bin as usize]).sum()).collect();
    let heavy = (0..ranks.len()).max_by_key(|&rank| (loads[rank], std::cmp::Reverse(rank))).unwrap_or(0);
    let mut best: Option<(u64, usize, usize, usize)> = None;
    for other in (0..ranks.len()).filter(|&other| other != heavy) {
        for (place, &bin) in ranks[heavy].iter().enumerate() {
            for (at, &for_bin) in ranks[other].iter().enumerate() {
                let (mine, theirs) = (work[bin as usize], work[for_bin as usize]);
                let larger = (loads[heavy] - mine + theirs).max(loads[other] - theirs + mine);
                if larger < loads[heavy] && best.is_none_or(|(least, ..)| larger < least) {
                    best = Some((larger, other, place, at));
                }
            }
        }
    }
    let Some((_, other, place, at)) = best else { return false };
    let bin = ranks[heavy][place];
    ranks[heavy][place] = std::mem::replace(&mut ranks[other][at], bin);
    true
}
