//! Martello and Toth's bound L2, at all thresholds.
//!
//! Problem: fewest bins of capacity C. For a threshold α ≤ C/2 an item above C − α shares its bin with no item of α
//! or more: it counts as a full bin, items below α count nothing, the others their size. The items above C/2 need a bin
//! each. L2 is the best of these.
//! As weights: f_α(w) = C for w > C − α, w for α ≤ w ≤ C − α, 0 below; no bin holds more than C of them.
//! Only the sizes themselves matter as thresholds. Complexity: O(m) on types in decreasing order.
//! Reference: S. Martello, P. Toth, Lower bounds and reduction procedures for the bin packing problem, Discrete
//! Applied Mathematics 28 (1990), doi:10.1016/0166-218X(90)90094-S; f_α is f_0 of S. P. Fekete, J. Schepers, New classes of
//! fast lower bounds for bin packing problems, Math. Programming 91 (2001), doi:10.1007/s101070100243.

use crate::bound::Bound;
use crate::types::Types;

/// The largest bound over all thresholds, with its weights.
pub fn l2_bound(types: &Types) -> Bound {
    let capacity = types.capacity;
    let halves = types.first_fitting(capacity / 2);
    let sum = |kinds: std::ops::Range<usize>| -> u128 {
        kinds.map(|kind| u128::from(types.sizes[kind]) * u128::from(types.demands[kind])).sum()
    };
    let above_half: u64 = types.demands[..halves].iter().map(|&demand| u64::from(demand)).sum();
    // Thresholds from C/2 down: `whole` items count as full bins, `volume` is that of the types from `large` to `kind`.
    let (mut large, mut whole, mut volume) = (halves, above_half, 0);
    let mut best = (u128::from(above_half), None);
    for kind in halves..types.len() {
        let threshold = types.sizes[kind];
        while large > 0 && types.sizes[large - 1] <= capacity - threshold {
            large -= 1;
            whole -= u64::from(types.demands[large]);
            volume += sum(large..large + 1);
        }
        volume += sum(kind..kind + 1);
        let cells = u128::from(whole) + volume.div_ceil(u128::from(capacity));
        if cells > best.0 {
            best = (cells, Some(threshold));
        }
    }
    let Some(threshold) = best.1 else {
        let weights = (0..types.len()).map(|kind| u128::from(kind < halves)).collect();
        return Bound::by_weights(types, weights, 1, "items above half the capacity");
    };
    let weights = types.sizes.iter().map(|&size| u128::from(threshold_weight(size, threshold, capacity)));
    Bound::by_weights(types, weights.collect(), capacity.into(), format!("L2 at threshold {threshold}"))
}

/// f_α(w): C above C − α, w down to α, 0 below.
pub(crate) fn threshold_weight(size: u64, threshold: u64, capacity: u64) -> u64 {
    if size > capacity - threshold {
        capacity
    } else if size >= threshold {
        size
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use routepack_certificate::{Limits, Proof, Statement, max_pattern_value};

    use super::*;

    /// The definition of 1990, for one threshold.
    fn by_definition(sizes: &[u64], capacity: u64, threshold: u64) -> u64 {
        let (one, two): (Vec<u64>, Vec<u64>) =
            sizes.iter().filter(|&&w| 2 * w > capacity).partition(|&&w| w > capacity - threshold);
        let three: u64 = sizes.iter().filter(|&&w| 2 * w <= capacity && w >= threshold).sum();
        let room = two.len() as u64 * capacity - two.iter().sum::<u64>();
        (one.len() + two.len()) as u64 + three.saturating_sub(room).div_ceil(capacity)
    }

    proptest! {
        #[test]
        fn is_the_definition(sizes in prop::collection::vec(1_u64..=31, 1..40)) {
            let statement = Statement::bins(sizes.clone(), 31);
            let types = Types::new(&statement).unwrap();
            let bound = l2_bound(&types);
            prop_assert_eq!(bound.cells, (0..=15).map(|threshold| by_definition(&sizes, 31, threshold)).max().unwrap());
            let Proof::Weights(weights) = bound.proof else { panic!("L2 proves by weights") };
            let most = max_pattern_value(&statement, &weights, &Limits::default()).unwrap();
            prop_assert!(types.total_weight(&weights).div_ceil(u128::from(most)) >= u128::from(bound.cells));
        }
    }

    #[test]
    fn weights_of_the_largest_capacity_fit() {
        let top = 1_u64 << 62;
        let statement = Statement::bins(vec![top - 3, top - 2, top / 2 - 1, top / 2, 7], top);
        let types = Types::new(&statement).unwrap();
        let bound = l2_bound(&types);
        let Proof::Weights(weights) = bound.proof else { panic!("L2 proves by weights") };
        assert_eq!(bound.cells, 3);
        assert!(max_pattern_value(&statement, &weights, &Limits::default()).is_ok());
    }
}
