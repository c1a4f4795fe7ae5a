//! Do the items fit into K bins? A tree search whose answer is a packing or a refutation.
//!
//! Problem: K bins waste K·C − V in all, so none wastes more: only such patterns count. A case (some items glued,
//! some pairs of types apart) is solved by column generation over its patterns, with subset-row cuts in rounds; its duals
//! and cut multipliers, rounded to integers, close it when all items together are worth more than K patterns can be.
//! Else a pair of types splits it, chosen by strong branching: together (first: it is a dive), apart. A whole solution is a
//! packing. How long a tree takes is a matter of luck: attempts that take too long are given up for others with other pairs,
//! first those whose glued cases were closed soon before.
//! The closed cases in preorder are a proof tree of routepack-certificate; each leaf passes its checker first.
//! Complexity: O(cases · (rounds · (pricing table + linear program))).
//! References: Ryan and Foster branching with cuts: L. Wei, Z. Luo, R. Baldacci, A. Lim, INFORMS J. on Computing 32
//! (2020), doi:10.1287/ijoc.2018.0867; waste limit and many patterns a table: R. L. F. da Silva, R. C. S. Schouery,
//! INFORMS J. on Computing (2025), repository 2023.0399; restarts: C. P. Gomes, B. Selman, N. Crato, H. Kautz, J. Automated
//! Reasoning 24 (2000), doi:10.1023/A:1006314320276. Deviation: bounds are integers checked apart from the solver.

use std::collections::BTreeMap;

use routepack_anneal::Stream;
use routepack_certificate::{CheckError, Leaf, Limits, Statement, TreeNode, check_leaf};
use routepack_lp::MasterSolved;

use crate::branching::{branching_pairs, strong_pair};
use crate::case::Case;
use crate::column_generation::{IMPROVING, one};
use crate::dive::Dive;
use crate::error::PackError;
use crate::pattern_master::{Mark, PatternMaster, UNCOVERED};
use crate::pricing::{Priced, Pricing};
use crate::pricing_table::Prices;
use crate::rank_one_cuts::rank_one_cuts;
use crate::types::{Pattern, Types};
use crate::work::Work;

/// Cases of the first attempt; every further attempt, with other pairs, has twice as many.
const FIRST_ATTEMPT: u64 = 30;
/// A linear program that needs so little more than K bins needs K, or will do with more patterns.
const ENOUGH: f64 = 1e-5;
/// The same where no pattern improves it.
const NEAR: f64 = 1e-3;
/// A pattern worth more than 1 + 2^-MUCH improves much.
const MUCH: u32 = 15;
/// Items worth less than 1 + 2^-NOISE a bin are worth 1: margins of proofs go down to 2^-33.
const NOISE: u32 = 36;
/// Rounds of cuts in one case.
const CUT_ROUNDS: u32 = 10;
/// Cases from one dive to the next, the part of the bins left that a dive fills at once, and rounds of cuts between two
/// fillings.
const DIVE_EVERY: u64 = 8;
const DIVE_SHARE: f64 = 0.1;
const DIVE_CUTS: u32 = 2;
/// What a glued case closed at once adds to the rank of its pair, as a multiple.
const HISTORY: f64 = 4.0;
/// Attempts that may end at a case which can neither be closed nor split.
const STUCK: u32 = 5;

/// The outcome of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The answer.
    pub answer: Decided,
    /// The patterns of the first case, in increasing order of reduced cost: a start for other searches.
    pub patterns: Vec<Pattern>,
    /// What it took.
    pub work: Work,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decided {
    /// A packing into at most K bins.
    Fits(Vec<Pattern>),
    /// K bins are not enough, and why.
    Refuted(Vec<TreeNode>),
    /// A limit, or `stop`, came first.
    Open,
}

/// Limits of a search.
#[derive(Debug, Clone, Copy)]
pub struct DecideLimits {
    /// Most cases solved.
    pub cases: u64,
    /// Dives from the first case.
    pub dives: u32,
    /// Most linear programs in one case.
    pub rounds: u32,
    /// Most bytes of a pricing table.
    pub table_bytes: u64,
    /// What the checker may spend on a leaf.
    pub check: Limits,
}

/// Decides whether the items of a statement fit into `bins` bins, starting from any patterns.
///
/// # Errors
/// [`PackError::Lp`] if the solver fails.
pub fn decide(
    statement: &Statement,
    types: &Types,
    bins: u64,
    start: &[Pattern],
    limits: &DecideLimits,
    stream: &Stream,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Decision, PackError> {
    let Some(waste) = (u128::from(bins) * u128::from(types.capacity)).checked_sub(types.total()) else {
        return Ok(Decision { answer: Decided::Open, patterns: start.to_vec(), work: Work::default() });
    };
    let slack = waste.min(types.capacity.into()) as u64;
    let root = Case::root(statement, types, slack);
    let mut master = PatternMaster::new(&root.space)?;
    master.add(start.iter().filter(|pattern| root.space.holds(pattern)).cloned())?;
    let mut search = Search {
        statement,
        types,
        bins,
        one: one(types.capacity, types.sizes.last().copied().unwrap_or(1)),
        limits,
        stream,
        stop,
        master,
        pricing: Pricing::new(limits.table_bytes),
        work: Work::default(),
        history: BTreeMap::new(),
        attempt: 0,
        last_case: 0,
        dived: 0,
        first: None,
        patterns: start.to_vec(),
        tree: Vec::new(),
    };
    let (mut answer, mut stuck) = (Decided::Open, 0);
    for attempt in 0.. {
        search.attempt = attempt;
        search.last_case =
            search.work.cases.saturating_add(FIRST_ATTEMPT << attempt.min(40)).min(limits.cases);
        match search.settle(root.clone())? {
            Settled::Packed(bins) => answer = Decided::Fits(bins),
            Settled::Closed => answer = Decided::Refuted(std::mem::take(&mut search.tree)),
            Settled::Open if !stop() && search.work.cases <= limits.cases && stuck < STUCK => {
                stuck += u32::from(search.work.cases <= search.last_case);
                if search.start_anew()? {
                    continue;
                }
            }
            Settled::Open => {}
        }
        break;
    }
    Ok(Decision { answer, patterns: search.patterns, work: search.work })
}

enum Settled {
    Packed(Vec<Pattern>),
    Closed,
    Open,
}

/// What the linear program of a case says.
enum Converged {
    Closed(Leaf),
    /// An optimum that covers all items, or not (then there is no uncovered rest to branch on: the leaf failed).
    Fractional(Vec<(Pattern, f64)>),
    Packed(Vec<Pattern>),
    Open,
}

struct Search<'a> {
    statement: &'a Statement,
    types: &'a Types,
    bins: u64,
    one: i64,
    limits: &'a DecideLimits,
    stream: &'a Stream,
    stop: &'a (dyn Fn() -> bool + Sync),
    /// The linear program of the case at hand.
    master: PatternMaster,
    pricing: Pricing,
    work: Work,
    /// For pairs of original types: how soon their glued cases were closed, 1 for each closed at once.
    history: BTreeMap<(u32, u32), f64>,
    /// Number of the attempt, and the last case it may solve.
    attempt: u64,
    last_case: u64,
    /// Dives so far.
    dived: u64,
    /// The first case before cuts.
    first: Option<Mark>,
    /// The patterns of the first case.
    patterns: Vec<Pattern>,
    /// Closed cases and branches so far, in preorder.
    tree: Vec<TreeNode>,
}

impl Search<'_> {
    /// Solves a case and, if need be, both its children.
    fn settle(&mut self, mut case: Case) -> Result<Settled, PackError> {
        loop {
            self.work.cases += 1;
            if self.work.cases > self.last_case {
                return Ok(Settled::Open);
            }
            self.master.bar_unless(|column| case.pattern(column).is_some())?;
            let solution = match self.bound(&case)? {
                Converged::Closed(leaf) => {
                    self.tree.push(TreeNode::Leaf(leaf));
                    return Ok(Settled::Closed);
                }
                Converged::Open => return Ok(Settled::Open),
                Converged::Packed(bins) => return Ok(Settled::Packed(bins)),
                Converged::Fractional(solution) => solution,
            };
            let mark = self.master.mark()?;
            let Some((i, j)) = self.choose(&case, &mark, &solution)? else {
                return Ok(self.packing(&solution).map_or(Settled::Open, Settled::Packed));
            };
            self.tree.push(TreeNode::Branch(i, j));
            let together = self.together(&case, i, j)?;
            let before = self.work.cases;
            match self.settle(together)? {
                Settled::Closed => self.master.return_to(&mark)?,
                other => return Ok(other),
            }
            // A glued type is another one in another attempt.
            if i.max(j) < self.types.len() as u32 {
                *self.history.entry((i, j)).or_default() += 1.0 / (self.work.cases - before) as f64;
            }
            case = case.apart(i, j);
        }
    }

    /// Back to the first case, the patterns found since stay; false if that has no mark to go back to.
    fn start_anew(&mut self) -> Result<bool, PackError> {
        self.tree.clear();
        let Some(first) = &self.first else { return Ok(false) };
        self.master.return_to(first)?;
        Ok(true)
    }

    /// The linear program of a case, with dives and cuts.
    fn bound(&mut self, case: &Case) -> Result<Converged, PackError> {
        let first = self.work.cases == 1;
        let mut converged = self.converge(case, if first { MUCH } else { IMPROVING })?;
        // The first dive before the first program has fully converged: packings mostly come so.
        if first && matches!(converged, Converged::Fractional(_)) {
            if let Some(bins) = self.dive(case)? {
                return Ok(Converged::Packed(bins));
            }
            converged = self.converge(case, IMPROVING)?;
        }
        if let Converged::Fractional(solution) = converged {
            converged = self.cut(case, solution)?;
        }
        if self.work.cases.is_multiple_of(DIVE_EVERY)
            && matches!(converged, Converged::Fractional(_))
            && let Some(bins) = self.dive(case)?
        {
            return Ok(Converged::Packed(bins));
        }
        Ok(converged)
    }

    /// The pair to branch on; `None` for a whole solution.
    fn choose(
        &mut self,
        case: &Case,
        mark: &Mark,
        solution: &[(Pattern, f64)],
    ) -> Result<Option<(u32, u32)>, PackError> {
        let read = |(column, value): &(Pattern, f64)| Some((case.pattern(column)?, *value));
        let read: Vec<(Pattern, f64)> = solution.iter().filter_map(read).collect();
        let mut draws = self.stream.child(0).child(self.work.cases);
        let mut favour = |pair: &(u32, u32)| {
            let luck = if self.attempt > 0 { draws.unit() } else { 0.0 };
            luck + HISTORY * self.history.get(pair).copied().unwrap_or(0.0)
        };
        let mut pairs = branching_pairs(&read, &case.space.sizes, &mut favour);
        pairs.retain(|&(i, j)| case.node.may_join(i, j, self.statement));
        if pairs.len() < 2 {
            return Ok(pairs.first().copied());
        }
        let value = solution.iter().map(|(_, value)| value).sum();
        let patterns: Vec<Pattern> =
            self.master.open_patterns().map(|column| case.pattern(column).unwrap_or_default()).collect();
        let demands = &case.space.demands;
        let best = strong_pair(&mut self.master, mark, &patterns, &pairs, demands, value, self.stop)?;
        Ok(Some(pairs[best]))
    }

    /// The case where items of types i and j are glued, and what the master needs for it.
    fn together(&mut self, case: &Case, i: u32, j: u32) -> Result<Case, PackError> {
        if !case.needs_row(i, j) {
            return Ok(case.together(i, j, None));
        }
        let row = self.master.add_row()?;
        let together = case.together(i, j, Some(row));
        let marked = self.master.open_patterns().filter_map(|column| {
            let column = [column, &[row]].concat();
            together.pattern(&column).map(|_| column)
        });
        let marked: Vec<Pattern> = marked.collect();
        self.master.add(marked)?;
        Ok(together)
    }

    /// Dives for a packing from the case at hand.
    fn dive(&mut self, case: &Case) -> Result<Option<Vec<Pattern>>, PackError> {
        if self.dived >= self.limits.dives.into() {
            return Ok(None);
        }
        let dive = Dive {
            types: self.types,
            bins: self.bins,
            random: self.dived > 0,
            share: DIVE_SHARE,
            cut_rounds: DIVE_CUTS,
            table_bytes: self.limits.table_bytes,
        };
        self.dived += 1;
        dive.run(case, &mut self.master, &self.stream.child(self.dived), self.stop)
    }

    /// Adds rounds of cuts to a case with a fractional solution.
    fn cut(&mut self, case: &Case, mut solution: Vec<(Pattern, f64)>) -> Result<Converged, PackError> {
        for _ in 0..CUT_ROUNDS {
            if solution.iter().all(|(_, value)| (value - value.round()).abs() < 1e-6) {
                break;
            }
            let cuts = rank_one_cuts(solution.clone(), &self.types.demands);
            if cuts.is_empty() {
                break;
            }
            for cut in cuts {
                self.master.add_cut(cut, &self.types.demands, &[])?;
                self.work.cuts += 1;
            }
            match self.converge(case, IMPROVING)? {
                Converged::Fractional(again) => solution = again,
                other => return Ok(other),
            }
        }
        Ok(Converged::Fractional(solution))
    }

    /// Generates patterns until the case is closed or none improves; where the linear program needs no more than the
    /// bins, until none is worth more than 1 + 2^-`improving`. Patterns found again improve by less than the linear program
    /// can tell.
    fn converge(&mut self, case: &Case, improving: u32) -> Result<Converged, PackError> {
        for _ in 0..self.limits.rounds {
            let Some(solved) = self.master.solve(self.stop)? else { return Ok(Converged::Open) };
            self.work.programs += 1;
            let leaf = case.leaf(&solved, &self.master.cuts, self.one);
            let prices = Prices { weights: &leaf.weights, cuts: &leaf.cuts };
            let improving = if solved.objective <= self.bins as f64 + ENOUGH { improving } else { IMPROVING };
            let threshold = self.one + (self.one >> improving);
            let priced = self.pricing.price(&case.space, &prices, threshold, self.stop);
            if (self.stop)() {
                return Ok(Converged::Open);
            }
            if improving >= IMPROVING && self.closes(case, &leaf, &priced) {
                match check_leaf(self.statement, self.bins, &case.node, &leaf, &self.limits.check) {
                    Ok(()) => return Ok(Converged::Closed(leaf)),
                    Err(CheckError::NotChecked { .. }) => return Ok(Converged::Open),
                    Err(_) => {}
                }
            }
            let added = self.master.add(priced.patterns.iter().map(|pattern| case.column(pattern)))?;
            self.work.patterns += added as u64;
            if added == 0 {
                match self.fractional(&solved)? {
                    Some(solution) if solved.objective <= self.bins as f64 + NEAR => {
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
    fn fractional(&mut self, solved: &MasterSolved) -> Result<Option<Vec<(Pattern, f64)>>, PackError> {
        let (solution, uncovered) = self.master.solution()?;
        if uncovered > UNCOVERED {
            return Ok(None);
        }
        if self.work.cases == 1 && self.master.cuts.is_empty() {
            self.first = Some(self.master.mark()?);
            self.patterns = self.master.ranked(solved);
        }
        Ok(Some(solution))
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
        let most =
            if priced.none_left { self.one + (self.one >> NOISE) } else { priced.most.unwrap_or(i64::MAX) };
        rest > i128::from(self.bins) * i128::from(most)
    }

    /// The packing of a whole solution.
    fn packing(&self, solution: &[(Pattern, f64)]) -> Option<Vec<Pattern>> {
        let mut left = self.types.demands.clone();
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
        (left.iter().all(|&left| left == 0) && bins.len() as u64 <= self.bins).then_some(bins)
    }
}
