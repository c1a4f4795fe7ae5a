//! The best known formulas for the least possible peak of one layer, placement free.
//!
//! Problem: E experts with loads w, P ranks of exactly s = E/P slots each; minimise the largest rank load.
//! Bounds: *mean* ⌈Σw/P⌉ (the average rank is no heavier than the heaviest), [`pigeonhole`], [`aggregate`] and
//! [`nested`], each with its proof in its file.
//! Complexity: O(E log E + E·P) time (nested: O(E²) worst), O(E) space; sums in u128, so that any u64 loads are right.
//! Reference: mean and the problem (P | # ≤ k | Cmax) in W. Michiels, J. Korst, E. Aarts and J. van Leeuwen,
//! Performance ratios of the differencing method, 2012; DESIGN §1.3 and PLACEMENT §2.1 for the others.

use crate::{aggregate, nested, pigeonhole};

/// Lower bounds on the peak of one layer, in routed rows; each holds on its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeakBounds {
    /// ⌈total load / ranks⌉.
    pub mean: u64,
    /// Some rank owns two (three, …) of the hottest experts.
    pub pigeonhole: u64,
    /// The hottest t experts fill u ranks, which own the coldest experts at best beside them.
    pub aggregate: u64,
    /// The same ranks and experts as a smaller instance, whose pigeonhole counts too; never below the others.
    pub nested: u64,
}

impl PeakBounds {
    /// The largest of them.
    pub fn best(&self) -> u64 {
        self.mean.max(self.pigeonhole).max(self.aggregate).max(self.nested)
    }
}

/// All bounds on the largest rank load for `loads` `[experts]` (routed rows) on `num_ranks` equal ranks.
///
/// ```
/// // The hottest expert shares its rank with at least the coldest: 100 + 1.
/// assert_eq!(routepack_bounds::peak_bounds(&[100, 1, 1, 1, 1, 1, 1, 1], 4).best(), 101);
/// ```
///
/// # Panics
/// `num_ranks` is 0 or does not divide the number of experts: no equal placement exists.
pub fn peak_bounds(loads: &[u64], num_ranks: usize) -> PeakBounds {
    assert!(
        num_ranks > 0 && loads.len().is_multiple_of(num_ranks),
        "experts not divisible by ranks: {} experts, {num_ranks} ranks",
        loads.len()
    );
    let mut ascending = loads.to_vec();
    ascending.sort_unstable();
    let total: u128 = loads.iter().map(|&load| u128::from(load)).sum();
    PeakBounds {
        mean: saturate(total.div_ceil(num_ranks as u128)),
        pigeonhole: saturate(pigeonhole(&ascending, num_ranks, loads.len() / num_ranks)),
        aggregate: saturate(aggregate(&ascending, num_ranks)),
        nested: saturate(nested(&ascending, num_ranks)),
    }
}

/// A bound beyond u64 bounds a peak that no u64 can hold; `u64::MAX` is still a lower bound on it.
pub(crate) fn saturate(bound: u128) -> u64 {
    u64::try_from(bound).unwrap_or(u64::MAX)
}

/// `sums[k]` = sum of the first k values.
pub(crate) fn prefix_sums(values: impl IntoIterator<Item = u64>) -> Vec<u128> {
    let mut sums = vec![0u128];
    for value in values {
        sums.push(sums[sums.len() - 1] + u128::from(value));
    }
    sums
}
