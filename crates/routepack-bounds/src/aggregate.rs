//! Aggregate bound: the hottest experts, all together.
//!
//! Problem: E experts, P ranks of exactly s = E/P slots; bound the largest rank load from below.
//! Bound: max over t in 1..=E of min over u in ⌈t/s⌉..=min(t, P) of ⌈(t largest + u·s − t smallest) / u⌉.
//! Proof: the t hottest experts lie on some number u of ranks, ⌈t/s⌉ ≤ u ≤ min(t, P). Those ranks own u·s experts: the
//! t hottest and u·s − t others, which sum to at least the u·s − t smallest; the heaviest of the u ranks is at least
//! their average. Whatever u is, the peak is at least the least of these averages. ∎ (t = E gives the mean.)
//! Complexity: O(E·P) after sorting.
//! Reference: PLACEMENT §2.1 (iii).

use crate::peak_bounds::prefix_sums;

/// The bound for `ascending` loads (routed rows) on `num_ranks` ranks; 0 for no experts.
///
/// # Panics
/// `num_ranks` is 0.
pub fn aggregate(ascending: &[u64], num_ranks: usize) -> u128 {
    let sums = prefix_sums(ascending.iter().copied());
    let experts = ascending.len();
    let slots = experts / num_ranks;
    (1..=experts)
        .map(|top| {
            let hottest = sums[experts] - sums[experts - top];
            (top.div_ceil(slots)..=top.min(num_ranks))
                .map(|ranks| (hottest + sums[ranks * slots - top]).div_ceil(ranks as u128))
                .min()
                .unwrap_or(0)
        })
        .max()
        .unwrap_or(0)
}
