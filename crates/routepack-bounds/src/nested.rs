//! Nested bound: the hottest experts and the ranks they fill, as a placement problem of its own.
//!
//! Problem: E experts, P ranks of exactly s = E/P slots; bound the largest rank load from below.
//! Bound: max over t in 1..=E of min over u in ⌈t/s⌉..=min(t, P) of b(t, u), where b(t, u) is the better of mean and
//! pigeonhole for the instance of u ranks and u·s experts made of the t hottest and the u·s − t coldest.
//! Proof: the t hottest experts lie on some number u of ranks. Replace the u·s − t other experts of those ranks by the
//! coldest experts: sorted, none grows, so the peak of those ranks is at least the least peak of the smaller instance,
//! hence at least b(t, u) for that u. ∎ With the mean alone this is [`crate::aggregate`]; t = E is mean and
//! pigeonhole of the whole.
//! For s = 2 the bound is exact: the optimum pairs hottest and coldest, max_t (t-th hottest + t-th coldest), and
//! b(t, u) is at least that pair for every u (the pigeonhole terms with one and two of the hottest).
//! Complexity: O(E²) worst, near O(E) where the mean is the bound: a t is left at its first u that is no better.
//! Reference: derived here from PLACEMENT §2.1 (ii) and (iii).

use crate::peak_bounds::prefix_sums;

/// The bound for `ascending` loads (routed rows) on `num_ranks` ranks; 0 for no experts.
///
/// # Panics
/// `num_ranks` is 0.
pub fn nested(ascending: &[u64], num_ranks: usize) -> u128 {
    let instance = Loads { sums: prefix_sums(ascending.iter().copied()), slots: ascending.len() / num_ranks };
    let experts = ascending.len();
    let mut best = 0;
    // The whole first: it prunes the rest.
    for top in (1..=experts).rev() {
        let mut least = u128::MAX;
        for ranks in (top.div_ceil(instance.slots)..=top.min(num_ranks)).rev() {
            least = least.min(instance.bound(top, ranks, best));
            if least <= best {
                break;
            }
        }
        best = best.max(least);
    }
    best
}

/// Prefix sums of ascending loads, and s.
struct Loads {
    sums: Vec<u128>,
    slots: usize,
}

impl Loads {
    fn coldest(&self, count: usize) -> u128 {
        self.sums[count]
    }

    fn hottest(&self, count: usize) -> u128 {
        self.sums[self.sums.len() - 1] - self.sums[self.sums.len() - 1 - count]
    }

    /// b(t, u), or `enough` where it is less.
    fn bound(&self, top: usize, ranks: usize, enough: u128) -> u128 {
        let others = ranks * self.slots - top;
        // Sum of the `count` largest experts of the smaller instance.
        let largest = |count: usize| {
            if count <= top {
                self.hottest(count)
            } else {
                self.hottest(top) + self.coldest(others) - self.coldest(others + top - count)
            }
        };
        let total = self.hottest(top) + self.coldest(others);
        // Multiplying first saves most divisions.
        let mean = if total <= enough * ranks as u128 { enough } else { total.div_ceil(ranks as u128) };
        let pigeonhole = (0..self.slots)
            .map(|j| {
                let pigeons = j * ranks + 1;
                largest(pigeons) - largest(pigeons - j - 1) + self.coldest(self.slots - j - 1)
            })
            .max()
            .unwrap_or(0);
        mean.max(pigeonhole)
    }
}
