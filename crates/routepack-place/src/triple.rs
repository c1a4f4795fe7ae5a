//! Re-split of rank triples: three ranks dealt anew.
//!
//! Problem: three ranks, one of them the heaviest, with s experts each; deal their 3s experts anew, s each.
//! Symbols: T the bound aimed at; the *excess* of a deal is Σ over its three ranks of ((load − T)⁺)².
//! Method: all deals of the three are tried, and the one with the least excess is made if that is less than before and no
//! rank keeps the load of the heaviest (the peak may rise for it: who only lowers the peak is stuck when two ranks own
//! hot experts and must trade cold ones; but a deal of the other two alone brings nothing). One expert
//! is in the first group (symmetry), whose C(3s−1, s−1) choices are filtered: with A the load of the first group and S
//! that of all, no deal has less excess than ((A − T)⁺)² + 2·(((S − A)/2 − T)⁺)². For the few that pass, all splits of
//! the other 2s experts are tried (again one fixed, C(2s−1, s−1)). Pairs of partners are tried lightest first. Groups go
//! back to the ranks that hold most of their experts.
//! Complexity: C(3s−1, s−1) a triple plus the few that pass; P²/2 triples a step. For s ≤ 5 (beyond, pairs do as well). Σ excess over all ranks
//! falls with every step, so repeated steps end; the caller keeps the ranks with the lowest peak seen.
//! Reference: PLACEMENT §2.4 (exact re-split of triples), derived here.

use itertools::Itertools;

use crate::ranks::Ranks;

/// Largest s for which triples are dealt anew.
pub(crate) const MAX_SLOTS: usize = 5;

/// First groups of 3s and of 2s experts and who is left, as positions.
#[derive(Clone, Debug)]
pub(crate) struct Deals {
    slots: usize,
    of_three: FirstGroups,
    of_two: FirstGroups,
}

#[derive(Clone, Debug)]
struct FirstGroups {
    /// `[deals · slots]`, each with position 0, in lexicographic order.
    groups: Vec<u8>,
    /// The first of every run of groups that differ in their last position only, `[runs · slots]`.
    runs: Vec<u8>,
    /// Everybody else, `[deals · rest]`.
    rests: Vec<u8>,
}

impl FirstGroups {
    fn new(experts: u8, slots: usize) -> Self {
        let others = || (1..experts).combinations(slots - 1);
        let whole = |others: Vec<u8>| std::iter::once(0).chain(others);
        let starts_run = |others: &Vec<u8>| match others.as_slice() {
            [.., before, last] => *last == before + 1,
            [last] => *last == 1,
            [] => true,
        };
        let left = |others: Vec<u8>| (1..experts).filter(move |position| !others.contains(position));
        Self {
            groups: others().flat_map(whole).collect(),
            runs: others().filter(starts_run).flat_map(whole).collect(),
            rests: others().flat_map(left).collect(),
        }
    }
}

impl Deals {
    /// The deals of `slots` experts a rank.
    pub(crate) fn new(slots: usize) -> Self {
        let (three, two) = (3 * slots as u8, 2 * slots as u8);
        Self { slots, of_three: FirstGroups::new(three, slots), of_two: FirstGroups::new(two, slots) }
    }
}

/// Deals one triple anew if the peak is above `target` and that lowers the excess; returns the ranks that changed.
pub(crate) fn resplit_triple(ranks: &mut Ranks<'_>, deals: &Deals, target: u64) -> Option<[usize; 3]> {
    match deals.slots {
        2 => resplit::<2>(ranks, deals, target),
        3 => resplit::<3>(ranks, deals, target),
        4 => resplit::<4>(ranks, deals, target),
        5 => resplit::<5>(ranks, deals, target),
        _ => None,
    }
}

fn resplit<const S: usize>(ranks: &mut Ranks<'_>, deals: &Deals, target: u64) -> Option<[usize; 3]> {
    let heaviest = ranks.heaviest();
    if ranks.sums()[heaviest] <= target {
        return None;
    }
    let others = ranks.lighter_than(heaviest);
    let (triple, deal) = (1..others.len())
        .flat_map(|second| (0..second).map(move |first| (first, second)))
        .find_map(|(first, second)| {
        let triple = [heaviest, others[first], others[second]];
        best_deal::<S>(ranks, deals, triple, target).map(|deal| (triple, deal))
    })?;
    let groups = groups(ranks, deals, triple, deal);
    return_home(ranks, triple, &groups);
    Some(triple)
}

fn excess(load: u64, target: u64) -> u128 {
    u128::from(load.saturating_sub(target)).pow(2)
}

/// The first group and the split of the others with the least excess, if less than now.
fn best_deal<const S: usize>(
    ranks: &Ranks<'_>,
    deals: &Deals,
    triple: [usize; 3],
    target: u64,
) -> Option<(usize, usize)> {
    let mut loads = [0u64; 32];
    for (loads, rank) in loads.chunks_exact_mut(S).zip(triple) {
        loads.copy_from_slice(ranks.loads(rank));
    }
    let total: u64 = triple.iter().map(|&rank| ranks.sums()[rank]).sum();
    let least: u128 = triple.iter().map(|&rank| excess(ranks.sums()[rank], target)).sum();
    let heaviest = ranks.sums()[triple[0]];
    let window = Window::new(total, target, least);
    let mut search = Search::<S> { deals, loads, total, target, heaviest, least, window, best: None };
    let mut deal = 0;
    let (runs, _) = deals.of_three.runs.as_chunks::<S>();
    for run in runs {
        let (last, head) = run.split_last().expect("a group has a position");
        let head = sum_of(head, &loads);
        for load in &loads[usize::from(*last)..3 * S] {
            let a = head.wrapping_add(*load);
            if a.wrapping_sub(search.window.lowest) <= search.window.width {
                search.try_splits(deal, a);
            }
            deal += 1;
        }
    }
    search.best
}

/// Sum of the loads at some positions. Sums cannot overflow, as their total does not: wrapping only spares the checks.
fn sum_of<const N: usize>(positions: &[u8], loads: &[u64; N]) -> u64 {
    positions.iter().fold(0, |sum, &position| sum.wrapping_add(loads[usize::from(position) % N]))
}

/// The best deal of one triple so far.
struct Search<'a, const S: usize> {
    deals: &'a Deals,
    /// Loads of the 3s experts.
    loads: [u64; 32],
    total: u64,
    target: u64,
    /// Load of the heaviest rank of the triple before.
    heaviest: u64,
    least: u128,
    window: Window,
    /// First group and split.
    best: Option<(usize, usize)>,
}

impl<const S: usize> Search<'_, S> {
    /// Tries all splits of the experts that are not in a first group of load `a`.
    #[inline(never)]
    fn try_splits(&mut self, deal: usize, a: u64) {
        let mut others = [0u64; 16];
        for (load, &position) in others.iter_mut().zip(&self.deals.of_three.rests[deal * 2 * S..][..2 * S]) {
            *load = self.loads[usize::from(position) % 32];
        }
        let rest = self.total - a;
        let mut split = 0;
        for run in self.deals.of_two.runs.as_chunks::<S>().0 {
            let (last, head) = run.split_last().expect("a group has a position");
            let head = sum_of(head, &others);
            for load in &others[usize::from(*last)..2 * S] {
                let b = head.wrapping_add(*load);
                // Neither b nor the others' rest − b may reach the window's end.
                let lowest = (rest + 1).saturating_sub(self.window.above);
                if b.wrapping_sub(lowest) < self.window.above.saturating_sub(lowest) {
                    self.compare([a, b, rest - b], (deal, split));
                }
                split += 1;
            }
        }
    }

    #[inline(never)]
    fn compare(&mut self, sums: [u64; 3], deal: (usize, usize)) {
        let sum = sums.into_iter().map(|load| excess(load, self.target)).sum();
        if sum < self.least && !sums.contains(&self.heaviest) {
            self.least = sum;
            self.best = Some(deal);
            self.window = Window::new(self.total, self.target, sum);
        }
    }
}

/// Loads outside of which a group has an excess of at least some `least` in any deal.
struct Window {
    /// No group is lighter.
    lowest: u64,
    /// No group is heavier than `lowest + width`.
    width: u64,
    /// Every group is lighter than this.
    above: u64,
}

impl Window {
    /// A < T + ⌈√least⌉, and 2·((S − A)/2 − T)² < least, so that A > S − 2·(T + ⌈√(least/2)⌉).
    fn new(total: u64, target: u64, least: u128) -> Self {
        let above = target + root_above(least);
        let half = target + root_above(least.div_ceil(2));
        let lowest = total.saturating_sub(2 * half);
        Self { lowest, width: above.saturating_sub(lowest), above }
    }
}

/// The least integer whose square is at least `square`.
fn root_above(square: u128) -> u64 {
    let root = u64::try_from(square).map_or_else(|_| square.isqrt() as u64, u64::isqrt);
    root + u64::from(u128::from(root).pow(2) < square)
}

/// The experts of the groups of a deal, `[3][slots]`.
fn groups(
    ranks: &Ranks<'_>,
    deals: &Deals,
    triple: [usize; 3],
    (deal, split): (usize, usize),
) -> [Vec<u32>; 3] {
    let slots = deals.slots;
    let expert =
        |position: u8| ranks.members(triple[usize::from(position) / slots])[usize::from(position) % slots];
    let own = deal * slots..(deal + 1) * slots;
    let rest = &deals.of_three.rests[2 * own.start..2 * own.end];
    let of_rest =
        |positions: &[u8]| positions.iter().map(|&position| expert(rest[usize::from(position)])).collect();
    let halves = split * slots..(split + 1) * slots;
    [
        deals.of_three.groups[own].iter().map(|&position| expert(position)).collect(),
        of_rest(&deals.of_two.groups[halves.clone()]),
        of_rest(&deals.of_two.rests[halves]),
    ]
}

/// Gives every group to one of the three ranks so that as few experts as possible change ranks.
fn return_home(ranks: &mut Ranks<'_>, triple: [usize; 3], groups: &[Vec<u32>; 3]) {
    let stay = |group: &[u32], rank: usize| {
        group.iter().filter(|expert| ranks.members(rank).contains(expert)).count()
    };
    let order = (0..3)
        .permutations(3)
        .max_by_key(|order| {
            let kept: usize = order.iter().zip(triple).map(|(&group, rank)| stay(&groups[group], rank)).sum();
            (kept, std::cmp::Reverse(order.clone()))
        })
        .expect("six orders");
    for (group, rank) in order.into_iter().zip(triple) {
        ranks.assign(rank, &groups[group]);
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
        fn a_target_that_can_be_met_is_met(
            loads in (2usize..=3).prop_flat_map(|slots| prop::collection::vec(
                prop_oneof![0u64..9, 0u64..100_000, (1u64 << 58)..(1 << 58) + 9], 3 * slots)),
        ) {
            let slots = loads.len() / 3;
            let target = best_of_three(&loads);
            let mut ranks = Ranks::new(&loads, 3, (0..loads.len() as u32).collect());
            let changed = resplit_triple(&mut ranks, &Deals::new(slots), target);
            prop_assert!(changed.is_some() || ranks.sums().iter().filter(|&&sum| sum == ranks.peak()).count() > 1
                || ranks.peak() == target);
            if changed.is_some() {
                prop_assert_eq!(ranks.peak(), target);
            }
            let mut experts = ranks.all_members().to_vec();
            experts.sort_unstable();
            prop_assert_eq!(experts, (0..loads.len() as u32).collect::<Vec<_>>());
        }
    }
}
