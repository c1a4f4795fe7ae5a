//! Final descent: to a layout that no swap and no relocation improves.
//!
//! Problem: from a layout, make moves that lower the exact score (lexicographically) while there are any.
//! Method: units in turn, each against its neighbours first and, once no neighbour gains, against every unit and every
//! cell; the first improving move is made. It ends when a whole turn over all units made none: a local optimum of both
//! kinds of move; or when the evaluations allowed are spent, or it is stopped.
//! Rejected without a kernel call, exactly: with F the part of X no exchange can remove (a block's demand perfectly
//! balanced, [`routepack_peaks::Demand::floor`]), the expert cost of two blocks falls by at most Σ (X − F); a move whose
//! attention rises by more cannot lower the total, nor the shards' maximum if both blocks belong to one shard.
//! Complexity: O(U²) evaluations a turn.

use routepack_problem::Score;

use crate::grid::{Grid, Move, Trial};
use crate::neighbours::Neighbours;
use crate::units::Units;

/// Evaluations between two looks at `stop`.
const BETWEEN_LOOKS: u32 = 256;

/// How a descent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Descended {
    /// No swap and no relocation improves the score.
    LocalOptimum,
    /// The evaluations were spent.
    Spent,
    /// Stopped from outside.
    Stopped,
}

struct Descent<'a> {
    units: &'a Units,
    grid: &'a mut Grid,
    trial: Trial,
    score: Score,
    left: u64,
    until_look: u32,
    stop: &'a (dyn Fn() -> bool + Sync),
    end: Option<Descended>,
}

/// Descends from a grid, at most `evaluations` moves evaluated.
pub(crate) fn descend(
    units: &Units,
    neighbours: &Neighbours,
    grid: &mut Grid,
    evaluations: u64,
    stop: &(dyn Fn() -> bool + Sync),
) -> Descended {
    let score = grid.score(units);
    let mut descent = Descent {
        units,
        grid,
        trial: Trial::default(),
        score,
        left: evaluations,
        until_look: 0,
        stop,
        end: None,
    };
    loop {
        while descent.turn(|unit| neighbours.of(unit).iter().map(|&other| other as usize)) {}
        let gained = descent.turn(|unit| unit + 1..units.num_units()) | descent.relocate_all();
        if let Some(end) = descent.end {
            return end;
        }
        if !gained {
            return Descended::LocalOptimum;
        }
    }
}

impl Descent<'_> {
    /// Tries to swap every unit with the others given; whether any move was made.
    fn turn<I: Iterator<Item = usize>>(&mut self, others: impl Fn(usize) -> I) -> bool {
        let mut gained = false;
        for first in 0..self.units.num_units() {
            for second in others(first) {
                gained |= self.attempt(Move::Swap { first, second });
                if self.end.is_some() {
                    return gained;
                }
            }
        }
        gained
    }

    /// Tries to relocate every unit to every cell; whether any move was made.
    fn relocate_all(&mut self) -> bool {
        let mut gained = false;
        for unit in 0..self.units.num_units() {
            for cell in 0..self.units.num_cells() {
                gained |= self.attempt(Move::Relocate { unit, cell });
                if self.end.is_some() {
                    return gained;
                }
            }
        }
        gained
    }

    /// Makes a move if it lowers the score.
    fn attempt(&mut self, candidate: Move) -> bool {
        if self.until_look == 0 {
            self.until_look = BETWEEN_LOOKS;
            if (self.stop)() {
                self.end = Some(Descended::Stopped);
                return false;
            }
        }
        self.until_look -= 1;
        if self.left == 0 {
            self.end = Some(Descended::Spent);
            return false;
        }
        self.left -= 1;
        if !self.grid.try_attention(self.units, candidate, &mut self.trial) || self.is_hopeless() {
            return false;
        }
        self.grid.try_experts(self.units, &mut self.trial);
        let after = self.grid.score_after(self.units, &self.trial, self.score);
        if after.is_some_and(|after| after < self.score) {
            self.grid.make(self.units, &self.trial);
            self.score = self.grid.score(self.units);
            return true;
        }
        false
    }

    /// Whether the attention of the move that was tried rises by more than its expert cost can fall, on one shard.
    fn is_hopeless(&self) -> bool {
        let [a, b] = self.trial.blocks();
        let rise = self.trial.attention_change(self.grid);
        if rise <= 0 || a % self.units.groups != b % self.units.groups || self.units.parts() > 1 {
            return false;
        }
        if a == b {
            return !self.units.demand.charges_padding();
        }
        let excess = self.grid.excess(self.units, a) + self.grid.excess(self.units, b);
        rise as u64 > excess
    }
}
