//! How much the blocks of every EDP shard count in a placement for a layout.
//!
//! Problem: the score is that of the slowest shard, max_g U_g, while a placement lowers a sum of peaks over all blocks b =
//! (row, shard). Which weights w_b make Σ_b w_b·max_p W\[b,l,p\] follow the slowest?
//! Method: multipliers of the maximum: the blocks of shards slower than their average count three, of faster ones one, of
//! those about as fast two. Weights are small, so that weighted loads stay in the range of the kernels; where they do not,
//! all blocks count alike.
//! Complexity: one evaluation of every step's layout.
//! Reference: multipliers moved by how far the terms of a maximum are apart, M. Held, R. M. Karp, Mathematical Programming
//! 1 (1971), doi:10.1007/BF01584070; here in one step, from the draft at hand.

use routepack_place::{PlaceError, RowLoads};
use routepack_problem::{Instance, Layout, Placement, evaluate};

/// Weights of the blocks of a shard: faster than the average, about as fast, slower.
pub(crate) const WEIGHTS: [u32; 3] = [1, 2, 3];
/// A shard is about as fast as the average within one part in so many: what is less is the noise of arranging.
const LEVEL: u64 = 20_000;

/// How much the blocks of every shard count in a placement, `[steps][rows][shards]`: the slowest shard is what a score
/// charges, so its peaks are lowered at the cost of the others'; nothing where the shards of all steps are level.
pub(crate) fn block_weights(steps: &[(&Instance, &Layout)], placement: &Placement) -> Option<Vec<u32>> {
    let of_step = |&(instance, layout): &(&Instance, &Layout)| {
        let of_row = shard_weights(&evaluate(instance, placement, layout).shard_cost);
        of_row.repeat(layout.num_rows())
    };
    let is_uneven = |weights: &Vec<u32>| weights.iter().any(|&weight| weight != WEIGHTS[1]);
    (steps[0].0.topology().num_shards() > 1)
        .then(|| steps.iter().flat_map(of_step).collect())
        .filter(is_uneven)
}

fn shard_weights(costs: &[u64]) -> Vec<u32> {
    let sum: u128 = costs.iter().map(|&cost| u128::from(cost)).sum();
    let mean = (sum / costs.len() as u128) as u64;
    let [faster, even, slower] = WEIGHTS;
    let of_shard = |&cost: &u64| match cost.abs_diff(mean) >= mean / LEVEL {
        true if cost < mean => faster,
        true if cost > mean => slower,
        _ => even,
    };
    costs.iter().map(of_shard).collect()
}

/// `loads` with every block times its weight; nothing where that leaves the range of the kernels.
///
/// # Errors
/// Not one weight a block.
pub(crate) fn weighted(loads: &RowLoads, weights: &[u32]) -> Result<Option<RowLoads>, PlaceError> {
    match loads.weighted(weights) {
        Ok(weighted) => Ok(Some(weighted)),
        Err(PlaceError::BlockOverflow { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_shards_count_more() {
        assert_eq!(shard_weights(&[7]), [2]);
        assert_eq!(shard_weights(&[0, 0]), [2, 2]);
        assert_eq!(shard_weights(&[1_000_000, 1_000_049, 1_000_000 - 49]), [2, 2, 2]);
        assert_eq!(shard_weights(&[1_000_000, 1_000_050, 1_000_000 - 50]), [2, 3, 1]);
        assert_eq!(shard_weights(&[u64::MAX, u64::MAX, 0]), [3, 3, 1]);
    }

    #[test]
    fn only_what_leaves_the_range_counts_alike() {
        let loads = |load| RowLoads::new(2, 2, vec![vec![load; 4]]).expect("below the limit");
        let doubled = weighted(&loads(4), &[2, 1]).expect("one weight a block").expect("small");
        assert_eq!(doubled.of(0, 1), [8, 4]);
        assert_eq!(weighted(&loads((1 << 30) - 1), &[2, 1]), Ok(None));
        assert!(matches!(weighted(&loads(4), &[2]), Err(PlaceError::Weights { found: 1, expected: 2 })));
    }
}
