//! First-fit decreasing.
//!
//! Problem: pack n items into few bins of capacity C with at most q items each. Items go in decreasing size, equal
//! sizes in input order, each into the first bin with room; a tree of maxima over the bins finds it.
//! Complexity: O(n log n). At most 11/9·OPT + 6/9 bins (without q).
//! Reference: D. S. Johnson, Near-optimal bin packing algorithms, MIT, 1973; the constant is G. Dósa's (2007),
//! doi:10.1007/978-3-540-74450-4_1.

/// Packs the items first-fit decreasing and returns bins of item indices, in the order the bins were opened, each
/// in the order it was filled. The reference arm "baseline" of DESIGN §1.4 lays these bins out by number.
///
/// `sizes`: `[items]`, each in `1..=capacity` (see [`routepack_certificate::Statement::validate`]); `max_items`: most
/// items in one bin, at least 1.
///
/// # Panics
/// If a size exceeds the capacity, or `max_items` is 0.
///
/// ```
/// use routepack_binpack::first_fit_decreasing;
///
/// assert_eq!(first_fit_decreasing(&[2, 6, 5, 3], 8, None), [vec![1, 0], vec![2, 3]]);
/// assert_eq!(first_fit_decreasing(&[1, 1, 1, 1], 8, Some(3)), [vec![0, 1, 2], vec![3]]);
/// ```
pub fn first_fit_decreasing(sizes: &[u64], capacity: u64, max_items: Option<u32>) -> Vec<Vec<u32>> {
    let leaves = sizes.len().next_power_of_two();
    // Node k has children 2k and 2k + 1; the leaves are the bins' rooms, a full or crowded bin has none.
    let mut rooms = vec![capacity; 2 * leaves];
    let mut bins: Vec<Vec<u32>> = Vec::new();
    for item in decreasing(sizes) {
        let size = sizes[item as usize];
        assert!(size <= rooms[1], "no item exceeds the capacity, and a bin takes at least one");
        let mut node = 1;
        while node < leaves {
            node = if rooms[2 * node] >= size { 2 * node } else { 2 * node + 1 };
        }
        let bin = node - leaves;
        if bin == bins.len() {
            bins.push(Vec::new());
        }
        bins[bin].push(item);
        rooms[node] -= size;
        if max_items.is_some_and(|limit| bins[bin].len() >= limit as usize) {
            rooms[node] = 0;
        }
        while node > 1 {
            node /= 2;
            rooms[node] = rooms[2 * node].max(rooms[2 * node + 1]);
        }
    }
    bins
}

/// Items in decreasing size, equal sizes in input order.
pub(crate) fn decreasing(sizes: &[u64]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..sizes.len() as u32).collect();
    order.sort_by_key(|&item| std::cmp::Reverse(sizes[item as usize]));
    order
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition, quadratic.
    fn by_definition(sizes: &[u64], capacity: u64, max_items: Option<u32>) -> Vec<Vec<u32>> {
        let mut bins: Vec<Vec<u32>> = Vec::new();
        for item in decreasing(sizes) {
            let fits = |bin: &Vec<u32>| {
                let load: u64 = bin.iter().map(|&other| sizes[other as usize]).sum();
                load + sizes[item as usize] <= capacity
                    && max_items.is_none_or(|limit| bin.len() < limit as usize)
            };
            match bins.iter().position(fits) {
                Some(bin) => bins[bin].push(item),
                None => bins.push(vec![item]),
            }
        }
        bins
    }

    proptest! {
        #[test]
        fn is_the_definition(sizes in prop::collection::vec(1_u64..=30, 0..60), limit in prop::option::of(1_u32..5)) {
            prop_assert_eq!(first_fit_decreasing(&sizes, 30, limit), by_definition(&sizes, 30, limit));
        }
    }

    #[test]
    fn sizes_near_the_end_of_64_bits() {
        assert_eq!(first_fit_decreasing(&[u64::MAX, 1, u64::MAX - 1], u64::MAX, None), [vec![0], vec![2, 1]]);
    }
}
