//! The linear program of the case at hand, what it proves, and where it stands when it proves nothing.
//!
//! A case (some items glued, some pairs of types apart) is solved by column generation over its patterns, with rank-1 cuts
//! in rounds; its duals and cut multipliers, rounded to integers, close it when all items together are worth more than K
//! patterns can be, which the checker confirms. One program serves all cases of an attempt (pattern_master.rs).
//! Complexity: O(rounds · (pricing table + linear program)).
//! References: cuts: L. Wei, Z. Luo, R. Baldacci, A. Lim, INFORMS J. on Computing 32 (2020), doi:10.1287/ijoc.2018.0867;
//! waste limit and many patterns a table: R. L. F. da Silva, R. C. S. Schouery, INFORMS J. on Computing (2025), repository
//! 2023.0399. Deviation: bounds are integers checked apart from the solver.

use routepack_certificate::{CheckError, Leaf, Statement, check_leaf};

use crate::case::Case;
use crate::column_generation::IMPROVING;
use crate::decide::DecideLimits;
use crate::error::PackError;
use crate::pattern_master::{PatternMaster, UNCOVERED};
use crate::pricing::{Priced, Pricing};
use crate::pricing_table::Prices;
use crate::rank_one_cuts::rank_one_cuts;
use crate::types::{Pattern, Types};
use crate::work::Work;

/// A linear program that needs so little more than K bins needs K, or will do with more patterns.
const ENOUGH: f64 = 1e-5;
/// The same where no pattern improves it.
const NEAR: f64 = 1e-3;
/// Items worth less than 1 + 2^-NOISE a bin are worth 1: margins of proofs go down to 2^-33.
const NOISE: u32 = 36;
/// Rounds of cuts in one case.
const CUT_ROUNDS: u32 = 10;

/// Whether the items of a statement fit into K bins.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    pub(crate) statement: &'a Statement,
    pub(crate) types: &'a Types,
    /// K.
    pub(crate) bins: u64,
    /// The worth of a bin in integer weights.
    pub(crate) one: i64,
    pub(crate) limits: &'a DecideLimits,
}

/// Columns of positive value in an optimum, and the values.
pub(crate) type Solution = Vec<(Pattern, f64)>;

/// What the linear program of a case says.
#[derive(Debug)]
pub(crate) enum Converged {
    Closed(Leaf),
    /// An optimum that covers all items and needs no more than K bins.
    Fractional(Solution),
    /// A limit, or `stop`; or the checker refused the leaf and there is no uncovered rest to branch on.
    Open,
}

pub(crate) struct CaseProgram<'a> {
    pub(crate) question: &'a Question<'a>,
    pub(crate) master: PatternMaster,
    pub(crate) pricing: &'a mut Pricing,
    pub(crate) stop: &'a (dyn Fn() -> bool + Sync),
    pub(crate) work: Work,
}

impl CaseProgram<'_> {
    /// Generates patterns until the case is closed or none improves; where the linear program needs no more than the
    /// bins, until none is worth more than 1 + 2^-`improving`. Patterns found again improve by less than the linear program
    /// can tell.
    pub(crate) fn converge(&mut self, case: &Case, improving: u32) -> Result<Converged, PackError> {
        for _ in 0..self.question.limits.rounds {
            let Some(solved) = self.master.solve(self.stop)? else { return Ok(Converged::Open) };
            self.work.programs += 1;
            let leaf = case.leaf(&solved, &self.master.cuts, self.question.one);
            let prices = Prices { weights: &leaf.weights, cuts: &leaf.cuts };
            let improving =
                if solved.objective <= self.question.bins as f64 + ENOUGH { improving } else { IMPROVING };
            let threshold = self.question.one + (self.question.one >> improving);
            let priced = self.pricing.price(&case.space, &prices, threshold, self.stop);
            if (self.stop)() {
                return Ok(Converged::Open);
            }
            if improving >= IMPROVING && self.closes(case, &leaf, &priced) {
                match check_leaf(
                    self.question.statement,
                    self.question.bins,
                    &case.node,
                    &leaf,
                    &self.question.limits.check,
                ) {
                    Ok(()) => return Ok(Converged::Closed(leaf)),
                    Err(CheckError::NotChecked { .. }) => return Ok(Converged::Open),
                    Err(_) => {}
                }
            }
            let added = self.master.add(priced.patterns.iter().map(|pattern| case.column(pattern)))?;
            self.work.patterns += added as u64;
            if added == 0 {
                match self.fractional()? {
                    Some(solution) if solved.objective <= self.question.bins as f64 + NEAR => {
                        return Ok(Converged::Fractional(solution));
                    }
                    None if self.master.raise_costs()? => {}
                    _ => return Ok(Converged::Open),
                }
            }
        }
        Ok(Converged::Open)
    }

    /// The solution of the linear program, if it covers all items.
    fn fractional(&mut self) -> Result<Option<Solution>, PackError> {
        let (solution, uncovered) = self.master.solution()?;
        Ok((uncovered <= UNCOVERED).then_some(solution))
    }

    /// Adds rounds of cuts to a case with a fractional solution.
    pub(crate) fn cut(&mut self, case: &Case, mut solution: Solution) -> Result<Converged, PackError> {
        for _ in 0..CUT_ROUNDS {
            if solution.iter().all(|(_, value)| (value - value.round()).abs() < 1e-6) {
                break;
            }
            let cuts = rank_one_cuts(solution.clone(), &self.question.types.demands);
            if cuts.is_empty() {
                break;
            }
            for cut in cuts {
                self.master.add_cut(cut, &self.question.types.demands, &[])?;
                self.work.cuts += 1;
            }
            match self.converge(case, IMPROVING)? {
                Converged::Fractional(again) => solution = again,
                other => return Ok(other),
            }
        }
        Ok(Converged::Fractional(solution))
    }

    /// Whether these weights may well close the case: worth asking the checker.
    fn closes(&self, case: &Case, leaf: &Leaf, priced: &Priced) -> bool {
        let pairs = leaf.weights.iter().zip(&case.space.demands);
        let total: i128 = pairs.map(|(&weight, &demand)| i128::from(weight) * i128::from(demand)).sum();
        let charges = leaf.cuts.iter().map(|cut| {
            let parts = cut.multipliers.iter();
            let sum: u64 = parts
                .map(|&(kind, times)| u64::from(times) * u64::from(case.space.demands[kind as usize]))
                .sum();
            i128::from(cut.scale) * i128::from(sum / u64::from(cut.denominator))
        });
        let rest = total - charges.sum::<i128>();
        // At convergence the largest value is about 1, perhaps a little less than the threshold says.
        let most = if priced.none_left {
            self.question.one + (self.question.one >> NOISE)
        } else {
            priced.most.unwrap_or(i64::MAX)
        };
        rest > i128::from(self.question.bins) * i128::from(most)
    }

    /// The packing of a whole solution.
    pub(crate) fn packing(&self, solution: &[(Pattern, f64)]) -> Option<Vec<Pattern>> {
        let mut left = self.question.types.demands.clone();
        let mut bins = Vec::new();
        for (column, value) in solution {
            for _ in 0..value.round() as u64 {
                let mut bin = column.clone();
                bin.retain(|&row| {
                    let left = left.get_mut(row as usize).filter(|left| **left > 0);
                    left.map(|left| *left -= 1).is_some()
                });
                bins.push(bin);
            }
        }
        bins.retain(|bin| !bin.is_empty());
        (left.iter().all(|&left| left == 0) && bins.len() as u64 <= self.question.bins).then_some(bins)
    }
}
