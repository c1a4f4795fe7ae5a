//! Do the items fit into K bins? A tree search whose answer is a packing or a refutation.
//!
//! Problem: K bins waste K·C − V in all, so none wastes more: only such patterns count. A case (some items glued,
//! some pairs of types apart) is solved by column generation over its patterns, with subset-row cuts in rounds; its duals
//! and cut multipliers, rounded to integers, close it when all items together are worth more than K patterns can be.
//! Else a pair of types splits it, chosen by strong branching: together (first: it is a dive), apart. A whole solution is a
//! packing.
//! The closed cases in preorder are a proof tree of routepack-certificate; each leaf passes its checker first.
//! Complexity: O(cases · (rounds · (pricing table + linear program))).
//! References: Ryan and Foster branching with cuts: L. Wei, Z. Luo, R. Baldacci, A. Lim, INFORMS J. on Computing 32
//! (2020), doi:10.1287/ijoc.2018.0867; waste limit and many patterns a table: R. L. F. da Silva, R. C. S. Schouery,
//! INFORMS J. on Computing (2025), repository 2023.0399. Deviation: bounds are integers checked apart from the solver.

use routepack_anneal::Stream;
use routepack_certificate::{CheckError, Cut, Leaf, Limits, Node, Statement, TreeNode, check_leaf};
use routepack_lp::MasterSolved;

use crate::branching::{branching_pairs, strong_pair};
use crate::column_generation::{IMPROVING, one, scaled};
use crate::dive::Dive;
use crate::error::PackError;
use crate::pattern_master::PatternMaster;
use crate::pattern_space::PatternSpace;
use crate::pricing::{Priced, Pricing};
use crate::pricing_table::Prices;
use crate::subset_row_cuts::subset_row_cuts;
use crate::types::{Pattern, Types};
use crate::work::Work;

/// Rounds of cuts in one case.
const CUT_ROUNDS: u32 = 10;

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
    let mut search = Search {
        statement,
        types,
        bins,
        slack: waste.min(types.capacity.into()) as u64,
        one: one(types.capacity, types.sizes.last().copied().unwrap_or(1)),
        limits,
        stream,
        stop,
        pricing: Pricing::new(limits.table_bytes),
        work: Work::default(),
        dived: 0,
        patterns: Vec::new(),
        tree: Vec::new(),
    };
    let node = Node::root(statement);
    let parts = (0..types.len() as u32).map(|kind| vec![kind]).collect();
    let case = search.open(node, parts, Vec::new(), start.to_vec(), &[])?;
    let answer = match search.settle(case)? {
        Settled::Packed(bins) => Decided::Fits(bins),
        Settled::Closed => Decided::Refuted(search.tree),
        Settled::Open => Decided::Open,
    };
    Ok(Decision { answer, patterns: search.patterns, work: search.work })
}

/// One case and its linear program.
struct Case {
    node: Node,
    /// `[types of the node]`, the original types glued together.
    parts: Vec<Pattern>,
    space: PatternSpace,
    master: PatternMaster,
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
    slack: u64,
    one: i64,
    limits: &'a DecideLimits,
    stream: &'a Stream,
    stop: &'a (dyn Fn() -> bool + Sync),
    pricing: Pricing,
    work: Work,
    /// Dives so far.
    dived: u64,
    /// The patterns of the first case.
    patterns: Vec<Pattern>,
    /// Closed cases and branches so far, in preorder.
    tree: Vec<TreeNode>,
}

impl Search<'_> {
    fn open(
        &self,
        node: Node,
        parts: Vec<Pattern>,
        likely: Vec<Pattern>,
        patterns: Vec<Pattern>,
        cuts: &[Cut],
    ) -> Result<Case, PackError> {
        let space = PatternSpace::of_node(&node, self.types.capacity, self.slack, self.types.max_items);
        let likely_is_empty = likely.is_empty();
        let mut master = PatternMaster::new(&space)?;
        for cut in cuts {
            master.add_cut(cut.clone(), &space.demands)?;
        }
        master.add(likely.into_iter().filter(|pattern| space.holds(pattern)))?;
        if !likely_is_empty {
            master.solve(self.stop)?;
        }
        master.add(patterns.into_iter().filter(|pattern| space.holds(pattern)))?;
        Ok(Case { node, parts, space, master })
    }

    /// Solves a case and, if need be, both its children.
    fn settle(&mut self, mut case: Case) -> Result<Settled, PackError> {
        loop {
            self.work.cases += 1;
            if self.work.cases > self.limits.cases {
                return Ok(Settled::Open);
            }
            let mut converged = self.converge(&mut case)?;
            // Two dives in the first case, then ever fewer.
            if (self.work.cases == 1 || self.work.cases >= 4 && self.work.cases.is_power_of_two())
                && self.dived < self.limits.dives.into()
                && matches!(converged, Converged::Fractional(_))
            {
                if let Some(bins) = self.dive()? {
                    converged = Converged::Packed(bins);
                }
            }
            if let Converged::Fractional(solution) = converged {
                converged = self.cut(&mut case, solution)?;
            }
            let solution = match converged {
                Converged::Closed(leaf) => {
                    self.tree.push(TreeNode::Leaf(leaf));
                    return Ok(Settled::Closed);
                }
                Converged::Open => return Ok(Settled::Open),
                Converged::Packed(bins) => return Ok(Settled::Packed(bins)),
                Converged::Fractional(solution) => solution,
            };
            let mut pairs = branching_pairs(&solution, &case.space.sizes);
            pairs.retain(|&(i, j)| case.node.may_join(i, j, self.statement));
            if pairs.is_empty() {
                return Ok(self.packing(&case, &solution).map_or(Settled::Open, Settled::Packed));
            }
            let value = solution.iter().map(|(_, value)| value).sum();
            let best = strong_pair(&mut case.master, &pairs, &case.space.demands, value, self.stop)?;
            let (i, j) = pairs[best];
            self.tree.push(TreeNode::Branch(i, j));
            match self.settle(self.together(&case, &solution, i, j)?)? {
                Settled::Closed => {}
                other => return Ok(other),
            }
            case.node.part(i, j);
            case.space =
                PatternSpace::of_node(&case.node, self.types.capacity, self.slack, self.types.max_items);
            case.master.restrict(&case.space)?;
        }
    }

    fn together(&self, case: &Case, solution: &[(Pattern, f64)], i: u32, j: u32) -> Result<Case, PackError> {
        let (mut node, mut parts) = (case.node.clone(), case.parts.clone());
        node.join(i, j);
        let new = parts.len() as u32;
        parts.push([&parts[i as usize][..], &parts[j as usize][..]].concat());
        let patterns = case.master.patterns().map(|pattern| glued(pattern, i, j, new)).collect();
        let cuts: Vec<Cut> = case.master.cuts.iter().map(|cut| glued_cut(cut, i, j, new)).collect();
        let likely = solution.iter().map(|(pattern, _)| glued(pattern, i, j, new)).collect();
        self.open(node, parts, likely, patterns, &cuts)
    }

    /// Dives for a packing, from the patterns of the first case.
    fn dive(&mut self) -> Result<Option<Vec<Pattern>>, PackError> {
        let dive = Dive {
            types: self.types,
            patterns: &self.patterns,
            bins: self.bins,
            random: self.dived > 0,
            table_bytes: self.limits.table_bytes,
        };
        self.dived += 1;
        dive.run(&self.stream.child(self.dived), self.stop)
    }

    /// Adds rounds of cuts to a case with a fractional solution.
    fn cut(&mut self, case: &mut Case, mut solution: Vec<(Pattern, f64)>) -> Result<Converged, PackError> {
        for _ in 0..CUT_ROUNDS {
            if branching_pairs(&solution, &case.space.sizes).is_empty() {
                break;
            }
            let cuts = subset_row_cuts(&solution, &case.space.demands);
            if cuts.is_empty() {
                break;
            }
            for cut in cuts {
                case.master.add_cut(cut, &case.space.demands)?;
                self.work.cuts += 1;
            }
            match self.converge(case)? {
                Converged::Fractional(again) => solution = again,
                other => return Ok(other),
            }
        }
        Ok(Converged::Fractional(solution))
    }

    /// Generates patterns until the case is closed or no pattern improves.
    fn converge(&mut self, case: &mut Case) -> Result<Converged, PackError> {
        for _ in 0..self.limits.rounds {
            let Some(solved) = case.master.solve(self.stop)? else { return Ok(Converged::Open) };
            self.work.programs += 1;
            if self.work.cases == 1 {
                self.patterns = case.master.ranked(&solved);
                // A dive as soon as the linear program fits, another when it has converged.
                if solved.objective <= self.bins as f64 + 1e-6 && self.dived == 0 && self.limits.dives > 1 {
                    if let Some(bins) = self.dive()? {
                        return Ok(Converged::Packed(bins));
                    }
                }
            }
            let leaf = self.leaf(case, &solved);
            let prices = Prices { weights: &leaf.weights, cuts: &leaf.cuts };
            let priced =
                self.pricing.price(&case.space, &prices, self.one + (self.one >> IMPROVING), self.stop);
            if (self.stop)() {
                return Ok(Converged::Open);
            }
            if self.closes(case, &leaf, &priced) {
                match check_leaf(self.statement, self.bins, &case.node, &leaf, &self.limits.check) {
                    Ok(()) => return Ok(Converged::Closed(leaf)),
                    Err(CheckError::NotChecked { .. }) => return Ok(Converged::Open),
                    Err(_) => {}
                }
            }
            let none_left = priced.none_left;
            let added = case.master.add(priced.patterns)?;
            self.work.patterns += added as u64;
            if added == 0 {
                let (solution, uncovered) = case.master.solution()?;
                let open = !none_left || uncovered > 1e-6 || solved.objective > self.bins as f64 + 1e-3;
                return Ok(if open { Converged::Open } else { Converged::Fractional(solution) });
            }
        }
        Ok(Converged::Open)
    }

    /// The duals of a case as integer weights and cuts.
    fn leaf(&self, case: &Case, solved: &MasterSolved) -> Leaf {
        let weights = solved.duals.iter().map(|&dual| scaled(dual, self.one)).collect();
        let scales = solved.cut_duals.iter().map(|&dual| (-dual * self.one as f64).ceil().max(0.0) as u64);
        let cuts = case.master.cuts.iter().zip(scales).filter(|(_, scale)| *scale > 0);
        Leaf { weights, cuts: cuts.map(|(cut, scale)| Cut { scale, ..cut.clone() }).collect() }
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
            if priced.none_left { self.one - (self.one >> 26) } else { priced.most.unwrap_or(i64::MAX) };
        rest > i128::from(self.bins) * i128::from(most)
    }

    /// The packing of a whole solution, in original types.
    fn packing(&self, case: &Case, solution: &[(Pattern, f64)]) -> Option<Vec<Pattern>> {
        let mut left = case.space.demands.clone();
        let mut bins = Vec::new();
        for (pattern, value) in solution {
            for _ in 0..value.round() as u64 {
                let mut bin = Pattern::new();
                for &kind in pattern {
                    if left[kind as usize] > 0 {
                        left[kind as usize] -= 1;
                        bin.extend(&case.parts[kind as usize]);
                    }
                }
                bin.sort_unstable();
                bins.push(bin);
            }
        }
        bins.retain(|bin| !bin.is_empty());
        (left.iter().all(|&left| left == 0) && bins.len() as u64 <= self.bins).then_some(bins)
    }
}

/// A pattern of the child where an item of type i and one of type j are glued.
fn glued(pattern: &[u32], i: u32, j: u32, new: u32) -> Pattern {
    let place = |kind: u32, after: usize| {
        pattern[after..].iter().position(|&other| other == kind).map(|place| place + after)
    };
    let first = place(i.min(j), 0);
    let second = first.and_then(|first| place(i.max(j), first + 1));
    match (first, second) {
        (Some(first), Some(second)) => {
            let rest = pattern.iter().enumerate().filter(|&(place, _)| place != first && place != second);
            rest.map(|(_, &kind)| kind).chain([new]).collect()
        }
        _ => pattern.to_vec(),
    }
}

/// A cut of the child: the glued item has both multipliers.
fn glued_cut(cut: &Cut, i: u32, j: u32, new: u32) -> Cut {
    let multiplier = |kind: u32| cut.multipliers.iter().find(|term| term.0 == kind).map_or(0, |term| term.1);
    let mut glued = cut.clone();
    let both = multiplier(i) + multiplier(j);
    glued.multipliers.extend((both > 0).then_some((new, both)));
    glued
}
