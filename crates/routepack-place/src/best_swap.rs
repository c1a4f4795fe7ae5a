//! Best swap against the heaviest rank, until none improves.
//!
//! Problem: lower the largest rank load by exchanging one expert of the heaviest rank for one of another rank.
//! Method: of all swaps (x on the heaviest rank a, y on any rank b) that leave both ranks lighter than a was, make one
//! with the least max(a', b') (ties: lightest b first, then lower rank); repeat until no swap does. Every swap lowers
//! Σ load², so the loop ends. O(E + s·log s) a swap, by two pointers over sorted loads (`exchange.rs`).
//! Reference: the interchange heuristic for scheduling on identical machines: G. Finn and E. Horowitz, A linear time
//! approximation algorithm for multiprocessor scheduling, BIT 19, 1979, doi 10.1007/BF01930985; against the heaviest
//! rank only, as in PLACEMENT §2.4.

use crate::exchange::{Exchange, Exchanges, Subsets};
use crate::ranks::Ranks;

/// Swaps until the peak is `enough`, no swap improves, or `limit` swaps are made; returns how many were made.
pub(crate) fn swap_best(ranks: &mut Ranks<'_>, subsets: &Subsets, enough: u64, limit: u32) -> u32 {
    let mut swaps = Exchanges::new(subsets, ranks.sums().len());
    for made in 0..limit {
        let heaviest = ranks.heaviest();
        if ranks.sums()[heaviest] <= enough {
            return made;
        }
        let mut best: Option<Exchange> = None;
        for partner in ranks.lighter_than(heaviest) {
            // No swap leaves less than half of what the two own together, and partners only get heavier.
            let half = (ranks.sums()[heaviest] + ranks.sums()[partner]).div_ceil(2);
            if best.is_some_and(|best| best.heavier <= half) {
                break;
            }
            let swap = swaps.best(ranks, (heaviest, partner), 1, enough);
            best = [best, swap].into_iter().flatten().min_by_key(|swap| swap.heavier);
        }
        match best {
            Some(swap) => swaps.make(ranks, swap),
            None => return made,
        }
    }
    limit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_swap_first() {
        let loads = [10, 9, 1, 2, 3, 4];
        let mut ranks = Ranks::new(&loads, 2, vec![0, 1, 2, 3, 4, 5]);
        // 20 and 9: δ = 5 or 6 is nearest to half; 9 for 4 or 9 for 3 or 10 for 4 leave 15 or 14; 9 for 4 comes second.
        assert_eq!(swap_best(&mut ranks, &Subsets::new(3, 3), 0, 1), 1);
        assert_eq!(ranks.peak(), 15);
        assert_eq!(swap_best(&mut ranks, &Subsets::new(3, 3), 15, 9), 0, "enough is enough");
    }

    #[test]
    fn a_swap_optimum_stays() {
        let loads = [4, 4, 2, 9, 2, 5];
        let mut ranks = Ranks::new(&loads, 2, vec![0, 1, 5, 2, 3, 4]);
        assert_eq!((ranks.peak(), swap_best(&mut ranks, &Subsets::new(3, 3), 0, 9)), (13, 0));
    }
}
