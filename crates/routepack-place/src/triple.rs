//! Re-split of rank triples: three ranks dealt anew, exactly.
//!
//! Problem: three ranks, a the heaviest, with s experts each; deal their 3s experts anew, s each, so that the heaviest
//! of the three becomes lighter.
//! Method: sort the 3s experts; the heaviest of them is in the first group (symmetry), whose C(3s−1, s−1) choices are
//! filtered by the window [S − 2T, T] that all three sums must be in if none is to exceed T (S their total); for the
//! few that pass, the best split of the other 2s (again with its heaviest fixed, C(2s−1, s−1) ways) is found by trying
//! all. T shrinks as better deals are found. Groups go back to the ranks that hold most of their experts.
//! Complexity: C(3s−1, s−1) a triple plus the few that pass; P²/2 triples a step. For s ≤ 6.
//! Reference: PLACEMENT §2.4 (exact re-split of triples), derived here.

use itertools::Itertools;

use crate::ranks::Ranks;

/// Largest s for which triples are dealt anew.
pub(crate) const MAX_SLOTS: usize = 6;

/// First groups of 3s and of 2s experts, as positions.
#[derive(Clone, Debug)]
pub(crate) struct Deals {
    slots: usize,
    /// `[deals · slots]`, each with position 0.
    of_three: Vec<u8>,
    of_two: Vec<u8>,
}

impl Deals {
    /// The deals of `slots` experts a rank.
    pub(crate) fn new(slots: usize) -> Self {
        let with_first = |n: usize| {
            (1..n as u8).combinations(slots - 1).flat_map(|rest| std::iter::once(0).chain(rest)).collect()
        };
        Self { slots, of_three: with_first(3 * slots), of_two: with_first(2 * slots) }
    }
}

/// Deals triples anew until the peak is `enough`, none improves, or `limit` deals are made; returns how many were made.
pub(crate) fn resplit_triples(ranks: &mut Ranks<'_>, deals: &Deals, enough: u64, limit: u32) -> u32 {
    for made in 0..limit {
        let heaviest = ranks.heaviest();
        let peak = ranks.sums()[heaviest];
        if peak <= enough {
            return made;
        }
        let mut others: Vec<usize> =
            (0..ranks.sums().len()).filter(|&rank| ranks.sums()[rank] < peak).collect();
        others.sort_unstable_by_key(|&rank| (ranks.sums()[rank], rank));
        let found = (1..others.len())
            .flat_map(|second| (0..second).map(move |first| (first, second)))
            .find_map(|(first, second)| {
                let triple = [heaviest, others[first], others[second]];
                best_deal(ranks, deals, triple, enough).map(|groups| (triple, groups))
            });
        let Some((triple, groups)) = found else { return made };
        return_home(ranks, triple, &groups, deals.slots);
    }
    limit
}

/// Three groups `[3 · slots]` whose heaviest is lightest, if lighter than the heaviest rank of the triple.
fn best_deal(ranks: &Ranks<'_>, deals: &Deals, triple: [usize; 3], enough: u64) -> Option<Vec<u32>> {
    let slots = deals.slots;
    let mut experts: Vec<u32> = triple.iter().flat_map(|&rank| ranks.members(rank)).copied().collect();
    experts.sort_unstable_by_key(|&expert| (std::cmp::Reverse(ranks.load(expert)), expert));
    let loads: Vec<u64> = experts.iter().map(|&expert| ranks.load(expert)).collect();
    let total: u64 = loads.iter().sum();
    let mut limit = triple.iter().map(|&rank| ranks.sums()[rank]).max().unwrap_or(0);
    let mut best = None;
    for first in deals.of_three.chunks_exact(slots) {
        let sum: u64 = first.iter().map(|&position| loads[usize::from(position)]).sum();
        // Below the limit, with room for two more below it.
        if sum >= limit || sum + 2 * (limit - 1) < total {
            continue;
        }
        let rest: Vec<usize> =
            (0..3 * slots).filter(|position| !first.contains(&(*position as u8))).collect();
        for second in deals.of_two.chunks_exact(slots) {
            let second_sum: u64 = second.iter().map(|&position| loads[rest[usize::from(position)]]).sum();
            let heaviest = sum.max(second_sum).max(total - sum - second_sum);
            if heaviest < limit {
                limit = heaviest;
                let third = (0..2 * slots as u8).filter(|position| !second.contains(position));
                best = Some(
                    first
                        .iter()
                        .map(|&position| usize::from(position))
                        .chain(
                            second.iter().copied().chain(third).map(|position| rest[usize::from(position)]),
                        )
                        .map(|position| experts[position])
                        .collect(),
                );
                if limit <= enough {
                    return best;
                }
            }
        }
    }
    best
}

/// Gives every group to one of the three ranks so that as few experts as possible change ranks.
fn return_home(ranks: &mut Ranks<'_>, triple: [usize; 3], groups: &[u32], slots: usize) {
    let groups: Vec<&[u32]> = groups.chunks(slots).collect();
    let stay = |group: &[u32], rank: usize| {
        group.iter().filter(|expert| ranks.members(rank).contains(expert)).count()
    };
    let order = (0..3)
        .permutations(3)
        .max_by_key(|order| {
            let kept: usize = order.iter().zip(triple).map(|(&group, rank)| stay(groups[group], rank)).sum();
            (kept, std::cmp::Reverse(order.clone()))
        })
        .expect("six orders");
    for (group, rank) in order.into_iter().zip(triple) {
        ranks.assign(rank, groups[group]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn best_of_three(loads: &[u64]) -> u64 {
        let slots = loads.len() / 3;
        let sum = |group: &[usize]| group.iter().map(|&expert| loads[expert]).sum::<u64>();
        let mut best = u64::MAX;
        for first in (0..loads.len()).combinations(slots) {
            let rest: Vec<usize> = (0..loads.len()).filter(|expert| !first.contains(expert)).collect();
            for second in rest.iter().copied().combinations(slots) {
                let third: Vec<usize> =
                    rest.iter().copied().filter(|expert| !second.contains(expert)).collect();
                best = best.min(sum(&first).max(sum(&second)).max(sum(&third)));
            }
        }
        best
    }

    proptest! {
        #[test]
        fn three_ranks_are_dealt_exactly(
            loads in (2usize..=3).prop_flat_map(|slots| prop::collection::vec(
                prop_oneof![0u64..9, 0u64..100_000, (1u64 << 58)..(1 << 58) + 9], 3 * slots)),
        ) {
            let slots = loads.len() / 3;
            let mut ranks = Ranks::new(&loads, 3, (0..loads.len() as u32).collect());
            let pairs = super::super::resplit::Subsets::new(slots, usize::MAX);
            let deals = Deals::new(slots);
            // Ties at the peak are for the pairs; alternate as place does.
            loop {
                super::super::resplit::resplit_pairs(&mut ranks, &pairs, 0, u32::MAX);
                if resplit_triples(&mut ranks, &deals, 0, 1) == 0 {
                    break;
                }
            }
            prop_assert_eq!(ranks.peak(), best_of_three(&loads));
            let mut experts = ranks.all_members().to_vec();
            experts.sort_unstable();
            prop_assert_eq!(experts, (0..loads.len() as u32).collect::<Vec<_>>());
        }
    }
}
