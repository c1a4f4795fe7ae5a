//! What a prover asks before it claims anything. Not used by the checker.

use crate::knapsack::{Case, Patterns, close, worth};
use crate::limits::{CheckError, Limits, Meter};
use crate::{Leaf, Node, Statement};

/// Checks that a leaf closes a case of the proof that `bins` bins are not enough; there must be an item.
///
/// # Errors
/// [`CheckError::Invalid`] (line 0) if it does not, [`CheckError::NotChecked`] past a limit.
pub fn check_leaf(
    statement: &Statement,
    bins: u64,
    node: &Node,
    leaf: &Leaf,
    limits: &Limits,
) -> Result<(), CheckError> {
    close(&Case { statement, bins, filled: true, node, leaf }, &mut Meter::new(limits))
}

/// The largest total weight of the items of one bin, M of the rule "weights": then at least ⌈Σ demand · weight / M⌉
/// bins are necessary. `weights`: `[types]`, one for every distinct size in decreasing order.
///
/// # Errors
/// [`CheckError::Statement`], [`CheckError::Invalid`] (line 0) for weights that no certificate can hold,
/// [`CheckError::NotChecked`] past a limit.
pub fn max_pattern_value(statement: &Statement, weights: &[u64], limits: &Limits) -> Result<u64, CheckError> {
    statement.validate()?;
    let (node, mut meter) = (Node::root(statement), Meter::new(limits));
    let weights = weights.iter().map(|&weight| i64::try_from(weight).unwrap_or(i64::MAX)).collect();
    let leaf = Leaf { weights, cuts: Vec::new() };
    let case = Case { statement, bins: 1, filled: false, node: &node, leaf: &leaf };
    worth(&case)?;
    let patterns = Patterns::new(&case, u128::MAX, u128::MAX)?;
    let (mut key, mut greedy) = (0, 0);
    for kind in &patterns.kinds {
        let fitting = (1..=kind.copies).take_while(|copies| patterns.takes(key, kind.key * copies)).last();
        let copies = fitting.unwrap_or(0);
        key += kind.key * copies;
        greedy += kind.weight * copies as i64;
    }
    let better = patterns.sweep(greedy.into(), &mut None, &mut meter)?;
    Ok(better.unwrap_or(greedy).unsigned_abs())
}
