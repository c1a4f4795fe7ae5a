//! Exchanges between two ranks: the same number of experts each way.
//!
//! Problem: rank a (heavy) and rank b (light) with s experts each; over all X ⊂ a, Y ⊂ b, |X| = |Y| = c, find the exchange
//! after which the heavier of the two is lightest.
//! Method: an exchange moves δ = w(X) − w(Y), and the best δ is nearest to half the difference of the ranks. The sums
//! of all c-subsets of a rank are kept sorted while the rank does not change; two pointers over the two lists find the
//! best δ for one c in C(s,c) steps. Exchanging c or the other s − c experts gives the same two sets, so c ≤ s/2: with
//! all of those the best exchange is the best split of the two ranks (meet in the middle, the ranks being the halves).
//! Complexity: C(s,c)·log to refresh a rank, C(s,c) a pair.
//! Reference: E. Horowitz and S. Sahni, Computing partitions with applications to the knapsack problem, JACM 21(2),
//! 1974, doi 10.1145/321812.321823. Deviation: equal cardinalities, one list a cardinality.

use itertools::Itertools;

use crate::ranks::Ranks;

/// Positions of every subset of the slots of a rank, by size.
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

    /// The first subset of that size whose loads have the given sum.
    fn with_sum(&self, size: usize, loads: &[u64], sum: u64) -> &[u16] {
        self.of[size - 1]
            .chunks_exact(size)
            .find(|positions| sum_of(positions, loads) == sum)
            .unwrap_or_default()
    }
}

fn sum_of(positions: &[u16], loads: &[u64]) -> u64 {
    positions.iter().map(|&position| loads[usize::from(position)]).sum()
}

/// `size` experts of rank `heavy` with sum `here` for as many of rank `light` with sum `there`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exchange {
    /// Load of the heavier of the two ranks after it.
    pub(crate) heavier: u64,
    heavy: usize,
    light: usize,
    size: usize,
    here: u64,
    there: u64,
}

/// Sorted subset sums of every rank, computed when asked for and forgotten when the rank changes.
#[derive(Debug)]
pub(crate) struct Exchanges<'a> {
    subsets: &'a Subsets,
    /// `[rank][size - 1]` → sums, ascending; empty: not computed.
    sums: Vec<Vec<Vec<u64>>>,
}

impl<'a> Exchanges<'a> {
    /// Nothing computed yet.
    pub(crate) fn new(subsets: &'a Subsets, num_ranks: usize) -> Self {
        Self { subsets, sums: vec![vec![Vec::new(); subsets.of.len()]; num_ranks] }
    }

    /// The best exchange of at most `max_size` experts between rank `heavy` and the lighter rank `light`, if any leaves
    /// both lighter than `heavy` is; larger sizes are not looked at once the outcome is at most `enough`.
    pub(crate) fn best(
        &mut self,
        ranks: &Ranks<'_>,
        (heavy, light): (usize, usize),
        max_size: usize,
        enough: u64,
    ) -> Option<Exchange> {
        let (heavy_load, light_load) = (ranks.sums()[heavy], ranks.sums()[light]);
        let half = (heavy_load - light_load) / 2;
        let enough = enough.max(heavy_load - half);
        let mut least = heavy_load;
        let mut best = None;
        for size in 1..=max_size.min(self.subsets.of.len()) {
            self.refresh(ranks, heavy, size);
            self.refresh(ranks, light, size);
            let (here, there) = (&self.sums[heavy][size - 1], &self.sums[light][size - 1]);
            let mut next = 0;
            for &x in here {
                // `next`: the first subset of the light rank that keeps δ ≤ half; the one before is the least δ above.
                while next < there.len() && there[next] + half < x {
                    next += 1;
                }
                if let Some(&y) = there.get(next) {
                    if y < x && heavy_load - (x - y) < least {
                        least = heavy_load - (x - y);
                        best = Some((size, x, y));
                    }
                }
                if next > 0 {
                    let y = there[next - 1];
                    if light_load + (x - y) < least {
                        least = light_load + (x - y);
                        best = Some((size, x, y));
                    }
                }
            }
            if least <= enough {
                break;
            }
        }
        best.map(|(size, here, there)| Exchange { heavier: least, heavy, light, size, here, there })
    }

    /// Makes an exchange.
    pub(crate) fn make(&mut self, ranks: &mut Ranks<'_>, exchange: Exchange) {
        let Exchange { heavy, light, size, here, there, .. } = exchange;
        let here = self.subsets.with_sum(size, ranks.loads(heavy), here);
        let there = self.subsets.with_sum(size, ranks.loads(light), there);
        for (&i, &j) in here.iter().zip(there) {
            ranks.swap((heavy, usize::from(i)), (light, usize::from(j)));
        }
        self.forget(heavy);
        self.forget(light);
    }

    /// To be called when the members of a rank have changed by other means.
    pub(crate) fn forget(&mut self, rank: usize) {
        self.sums[rank].iter_mut().for_each(Vec::clear);
    }

    fn refresh(&mut self, ranks: &Ranks<'_>, rank: usize, size: usize) {
        let sums = &mut self.sums[rank][size - 1];
        if sums.is_empty() {
            let loads = ranks.loads(rank);
            let subsets = self.subsets.of[size - 1].chunks_exact(size);
            sums.extend(subsets.map(|positions| sum_of(positions, loads)));
            sums.sort_unstable();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subsets_up_to_half() {
        let sizes = |slots, limit| Subsets::new(slots, limit).of.iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(sizes(4, 6), [4, 12]);
        assert_eq!(sizes(5, 9), [5]);
        assert_eq!(sizes(16, 300), [16, 240]);
        assert_eq!(sizes(1, 9), [0; 0]);
    }
}
