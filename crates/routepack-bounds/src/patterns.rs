//! Pattern bound: weights under which no rank is worth its share.
//!
//! Problem: E experts with loads w, P ranks of exactly s = E/P slots; show that no placement keeps all rank loads at or
//! below some T. A *pattern* is a set of s experts.
//! Certificate: weights π_e ≥ 0. With S = Σw, the load of every rank of such a placement is in [S − (P − 1)·T, T], as the
//! others hold at most (P − 1)·T. Let V be the largest weight of a pattern with a load in there. Then Σπ ≤ P·V, so that
//! Σπ > P·V proves a peak of T + 1 at least; so does the lack of any such pattern.
//! Method for V, the cardinality knapsack: every pattern is a *head* of its first h = ⌊s/2⌋ experts and a *tail* of the
//! others. Heads are sorted by load, with a tree of the largest weights over that order; experts are passed one by one,
//! the heads that end before an expert are in the tree when the tails that begin with it are asked for their best head.
//! Complexity: O((C(E, h) + C(E, s − h))·log) time, C(E, s − h) space.
//! References: the dual of the pattern program of P. C. Gilmore and R. E. Gomory, A linear programming approach to the
//! cutting-stock problem, Operations Research 9, 1961, doi 10.1287/opre.9.6.849; halves as in E. Horowitz and S. Sahni,
//! Computing partitions with applications to the knapsack problem, JACM 21(2), 1974, doi 10.1145/321812.321823. Deviation:
//! equal cardinality, loads bounded from below as well.

use std::ops::RangeInclusive;

/// More halves than this are not listed.
const MOST_HALVES: usize = 1 << 20;
/// No head.
const NONE: u32 = u32::MAX;

/// The patterns of one layer, ready to be weighed.
#[derive(Clone, Debug)]
pub struct Patterns {
    loads: Vec<u64>,
    total: u64,
    num_ranks: usize,
    /// Heads by load, ascending.
    heads: Halves,
    /// Tails by first expert.
    tails: Halves,
    /// Heads by last expert: place in `heads`.
    by_last: Vec<u32>,
}

/// Sets of equally many experts.
#[derive(Clone, Debug)]
struct Halves {
    size: usize,
    /// Experts, ascending, `[sets · size]`.
    experts: Vec<u16>,
    /// `[sets]`.
    loads: Vec<u64>,
}

impl Halves {
    /// All of them, in lexicographic order.
    fn new(loads: &[u64], size: usize) -> Self {
        let mut halves = Self { size, experts: Vec::new(), loads: Vec::new() };
        let mut set: Vec<u16> = (0..size as u16).collect();
        loop {
            halves.loads.push(set.iter().map(|&expert| loads[usize::from(expert)]).sum());
            halves.experts.extend_from_slice(&set);
            // The last expert that can be followed by a later one.
            let Some(place) =
                (0..size).rev().find(|&place| usize::from(set[place]) + size - place < loads.len())
            else {
                return halves;
            };
            set[place] += 1;
            for next in place + 1..size {
                set[next] = set[next - 1] + 1;
            }
        }
    }

    fn of(&self, set: usize) -> &[u16] {
        &self.experts[set * self.size..(set + 1) * self.size]
    }

    fn weight(&self, set: usize, weights: &[u64]) -> u64 {
        self.of(set).iter().map(|&expert| weights[usize::from(expert)]).sum()
    }
}

fn binomial(n: usize, k: usize) -> usize {
    (0..k).fold(1, |count: usize, i| count.saturating_mul(n - i) / (i + 1))
}

/// A pattern and its weight.
pub type Weighed = (u64, Vec<u32>);

impl Patterns {
    /// The patterns of `loads` `[experts]` (routed rows) on `num_ranks` ranks; `None` where they are too many to weigh
    /// (2^20 halves, 2^16 experts) or the loads sum to 2^62 or more.
    ///
    /// # Panics
    /// `num_ranks` is 0 or does not divide the number of experts.
    pub fn new(loads: &[u64], num_ranks: usize) -> Option<Self> {
        assert!(num_ranks > 0 && loads.len().is_multiple_of(num_ranks), "experts not divisible by ranks");
        let slots = loads.len() / num_ranks;
        let total: u128 = loads.iter().map(|&load| u128::from(load)).sum();
        let (head, tail) = (slots / 2, slots - slots / 2);
        if loads.is_empty()
            || total >= 1 << 62
            || loads.len() > 1 << 16
            || binomial(loads.len(), tail.min(loads.len() - tail)) > MOST_HALVES
        {
            return None;
        }
        let listed = Halves::new(loads, head);
        let mut order: Vec<usize> = (0..listed.loads.len()).collect();
        order.sort_by_key(|&set| listed.loads[set]);
        let heads = Halves {
            size: head,
            experts: order.iter().flat_map(|&set| listed.of(set)).copied().collect(),
            loads: order.iter().map(|&set| listed.loads[set]).collect(),
        };
        let mut by_last: Vec<u32> = (0..order.len() as u32).collect();
        by_last.sort_by_key(|&set| heads.of(set as usize).last().copied());
        let tails = Halves::new(loads, tail);
        Some(Self { loads: loads.to_vec(), total: total as u64, num_ranks, heads, tails, by_last })
    }

    /// Experts E.
    pub fn num_experts(&self) -> usize {
        self.loads.len()
    }

    /// Load of a set of experts.
    pub fn load(&self, experts: &[u32]) -> u64 {
        experts.iter().map(|&expert| self.loads[expert as usize]).sum()
    }

    /// Loads that a rank can have where none is above `peak`; empty where none can.
    pub fn rank_loads(&self, peak: u64) -> RangeInclusive<u64> {
        let others = u128::from(peak) * (self.num_ranks as u128 - 1);
        u64::try_from(u128::from(self.total).saturating_sub(others)).unwrap_or(u64::MAX)..=peak
    }

    /// Of the patterns with a load in `range` and a weight above `least`, one of the largest weight among those with the
    /// same first expert of their tails, by that expert.
    ///
    /// # Panics
    /// Not one weight an expert, or weights that sum to 2^63 or more.
    pub fn heaviest(&self, weights: &[u64], range: &RangeInclusive<u64>, least: u64) -> Vec<Weighed> {
        assert_eq!(weights.len(), self.loads.len(), "one weight an expert");
        let sum: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
        assert!(sum < 1 << 63, "weights sum to {sum}");
        let mut tree = HeaviestHead::new(&self.heads, weights);
        let mut entering = self.by_last.iter().copied().peekable();
        let mut found = Vec::new();
        let mut tail = 0;
        for first in 0..self.loads.len() {
            let ends_before =
                |&set: &u32| self.heads.of(set as usize).last().is_none_or(|&last| usize::from(last) < first);
            while let Some(set) = entering.next_if(ends_before) {
                tree.enter(set as usize);
            }
            let (mut most, mut best) = (least, None);
            while tail < self.tails.loads.len() && usize::from(self.tails.of(tail)[0]) == first {
                let (load, own) = (self.tails.loads[tail], self.tails.weight(tail, weights));
                if load <= *range.end() && own.saturating_add(tree.most()) > most {
                    let low = range.start().saturating_sub(load);
                    let from = self.heads.loads.partition_point(|&head| head < low);
                    let to = self.heads.loads.partition_point(|&head| head <= range.end() - load);
                    let head = tree.heaviest(from, to);
                    if head != NONE && own + tree.weights[head as usize] > most {
                        most = own + tree.weights[head as usize];
                        best = Some((head, tail));
                    }
                }
                tail += 1;
            }
            found.extend(best.map(|(head, tail)| {
                let experts = self.heads.of(head as usize).iter().chain(self.tails.of(tail));
                (most, experts.map(|&expert| u32::from(expert)).collect())
            }));
        }
        found
    }

    /// Whether these weights prove that some rank load of every placement is above `peak`: Σπ > P·V.
    ///
    /// ```
    /// use routepack_bounds::Patterns;
    ///
    /// // Two ranks of 15 in all: at most 8 each would be 7 and 8, but three of these are 6 or 9.
    /// let patterns = Patterns::new(&[4, 4, 4, 1, 1, 1], 2).expect("few");
    /// assert!(patterns.proves(&[1; 6], 8));
    /// assert!(!patterns.proves(&[1; 6], 9));
    /// ```
    ///
    /// # Panics
    /// As [`Self::heaviest`].
    pub fn proves(&self, weights: &[u64], peak: u64) -> bool {
        let range = self.rank_loads(peak);
        if range.is_empty() {
            return true;
        }
        let sum: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
        // Patterns of weight above Σπ/P, if any, are what is looked for: Σπ > P·V ⇔ V < ⌈Σπ/P⌉ ⇔ V ≤ ⌈Σπ/P⌉ − 1.
        let Some(most) = sum.div_ceil(self.num_ranks as u128).checked_sub(1) else { return false };
        self.heaviest(weights, &range, most as u64).is_empty()
    }
}

/// The largest weight of the heads that are in, over any run of loads.
struct HeaviestHead {
    /// `[heads]`.
    weights: Vec<u64>,
    /// Binary tree over the heads, leaves last: the heaviest head below, or `NONE`.
    tree: Vec<u32>,
}

impl HeaviestHead {
    /// None is in.
    fn new(heads: &Halves, weights: &[u64]) -> Self {
        let weights: Vec<u64> = (0..heads.loads.len()).map(|set| heads.weight(set, weights)).collect();
        let tree = vec![NONE; 2 * weights.len()];
        Self { weights, tree }
    }

    fn enter(&mut self, head: usize) {
        let mut node = self.weights.len() + head;
        self.tree[node] = head as u32;
        while node > 1 {
            node /= 2;
            if self.heavier(self.tree[node], head as u32) != head as u32 {
                return;
            }
            self.tree[node] = head as u32;
        }
    }

    fn heavier(&self, a: u32, b: u32) -> u32 {
        if a == NONE || (b != NONE && self.weights[b as usize] > self.weights[a as usize]) { b } else { a }
    }

    /// The largest weight that is in; 0 if none is.
    fn most(&self) -> u64 {
        self.weights.get(self.tree[1] as usize).copied().unwrap_or(0)
    }

    /// The heaviest of the heads `from..to` that is in.
    fn heaviest(&self, from: usize, to: usize) -> u32 {
        let mut best = NONE;
        let (mut low, mut high) = (from + self.weights.len(), to + self.weights.len());
        while low < high {
            if low % 2 == 1 {
                best = self.heavier(best, self.tree[low]);
                low += 1;
            }
            if high % 2 == 1 {
                high -= 1;
                best = self.heavier(best, self.tree[high]);
            }
            low /= 2;
            high /= 2;
        }
        best
    }
}
