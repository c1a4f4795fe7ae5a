//! Do the items fit into K bins? A tree search whose answer is a packing or a refutation.
//!
//! Problem: K bins waste K·C − V in all, so none wastes more: only such patterns count. Bins that can be filled for good
//! are (forced_bins.rs); the search is about what is left. Where that comes apart once items are set aside
//! (set_aside.rs), it is packed; a short look at the start, a long one once a dive has failed. The first case, all
//! packings of that, is solved by column generation, with a dive. What it leaves open goes to attempts of the tree search
//! (tree_search.rs). How long a tree takes is a matter of luck: attempts that take too long are given up for others with
//! other pairs, first those whose glued cases were closed soon before. Two attempts run side by side and do not see each
//! other; where both settle it, the first counts: the answer does not depend on the number of threads. Every attempt
//! starts from a program of its own with the patterns of the first case only.
//! Complexity: O(cases · (rounds · (pricing table + linear program))).
//! Reference for restarts: C. P. Gomes, B. Selman, N. Crato, H. Kautz, J. Automated Reasoning 24 (2000),
//! doi:10.1023/A:1006314320276.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use routepack_anneal::Stream;
use routepack_certificate::{Limits, Statement, TreeNode};

use crate::case::Case;
use crate::case_program::{CaseProgram, Converged, Question, Solution};
use crate::column_generation::{IMPROVING, one};
use crate::error::PackError;
use crate::forced_bins::forced_bins;
use crate::pattern_master::PatternMaster;
use crate::pricing::Pricing;
use crate::set_aside::{FEW, Found, set_aside};
use crate::tree_search::{DiveKind, History, Settled, TreeSearch, dive};
use crate::types::{Pattern, Types};
use crate::work::Work;

/// Words of bits that the search for bins filled for good may fill.
const FORCED_WORDS: u64 = 2_000_000_000;
/// Words of bits that the search for items to set aside may fill, before the first case and once a dive has failed.
const ASIDE_WORDS: [u64; 2] = [1_000_000_000, 4_000_000_000];
/// Most cases of what is left once items are set aside, each time and in all.
const REST_CASES: [u64; 2] = [100, 1000];
/// Cases of each of the first two attempts; every further two, with other pairs, have twice as many.
const FIRST_ATTEMPTS: u64 = 30;
/// A pattern worth more than 1 + 2^-MUCH improves much.
const MUCH: u32 = 15;
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
    /// Most dives of one attempt.
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
/// Works in two threads where the pool at hand has them, with the same answer.
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
    let asked = Asked { statement, types, bins, limits, stream, stop };
    // The checker takes no fills where there is a limit of items, even if it can't bind.
    let limited = statement.max_items.is_some();
    let mut filled = if limited { Vec::new() } else { forced_bins(types, bins, FORCED_WORDS, stop) };
    if filled.is_empty() {
        return asked.settle(start);
    }
    // Steps lead with the item that needs the bin; patterns are in order of types.
    let sizes = |bin: &Pattern| TreeNode::Fill(bin.iter().map(|&kind| types.sizes[kind as usize]).collect());
    let fills: Vec<_> = filled.iter().map(sizes).collect();
    filled.iter_mut().for_each(|bin| bin.sort_unstable());
    let decision = asked.settle_rest(&filled, start)?;
    let answer = match decision.answer {
        Decided::Fits(rest) => Decided::Fits([&filled[..], &rest].concat()),
        Decided::Refuted(tree) => Decided::Refuted(fills.into_iter().chain(tree).collect()),
        Decided::Open => Decided::Open,
    };
    let patterns = [decision.patterns, filled].concat();
    Ok(Decision { answer, patterns, work: decision.work })
}

/// What is asked, once bins have been filled for good.
#[derive(Clone, Copy)]
struct Asked<'a> {
    statement: &'a Statement,
    types: &'a Types,
    bins: u64,
    limits: &'a DecideLimits,
    stream: &'a Stream,
    stop: &'a (dyn Fn() -> bool + Sync),
}

impl Asked<'_> {
    /// Whether what some bins leave fits into the others; all patterns are those of the others.
    fn settle_rest(&self, filled: &[Pattern], start: &[Pattern]) -> Result<Decision, PackError> {
        let rest = self.types.without(filled);
        let statement = Statement { sizes: rest.all_sizes(), ..self.statement.clone() };
        let bins = self.bins - filled.len() as u64;
        let asked = Asked { statement: &statement, types: &rest, bins, ..*self };
        let decision = asked.settle(&rest.renumbered(self.types, start))?;
        let back = |patterns: Vec<Pattern>| self.types.renumbered(&rest, &patterns);
        let answer = match decision.answer {
            Decided::Fits(bins) => Decided::Fits(back(bins)),
            answer => answer,
        };
        Ok(Decision { answer, patterns: back(decision.patterns), work: decision.work })
    }

    /// A packing that comes apart once items are set aside.
    fn come_apart(&self, words: u64, work: &mut Work) -> Found {
        if self.bins <= FEW {
            return Ok(None);
        }
        let [each, mut left] = REST_CASES;
        let mut pack_rest = |filled: &[Pattern]| {
            if left == 0 {
                return Ok(None);
            }
            let limits = DecideLimits { cases: each.min(left).min(self.limits.cases), ..*self.limits };
            let decision = Asked { limits: &limits, ..*self }.settle_rest(filled, &[])?;
            left = left.saturating_sub(decision.work.cases);
            *work += decision.work;
            let Decided::Fits(rest) = decision.answer else { return Ok(None) };
            let mut bins = filled.to_vec();
            bins.iter_mut().for_each(|bin| bin.sort_unstable());
            Ok(Some([bins, rest].concat()))
        };
        set_aside(self.types, self.bins, words, &mut pack_rest, self.stop)
    }

    /// The search.
    fn settle(&self, start: &[Pattern]) -> Result<Decision, PackError> {
        let Asked { statement, types, bins, limits, stream, stop } = *self;
        let mut work = Work::default();
        let Some(waste) = (u128::from(bins) * u128::from(types.capacity)).checked_sub(types.total()) else {
            return Ok(Decision { answer: Decided::Open, patterns: start.to_vec(), work });
        };
        let [few_words, words] = ASIDE_WORDS;
        if let Some(bins) = self.come_apart(few_words, &mut work)? {
            return Ok(Decision { answer: Decided::Fits(bins), patterns: start.to_vec(), work });
        }
        let one = one(types.capacity, types.sizes.last().copied().unwrap_or(1));
        let question = Question { statement, types, bins, one, limits };
        let case = Case::root(statement, types, waste.min(types.capacity.into()) as u64);
        let mut master = PatternMaster::new(&case.space)?;
        master.add(start.iter().filter(|pattern| case.space.holds(pattern)).cloned())?;
        let mut pricing = [Pricing::new(limits.table_bytes), Pricing::new(limits.table_bytes)];
        let mut program = CaseProgram { question: &question, master, pricing: &mut pricing[0], stop, work };
        let first = solve_first(&mut program, &case, &stream.child(0))?;
        let solved = program.master.solve(stop)?;
        let patterns = solved.map_or_else(|| start.to_vec(), |solved| program.master.ranked(&solved));
        let CaseProgram { master, mut work, .. } = program;
        let answer = match first {
            First::Packed(bins) => Decided::Fits(bins),
            First::Solved(Converged::Closed(leaf)) => Decided::Refuted(vec![TreeNode::Leaf(leaf)]),
            First::Solved(Converged::Open) => Decided::Open,
            First::Solved(Converged::Fractional(solution)) => {
                if let Some(bins) = self.come_apart(words, &mut work)? {
                    Decided::Fits(bins)
                } else {
                    let master = Mutex::new(master);
                    let start = Start { question: &question, case, master, solution, stream };
                    attempts(&start, &mut pricing, &mut work, stop)?
                }
            }
        };
        Ok(Decision { answer, patterns, work })
    }
}

/// What comes of the first case.
enum First {
    Packed(Vec<Pattern>),
    Solved(Converged),
}

/// Solves the first case, with a dive before its program has fully converged: packings mostly come so.
fn solve_first(program: &mut CaseProgram<'_>, case: &Case, stream: &Stream) -> Result<First, PackError> {
    program.work.cases += 1;
    let converged = program.converge(case, MUCH)?;
    if !matches!(converged, Converged::Fractional(_)) {
        return Ok(First::Solved(converged));
    }
    if program.question.limits.dives > 0
        && let Some(bins) = dive(program, case, DiveKind::Largest, stream)?
    {
        return Ok(First::Packed(bins));
    }
    program.converge(case, IMPROVING).map(First::Solved)
}

/// Where all attempts start: the first case as its program left it.
struct Start<'a> {
    question: &'a Question<'a>,
    case: Case,
    master: Mutex<PatternMaster>,
    solution: Solution,
    stream: &'a Stream,
}

/// How an attempt ended, with its proof, what it saw and what it took.
struct Ended {
    settled: Settled,
    tree: Vec<TreeNode>,
    seen: History,
    work: Work,
}

/// Attempts two by two, until one settles it.
fn attempts(
    start: &Start<'_>,
    pricing: &mut [Pricing; 2],
    work: &mut Work,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Decided, PackError> {
    let (mut history, mut stuck) = (History::new(), 0);
    for pair in 0_u64.. {
        let left = start.question.limits.cases.saturating_sub(work.cases);
        if left == 0 || stuck > STUCK || stop() {
            break;
        }
        let cases = (FIRST_ATTEMPTS << pair.min(40)).min(left);
        let settled = AtomicBool::new(false);
        let beaten = || settled.load(Ordering::Relaxed) || stop();
        let [one, other] = pricing;
        let (one, other) = rayon::join(
            || {
                let ended = start.attempt(2 * pair, cases, &history, one, stop);
                settled.store(!matches!(&ended, Ok(Ended { settled: Settled::Open, .. })), Ordering::Relaxed);
                ended
            },
            || (!beaten()).then(|| start.attempt(2 * pair + 1, cases, &history, other, &beaten)),
        );
        for ended in [Some(one), other].into_iter().flatten() {
            let ended = ended?;
            *work += ended.work;
            match ended.settled {
                Settled::Packed(bins) => return Ok(Decided::Fits(bins)),
                Settled::Closed => return Ok(Decided::Refuted(ended.tree)),
                Settled::Open => stuck += u32::from(ended.work.cases <= cases),
            }
            ended.seen.into_iter().for_each(|(pair, soon)| *history.entry(pair).or_default() += soon);
        }
    }
    Ok(Decided::Open)
}

impl Start<'_> {
    /// One attempt, with a program of its own.
    fn attempt(
        &self,
        number: u64,
        cases: u64,
        history: &History,
        pricing: &mut Pricing,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Ended, PackError> {
        let master = self.master.lock().unwrap_or_else(PoisonError::into_inner).fork()?;
        let work = Work { cases: 1, ..Work::default() };
        let mut search = TreeSearch {
            program: CaseProgram { question: self.question, master, pricing, stop, work },
            history,
            seen: History::new(),
            stream: self.stream.child(number + 1),
            luck: if number > 0 { 1.0 } else { 0.0 },
            cases,
            dives: 0,
            tree: Vec::new(),
        };
        let settled = search.settle(self.case.clone(), Converged::Fractional(self.solution.clone()))?;
        Ok(Ended { settled, tree: search.tree, seen: search.seen, work: search.program.work })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps for the checker lead with the item that needs the bin, but patterns are in order of types.
    #[test]
    fn bins_filled_for_good_are_patterns_like_others() {
        let statement = Statement::bins(vec![13, 4, 3, 2, 2, 8, 8], 20);
        let types = Types::new(&statement).unwrap();
        let limits =
            DecideLimits { cases: 9, dives: 3, rounds: 99, table_bytes: 1 << 20, check: Limits::default() };
        let decision = decide(&statement, &types, 2, &[], &limits, &Stream::new(1), &|| false).unwrap();
        let Decided::Fits(mut bins) = decision.answer else { panic!("{:?}", decision.answer) };
        bins.sort_unstable();
        assert_eq!(bins, [[0, 2, 3].to_vec(), [1, 1, 4, 4].to_vec()]);
    }

    /// No program of the whole is solved: there are no patterns of it.
    #[test]
    fn what_comes_apart_is_packed_with_what_was_set_aside() {
        let limits =
            DecideLimits { cases: 20, dives: 0, rounds: 99, table_bytes: 1 << 26, check: Limits::default() };
        let mut packed = 0;
        for seed in 0..5 {
            let (sizes, _) = crate::set_aside::tests::put_together(1 << 11, &[1, 3], &mut Stream::new(seed));
            let statement = Statement::bins(sizes, 40 << 11);
            let types = Types::new(&statement).unwrap();
            let decision = decide(&statement, &types, 21, &[], &limits, &Stream::new(1), &|| false).unwrap();
            let Decided::Fits(bins) = decision.answer else { panic!("{:?}", decision.answer) };
            assert!(bins.len() == 21 && bins.iter().all(|bin| types.load(bin) == 40 << 11));
            assert!(bins.iter().all(|bin| bin.is_sorted()) && types.without(&bins).is_empty());
            packed += u32::from(decision.patterns.is_empty());
        }
        assert!(packed >= 4, "{packed}");
    }
}
