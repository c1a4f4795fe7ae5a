//! Re-split of rank pairs: the heaviest rank and another dealt anew.
//!
//! Problem: two ranks with s experts each; deal their 2s experts anew, s each, so that the heavier of the two is as light
//! as possible.
//! Method: the best exchange of any number of experts (`exchange.rs`): *exact* when every c ≤ s/2 has at most
//! `max_subsets` subsets, else of the small c that have. Partners of the heaviest rank are tried lightest first (ties:
//! lower rank), the first exchange that leaves both ranks lighter than the heaviest was is made, until none is left.
//! Complexity: Σ_c C(s,c)·(P + log) a step. Every step lowers Σ load², so the loop ends.
//! Reference: PLACEMENT §2.4.

use crate::exchange::Exchanges;
use crate::ranks::Ranks;

/// Re-splits until the peak is `enough`, no pair improves, or `limit` exchanges are made; returns how many were made.
pub(crate) fn resplit_pairs(
    ranks: &mut Ranks<'_>,
    exchanges: &mut Exchanges<'_>,
    enough: u64,
    limit: u32,
) -> u32 {
    for made in 0..limit {
        let heaviest = ranks.heaviest();
        if ranks.sums()[heaviest] <= enough {
            return made;
        }
        let found = ranks
            .lighter_than(heaviest)
            .into_iter()
            .find_map(|partner| exchanges.best(ranks, (heaviest, partner), usize::MAX, enough));
        match found {
            Some(exchange) => exchanges.make(ranks, exchange),
            None => return made,
        }
    }
    limit
}

#[cfg(test)]
mod tests {
    use itertools::Itertools;
    use proptest::prelude::*;

    use super::*;
    use crate::exchange::Subsets;

    fn resplit(ranks: &mut Ranks<'_>, subsets: &Subsets) -> u32 {
        let mut exchanges = Exchanges::new(subsets, ranks.sums().len());
        resplit_pairs(ranks, &mut exchanges, 0, u32::MAX)
    }

    fn best_split(loads: &[u64]) -> u64 {
        let total: u64 = loads.iter().sum();
        (0..loads.len())
            .combinations(loads.len() / 2)
            .map(|half| half.into_iter().map(|expert| loads[expert]).sum::<u64>())
            .map(|sum| sum.max(total - sum))
            .min()
            .unwrap_or(0)
    }

    proptest! {
        #[test]
        fn two_ranks_are_split_exactly(
            loads in (1usize..=6).prop_flat_map(|slots| prop::collection::vec(
                prop_oneof![0u64..20, 0u64..100_000, (1u64 << 58)..(1 << 58) + 9], 2 * slots)),
        ) {
            let slots = loads.len() / 2;
            let mut ranks = Ranks::new(&loads, 2, (0..loads.len() as u32).collect());
            resplit(&mut ranks, &Subsets::new(slots, usize::MAX));
            prop_assert_eq!(ranks.peak(), best_split(&loads));
            let mut experts = ranks.all_members().to_vec();
            experts.sort_unstable();
            prop_assert_eq!(experts, (0..loads.len() as u32).collect::<Vec<_>>());
            let fresh = Ranks::new(&loads, 2, ranks.all_members().to_vec());
            prop_assert_eq!(ranks.sums(), fresh.sums());
        }

        #[test]
        fn few_subsets_never_worsen(loads in prop::collection::vec(0u64..1000, 24), limit in 0usize..30) {
            let mut ranks = Ranks::new(&loads, 3, (0..24).collect());
            let before = ranks.peak();
            let made = resplit(&mut ranks, &Subsets::new(8, limit));
            prop_assert!(ranks.peak() <= before && (made > 0 || ranks.peak() == before));
            prop_assert!(limit >= 8 || made == 0, "no subsets, no exchange");
        }
    }
}
