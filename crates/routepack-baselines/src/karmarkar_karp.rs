//! Largest differencing: items into k parts of nearly equal sums.
//!
//! Every item begins as a partition of its own into k parts, k − 1 of them empty. The two partitions of largest spread
//! (largest minus smallest sum) are joined, largest part with smallest, until one is left. With equal sizes, partitions
//! begin as k consecutive items of the sorted list, one a part, so that every part ends with n/k items.
//! N. Karmarkar and R. Karp, "The differencing method of set partitioning", UCB/CSD 82/113, 1982; for k parts: W. Michiels,
//! J. Korst, E. Aarts, J. van Leeuwen, "Performance ratios for the differencing method", doi:10.1007/3-540-36494-3_51.
//! O(n·k·log(n·k)).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A part: its sum and its items, ordered by both.
type Part = (u64, Vec<u32>);

/// A partition on the heap: spread, then the earliest made, then its parts from the largest sum on.
type Partition = (u64, Reverse<usize>, Vec<Part>);

/// Parts of nearly equal sums, items ascending in each, parts by their first item.
///
/// With `equal_sizes`, the number of weights must be a multiple of `parts`.
pub(crate) fn karmarkar_karp(weights: &[u64], parts: usize, equal_sizes: bool) -> Vec<Vec<u32>> {
    assert!(!equal_sizes || weights.len().is_multiple_of(parts), "{} items in {parts}", weights.len());
    let mut order: Vec<u32> = (0..weights.len() as u32).collect();
    order.sort_by_key(|&item| (weights[item as usize], item));
    let block = if equal_sizes { parts } else { 1 };
    let mut heap: BinaryHeap<Partition> = BinaryHeap::new();
    for (made, items) in order.chunks(block).enumerate() {
        let single = items.iter().map(|&item| (weights[item as usize], vec![item]));
        heap.push(partition(single.chain((items.len()..parts).map(|_| (0, Vec::new()))).collect(), made));
    }
    let mut made = heap.len();
    while heap.len() > 1 {
        let (Some((.., one)), Some((.., other))) = (heap.pop(), heap.pop()) else { break };
        let joined = one.into_iter().zip(other.into_iter().rev());
        let joined = joined.map(|((sum, mut items), (more, others))| {
            items.extend(others);
            (sum + more, items)
        });
        heap.push(partition(joined.collect(), made));
        made += 1;
    }
    let last = heap.pop().map_or_else(|| vec![(0, Vec::new()); parts], |(.., last)| last);
    let mut found: Vec<Vec<u32>> = last
        .into_iter()
        .map(|(_, mut items)| {
            items.sort_unstable();
            items
        })
        .collect();
    found.sort_unstable();
    found
}

fn partition(mut parts: Vec<Part>, made: usize) -> Partition {
    parts.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
    let spread = parts[0].0 - parts[parts.len() - 1].0;
    (spread, Reverse(made), parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sums(parts: &[Vec<u32>], weights: &[u64]) -> Vec<u64> {
        parts.iter().map(|part| part.iter().map(|&item| weights[item as usize]).sum()).collect()
    }

    #[test]
    fn the_classic_example() {
        // 8 7 6 5 4 into two: differences 8−7, 6−5, then 4−1, 3−1: parts of 16 and 14.
        let weights = [8, 7, 6, 5, 4];
        let mut sums = sums(&karmarkar_karp(&weights, 2, false), &weights);
        sums.sort_unstable();
        assert_eq!(sums, [14, 16]);
    }

    proptest! {
        #[test]
        fn every_item_once_and_equal_sizes_where_asked(
            weights in prop::collection::vec(1u64..1000, 12..13),
            parts in prop::sample::select(vec![1usize, 2, 3, 4, 6]),
            equal_sizes in prop::bool::ANY,
        ) {
            let found = karmarkar_karp(&weights, parts, equal_sizes);
            prop_assert_eq!(found.len(), parts);
            let mut items: Vec<u32> = found.concat();
            items.sort_unstable();
            prop_assert_eq!(items, (0..12).collect::<Vec<_>>());
            prop_assert!(!equal_sizes || found.iter().all(|part| part.len() == 12 / parts));
            // Never a spread beyond the heaviest item, as with any greedy rule.
            if !equal_sizes {
                let sums = sums(&found, &weights);
                let spread = sums.iter().max().zip(sums.iter().min()).map(|(most, least)| most - least);
                prop_assert!(spread <= weights.iter().max().copied());
            }
        }
    }
}
