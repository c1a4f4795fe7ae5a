//! Local search: a few bins emptied and filled again.
//!
//! Problem: from a packing, one with fewer bins. The emptiest bin and a few random ones are emptied and their items
//! filled again by [`crate::subset_sum_fill`]; the new bins are kept if they are fewer, or as many and Σ load² is no
//! smaller, so that the empty room gathers in one bin until that bin is gone.
//! Complexity: O(tries · (log bins + W·C/64)).
//! References: ruin and recreate: G. Schrimpf, J. Schneider, H. Stamm-Wilbrandt, G. Dueck, J. Comput. Phys. 159 (2000),
//! doi:10.1006/jcph.1999.6413; Σ load² for bins: E. Falkenauer, J. Heuristics 2 (1996), doi:10.1007/BF00226291.

use std::collections::BTreeSet;

use routepack_anneal::Stream;

use crate::subset_sum_fill::{FillTry, subset_sum_fill};
use crate::types::{Pattern, Types};

/// Improves a packing until it has at most `wanted` bins; gives up after so many tries without a larger Σ load², or five
/// times as many in all.
pub fn repack(
    types: &Types,
    bins: &[Pattern],
    wanted: u64,
    tries: u64,
    stream: &Stream,
    stop: &(dyn Fn() -> bool + Sync),
) -> Vec<Pattern> {
    let mut bins: Vec<(u64, Pattern)> = bins.iter().map(|bin| (types.load(bin), bin.clone())).collect();
    let mut by_load: BTreeSet<(u64, usize)> =
        bins.iter().enumerate().map(|(place, bin)| (bin.0, place)).collect();
    let mut draws = stream.child(0);
    let (mut number, mut last) = (0, 0);
    while bins.len() as u64 > wanted
        && bins.len() > 1
        && number - last < tries
        && number < tries.saturating_mul(5)
        && !stop()
    {
        number += 1;
        let few = draw_few(&bins, &by_load, &mut draws);
        let chance = [0.0, 0.1, 0.3][draws.index(3)];
        let attempt = FillTry { window: 60, waste: 0.0, chance, stream: stream.child(number) };
        let Some((again, better)) = refill(types, &bins, &few, attempt) else { continue };
        if better {
            last = number;
        }
        let mut again = again.into_iter();
        // Decreasing, so that a bin that moves to a place left empty is not one of the few.
        for place in few {
            by_load.remove(&(bins[place].0, place));
            if let Some(bin) = again.next() {
                bins[place] = (types.load(&bin), bin);
            } else {
                bins.swap_remove(place);
                if place == bins.len() {
                    continue;
                }
                by_load.remove(&(bins[place].0, bins.len()));
            }
            by_load.insert((bins[place].0, place));
        }
    }
    bins.into_iter().map(|bin| bin.1).collect()
}

/// The places of two to five bins, decreasing: the emptiest, and others, each the emptiest of some drawn.
fn draw_few(bins: &[(u64, Pattern)], by_load: &BTreeSet<(u64, usize)>, draws: &mut Stream) -> Vec<usize> {
    let number = 2 + draws.index(4);
    let drawing = [1, 3][draws.index(2)];
    let mut few: Vec<usize> = by_load.first().map(|&(_, place)| place).into_iter().collect();
    for _ in 1..number {
        few.extend((0..drawing).map(|_| draws.index(bins.len())).min_by_key(|&place| bins[place].0));
    }
    few.sort_unstable_by(|a, b| b.cmp(a));
    few.dedup();
    few
}

/// The items of a few bins filled again, and whether that is better; `None` if it is worse.
fn refill(
    types: &Types,
    bins: &[(u64, Pattern)],
    few: &[usize],
    attempt: FillTry,
) -> Option<(Vec<Pattern>, bool)> {
    let mut items: Vec<u32> = few.iter().flat_map(|&place| &bins[place].1).copied().collect();
    items.sort_unstable();
    let same = items.chunk_by(|a, b| a == b).map(|same| (same[0], same.len() as u32));
    let (part, kinds) = types.part(same);
    let squares = |loads: &mut dyn Iterator<Item = u64>| {
        loads.map(|load| u128::from(load).pow(2)).fold(0, u128::saturating_add)
    };
    let before = squares(&mut few.iter().map(|&place| bins[place].0));
    let again = subset_sum_fill(&part, attempt, few.len() as u64, &|| false)?;
    let after = squares(&mut again.iter().map(|bin| part.load(bin)));
    if again.len() == few.len() && after < before {
        return None;
    }
    let better = again.len() < few.len() || after > before;
    let named = again.into_iter().map(|bin| bin.into_iter().map(|place| kinds[place as usize]).collect());
    Some((named.collect(), better))
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
