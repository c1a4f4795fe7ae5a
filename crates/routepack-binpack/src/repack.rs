//! Local search: a few bins emptied and filled again.
//!
//! Problem: from a packing, one with fewer bins. The emptiest bin and a few random ones are emptied and their items
//! filled again by [`crate::subset_sum_fill`]; the new bins are kept if they are fewer, or as many and Σ load² is no
//! smaller, so that the empty room gathers in one bin until that bin is gone.
//! Complexity: O(tries · W·C/64).
//! References: ruin and recreate: G. Schrimpf, J. Schneider, H. Stamm-Wilbrandt, G. Dueck, J. Comput. Phys. 159 (2000),
//! doi:10.1006/jcph.1999.6413; Σ load² for bins: E. Falkenauer, J. Heuristics 2 (1996), doi:10.1007/BF00226291.

use routepack_anneal::Stream;

use crate::subset_sum_fill::{FillTry, subset_sum_fill};
use crate::types::{Pattern, Types};

/// Improves a packing until it has at most `wanted` bins, for so many tries.
pub fn repack(
    types: &Types,
    bins: &[Pattern],
    wanted: u64,
    tries: u32,
    stream: &Stream,
    stop: &(dyn Fn() -> bool + Sync),
) -> Vec<Pattern> {
    let mut bins = bins.to_vec();
    let mut draws = stream.child(0);
    for number in 1..=u64::from(tries) {
        if bins.len() as u64 <= wanted || bins.len() < 2 || stop() {
            break;
        }
        // The emptied bins to the end: the emptiest, and others.
        let emptied = (2 + draws.index(4)).min(bins.len());
        let emptiest = (0..bins.len()).min_by_key(|&bin| types.load(&bins[bin])).expect("there are two bins");
        let end = bins.len();
        bins.swap(emptiest, end - 1);
        for place in 1..emptied {
            bins.swap(draws.index(end - place), end - 1 - place);
        }
        let few = bins.split_off(end - emptied);
        bins.extend(refill(types, few, FillTry {
            window: 60,
            waste: [0.0, 0.9][draws.index(2)],
            chance: [0.0, 0.1, 0.3][draws.index(3)],
            stream: stream.child(number),
        }));
    }
    bins
}

/// The items of a few bins filled again; the bins themselves if that is worse.
fn refill(types: &Types, few: Vec<Pattern>, attempt: FillTry) -> Vec<Pattern> {
    let mut items: Vec<u32> = few.iter().flatten().copied().collect();
    items.sort_unstable();
    let kinds: Vec<u32> = items.chunk_by(|a, b| a == b).map(|same| same[0]).collect();
    let part = Types {
        capacity: types.capacity,
        max_items: types.max_items,
        sizes: kinds.iter().map(|&kind| types.sizes[kind as usize]).collect(),
        demands: items.chunk_by(|a, b| a == b).map(|same| same.len() as u32).collect(),
        members: Vec::new(),
    };
    let squares = |types: &Types, bins: &[Pattern]| -> u128 {
        bins.iter().map(|bin| u128::from(types.load(bin)).pow(2)).fold(0, u128::saturating_add)
    };
    match subset_sum_fill(&part, attempt, few.len() as u64, &|| false) {
        Some(again) if again.len() < few.len() || squares(&part, &again) >= squares(types, &few) => {
            again.into_iter().map(|bin| bin.into_iter().map(|place| kinds[place as usize]).collect()).collect()
        }
        _ => few,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use routepack_certificate::Statement;

    use super::*;
    use crate::first_fit_decreasing;

    proptest! {
        #[test]
        fn keeps_every_item_and_never_gets_worse(
            sizes in prop::collection::vec(1_u64..=60, 1..60), limit in prop::option::of(1_u32..6), seed: u64,
        ) {
            let statement = Statement { max_items: limit, ..Statement::bins(sizes, 60) };
            let types = Types::new(&statement).unwrap();
            let first = types.patterns_of(&first_fit_decreasing(&statement.sizes, 60, limit));
            let bins = repack(&types, &first, 1, 20, &Stream::new(seed), &|| false);
            prop_assert!(bins.len() <= first.len());
            types.hand_out(&bins);
            prop_assert!(bins.iter().all(|bin| types.load(bin) <= 60 && bin.len() as u64 <= types.places()));
        }
    }

    #[test]
    fn improves_first_fit_decreasing() {
        // 12 + 3 + 3 and 9 + 9 waste nothing; first-fit decreasing begins 12 + 6.
        let sizes = vec![12, 9, 9, 6, 6, 6, 3, 3];
        let types = Types::new(&Statement::bins(sizes.clone(), 18)).unwrap();
        let first = types.patterns_of(&[vec![0, 3], vec![1, 2], vec![4, 5], vec![6, 7]]);
        assert_eq!(repack(&types, &first, 3, 50, &Stream::new(1), &|| false).len(), 3);
    }
}
