//! The restricted master over patterns, as it lives inside a solver.
//!
//! Problem: min Σ x_P over the patterns P at hand, Σ a_iP x_P ≥ d_i for every type. Artificial columns, one for every
//! type, keep it feasible. Rank-1 cuts: Σ_P ⌊Σ μ_i a_iP / den⌋ x_P ≤ ⌊Σ μ_i d_i / den⌋.
//! A tree search uses one master for all its cases: patterns a case does not hold are barred, not removed, so that the basis
//! survives, and a [`Mark`] brings back demands, bars, cuts and basis of the case before. What an uncovered item costs bounds its dual:
//! where bins can waste little, a little more than the item's share of a bin is mostly enough, and the duals swing
//! less.
//! models/pattern_master.md has the integer program it relaxes.
//! Reference for dual bounds: H. Ben Amor, J. Desrosiers, J. M. Valério de Carvalho, Operations Research 54 (2006),
//! doi:10.1287/opre.1060.0278.

use std::collections::HashSet;

use routepack_certificate::Cut;
use routepack_lp::{Backend, Basis, Column, CoverMaster, MasterSolved, MasterStatus, Relation};

use crate::error::PackError;
use crate::pattern_space::PatternSpace;
use crate::types::Pattern;

/// Cost of an item no pattern covers, where bins may waste much.
const ARTIFICIAL: f64 = 10.0;
/// The same where they may not, as a multiple of the item's share of a bin.
const SHARE: f64 = 1.5;
/// Fewer uncovered items than this are none.
pub(crate) const UNCOVERED: f64 = 1e-6;
/// Bins may waste little: at most this part of the capacity.
const LITTLE: u64 = 20;

#[derive(Debug)]
pub(crate) struct PatternMaster {
    master: CoverMaster,
    /// `[columns]`; empty for artificial columns.
    patterns: Vec<Pattern>,
    /// `[columns]`
    barred: Vec<bool>,
    known: HashSet<Pattern>,
    /// Beside the cover constraints: cuts, or that a glued item be covered.
    pub(crate) cuts: Vec<Option<Cut>>,
}

/// What to come back to.
#[derive(Debug, Clone)]
pub(crate) struct Mark {
    basis: Basis,
    demands: Vec<u32>,
    barred: Vec<bool>,
    /// Right sides of the cuts.
    bounds: Vec<f64>,
}

impl PatternMaster {
    /// A master without patterns.
    pub(crate) fn new(space: &PatternSpace) -> Result<Self, PackError> {
        let demands: Vec<f64> = space.demands.iter().map(|&demand| f64::from(demand)).collect();
        let mut master = CoverMaster::new(Backend::default(), &demands)?;
        let cost = |size: u64| {
            let scarce = space.slack <= space.capacity / LITTLE;
            if scarce { SHARE * size as f64 / space.capacity as f64 } else { ARTIFICIAL }
        };
        let artificial = space.sizes.iter().enumerate();
        master.add_columns(
            artificial.map(|(place, &size)| Column::new(cost(size), vec![(place, 1.0)])).collect(),
        )?;
        let (patterns, barred) = (vec![Pattern::new(); demands.len()], vec![false; demands.len()]);
        Ok(Self { master, patterns, barred, known: HashSet::new(), cuts: Vec::new() })
    }

    /// A copy that lives in a solver of its own, at the same basis.
    pub(crate) fn fork(&self) -> Result<Self, PackError> {
        let (patterns, barred) = (self.patterns.clone(), self.barred.clone());
        Ok(Self {
            master: self.master.fork()?,
            patterns,
            barred,
            known: self.known.clone(),
            cuts: self.cuts.clone(),
        })
    }

    /// Adds the patterns that are not there yet; returns how many.
    pub(crate) fn add(&mut self, patterns: impl IntoIterator<Item = Pattern>) -> Result<usize, PackError> {
        let mut columns = Vec::new();
        for pattern in patterns {
            if pattern.is_empty() || !self.known.insert(pattern.clone()) {
                continue;
            }
            let types = self.master.demands().len();
            let same = pattern.chunk_by(|a, b| a == b).filter(|same| (same[0] as usize) < types);
            let covers = same.map(|same| (same[0] as usize, same.len() as f64)).collect();
            let cuts = (0..self.cuts.len()).map(|place| (place, self.share(place, &pattern)));
            let cuts = cuts.filter(|&(_, value)| value > 0.0).collect();
            columns.push(Column { cost: 1.0, covers, cuts, upper: f64::INFINITY });
            self.patterns.push(pattern);
            self.barred.push(false);
        }
        let added = columns.len();
        if added > 0 {
            self.master.add_columns(columns)?;
        }
        Ok(added)
    }

    /// Patterns so far, the empty ones of artificial columns among them.
    pub(crate) fn len(&self) -> usize {
        self.patterns.len()
    }

    /// Forgets all patterns but the first so many; to be followed by [`Self::return_to`].
    pub(crate) fn truncate(&mut self, patterns: usize) -> Result<(), PackError> {
        self.master.retain_columns(|place, _| place < patterns)?;
        self.patterns.drain(patterns..).for_each(|pattern| {
            self.known.remove(&pattern);
        });
        self.barred.truncate(patterns);
        Ok(())
    }

    /// Makes uncovered items as dear as they get; false if they were already.
    pub(crate) fn raise_costs(&mut self) -> Result<bool, PackError> {
        let artificial = 0..self.master.demands().len();
        let cheap = artificial.filter(|&place| self.master.columns()[place].cost < ARTIFICIAL);
        let raised: Vec<(usize, f64)> = cheap.map(|place| (place, ARTIFICIAL)).collect();
        self.master.change_costs(&raised)?;
        Ok(!raised.is_empty())
    }

    /// Solves it; `None` if stopped.
    pub(crate) fn solve(
        &mut self,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<MasterSolved>, PackError> {
        let solved = self.master.solve_until(stop)?;
        Ok((solved.status == MasterStatus::Optimal).then_some(solved))
    }

    /// About the value of the program without these patterns as well, after so many iterations from the mark; `None` if
    /// there is none. The master is back at the mark then.
    pub(crate) fn value_without(
        &mut self,
        mark: &Mark,
        bars: impl Fn(usize) -> bool,
        iterations: u32,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<f64>, PackError> {
        let more = self.barred.iter().enumerate().map(|(place, &barred)| barred || bars(place)).collect();
        self.set_bars(more)?;
        let value = self.master.value_within(iterations, stop)?;
        self.set_bars(mark.barred.clone())?;
        self.master.restore(&mark.basis)?;
        Ok(value)
    }

    /// Where the master stands: at an optimum just found.
    pub(crate) fn mark(&self) -> Result<Mark, PackError> {
        let demands = self.demands();
        let (basis, barred) = (self.master.basis()?, self.barred.clone());
        Ok(Mark { basis, demands, barred, bounds: self.master.cut_bounds().collect() })
    }

    /// Goes back to a mark; patterns added since stay.
    pub(crate) fn return_to(&mut self, mark: &Mark) -> Result<(), PackError> {
        let cuts = mark.bounds.len();
        if self.cuts.len() > cuts {
            self.master.retain_cuts(|place| place < cuts)?;
            self.cuts.truncate(cuts);
            // The rows of glued items that are no more.
            let rows = (self.master.demands().len() + cuts) as u32;
            for pattern in &mut self.patterns {
                if pattern.last().is_some_and(|&row| row >= rows) {
                    self.known.remove(pattern);
                    pattern.retain(|&row| row < rows);
                    self.known.insert(pattern.clone());
                }
            }
        }
        self.set_demands(&mark.demands)?;
        self.set_bounds(&mark.bounds)?;
        let mut barred = mark.barred.clone();
        barred.resize(self.patterns.len(), false);
        self.set_bars(barred)?;
        Ok(self.master.restore(&mark.basis)?)
    }

    /// Bars all patterns but those that are held, and frees those.
    pub(crate) fn bar_unless(&mut self, holds: impl Fn(&[u32]) -> bool) -> Result<(), PackError> {
        let barred = self.patterns.iter().map(|pattern| !pattern.is_empty() && !holds(pattern)).collect();
        self.set_bars(barred)
    }

    fn set_bars(&mut self, barred: Vec<bool>) -> Result<(), PackError> {
        let changed = (0..barred.len()).filter(|&place| barred[place] != self.barred[place]);
        let limits: Vec<(usize, f64)> =
            changed.map(|place| (place, if barred[place] { 0.0 } else { f64::INFINITY })).collect();
        self.barred = barred;
        Ok(self.master.limit_columns(&limits)?)
    }

    /// What is left to cover once a bin has been filled by this pattern.
    pub(crate) fn take(&mut self, pattern: &[u32]) -> Result<(), PackError> {
        let mut demands = self.demands();
        let rows = demands.len();
        for &row in pattern.iter().filter(|&&row| (row as usize) < rows) {
            demands[row as usize] = demands[row as usize].saturating_sub(1);
        }
        self.set_demands(&demands)?;
        let rests = self.master.cut_bounds().enumerate();
        let rests: Vec<f64> = rests.map(|(place, bound)| bound - self.share(place, pattern)).collect();
        self.set_bounds(&rests)
    }

    /// Coefficient of a pattern in a cut, or in the row of a glued item.
    fn share(&self, cut: usize, pattern: &[u32]) -> f64 {
        let own = (self.master.demands().len() + cut) as u32;
        match &self.cuts[cut] {
            Some(cut) => coefficient(cut, pattern),
            None => f64::from(u8::from(pattern.contains(&own))),
        }
    }

    fn demands(&self) -> Vec<u32> {
        self.master.demands().iter().map(|&demand| demand as u32).collect()
    }

    fn set_bounds(&mut self, bounds: &[f64]) -> Result<(), PackError> {
        let changed = self.master.cut_bounds().zip(bounds).enumerate();
        let changed: Vec<usize> =
            changed.filter(|(_, (old, new))| (old - *new).abs() > 0.0).map(|(place, _)| place).collect();
        for place in changed {
            self.master.change_cut(place, bounds[place])?;
        }
        Ok(())
    }

    /// Changes demands.
    fn set_demands(&mut self, demands: &[u32]) -> Result<(), PackError> {
        for (place, &demand) in demands.iter().enumerate() {
            if self.master.demands()[place] as u32 != demand {
                self.master.change_demand(place, f64::from(demand))?;
            }
        }
        Ok(())
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

    /// `[columns]`, the patterns that are not barred; empty for the others.
    pub(crate) fn open_patterns(&self) -> impl Iterator<Item = &[u32]> {
        self.patterns
            .iter()
            .zip(&self.barred)
            .map(|(pattern, &barred)| if barred { &[] } else { &pattern[..] })
    }

    /// Adds a cut.
    ///
    /// `taken`: patterns of bins already filled, see [`Self::take`].
    pub(crate) fn add_cut(&mut self, cut: Cut, demands: &[u32], taken: &[Pattern]) -> Result<(), PackError> {
        let values = self.patterns.iter().map(|pattern| coefficient(&cut, pattern)).enumerate();
        let coefficients = values.filter(|&(_, value)| value > 0.0).collect();
        let parts = cut
            .multipliers
            .iter()
            .map(|&(kind, multiplier)| u64::from(multiplier) * u64::from(demands[kind as usize]));
        let taken: f64 = taken.iter().map(|pattern| coefficient(&cut, pattern)).sum();
        let bound = (parts.sum::<u64>() / u64::from(cut.denominator)) as f64 - taken;
        self.master.add_cut(&routepack_lp::Cut { coefficients, relation: Relation::AtMost, bound })?;
        self.cuts.push(Some(cut));
        Ok(())
    }

    /// Adds the row of a glued item: of the patterns that name it, one is to be taken. Returns its number.
    pub(crate) fn add_row(&mut self) -> Result<u32, PackError> {
        let row = (self.master.demands().len() + self.cuts.len()) as u32;
        let cut = routepack_lp::Cut { coefficients: Vec::new(), relation: Relation::Equal, bound: 1.0 };
        let place = self.master.add_cut(&cut)?;
        let artificial = Column { cuts: vec![(place, 1.0)], ..Column::new(ARTIFICIAL, Vec::new()) };
        self.master.add_columns(vec![artificial])?;
        self.patterns.push(Pattern::new());
        self.barred.push(false);
        self.cuts.push(None);
        Ok(row)
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

#[cfg(test)]
mod tests {
    use routepack_certificate::Statement;

    use super::*;
    use crate::types::Types;

    #[test]
    fn filled_bins_are_taken_from_demands_and_cuts() {
        let types = Types::new(&Statement::bins(vec![5, 4, 3, 2, 2], 9)).unwrap();
        let mut master = PatternMaster::new(&PatternSpace::of_types(&types)).unwrap();
        master.add([vec![0, 1], vec![0, 2], vec![1, 2, 3], vec![3, 3]]).unwrap();
        let row = master.add_row().unwrap();
        master.add([vec![2, 3, 3, row]]).unwrap();
        let cut = Cut { scale: 1, denominator: 2, multipliers: vec![(0, 1), (1, 1), (2, 1)] };
        master.add_cut(cut.clone(), &types.demands, &[]).unwrap();
        master.solve(&|| false).unwrap().unwrap();
        let mark = master.mark().unwrap();
        let sides = |master: &PatternMaster| (master.demands(), master.master.cut_bounds().collect());
        assert_eq!(sides(&master), (vec![1, 1, 1, 2], vec![1.0, 1.0]));
        master.take(&[0, 1]).unwrap();
        assert_eq!(sides(&master), (vec![0, 0, 1, 2], vec![1.0, 0.0]));
        master.take(&[2, 3, 3, row]).unwrap();
        assert_eq!(sides(&master), (vec![0, 0, 0, 0], vec![0.0, 0.0]));
        // A cut found later counts what was taken before.
        master.add_cut(cut, &types.demands, &[vec![0, 1]]).unwrap();
        assert_eq!(sides(&master).1, [0.0, 0.0, 0.0]);
        master.return_to(&mark).unwrap();
        assert_eq!(sides(&master), (vec![1, 1, 1, 2], vec![1.0, 1.0]));
    }

    #[test]
    fn what_is_forgotten_can_be_found_again() {
        let types = Types::new(&Statement::bins(vec![5, 4, 3], 9)).unwrap();
        let mut master = PatternMaster::new(&PatternSpace::of_types(&types)).unwrap();
        master.add([vec![0, 1]]).unwrap();
        master.solve(&|| false).unwrap().unwrap();
        let (mark, patterns) = (master.mark().unwrap(), master.len());
        let later = || [vec![0, 2], vec![1, 2]];
        assert_eq!(master.add(later()).unwrap(), 2);
        master.truncate(patterns).unwrap();
        master.return_to(&mark).unwrap();
        assert_eq!(
            (master.len(), master.add([vec![0, 1]]).unwrap(), master.add(later()).unwrap()),
            (patterns, 0, 2)
        );
    }
}
