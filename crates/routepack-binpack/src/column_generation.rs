//! Column generation at the root: the linear program over all patterns.
//!
//! Problem: min Σ x_P over patterns P, Σ a_iP x_P ≥ d_i for every type i. Duals π are scaled to integers
//! p = ⌊2^b·π⌋; a pricing table gives the exact largest value M of a pattern, so every round proves ⌈Σ d_i p_i / M⌉ bins
//! (Farley's bound, in integers). The search ends when that reaches the bound wanted, when no pattern is worth more than
//! 2^b, or when the master itself falls to a value that can never prove it. With many patterns from each table, smoothing
//! of the duals costs rounds instead of saving them.
//! Complexity: O(rounds · (pricing table + linear program)); 10 to 60 rounds are usual.
//! References: P. C. Gilmore, R. E. Gomory, Operations Research 9 (1961), doi:10.1287/opre.9.6.849;
//! A. A. Farley, Operations Research 38 (1990), doi:10.1287/opre.38.5.922.

use crate::bound::Bound;
use crate::error::PackError;
use crate::pattern_master::PatternMaster;
use crate::pattern_space::PatternSpace;
use crate::pricing::{Priced, Pricing};
use crate::pricing_table::Prices;
use crate::types::{Pattern, Types};
use crate::work::Work;

/// A pattern is improving if its value exceeds 1 by 2 to minus this.
pub(crate) const IMPROVING: u32 = 30;

/// What the linear program over patterns has to say.
#[derive(Debug, Clone, Default)]
pub struct Generated {
    /// The best bound by weights.
    pub bound: Option<Bound>,
    /// Patterns of positive value at the last optimum, with their values.
    pub solution: Vec<(Pattern, f64)>,
    /// All patterns of the last master, in increasing order of reduced cost.
    pub patterns: Vec<Pattern>,
    /// Value of the last master: no linear program over patterns proves more than its ceiling.
    pub value: f64,
    /// Whether no improving pattern is left.
    pub converged: bool,
    /// Linear programs solved and patterns generated.
    pub work: Work,
}

/// Limits of a column generation.
#[derive(Debug, Clone, Copy)]
pub struct ColumnLimits {
    /// The bound wanted (bins): reaching it ends the search.
    pub wanted: u64,
    /// Whether to go on when the master's value shows that the bound wanted is out of reach.
    pub exhaust: bool,
    /// Most linear programs.
    pub rounds: u32,
    /// Most bytes of a pricing table.
    pub table_bytes: u64,
}

/// Generates columns, starting from any patterns.
///
/// # Errors
/// [`PackError::Lp`] if the solver fails.
pub fn generate_columns(
    types: &Types,
    start: &[Pattern],
    limits: &ColumnLimits,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Generated, PackError> {
    let space = PatternSpace::of_types(types);
    let mut master = PatternMaster::new(&space)?;
    master.add(start.iter().cloned())?;
    let mut pricing = Pricing::new(limits.table_bytes);
    let one = one(types.capacity, types.sizes.last().copied().unwrap_or(1));
    let (mut generated, mut best, mut last) = (Generated::default(), 0.0, None);
    while generated.work.programs < limits.rounds.into() && !stop() {
        let Some(solved) = master.solve(stop)? else { break };
        generated.work.programs += 1;
        generated.value = solved.objective;
        let solved = last.insert(solved);
        if !limits.exhaust && solved.objective <= limits.wanted as f64 - 1.0 {
            break;
        }
        let weights: Vec<i64> = solved.duals.iter().map(|&dual| scaled(dual, one)).collect();
        let prices = Prices { weights: &weights, cuts: &[] };
        let priced = pricing.price(&space, &prices, one + (one >> IMPROVING), stop);
        if let Some((bound, value)) = bound(types, &prices, &priced)
            && value > best
        {
            best = value;
            generated.bound = Some(bound);
        }
        let enough = generated.bound.as_ref().is_some_and(|bound| bound.cells >= limits.wanted);
        generated.converged = priced.none_left;
        let added = master.add(priced.patterns)?;
        generated.work.patterns += added as u64;
        if added == 0 || enough {
            break;
        }
    }
    generated.solution = master.solution()?.0;
    generated.patterns = last.map(|solved| master.ranked(&solved)).unwrap_or_default();
    Ok(generated)
}

/// The integer that stands for 1 in weights: patterns sum to about it, and 16 times it, times C / size, stays
/// within 2^60.
pub(crate) fn one(capacity: u64, smallest: u64) -> i64 {
    1 << 40.min(54 - (capacity / smallest).ilog2())
}

/// A dual as an integer weight, rounded down.
pub(crate) fn scaled(dual: f64, one: i64) -> i64 {
    (dual.clamp(0.0, 16.0) * one as f64) as i64
}

/// The bound these prices prove, also before rounding.
fn bound(types: &Types, prices: &Prices<'_>, priced: &Priced) -> Option<(Bound, f64)> {
    let most = u128::from(priced.most?.unsigned_abs()).max(1);
    let weights: Vec<u128> = prices.weights.iter().map(|&weight| weight.unsigned_abs().into()).collect();
    let pairs = weights.iter().zip(&types.demands);
    let total: u128 = pairs.map(|(&weight, &demand)| weight * u128::from(demand)).sum();
    Some((Bound::by_weights(types, weights, most, "column generation"), total as f64 / most as f64))
}
