//! Local search: a few bins emptied and filled again.
//!
//! Problem: from a packing, one with fewer bins. The emptiest bin and a few random ones are emptied and their items
//! filled again by [`crate::subset_sum_fill`]; the new bins are kept if they are fewer, or as many and Σ load² is no
//! smaller, so that the empty room gathers in one bin until that bin is gone.
//! Complexity: O(tries · (bins + W·C/64)).
//! References: ruin and recreate: G. Schrimpf, J. Schneider, H. Stamm-Wilbrandt, G. Dueck, J. Comput. Phys. 159 (2000),
//! doi:10.1006/jcph.1999.6413; Σ load² for bins: E. Falkenauer, J. Heuristics 2 (1996), doi:10.1007/BF00226291.

use routepack_anneal::Stream;

use crate::subset_sum_fill::{FillTry, subset_sum_fill};
use crate::types::{Pattern, Types};

/// Improves a packing until it has at most `wanted` bins; gives up after so many tries without a larger Σ load².
pub fn repack(
    types: &Types,
    bins: &[Pattern],
    wanted: u64,
    tries: u32,
    stream: &Stream,
    stop: &(dyn Fn() -> bool + Sync),
) -> Vec<Pattern> {
    let mut bins: Vec<(u64, Pattern)> = bins.iter().map(|bin| (types.load(bin), bin.clone())).collect();
    let mut draws = stream.child(0);
    let (mut number, mut last) = (0, 0);
    while bins.len() as u64 > wanted && bins.len() > 1 && number - last < u64::from(tries) && !stop() {
        number += 1;
        // The emptied bins to the end: the emptiest, and others, each the emptiest of some drawn.
        let emptied = (2 + draws.index(4)).min(bins.len());
        let drawing = [1, 3][draws.index(2)];
        for place in 0..emptied {
            let end = bins.len() - place;
            let chosen = if place == 0 {
                (0..end).min_by_key(|&bin| bins[bin].0)
            } else {
                (0..drawing).map(|_| draws.index(end)).min_by_key(|&bin| bins[bin].0)
            };
            bins.swap(chosen.expect("there are two bins"), end - 1);
        }
        let few = bins.split_off(bins.len() - emptied).into_iter().map(|bin| bin.1).collect();
        let chance = [0.0, 0.1, 0.3][draws.index(3)];
        let attempt = FillTry { window: 60, waste: 0.0, chance, stream: stream.child(number) };
        let (again, better) = refill(types, few, attempt);
        bins.extend(again.into_iter().map(|bin| (types.load(&bin), bin)));
        if better {
            last = number;
        }
    }
    bins.into_iter().map(|bin| bin.1).collect()
}

/// The items of a few bins filled again, and whether that is better; the bins themselves if it is worse.
fn refill(types: &Types, few: Vec<Pattern>, attempt: FillTry) -> (Vec<Pattern>, bool) {
    let mut items: Vec<u32> = few.iter().flatten().copied().collect();
    items.sort_unstable();
    let same = items.chunk_by(|a, b| a == b).map(|same| (same[0], same.len() as u32));
    let (part, kinds) = types.part(same);
    let squares = |types: &Types, bins: &[Pattern]| -> u128 {
        bins.iter().map(|bin| u128::from(types.load(bin)).pow(2)).fold(0, u128::saturating_add)
    };
    let before = squares(types, &few);
    match subset_sum_fill(&part, attempt, few.len() as u64, &|| false) {
        Some(again) if again.len() < few.len() || squares(&part, &again) >= before => {
            let better = again.len() < few.len() || squares(&part, &again) > before;
            let named =
                again.into_iter().map(|bin| bin.into_iter().map(|place| kinds[place as usize]).collect());
            (named.collect(), better)
        }
        _ => (few, false),
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
