//! Best-fit decreasing.
//!
//! Problem: as for first-fit decreasing, but an item goes into the bin where it leaves least room, ties to the bin
//! opened first. An ordered set of (room, bin) finds it.
//! Complexity: O(n log n). At most 11/9·OPT + 6/9 bins (without q).
//! Reference: D. S. Johnson, A. Demers, J. D. Ullman, M. R. Garey, R. L. Graham, Worst-case performance bounds for
//! simple one-dimensional packing algorithms, SIAM J. Comput. 3 (1974), doi:10.1137/0203025.

use std::collections::BTreeSet;

use crate::first_fit_decreasing::decreasing;

/// Packs the items best-fit decreasing and returns bins of item indices, in the order the bins were opened, each in
/// the order it was filled. Arguments as for [`crate::first_fit_decreasing`].
///
/// # Panics
/// If a size exceeds the capacity.
///
/// ```
/// use routepack_binpack::best_fit_decreasing;
///
/// assert_eq!(best_fit_decreasing(&[5, 7, 3, 1], 8, None), [vec![1, 3], vec![0, 2]]);
/// ```
pub fn best_fit_decreasing(sizes: &[u64], capacity: u64, max_items: Option<u32>) -> Vec<Vec<u32>> {
    let mut open: BTreeSet<(u64, usize)> = BTreeSet::new();
    let mut bins: Vec<Vec<u32>> = Vec::new();
    for item in decreasing(sizes) {
        let size = sizes[item as usize];
        assert!(size <= capacity, "no item exceeds the capacity");
        let (room, bin) = open.range((size, 0)..).next().copied().unwrap_or((capacity, bins.len()));
        if bin == bins.len() {
            bins.push(Vec::new());
        }
        open.remove(&(room, bin));
        bins[bin].push(item);
        if max_items.is_none_or(|limit| bins[bin].len() < limit as usize) {
            open.insert((room - size, bin));
        }
    }
    bins
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn is_the_definition(sizes in prop::collection::vec(1_u64..=30, 0..60), limit in prop::option::of(1_u32..5)) {
            let mut bins: Vec<Vec<u32>> = Vec::new();
            for item in decreasing(&sizes) {
                let room = |bin: &Vec<u32>| 30 - bin.iter().map(|&other| sizes[other as usize]).sum::<u64>();
                let fits = |bin: &&usize| {
                    room(&bins[**bin]) >= sizes[item as usize]
                        && limit.is_none_or(|limit| bins[**bin].len() < limit as usize)
                };
                let all: Vec<usize> = (0..bins.len()).collect();
                match all.iter().filter(fits).min_by_key(|&&bin| room(&bins[bin])) {
                    Some(&bin) => bins[bin].push(item),
                    None => bins.push(vec![item]),
                }
            }
            prop_assert_eq!(best_fit_decreasing(&sizes, 30, limit), bins);
        }
    }
}
