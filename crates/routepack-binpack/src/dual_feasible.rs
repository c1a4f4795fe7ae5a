//! Bounds by dual-feasible functions.
//!
//! Problem: fewest bins of capacity C. A function f is dual feasible if Σ w ≤ C implies Σ f(w) ≤ f(C); then
//! ⌈Σ f(w_i) / f(C)⌉ bins are necessary. Families, all in integers, each also after L2's thresholds (f ∘ f_α):
//! - u(k): with x = (k+1)·w/C, f(w) = k·w if x is whole, else ⌊x⌋·C; f(C) = k·C.
//! - CCM(λ), 1 ≤ λ ≤ C/2: f(w) = 2⌊w/λ⌋ below C/2, ⌊C/λ⌋ at C/2, 2(⌊C/λ⌋ − ⌊(C − w)/λ⌋) above; f(C) = 2⌊C/λ⌋.
//!
//! The parameters tried are k ≤ 32, λ among the sizes and fractions of C, α among the sizes; a fixed number of
//! multiplications is spent, on evenly spaced parameters where there are many.
//! Complexity: O(parameters · m). Only the largest bound is returned; a certificate takes the exact maximum
//! over patterns instead of f(C) and may prove more.
//! References: S. P. Fekete, J. Schepers, Math. Programming 91 (2001), doi:10.1007/s101070100243 (u and f_0);
//! J. Carlier, F. Clautiaux, A. Moukrim, Computers & OR 34 (2007), doi:10.1016/j.cor.2005.08.012 (CCM);
//! survey: F. Clautiaux, C. Alves, J. Valério de Carvalho, Annals of OR 179 (2010), doi:10.1007/s10479-008-0453-8.

use crate::bound::Bound;
use crate::l2::threshold_weight;
use crate::types::Types;

/// Evaluations of a function at a size that are spent.
const EVALUATIONS: usize = 1_000_000;

#[derive(Debug, Clone, Copy)]
enum Function {
    U(u64),
    Ccm(u64),
}

impl Function {
    fn of(self, size: u64, capacity: u64) -> u128 {
        let (w, c) = (u128::from(size), u128::from(capacity));
        match self {
            Self::U(k) => {
                let scaled = u128::from(k + 1) * w;
                if scaled % c == 0 { u128::from(k) * w } else { scaled / c * c }
            }
            Self::Ccm(step) => {
                let (whole, double) = (capacity / step, u128::from(size) * 2);
                match double.cmp(&c) {
                    std::cmp::Ordering::Less => 2 * u128::from(size / step),
                    std::cmp::Ordering::Equal => whole.into(),
                    std::cmp::Ordering::Greater => 2 * u128::from(whole - (capacity - size) / step),
                }
            }
        }
    }
}

/// The largest bound over the families, with its weights; `None` if the capacity is 1. It stops at the first that reaches
/// `enough`.
pub fn dual_feasible_bound(types: &Types, enough: u64) -> Option<Bound> {
    let capacity = types.capacity;
    let small = &types.sizes[types.first_fitting(capacity / 2)..];
    let most_functions = (EVALUATIONS / types.len().max(1)).max(64);
    let mut steps: Vec<u64> = (2..=40).flat_map(|k| [capacity / k, capacity / k + 1]).collect();
    steps.extend(spaced(small, (most_functions / 8).min(400)));
    steps.retain(|&step| step >= 1 && step <= capacity / 2);
    steps.sort_unstable();
    steps.dedup();
    let functions: Vec<Function> =
        (1..=32).map(Function::U).chain(steps.into_iter().map(Function::Ccm)).collect();
    let mut thresholds = vec![0];
    thresholds.extend(spaced(small, most_functions / functions.len().max(1)));

    let mut best: Option<(u64, Function, u64)> = None;
    for &threshold in &thresholds {
        let sizes: Vec<u64> =
            types.sizes.iter().map(|&size| threshold_weight(size, threshold, capacity)).collect();
        for &function in &functions {
            let most = function.of(capacity, capacity);
            let terms = sizes.iter().zip(&types.demands);
            let total: u128 =
                terms.map(|(&size, &demand)| function.of(size, capacity) * u128::from(demand)).sum();
            let cells = total.div_ceil(most.max(1)) as u64;
            if best.is_none_or(|best| cells > best.0) {
                best = Some((cells, function, threshold));
                if cells >= enough {
                    return best.map(|(_, function, threshold)| bound(types, function, threshold));
                }
            }
        }
    }
    best.map(|(_, function, threshold)| bound(types, function, threshold))
}

fn bound(types: &Types, function: Function, threshold: u64) -> Bound {
    let capacity = types.capacity;
    let weights =
        types.sizes.iter().map(|&size| function.of(threshold_weight(size, threshold, capacity), capacity));
    let name = match function {
        Function::U(k) => format!("u({k})"),
        Function::Ccm(step) => format!("CCM({step})"),
    };
    let name = if threshold > 0 { format!("{name} at threshold {threshold}") } else { name };
    let most = function.of(capacity, capacity);
    Bound::by_weights(types, weights.collect(), most, format!("dual-feasible function {name}"))
}

/// At most `number` of the values, evenly spaced.
fn spaced(values: &[u64], number: usize) -> impl Iterator<Item = u64> {
    let step = values.len().div_ceil(number.max(1)).max(1);
    values.iter().copied().step_by(step).take(number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use routepack_certificate::{Limits, Proof, Statement, max_pattern_value};

    use super::*;

    #[test]
    fn every_function_is_dual_feasible() {
        // Superadditive, and symmetric about C/2 where it should be: that is enough for all multisets.
        for capacity in [7_u64, 12, 30, 31] {
            let functions = (1..=9).map(Function::U).chain((1..=capacity / 2).map(Function::Ccm));
            for function in functions {
                for threshold in 0..=capacity / 2 {
                    // max over multisets of f by an unbounded knapsack
                    let weight = |size| function.of(threshold_weight(size, threshold, capacity), capacity);
                    let mut best = vec![0; capacity as usize + 1];
                    for room in 1..=capacity {
                        let take = |size| best[(room - size) as usize] + weight(size);
                        best[room as usize] = (1..=room).map(take).max().unwrap();
                    }
                    assert!(
                        best[capacity as usize] <= function.of(capacity, capacity),
                        "{function:?} {threshold} {capacity}"
                    );
                }
            }
        }
    }

    proptest! {
        #[test]
        fn the_certificate_agrees(sizes in prop::collection::vec(1_u64..=31, 1..40)) {
            let statement = Statement::bins(sizes, 31);
            let types = Types::new(&statement).unwrap();
            let bound = dual_feasible_bound(&types, u64::MAX).unwrap();
            let Proof::Weights(weights) = bound.proof else { panic!("functions prove by weights") };
            let most = max_pattern_value(&statement, &weights, &Limits::default()).unwrap();
            prop_assert!(types.total_weight(&weights).div_ceil(u128::from(most.max(1))) >= u128::from(bound.cells));
        }
    }

    #[test]
    fn exceeds_l2() {
        // Seven items above C/4: at most three in a bin; volume and L2 say 2.
        let types = Types::new(&Statement::bins(vec![26; 7], 100)).unwrap();
        assert_eq!(crate::l2_bound(&types).cells, 2);
        assert_eq!(dual_feasible_bound(&types, u64::MAX).unwrap().cells, 3);
    }
}
