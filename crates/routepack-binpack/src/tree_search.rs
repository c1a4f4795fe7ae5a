//! One attempt of a tree search: is there a packing among those of a case?
//!
//! A case that its linear program (case_program.rs) leaves open is split by a pair of types, chosen by strong branching:
//! together (first: it is a dive), apart. A whole solution is a packing, and so is what dives from the cases find. The
//! closed cases in preorder are a proof tree of routepack-certificate.
//! Complexity: O(cases · (rounds · (pricing table + linear program))).
//! Reference: Ryan and Foster branching with cuts: L. Wei, Z. Luo, R. Baldacci, A. Lim, INFORMS J. on Computing 32 (2020),
//! doi:10.1287/ijoc.2018.0867.

use std::collections::BTreeMap;

use routepack_anneal::Stream;
use routepack_certificate::TreeNode;

use crate::branching::{branching_pairs, strong_pair};
use crate::case::Case;
use crate::case_program::{CaseProgram, Converged, Question, Solution};
use crate::column_generation::IMPROVING;
use crate::dive::Dive;
use crate::error::PackError;
use crate::pattern_master::Mark;
use crate::types::Pattern;

/// Cases from one dive to the next; where nothing may be wasted, packings are rare and dives find most of them.
const DIVE_EVERY: u64 = 8;
const DIVE_EVERY_TIGHT: u64 = 3;
/// The part of the bins left that a dive fills at once, and rounds of cuts between two fillings.
const DIVE_SHARE: f64 = 0.1;
const DIVE_CUTS: u32 = 2;
/// What a glued case closed at once adds to the rank of its pair, as a multiple.
const HISTORY: f64 = 4.0;

/// For pairs of original types: how soon their glued cases were closed, 1 for each closed at once.
pub(crate) type History = BTreeMap<(u32, u32), f64>;

/// How an attempt ended.
#[derive(Debug)]
pub(crate) enum Settled {
    Packed(Vec<Pattern>),
    /// The proof is the tree.
    Closed,
    Open,
}

pub(crate) struct TreeSearch<'a> {
    pub(crate) program: CaseProgram<'a>,
    /// What earlier attempts saw.
    pub(crate) history: &'a History,
    /// What this one saw.
    pub(crate) seen: History,
    pub(crate) stream: Stream,
    /// How far luck moves the ranks of pairs.
    pub(crate) luck: f64,
    /// Most cases.
    pub(crate) cases: u64,
    /// Dives so far.
    pub(crate) dives: u32,
    /// Closed cases and branches so far, in preorder.
    pub(crate) tree: Vec<TreeNode>,
}

impl TreeSearch<'_> {
    /// Settles a case, of which the linear program has been solved.
    pub(crate) fn settle(&mut self, mut case: Case, mut converged: Converged) -> Result<Settled, PackError> {
        loop {
            if let Converged::Fractional(solution) = converged {
                converged = self.program.cut(&case, solution)?;
            }
            let solution = match converged {
                Converged::Closed(leaf) => {
                    self.tree.push(TreeNode::Leaf(leaf));
                    return Ok(Settled::Closed);
                }
                Converged::Open => return Ok(Settled::Open),
                Converged::Fractional(solution) => solution,
            };
            let every = if case.space.slack == 0 { DIVE_EVERY_TIGHT } else { DIVE_EVERY };
            if self.program.work.cases.is_multiple_of(every)
                && self.dives < self.program.question.limits.dives
            {
                self.dives += 1;
                let stream = self.stream.child(self.dives.into());
                let kind = if self.dives.is_multiple_of(2) { DiveKind::Random } else { DiveKind::Finest };
                if let Some(bins) = dive(&mut self.program, &case, kind, &stream)? {
                    return Ok(Settled::Packed(bins));
                }
            }
            let mark = self.program.master.mark()?;
            let Some((i, j)) = self.choose(&case, &mark, &solution)? else {
                return Ok(self.program.packing(&solution).map_or(Settled::Open, Settled::Packed));
            };
            self.tree.push(TreeNode::Branch(i, j));
            let together = self.together(&case, i, j)?;
            let before = self.program.work.cases;
            let solved = self.solve(&together)?;
            match self.settle(together, solved)? {
                Settled::Closed => self.program.master.return_to(&mark)?,
                other => return Ok(other),
            }
            // A glued type is another one in another attempt.
            if i.max(j) < self.program.question.types.len() as u32 {
                *self.seen.entry((i, j)).or_default() += 1.0 / (self.program.work.cases - before) as f64;
            }
            case = case.apart(i, j);
            converged = self.solve(&case)?;
        }
    }

    /// Solves the linear program of a case.
    fn solve(&mut self, case: &Case) -> Result<Converged, PackError> {
        self.program.work.cases += 1;
        if self.program.work.cases > self.cases {
            return Ok(Converged::Open);
        }
        self.program.master.bar_unless(|column| case.pattern(column).is_some())?;
        self.program.converge(case, IMPROVING)
    }

    /// The pair to branch on; `None` for a whole solution.
    fn choose(
        &mut self,
        case: &Case,
        mark: &Mark,
        solution: &Solution,
    ) -> Result<Option<(u32, u32)>, PackError> {
        let read = |(column, value): &(Pattern, f64)| Some((case.pattern(column)?, *value));
        let read: Vec<(Pattern, f64)> = solution.iter().filter_map(read).collect();
        let mut draws = self.stream.child(0).child(self.program.work.cases);
        let mut favour = |pair: &(u32, u32)| {
            let seen = [self.history, &self.seen].map(|seen| seen.get(pair).copied().unwrap_or(0.0));
            self.luck * draws.unit() + HISTORY * (seen[0] + seen[1])
        };
        let mut pairs = branching_pairs(&read, &case.space.sizes, &mut favour);
        pairs.retain(|&(i, j)| case.node.may_join(i, j, self.program.question.statement));
        if pairs.len() < 2 {
            return Ok(pairs.first().copied());
        }
        let value = solution.iter().map(|(_, value)| value).sum();
        let patterns: Vec<Pattern> = self
            .program
            .master
            .open_patterns()
            .map(|column| case.pattern(column).unwrap_or_default())
            .collect();
        let demands = &case.space.demands;
        let best = strong_pair(
            &mut self.program.master,
            mark,
            &patterns,
            &pairs,
            demands,
            value,
            self.program.stop,
        )?;
        Ok(Some(pairs[best]))
    }

    /// The case where items of types i and j are glued, and what the master needs for it.
    fn together(&mut self, case: &Case, i: u32, j: u32) -> Result<Case, PackError> {
        if !case.needs_row(i, j) {
            return Ok(case.together(i, j, None));
        }
        let row = self.program.master.add_row()?;
        let together = case.together(i, j, Some(row));
        let marked = self.program.master.open_patterns().filter_map(|column| {
            let column = [column, &[row]].concat();
            together.pattern(&column).map(|_| column)
        });
        let marked: Vec<Pattern> = marked.collect();
        self.program.master.add(marked)?;
        Ok(together)
    }
}

/// How dives choose: the largest values, or at random near them, also with items of the finest grain first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiveKind {
    Largest,
    Random,
    Finest,
}

/// Dives for a packing from the case at hand.
pub(crate) fn dive(
    program: &mut CaseProgram<'_>,
    case: &Case,
    kind: DiveKind,
    stream: &Stream,
) -> Result<Option<Vec<Pattern>>, PackError> {
    let Question { types, bins, limits, .. } = *program.question;
    let table_bytes = limits.table_bytes;
    let (random, finest) = (kind != DiveKind::Largest, kind == DiveKind::Finest);
    let dive = Dive { types, bins, random, finest, share: DIVE_SHARE, cut_rounds: DIVE_CUTS, table_bytes };
    dive.run(case, &mut program.master, stream, program.stop)
}
