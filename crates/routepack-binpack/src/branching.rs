//! Which pair of types to branch on.
//!
//! Problem: the affinity of two types in a fractional solution is Σ x over the patterns that hold both (for one type,
//! two of it). A pair of fractional affinity splits the case in two: some bin holds both, or none does. Among
//! them, and first among those not near a whole number, the pair of largest total size is taken. If all affinities are
//! whole but the solution is not (types of several items), the pair of largest size in a fractional pattern splits too.
//! Complexity: O(Σ |P|²).
//! References: D. M. Ryan, B. A. Foster, in: Computer Scheduling of Public Transport, 1981; with multiplicities
//! F. Vanderbeck, Math. Programming 130 (2011), doi:10.1007/s10107-009-0334-1.

use std::collections::BTreeMap;

use crate::types::Pattern;

/// Affinities in here are clearly fractional.
const CLEAR: std::ops::Range<f64> = 0.15..0.9;
/// Affinities this near to a whole number count as whole.
const WHOLE: f64 = 1e-6;

/// The pair, or `None` for a whole solution.
pub(crate) fn branching_pair(solution: &[(Pattern, f64)], sizes: &[u64]) -> Option<(u32, u32)> {
    let mut affinities: BTreeMap<(u32, u32), f64> = BTreeMap::new();
    for (pattern, value) in solution {
        pairs(pattern).into_iter().for_each(|pair| *affinities.entry(pair).or_default() += value);
    }
    let size = |pair: &(u32, u32)| u128::from(sizes[pair.0 as usize]) + u128::from(sizes[pair.1 as usize]);
    let fraction = |value: f64| value - (value + WHOLE).floor();
    let rank = |(pair, value): &(&(u32, u32), f64)| (CLEAR.contains(value), size(pair));
    let fractional =
        affinities.iter().map(|(pair, &value)| (pair, fraction(value))).filter(|(_, value)| *value > WHOLE);
    if let Some((pair, _)) = fractional.max_by(|a, b| rank(a).cmp(&rank(b)).then(a.1.total_cmp(&b.1))) {
        return Some(*pair);
    }
    let parted = solution.iter().filter(|(_, value)| fraction(*value) > WHOLE);
    parted.flat_map(|(pattern, _)| pairs(pattern)).max_by_key(size)
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
    fn prefers_clearly_fractional_then_large() {
        let sizes = [50, 40, 30, 20];
        let solution = [(vec![0, 1], 0.97), (vec![0, 2], 0.03), (vec![1, 3], 0.5), (vec![2, 3], 0.5)];
        assert_eq!(branching_pair(&solution, &sizes), Some((1, 3)));
        assert_eq!(branching_pair(&[(vec![0, 1], 1.0), (vec![2, 3], 1.0)], &sizes), None);
    }

    #[test]
    fn splits_a_fractional_solution_of_whole_affinities() {
        let solution = [(vec![0, 0, 1], 0.5), (vec![0, 1, 1], 0.5)];
        assert_eq!(branching_pair(&solution, &[4, 3]), Some((0, 0)));
        let whole = [
            (vec![0, 1, 2], 0.5),
            (vec![0, 1], 0.5),
            (vec![2], 0.5),
            (vec![0, 2], 0.5),
            (vec![1, 2], 0.5),
            (vec![0], 0.0),
        ];
        assert!(branching_pair(&whole, &[4, 3, 2]).is_some());
    }
}
