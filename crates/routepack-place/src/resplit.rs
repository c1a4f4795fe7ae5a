//! Re-split of rank pairs: exchange any number of experts at once.
//!
//! Problem: two ranks a (the heaviest) and b with s experts each; deal their 2s experts anew, s each, so that the heavier
//! of the two is as light as possible.
//! Symbols: an exchange gives c experts X of a for c experts Y of b and moves δ = w(X) − w(Y); the best δ is nearest to
//! half the difference of the ranks. Exchanging c or the other s − c experts leaves the same two sets, so c ≤ s/2.
//! Method: per rank and c, the sums of all c-subsets, sorted (kept until the rank changes); for a pair and c two
//! pointers find the best δ in C(s,c) steps. *Exact* when every c ≤ s/2 has at most `max_subsets` subsets (the usual
//! meet in the middle with the two ranks as halves); else only the small c that have. Partners are tried lightest first,
//! and the first exchange that leaves both ranks lighter than the heaviest was is made; it ends when none is left.
//! Complexity: C(s,c)·(P + log) a step. Every step lowers Σ load², so the loop ends.
//! References: E. Horowitz and S. Sahni, Computing partitions with applications to the knapsack problem, JACM 21(2),
//! 1974, doi 10.1145/321812.321823 (meet in the middle); PLACEMENT §2.4.

use itertools::Itertools;

use crate::ranks::Ranks;

/// Positions of every subset of `0..slots`, by size.
#[derive(Clone, Debug)]
pub(crate) struct Subsets {
    /// `[size - 1]`: positions `[subsets · size]`.
    of: Vec<Vec<u16>>,
}

impl Subsets {
    /// All subsets of each size c ≤ slots/2 of which there are at most `max_subsets`.
    pub(crate) fn new(slots: usize, max_subsets: usize) -> Self {
        let mut of = Vec::new();
        let mut count = 1usize;
        for size in 1..=slots / 2 {
            count = count * (slots + 1 - size) / size;
            if count > max_subsets {
                break;
            }
            of.push((0..slots as u16).combinations(size).flatten().collect());
        }
        Self { of }
    }

    fn positions(&self, size: usize, index: u32) -> &[u16] {
        &self.of[size - 1][index as usize * size..(index as usize + 1) * size]
    }
}

/// Sorted sums of the subsets of one rank: `[size - 1]` → (sum, subset).
type Sums = Vec<Vec<(u64, u32)>>;

fn subset_sums(ranks: &Ranks<'_>, rank: usize, subsets: &Subsets, sums: &mut Sums) {
    let members = ranks.members(rank);
    sums.resize_with(subsets.of.len(), Vec::new);
    for (size, (sums, positions)) in (1..).zip(sums.iter_mut().zip(&subsets.of)) {
        let subsets = positions.chunks_exact(size).zip(0..);
        sums.clear();
        sums.extend(subsets.map(|(positions, index)| {
            (positions.iter().map(|&position| ranks.load(members[usize::from(position)])).sum::<u64>(), index)
        }));
        sums.sort_unstable();
    }
}

/// Subset `here` of one rank for subset `there` of another, both of `size` experts.
#[derive(Clone, Copy, Debug)]
struct Exchange {
    size: usize,
    here: u32,
    there: u32,
}

/// The best exchange between a heavy rank of load `heavy` and a lighter one of load `light`, if any leaves both below
/// `heavy`; stops early at `enough`.
fn best_exchange((heavy, here): (u64, &Sums), (light, there): (u64, &Sums), enough: u64) -> Option<Exchange> {
    let half = ((heavy - light) / 2) as i64;
    let enough = enough.max(light + (heavy - light).div_ceil(2));
    let mut best: Option<Exchange> = None;
    let mut least = heavy;
    for (size, (here, there)) in (1..).zip(here.iter().zip(there)) {
        let mut next = 0;
        for &(x, i) in here {
            // The first subset of b that keeps δ at or below half; the one before it is the least δ above half.
            while next < there.len() && (there[next].0 as i64) < x as i64 - half {
                next += 1;
            }
            for place in [next.wrapping_sub(1), next] {
                if let Some(&(y, j)) = there.get(place) {
                    if x > y {
                        let heavier = (heavy - (x - y)).max(light + (x - y));
                        if heavier < least {
                            least = heavier;
                            best = Some(Exchange { size, here: i, there: j });
                        }
                    }
                }
            }
            if next == there.len() && there.last().is_some_and(|&(y, _)| x as i64 - y as i64 > 2 * half + 1) {
                break;
            }
        }
        if least <= enough {
            break;
        }
    }
    best
}

/// Re-splits the heaviest rank with another until the peak is `enough`, no pair improves, or `limit` exchanges are
/// made; returns how many were made.
pub(crate) fn resplit_pairs(ranks: &mut Ranks<'_>, subsets: &Subsets, enough: u64, limit: u32) -> u32 {
    let num_ranks = ranks.sums().len();
    let mut sums: Vec<Option<Sums>> = vec![None; num_ranks];
    for made in 0..limit {
        let heaviest = ranks.heaviest();
        let peak = ranks.sums()[heaviest];
        if peak <= enough {
            return made;
        }
        let mut partners: Vec<usize> = (0..num_ranks).filter(|&rank| ranks.sums()[rank] < peak).collect();
        partners.sort_unstable_by_key(|&rank| (ranks.sums()[rank], rank));
        refresh(ranks, heaviest, subsets, &mut sums);
        let found = partners.into_iter().find_map(|partner| {
            refresh(ranks, partner, subsets, &mut sums);
            let (here, there) = (sums[heaviest].as_ref()?, sums[partner].as_ref()?);
            best_exchange((peak, here), (ranks.sums()[partner], there), enough).map(|best| (partner, best))
        });
        let Some((partner, exchange)) = found else { return made };
        let (here, there) = (
            subsets.positions(exchange.size, exchange.here),
            subsets.positions(exchange.size, exchange.there),
        );
        for (&i, &j) in here.iter().zip(there) {
            ranks.swap((heaviest, usize::from(i)), (partner, usize::from(j)));
        }
        sums[heaviest] = None;
        sums[partner] = None;
    }
    limit
}

fn refresh(ranks: &Ranks<'_>, rank: usize, subsets: &Subsets, sums: &mut [Option<Sums>]) {
    if sums[rank].is_none() {
        let mut fresh = Vec::new();
        subset_sums(ranks, rank, subsets, &mut fresh);
        sums[rank] = Some(fresh);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
            resplit_pairs(&mut ranks, &Subsets::new(slots, usize::MAX), 0, u32::MAX);
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
            let made = resplit_pairs(&mut ranks, &Subsets::new(8, limit), 0, u32::MAX);
            prop_assert!(ranks.peak() <= before && (made > 0 || ranks.peak() == before));
            prop_assert!(limit >= 8 || made == 0, "no subsets, no exchange");
        }
    }

    #[test]
    fn subsets_up_to_half() {
        let sizes = |slots, limit| Subsets::new(slots, limit).of.iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(sizes(4, 6), [4, 12]);
        assert_eq!(sizes(5, 9), [5]);
        assert_eq!(sizes(16, 300), [16, 240]);
        assert_eq!(sizes(1, 9), [0; 0]);
    }
}
