//! The restricted master over patterns, as it lives inside a solver.
//!
//! Problem: min Σ x_P over the patterns P at hand, Σ a_iP x_P ≥ d_i for every type. An artificial column of cost 10 for every type keeps it
//! feasible. Rank-1 cuts: Σ_P ⌊Σ μ_i a_iP / den⌋ x_P ≤ ⌊Σ μ_i d_i / den⌋.
//! models/pattern_master.md has the integer program it relaxes.

use std::collections::HashSet;

use routepack_certificate::Cut;
use routepack_lp::{Backend, Column, CoverMaster, MasterSolved, MasterStatus, Relation};

use crate::error::PackError;
use crate::pattern_space::PatternSpace;
use crate::types::Pattern;

/// Cost of an item no pattern covers.
const ARTIFICIAL: f64 = 10.0;

#[derive(Debug)]
pub(crate) struct PatternMaster {
    master: CoverMaster,
    /// `[columns]`; empty for artificial columns.
    patterns: Vec<Pattern>,
    known: HashSet<Pattern>,
    pub(crate) cuts: Vec<Cut>,
}

impl PatternMaster {
    /// A master without patterns.
    pub(crate) fn new(space: &PatternSpace) -> Result<Self, PackError> {
        let demands: Vec<f64> = space.demands.iter().map(|&demand| f64::from(demand)).collect();
        let mut master = CoverMaster::new(Backend::default(), &demands)?;
        master.add_columns(
            (0..demands.len()).map(|place| Column::new(ARTIFICIAL, vec![(place, 1.0)])).collect(),
        )?;
        let patterns = vec![Pattern::new(); demands.len()];
        Ok(Self { master, patterns, known: HashSet::new(), cuts: Vec::new() })
    }

    /// Adds the patterns that are not there yet; returns how many.
    pub(crate) fn add(&mut self, patterns: impl IntoIterator<Item = Pattern>) -> Result<usize, PackError> {
        let mut columns = Vec::new();
        for pattern in patterns {
            if pattern.is_empty() || !self.known.insert(pattern.clone()) {
                continue;
            }
            let same = pattern.chunk_by(|a, b| a == b);
            let covers = same.map(|same| (same[0] as usize, same.len() as f64)).collect();
            let cuts = self.cuts.iter().map(|cut| coefficient(cut, &pattern)).enumerate();
            let cuts = cuts.filter(|&(_, value)| value > 0.0).collect();
            columns.push(Column { cost: 1.0, covers, cuts, upper: f64::INFINITY });
            self.patterns.push(pattern);
        }
        let added = columns.len();
        if added > 0 {
            self.master.add_columns(columns)?;
        }
        Ok(added)
    }

    /// Solves it; `None` if stopped.
    pub(crate) fn solve(
        &mut self,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<MasterSolved>, PackError> {
        let solved = self.master.solve_until(stop)?;
        Ok((solved.status == MasterStatus::Optimal).then_some(solved))
    }

    /// About the value of the program without these patterns, after so many iterations; `None` if there is none. Values
    /// and duals are to be solved for again.
    pub(crate) fn value_without(
        &mut self,
        bars: impl Fn(&[u32]) -> bool,
        iterations: u32,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<f64>, PackError> {
        let barred: Vec<usize> =
            (0..self.patterns.len()).filter(|&place| bars(&self.patterns[place])).collect();
        for &place in &barred {
            self.master.limit_column(place, 0.0)?;
        }
        let value = self.master.value_within(iterations, stop)?;
        for &place in &barred {
            self.master.limit_column(place, f64::INFINITY)?;
        }
        Ok(value)
    }

    /// The patterns of positive value at the last optimum, and the number of uncovered items (or their like).
    pub(crate) fn solution(&mut self) -> Result<(Vec<(Pattern, f64)>, f64), PackError> {
        let (mut solution, mut uncovered) = (Vec::new(), 0.0);
        for (pattern, value) in self.patterns.iter().zip(self.master.values()?) {
            if pattern.is_empty() {
                uncovered += value;
            } else if value > 1e-9 {
                solution.push((pattern.clone(), value));
            }
        }
        Ok((solution, uncovered))
    }

    /// The patterns in increasing order of reduced cost.
    pub(crate) fn ranked(&self, solved: &MasterSolved) -> Vec<Pattern> {
        let columns =
            self.master.columns().iter().zip(&self.patterns).filter(|(_, pattern)| !pattern.is_empty());
        let mut ranked: Vec<_> =
            columns.map(|(column, pattern)| (column.reduced_cost(solved), pattern)).collect();
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(b.1)));
        ranked.into_iter().map(|(_, pattern)| pattern.clone()).collect()
    }

    /// All patterns.
    pub(crate) fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        self.patterns.iter().filter(|pattern| !pattern.is_empty())
    }

    /// Takes over changed demands and slack: patterns the space does not hold leave.
    pub(crate) fn restrict(&mut self, space: &PatternSpace) -> Result<(), PackError> {
        for (place, &demand) in space.demands.iter().enumerate() {
            if self.master.demands()[place] as u32 != demand {
                self.master.change_demand(place, f64::from(demand))?;
            }
        }
        let keep: Vec<bool> =
            self.patterns.iter().map(|pattern| pattern.is_empty() || space.holds(pattern)).collect();
        if keep.contains(&false) {
            self.master.retain_columns(|column, _| keep[column])?;
            let mut kept = keep.iter();
            self.patterns.retain(|_| *kept.next().expect("one mark a pattern"));
        }
        Ok(())
    }

    /// Adds a cut.
    pub(crate) fn add_cut(&mut self, cut: Cut, demands: &[u32]) -> Result<(), PackError> {
        let values = self.patterns.iter().map(|pattern| coefficient(&cut, pattern)).enumerate();
        let coefficients = values.filter(|&(_, value)| value > 0.0).collect();
        let parts = cut
            .multipliers
            .iter()
            .map(|&(kind, multiplier)| u64::from(multiplier) * u64::from(demands[kind as usize]));
        let bound = (parts.sum::<u64>() / u64::from(cut.denominator)) as f64;
        self.master.add_cut(&routepack_lp::Cut { coefficients, relation: Relation::AtMost, bound })?;
        self.cuts.push(cut);
        Ok(())
    }
}

/// ⌊Σ μ a / den⌋ of a pattern.
pub(crate) fn coefficient(cut: &Cut, pattern: &[u32]) -> f64 {
    let multiplier = |kind: &u32| {
        let found = cut.multipliers.binary_search_by_key(kind, |term| term.0);
        found.map_or(0, |place| u64::from(cut.multipliers[place].1))
    };
    (pattern.iter().map(multiplier).sum::<u64>() / u64::from(cut.denominator)) as f64
}
