//! Fewest moved experts that bring every rank of a layer under a target.
//!
//! Problem: experts at home on P ranks of s slots each, a target T; find ranks with no load above T on which as few
//! experts as possible are away from their home rank.
//! Method: *mend* the overloaded ranks one after the other, then *send home* whom the target does not need.
//! Mending rank a, in this order of preference: a 3-cycle a → b → c → a that mends another overloaded rank b with it
//! (3 moves for two ranks), a swap with b (2 moves for one); no rank may come to be above T; of several, the one that
//! leaves the mended ranks nearest to T (or the receiving rank), so that room is not wasted. If nothing mends a, the best
//! swap against the heaviest rank. Sending home: expert e away from home h trades places with an expert f that is away from home on h,
//! if both ranks stay under T: e is home again, and so is f if it came from where e was. Two swaps of one rank become a
//! 3-cycle this way. Every combination of the rules of choice is tried, and plain best swaps (the yardstick).
//! Bound: a rank above T loses an expert and takes one, so does every rank that receives; what is above T in all must
//! fit into the room of k receivers: at least (overloaded + least such k) experts move. Below 4 that is settled by
//! trying every swap and every 3-cycle.
//! Complexity: O(E²) a mended rank for swaps, O(overloaded · s²·E) for cycles; O(moved²) a round of sending home; the bound
//! O(s·E²) at most.
//! Reference: PLACEMENT §2.2 (greedy best swap, the yardstick); derived here.

use crate::ranks::Ranks;

/// A rank and a position on it.
type Place = (usize, usize);

/// How to choose among what mends a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rule {
    /// Mend the heaviest overloaded rank first, else the lightest.
    heaviest_first: bool,
    /// Try cycles that mend two ranks before swaps.
    cycles: bool,
    /// Leave the mended ranks nearest to T, else the receiving rank nearest to T.
    least_overshoot: bool,
}

/// All combinations.
fn rules() -> impl Iterator<Item = Rule> {
    (0..8u8).map(|bits| Rule {
        heaviest_first: bits & 1 == 0,
        cycles: bits & 2 == 0,
        least_overshoot: bits & 4 == 0,
    })
}

/// Ranks with no load above `target` and few experts away from `home` `[experts]`; `start` has everybody at home.
///
/// Of several outcomes the one with fewest moves, then the lowest peak, then the earliest; `None` if the target is met
/// by none.
pub(crate) fn meet_target<'a>(start: &Ranks<'a>, target: u64, home: &[u32]) -> Option<Ranks<'a>> {
    let eased = {
        let mut ranks = start.clone();
        while ranks.peak() > target && ease_once(&mut ranks) {}
        ranks
    };
    let mended = rules().map(|rule| {
        let mut ranks = start.clone();
        mend(&mut ranks, target, rule);
        ranks
    });
    std::iter::once(eased)
        .chain(mended)
        .filter(|ranks| ranks.peak() <= target)
        .map(|mut ranks| {
            send_home(&mut ranks, target, home);
            ranks
        })
        .min_by_key(|ranks| (num_moved(ranks, home), ranks.peak()))
}

/// Mends overloaded ranks until none is above `target` or nothing helps.
fn mend(ranks: &mut Ranks<'_>, target: u64, rule: Rule) {
    loop {
        let over = (0..ranks.sums().len()).filter(|&rank| ranks.sums()[rank] > target);
        let chosen = if rule.heaviest_first {
            over.max_by_key(|&rank| (ranks.sums()[rank], std::cmp::Reverse(rank)))
        } else {
            over.min_by_key(|&rank| (ranks.sums()[rank], rank))
        };
        let Some(rank) = chosen else { return };
        let cycle = if rule.cycles { best_cycle(ranks, rank, target) } else { None };
        if let Some([a, b, c]) = cycle {
            // a's expert to b, b's to c, c's to a.
            ranks.swap(a, b);
            ranks.swap(a, c);
        } else if let Some((here, there)) = mending_swap(ranks, rank, target, rule) {
            ranks.swap(here, there);
        } else if !ease_once(ranks) {
            return;
        }
    }
}

/// The swap after which neither rank is above the target.
fn mending_swap(ranks: &Ranks<'_>, a: usize, target: u64, rule: Rule) -> Option<(Place, Place)> {
    let sum = ranks.sums()[a];
    let mut best = None;
    let mut least = u64::MAX;
    for b in (0..ranks.sums().len()).filter(|&b| ranks.sums()[b] <= target) {
        let room = target - ranks.sums()[b];
        for (i, &x) in ranks.loads(a).iter().enumerate() {
            for (j, &y) in ranks.loads(b).iter().enumerate() {
                if x > y && x - y <= room && sum - (x - y) <= target {
                    let waste = if rule.least_overshoot { target - (sum - (x - y)) } else { room - (x - y) };
                    if waste < least {
                        least = waste;
                        best = Some(((a, i), (b, j)));
                    }
                }
            }
        }
    }
    best
}

/// The best swap against the heaviest rank, if any leaves both ranks lighter.
fn easing_swap(ranks: &Ranks<'_>) -> Option<(Place, Place)> {
    let a = ranks.heaviest();
    let peak = ranks.sums()[a];
    let mut best = None;
    let mut least = peak;
    for (b, &sum) in ranks.sums().iter().enumerate() {
        for (i, &x) in ranks.loads(a).iter().enumerate() {
            for (j, &y) in ranks.loads(b).iter().enumerate() {
                if x > y {
                    let heavier = (peak - (x - y)).max(sum + (x - y));
                    if heavier < least {
                        least = heavier;
                        best = Some(((a, i), (b, j)));
                    }
                }
            }
        }
    }
    best
}

/// Makes the best swap against the heaviest rank; false if none leaves both ranks lighter.
pub(crate) fn ease_once(ranks: &mut Ranks<'_>) -> bool {
    let swap = easing_swap(ranks);
    if let Some((here, there)) = swap {
        ranks.swap(here, there);
    }
    swap.is_some()
}

/// The cycle a → b → c → a that mends a and another overloaded rank b, and leaves them nearest to the target.
fn best_cycle(ranks: &Ranks<'_>, a: usize, target: u64) -> Option<[Place; 3]> {
    let sums = ranks.sums();
    let mut best = None;
    let mut least = u64::MAX;
    for b in (0..sums.len()).filter(|&b| b != a && sums[b] > target) {
        for (i, &x) in ranks.loads(a).iter().enumerate() {
            for (j, &y) in ranks.loads(b).iter().enumerate() {
                let b_sum = sums[b] - y + x;
                if b_sum > target {
                    continue;
                }
                // What c gives must leave a under the target, and c itself.
                let Some(most) = (target + x).checked_sub(sums[a]) else { continue };
                for c in (0..sums.len()).filter(|&c| sums[c] <= target) {
                    let fewest = (sums[c] + y).saturating_sub(target);
                    if fewest > most {
                        continue;
                    }
                    for (k, &z) in ranks.loads(c).iter().enumerate() {
                        if (fewest..=most).contains(&z) {
                            let waste = 2 * target - (sums[a] - x + z) - b_sum;
                            if waste < least {
                                least = waste;
                                best = Some([(a, i), (b, j), (c, k)]);
                            }
                        }
                    }
                }
            }
        }
    }
    best
}

/// Sends experts home while no rank comes to be above `target`; `home` is the home rank of every expert.
pub(crate) fn send_home(ranks: &mut Ranks<'_>, target: u64, home: &[u32]) {
    while let Some((here, there)) = homeward_swap(ranks, target, home) {
        ranks.swap(here, there);
    }
}

fn homeward_swap(ranks: &Ranks<'_>, target: u64, home: &[u32]) -> Option<(Place, Place)> {
    let away = |rank: usize| {
        ranks.members(rank).iter().enumerate().filter(move |&(_, &e)| home[e as usize] as usize != rank)
    };
    let mut found = None;
    for r in 0..ranks.sums().len() {
        for (i, &e) in away(r) {
            let h = home[e as usize] as usize;
            for (j, &f) in away(h) {
                let (x, y) = (ranks.loads(r)[i], ranks.loads(h)[j]);
                if ranks.sums()[r] - x + y <= target && ranks.sums()[h] - y + x <= target {
                    if home[f as usize] as usize == r {
                        return Some(((r, i), (h, j)));
                    }
                    found.get_or_insert(((r, i), (h, j)));
                }
            }
        }
    }
    found
}

/// Experts away from home.
pub(crate) fn num_moved(ranks: &Ranks<'_>, home: &[u32]) -> usize {
    (0..ranks.sums().len())
        .flat_map(|rank| ranks.members(rank).iter().map(move |&expert| (rank, expert)))
        .filter(|&(rank, expert)| home[expert as usize] as usize != rank)
        .count()
}

/// At least so many experts move if no rank is to be above `target`; `start` has everybody at home.
pub(crate) fn moves_bound(start: &Ranks<'_>, target: u64) -> usize {
    let sums = start.sums();
    let over: Vec<usize> = (0..sums.len()).filter(|&rank| sums[rank] > target).collect();
    let Some(&first) = over.first() else { return 0 };
    let excess: u64 = over.iter().map(|&rank| sums[rank] - target).sum();
    let mut rooms: Vec<u64> = sums.iter().map(|&sum| target.saturating_sub(sum)).collect();
    rooms.sort_unstable_by(|a, b| b.cmp(a));
    let mut taken = 0;
    let receivers = rooms.iter().take_while(|&&room| {
        let short = taken < excess;
        taken += room;
        short
    });
    let counted = over.len() + receivers.count();
    match over.len() {
        1 if counted == 2 && swap_meets(start, first, target) => 2,
        1 | 2 if counted <= 3 && cycle_meets(start, &over, target) => 3,
        1 | 2 => counted.max(4),
        _ => counted,
    }
}

/// Whether one swap brings rank `a`, the only one above the target, and its partner under it.
fn swap_meets(start: &Ranks<'_>, a: usize, target: u64) -> bool {
    let sums = start.sums();
    (0..sums.len()).filter(|&b| b != a).any(|b| {
        start
            .loads(a)
            .iter()
            .any(|&x| start.loads(b).iter().any(|&y| sums[a] - x + y <= target && sums[b] - y + x <= target))
    })
}

/// Whether some 3-cycle brings all ranks above the target under it, and its others with them.
fn cycle_meets(start: &Ranks<'_>, over: &[usize], target: u64) -> bool {
    let sums = start.sums();
    let a = over[0];
    let middle = |b: &usize| over.get(1).is_none_or(|other| b == other);
    // a → b → c → a, and with two ranks above the target the other direction, a → c → b → a.
    (0..sums.len()).filter(|&b| b != a).filter(middle).any(|b| {
        (0..sums.len()).filter(|&c| c != a && c != b).any(|c| {
            start.loads(a).iter().any(|&x| {
                start.loads(b).iter().any(|&y| {
                    start.loads(c).iter().any(|&z| {
                        let forth = [sums[a] - x + z, sums[b] - y + x, sums[c] - z + y];
                        let back = [sums[a] - x + y, sums[b] - y + z, sums[c] - z + x];
                        forth.iter().all(|&sum| sum <= target) || back.iter().all(|&sum| sum <= target)
                    })
                })
            })
        })
    })
}
