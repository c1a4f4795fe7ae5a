//! Which pair of types to branch on.
//!
//! Problem: the affinity of two types in a fractional solution is Σ x over the patterns that hold both (for one type,
//! two of it). A pair of fractional affinity f splits the case in two: some bin holds both, or none does. Pairs rank by
//! their total size times f·(1 − f). If all affinities are whole but the solution is not (types of several items), the
//! pair of largest size in a fractional pattern splits too.
//! Of the first few, each child's linear program is tried over the patterns at hand: the pair whose children both rise
//! most (product of the rises) is taken, for such a case is closed soonest.
//! Complexity: O(Σ |P|²), and two warm linear programs a pair tried.
//! References: D. M. Ryan, B. A. Foster, in: Computer Scheduling of Public Transport, 1981; with multiplicities
//! F. Vanderbeck, Math. Programming 130 (2011), doi:10.1007/s10107-009-0334-1; strong branching: D. Applegate, R. Bixby,
//! V. Chvátal, W. Cook, The Traveling Salesman Problem, 2006, ch. 14; T. Achterberg, T. Koch, A. Martin, Operations
//! Research Letters 33 (2005), doi:10.1016/j.orl.2004.04.002 (product of the rises).

use std::collections::BTreeMap;

use crate::error::PackError;
use crate::pattern_master::{Mark, PatternMaster};
use crate::types::Pattern;

/// Affinities this near to a whole number count as whole.
const WHOLE: f64 = 1e-6;
/// Pairs tried, and simplex iterations of each try.
const TRIED: usize = 8;
const ITERATIONS: u32 = 50;
/// Types up to which so many pairs are tried; of more types fewer.
const FEW_TYPES: usize = 200;
/// A rise of a linear program counts at least and at most as this.
const RISES: [f64; 2] = [1e-6, 0.5];

/// The best pairs, best first; none for a whole solution. `favour`: by how many times a pair's rank rises.
pub(crate) fn branching_pairs(
    solution: &[(Pattern, f64)],
    sizes: &[u64],
    favour: &mut dyn FnMut(&(u32, u32)) -> f64,
) -> Vec<(u32, u32)> {
    let mut affinities: BTreeMap<(u32, u32), f64> = BTreeMap::new();
    for (pattern, value) in solution {
        pairs(pattern).into_iter().for_each(|pair| *affinities.entry(pair).or_default() += value);
    }
    let size = |pair: &(u32, u32)| u128::from(sizes[pair.0 as usize]) + u128::from(sizes[pair.1 as usize]);
    let fraction = |value: f64| value - (value + WHOLE).floor();
    let fractional = affinities.into_iter().map(|(pair, value)| (pair, fraction(value)));
    let mut ranked: Vec<(f64, (u32, u32))> = fractional
        .filter(|&(_, value)| value > WHOLE)
        .map(|(pair, value)| (size(&pair) as f64 * value * (1.0 - value) * (1.0 + favour(&pair)), pair))
        .collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    ranked.truncate((TRIED * FEW_TYPES / sizes.len().max(FEW_TYPES)).max(2));
    if ranked.is_empty() {
        let parted = solution.iter().filter(|(_, value)| fraction(*value) > WHOLE);
        return parted.flat_map(|(pattern, _)| pairs(pattern)).max_by_key(size).into_iter().collect();
    }
    ranked.into_iter().map(|(_, pair)| pair).collect()
}

/// The place of the pair whose children rise most above the value of the linear program; 0 if `stop` says so.
///
/// `patterns`: `[columns]` of the master, those of the case; empty where a column is none. `mark`: that of the optimum.
pub(crate) fn strong_pair(
    master: &mut PatternMaster,
    mark: &Mark,
    patterns: &[Pattern],
    pairs: &[(u32, u32)],
    demands: &[u32],
    value: f64,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<usize, PackError> {
    let (mut best, mut place) = (0.0, 0);
    if pairs.len() < 2 {
        return Ok(0);
    }
    for (number, &(i, j)) in pairs.iter().enumerate() {
        let held = |column: usize, kind: u32| patterns[column].iter().filter(|&&other| other == kind).count();
        let both = |column: usize| {
            if i == j { held(column, i) > 1 } else { held(column, i) > 0 && held(column, j) > 0 }
        };
        let Some(apart) = master.value_without(mark, both, ITERATIONS, stop)? else { return Ok(0) };
        // Who has a single item shows up with the other only.
        let single = |kind: u32| i != j && demands[kind as usize] == 1;
        let together = if single(i) || single(j) {
            let alone = |column: usize| {
                let (first, second) = (held(column, i) > 0, held(column, j) > 0);
                single(i) && first && !second || single(j) && second && !first
            };
            let Some(together) = master.value_without(mark, alone, ITERATIONS, stop)? else { return Ok(0) };
            together
        } else {
            value
        };
        let rise = |child: f64| (child - value).clamp(RISES[0], RISES[1]);
        let score = rise(apart) * rise(together);
        if score > best {
            (best, place) = (score, number);
        }
    }
    Ok(place)
}

/// The different pairs of items of a pattern.
fn pairs(pattern: &[u32]) -> Vec<(u32, u32)> {
    let mut pairs: Vec<(u32, u32)> = (0..pattern.len())
        .flat_map(|place| pattern[place + 1..].iter().map(move |&other| (pattern[place], other)))
        .collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefers_halves_of_large_pairs() {
        let sizes = [50, 40, 30, 20];
        let solution = [(vec![0, 1], 0.97), (vec![0, 2], 0.03), (vec![1, 3], 0.5), (vec![2, 3], 0.5)];
        assert_eq!(branching_pairs(&solution, &sizes, &mut |_| 0.0)[..2], [(1, 3), (2, 3)]);
        let mut favour = |pair: &(u32, u32)| if *pair == (0, 2) { 9.0 } else { 0.0 };
        assert_eq!(branching_pairs(&solution, &sizes, &mut favour)[..2], [(0, 2), (1, 3)]);
        assert_eq!(branching_pairs(&[(vec![0, 1], 1.0), (vec![2, 3], 1.0)], &sizes, &mut |_| 0.0), []);
    }

    #[test]
    fn splits_a_fractional_solution_of_whole_affinities() {
        let solution = [(vec![0, 0, 1], 0.5), (vec![0, 1, 1], 0.5)];
        assert_eq!(branching_pairs(&solution, &[4, 3], &mut |_| 0.0)[0], (0, 0));
        let whole = [
            (vec![0, 1, 2], 0.5),
            (vec![0, 1], 0.5),
            (vec![2], 0.5),
            (vec![0, 2], 0.5),
            (vec![1, 2], 0.5),
            (vec![0], 0.0),
        ];
        assert!(!branching_pairs(&whole, &[4, 3, 2], &mut |_| 0.0).is_empty());
    }
}
