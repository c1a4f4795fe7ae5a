//! Rank-1 cuts along odd cycles of single items.
//!
//! Problem: of an odd number k of single items S, at most (k − 1)/2 pairs can be in bins:
//! Σ_P ⌊|P ∩ S|/2⌋ x_P ≤ (k − 1)/2. With k = 3 these are the subset-row cuts on triples; where a fractional solution has no
//! bad triple, its halves still meet in longer odd cycles. Items that share positive patterns make a graph; with
//! f the value of the patterns an edge stands for, a cycle is violated where Σ (1 − 2f) < 1. A shortest odd closed walk through
//! every item is found by Dijkstra's algorithm on the graph doubled by parity.
//! Complexity: O(items · edges · log items), less where few edges are near a half.
//! References: zero-half cuts: A. Caprara, M. Fischetti, Math. Programming 74 (1996), doi:10.1007/BF02592196; odd cycles:
//! M. Grötschel, L. Lovász, A. Schrijver, Geometric Algorithms and Combinatorial Optimization, 1988, 9.1.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use routepack_certificate::Cut;

use crate::pattern_master::coefficient;
use crate::types::Pattern;

/// Cuts of one round, and cuts of one round that share an item.
const CUTS: usize = 20;
const SHARING: usize = 3;
/// Longest cycle (items).
const LONGEST: usize = 11;
/// A cut counts as violated by more than this.
const VIOLATED: f64 = 1e-3;
/// Lengths of walks are whole multiples of 1 over this.
const UNIT: f64 = 1e9;

/// The most violated cuts, each of scale 1.
pub(crate) fn odd_cycle_cuts(solution: &[(Pattern, f64)], demands: &[u32]) -> Vec<Cut> {
    let graph = Graph::new(solution, demands);
    let cycles: BTreeSet<Vec<u32>> =
        (0..demands.len() as u32).filter_map(|item| graph.odd_cycle(item)).collect();
    let cuts = cycles.into_iter().map(|items| {
        let most = (items.len() / 2) as f64;
        let multipliers = items.into_iter().map(|item| (item, 1)).collect();
        let cut = Cut { scale: 1, denominator: 2, multipliers };
        let value: f64 = solution.iter().map(|(pattern, value)| coefficient(&cut, pattern) * value).sum();
        (value - most, cut)
    });
    let mut cuts: Vec<(f64, Cut)> = cuts.filter(|&(violation, _)| violation > VIOLATED).collect();
    cuts.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.multipliers.cmp(&b.1.multipliers)));
    let mut shared = vec![0; demands.len()];
    let few = cuts.into_iter().map(|(_, cut)| cut).filter(|cut| {
        let fresh = cut.multipliers.iter().all(|&(item, _)| shared[item as usize] < SHARING);
        if fresh {
            cut.multipliers.iter().for_each(|&(item, _)| shared[item as usize] += 1);
        }
        fresh
    });
    few.take(CUTS).collect()
}

/// Single items, joined where they share positive patterns.
struct Graph {
    /// `[types]`, (other, 1 − 2f in units).
    edges: Vec<Vec<(u32, u64)>>,
}

impl Graph {
    fn new(solution: &[(Pattern, f64)], demands: &[u32]) -> Self {
        let mut values: BTreeMap<(u32, u32), f64> = BTreeMap::new();
        for (pattern, value) in solution.iter().filter(|(_, value)| *value < 1.0 - VIOLATED) {
            let single = |&&item: &&u32| demands[item as usize] == 1;
            for (place, &one) in pattern.iter().enumerate().filter(|(_, item)| single(item)) {
                for &other in pattern[place + 1..].iter().filter(single) {
                    *values.entry((one, other)).or_default() += value;
                }
            }
        }
        let mut edges = vec![Vec::new(); demands.len()];
        for ((one, other), value) in values {
            let length = ((1.0 - 2.0 * value).max(0.0) * UNIT) as u64;
            edges[one as usize].push((other, length));
            edges[other as usize].push((one, length));
        }
        Self { edges }
    }

    /// The items of a shortest odd closed walk from this one, increasing, if it is a cycle that can be violated.
    fn odd_cycle(&self, start: u32) -> Option<Vec<u32>> {
        let place = |(item, odd): (u32, bool)| 2 * item as usize + usize::from(odd);
        let mut nearest = vec![(u64::MAX, (start, false)); 2 * self.edges.len()];
        let mut open = BinaryHeap::from([Reverse((0, (start, false)))]);
        nearest[place((start, false))].0 = 0;
        while let Some(Reverse((far, at))) = open.pop() {
            if at == (start, true) {
                return walk(start, &nearest);
            }
            if far > nearest[place(at)].0 {
                continue;
            }
            for &(other, length) in &self.edges[at.0 as usize] {
                let (next, reached) = ((other, !at.1), far + length);
                if reached < UNIT as u64 && reached < nearest[place(next)].0 {
                    nearest[place(next)] = (reached, at);
                    open.push(Reverse((reached, next)));
                }
            }
        }
        None
    }
}

/// The items of the walk that ends at `start`, increasing, if it visits none twice. `nearest`: where each place was reached from.
fn walk(start: u32, nearest: &[(u64, (u32, bool))]) -> Option<Vec<u32>> {
    let (mut items, mut at) = (Vec::new(), (start, true));
    while at != (start, false) && items.len() <= LONGEST {
        items.push(at.0);
        at = nearest[2 * at.0 as usize + usize::from(at.1)].1;
    }
    let length = items.len();
    items.sort_unstable();
    items.dedup();
    (items.len() == length && length <= LONGEST).then_some(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_off_a_pentagon_of_halves() {
        let pentagon = [[0, 1], [1, 2], [2, 3], [3, 4], [0, 4]];
        let solution: Vec<_> = pentagon.iter().map(|pair| (pair.to_vec(), 0.5)).collect();
        let multipliers = (0..5).map(|item| (item, 1)).collect();
        assert_eq!(odd_cycle_cuts(&solution, &[1; 5]), [Cut { scale: 1, denominator: 2, multipliers }]);
        // An even cycle may hold; so may one through a type of two items.
        assert_eq!(odd_cycle_cuts(&solution[..4], &[1; 5]), []);
        assert_eq!(odd_cycle_cuts(&solution, &[1, 1, 2, 1, 1]), []);
    }
}
