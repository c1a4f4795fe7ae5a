//! Pigeonhole bound: too many large weights for too few bins.
//!
//! Problem: n weights into P bins, every bin with at least s of them; bound the largest bin sum from below.
//! Bound: max over j ≥ 0 with jP + 1 ≤ n of the j + 1 smallest among the jP + 1 largest weights plus the
//! (s − j − 1)⁺ smallest of all.
//! Proof: some bin holds j + 1 of the jP + 1 largest; they sum to at least the j + 1 smallest among those. If the bin
//! holds s weights, its other s − j − 1 are distinct weights and sum to at least that many smallest of all. ∎
//! (A weight may be counted in both sums; each sum is below what it bounds, so the proof does not care.)
//! With exactly s = E/P in every bin this is the placement bound (ii) of PLACEMENT §2.1, whose j runs to s − 1.
//! Complexity: O(n/P) after sorting and O(n) for prefix sums.

use crate::peak_bounds::prefix_sums;

/// The bound for `ascending` weights in `num_bins` bins of at least `per_bin` weights each; 0 for no weights.
pub fn pigeonhole(ascending: &[u64], num_bins: usize, per_bin: usize) -> u128 {
    let sums = prefix_sums(ascending.iter().copied());
    let n = ascending.len();
    (0..)
        .map_while(|j: usize| {
            let top = j * num_bins + 1;
            (top <= n).then(|| {
                let smallest_of_top = sums[n - top + j + 1] - sums[n - top];
                smallest_of_top + sums[per_bin.saturating_sub(j + 1).min(n)]
            })
        })
        .max()
        .unwrap_or(0)
}
