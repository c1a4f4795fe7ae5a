//! Whether P patterns cover every expert, as a linear program, by column generation.
//!
//! Problem: E loads, P ranks of exactly s = E/P slots, a target T. A *pattern* is a set of s experts with a load up to T
//! (and no less than what the other ranks can be left with); which patterns, and how much of each, cover every expert with
//! least sum (`models/rank_patterns.md`)? A sum of P at most says that T may be met; duals that prove more than P patterns
//! are needed prove that it is not.
//! Method: a master over the patterns met so far, priced by an exact cardinality knapsack ([`routepack_bounds::Patterns`]).
//! T is out of reach only where `Patterns::proves` says so, in integers.
//! Complexity: C(E, ⌈s/2⌉)·log a pricing, at most `max_solves` of them.
//! Reference: P. C. Gilmore and R. E. Gomory, A linear programming approach to the cutting-stock problem, Operations
//! Research 9, 1961, doi 10.1287/opre.9.6.849.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use routepack_bounds::Patterns;
use routepack_lp::{Backend, Column, CoverMaster, MasterStatus};

/// Duals are scaled to integers by this.
const UNIT: u64 = 1 << 40;
/// What covering one expert alone costs: more than the share 1/s of a pattern, so that no solution needs it.
const ALONE: f64 = 1.0;
/// A program is met by P patterns if its value is within this of P.
const NEAR: f64 = 1e-6;
/// A program that takes more simplex iterations than this is given up: some of them stall.
const MOST_ITERATIONS: u32 = 20_000;
/// Columns added after a solve, at most.
const MOST_COLUMNS: usize = 128;

/// What a program says about a target.
pub(crate) enum Answer {
    /// Weights that prove it out of reach.
    Proved(Vec<u64>),
    /// Patterns and how much of each, P in all.
    Met(Vec<(f64, Vec<u32>)>),
    /// Neither, within the limits.
    Open,
}

/// Linear programs of a layer: how many, and when to give up.
pub(crate) struct Solves<'a> {
    /// Solved for one answer, at most.
    pub(crate) most: u32,
    /// Solved so far, for all answers.
    pub(crate) done: u32,
    pub(crate) stop: &'a (dyn Fn() -> bool + Sync),
}

/// Patterns of a layer or of part of it, and those met so far.
pub(crate) struct Cover {
    pub(crate) patterns: Patterns,
    pub(crate) num_ranks: usize,
    /// Load and experts.
    pub(crate) pool: Vec<(u64, Vec<u32>)>,
}

impl Cover {
    /// Without all patterns but the first P, for another target: a few solves find as many as it needs, while a first
    /// solve over a thousand takes long.
    pub(crate) fn afresh(&mut self) -> &mut Self {
        self.pool.truncate(self.num_ranks);
        self
    }

    /// Whether P patterns with loads up to `target` cover every expert, as a linear program.
    pub(crate) fn answer(&mut self, target: u64, solves: &mut Solves<'_>) -> Answer {
        let range = self.patterns.rank_loads(target);
        if range.is_empty() {
            return Answer::Proved(vec![1; self.patterns.num_experts()]);
        }
        self.generate(target, solves).unwrap_or(Answer::Open)
    }

    /// Column generation; nothing if the solver fails or the limits are met.
    fn generate(&mut self, target: u64, solves: &mut Solves<'_>) -> Option<Answer> {
        let range = self.patterns.rank_loads(target);
        let experts = self.patterns.num_experts();
        let column = |pattern: &[u32]| {
            Column::new(1.0, pattern.iter().map(|&expert| (expert as usize, 1.0)).collect())
        };
        let mut master = CoverMaster::new(Backend::default(), &vec![1.0; experts]).ok()?;
        master
            .add_columns((0..experts).map(|expert| Column::new(ALONE, vec![(expert, 1.0)])).collect())
            .ok()?;
        let mut used: Vec<usize> =
            (0..self.pool.len()).filter(|&index| range.contains(&self.pool[index].0)).collect();
        master.add_columns(used.iter().map(|&index| column(&self.pool[index].1)).collect()).ok()?;
        for _ in 0..solves.most {
            let asked = AtomicU32::new(0);
            let is_over = || asked.fetch_add(1, Relaxed) >= MOST_ITERATIONS || (solves.stop)();
            let solved = master.solve_until(&is_over).ok()?;
            solves.done += 1;
            if solved.status != MasterStatus::Optimal {
                return None;
            }
            if solved.objective <= self.num_ranks as f64 + NEAR {
                let values = master.values().ok()?;
                let values = values[experts..].iter().zip(&used);
                let found = values.filter(|(value, _)| **value > NEAR);
                return Some(Answer::Met(
                    found.map(|(&value, &index)| (value, self.pool[index].1.clone())).collect(),
                ));
            }
            let weights: Vec<u64> =
                solved.duals.iter().map(|dual| (dual.clamp(0.0, 2.0) * UNIT as f64).round() as u64).collect();
            let mut found = self.patterns.heaviest(&weights, &range, UNIT);
            found.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
            let most = found.first().map_or(UNIT, |(weight, _)| *weight);
            let sum: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
            if sum > u128::from(most) * self.num_ranks as u128 && self.patterns.proves(&weights, target) {
                return Some(Answer::Proved(weights));
            }
            // Within the solver's tolerance: patterns that are in already.
            if most <= UNIT + (UNIT >> 26) {
                return None;
            }
            found.truncate(MOST_COLUMNS);
            master.add_columns(found.iter().map(|(_, pattern)| column(pattern)).collect()).ok()?;
            for (_, pattern) in found {
                used.push(self.pool.len());
                self.pool.push((self.patterns.load(&pattern), pattern));
            }
        }
        None
    }
}
