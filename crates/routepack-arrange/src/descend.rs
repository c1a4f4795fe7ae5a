//! Final descent: to a layout that no move of any kind improves.
//!
//! Problem: from a layout, make moves that lower the exact score (lexicographically) while there are any.
//! Method: kinds of move in turn, the cheap ones first, each kind again as long as it gains: swaps with neighbours; all
//! swaps and relocations; trades of whole cells; trades of whole rows between slot groups; two units for one. The first
//! improving move found is made. It ends when no kind gains: a local optimum of all; or when the evaluations allowed are
//! spent, or it is stopped.
//! Rejected without a kernel call, exactly: with F the part of X no exchange can remove (a block's demand perfectly
//! balanced, [`routepack_peaks::Demand::floor`]), the expert cost of two blocks falls by at most Σ (X − F); a move whose
//! attention rises by more cannot lower the total, nor the shards' maximum if both blocks belong to one shard.
//! Complexity: O(U²) evaluations for all swaps, O(U²·units per cell) for two units for one.

use routepack_anneal::Stream;
use routepack_problem::Score;

use crate::grid::Grid;
use crate::neighbours::Neighbours;
use crate::trial::{Move, Trial};
use crate::units::Units;

/// Random moves of a kick at most.
const KICKS: u64 = 6;
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

/// Descends from a grid, at most `evaluations` moves evaluated; takes those made from `evaluations`.
pub(crate) fn descend(
    units: &Units,
    neighbours: &Neighbours,
    grid: &mut Grid,
    evaluations: &mut u64,
    stop: &(dyn Fn() -> bool + Sync),
) -> Descended {
    let score = grid.score(units);
    let mut descent = Descent {
        units,
        grid,
        trial: Trial::default(),
        score,
        left: *evaluations,
        until_look: 0,
        stop,
        end: None,
    };
    loop {
        let gained = descent.turn(|unit| neighbours.of(unit).iter().map(|&other| other as usize))
            || descent.turn(|unit| unit + 1..units.num_units()) | descent.relocate_all()
            || descent.trade_cells()
            || descent.trade_rows()
            || descent.two_for_one();
        if let Some(end) = descent.end.or_else(|| (!gained).then_some(Descended::LocalOptimum)) {
            *evaluations = descent.left;
            return end;
        }
    }
}

/// Makes a few random moves, up to [`KICKS`]: a place near a local optimum to descend from again.
///
/// Reference: H. R. Lourenço, O. C. Martin and T. Stützle, Iterated local search, in Handbook of Metaheuristics, 2003,
/// doi 10.1007/0-306-48056-5_11.
pub(crate) fn kick(units: &Units, grid: &mut Grid, stream: &mut Stream) {
    let mut trial = Trial::default();
    let (count, cells) = (units.num_units() as u64, units.num_cells() as u64);
    let mut wanted = 1 + stream.below(KICKS);
    for _ in 0..wanted * 16 {
        let first = stream.below(count) as usize;
        let kind = stream.below(3);
        let second = stream.below(if kind == 0 { cells } else { count }) as usize;
        let feasible = match kind {
            0 => grid.try_attention(units, Move::Relocate { unit: first, cell: second }, &mut trial),
            1 => grid.try_attention(units, Move::Swap { first, second }, &mut trial),
            _ => {
                let placed = &grid.cell_of;
                let ends = [first, second].map(|unit| placed[unit]);
                let [leaves, comes] =
                    ends.map(|cell| (0..count as u32).filter(move |&unit| placed[unit as usize] == cell));
                grid.try_sets(units, ends.map(|cell| cell as usize), leaves, comes, &mut trial)
            }
        };
        if feasible {
            grid.try_experts(units, &mut trial);
            grid.make(units, &trial);
            wanted -= 1;
            if wanted == 0 {
                return;
            }
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

    /// Tries to trade the whole contents of every two cells of different blocks; whether any trade was made.
    fn trade_cells(&mut self) -> bool {
        let mut gained = false;
        let mut cells = self.cells();
        for a in 0..cells.len() {
            for b in a + 1..cells.len() {
                if self.attempt_sets([a, b], &cells[a], &cells[b]) {
                    cells.swap(a, b);
                    gained = true;
                }
                if self.end.is_some() {
                    return gained;
                }
            }
        }
        gained
    }

    /// Tries to trade two rows of different slot groups; whether any trade was made.
    fn trade_rows(&mut self) -> bool {
        let units = self.units;
        for a in 0..units.num_blocks() {
            for b in a + 1..units.num_blocks() {
                if a % units.groups == b % units.groups || !self.may_evaluate() {
                    continue;
                }
                let mut costs = self.grid.stage_cost.clone();
                for share in 0..units.shares() {
                    let [of_a, of_b] = [a, b].map(|block| self.grid.row_cost(units, block, share));
                    for (block, lost, gained) in [(a, of_a, of_b), (b, of_b, of_a)] {
                        let cost = &mut costs[block % units.groups * units.shares() + share];
                        *cost = *cost - lost + gained;
                    }
                }
                // The worst row stays.
                let worst_shard = costs.iter().copied().max().unwrap_or(0);
                let total: u64 = units.paced(&costs).sum();
                if (worst_shard, total) < (self.score.worst_shard, self.score.total) {
                    let mut name: Vec<u32> = (0..units.num_cells() as u32).collect();
                    for (at_a, at_b) in units.cells_of(a).zip(units.cells_of(b)) {
                        name.swap(at_a, at_b);
                    }
                    let cell_of = self.grid.cell_of.iter().map(|&cell| name[cell as usize]).collect();
                    *self.grid = Grid::new(units, cell_of);
                    self.score = self.grid.score(units);
                    return true;
                }
            }
        }
        false
    }

    /// Tries to exchange every two units of a cell for every unit of other blocks; whether an exchange was made.
    fn two_for_one(&mut self) -> bool {
        let cells = self.cells();
        for a in 0..cells.len() {
            for (place, &first) in cells[a].iter().enumerate() {
                for &second in &cells[a][place + 1..] {
                    for (b, others) in cells.iter().enumerate() {
                        for third in others {
                            if self.attempt_sets([a, b], &[first, second], std::slice::from_ref(third)) {
                                return true;
                            }
                            if self.end.is_some() {
                                return false;
                            }
                        }
                    }
                }
            }
        }
        false
    }

    /// Units of every cell.
    fn cells(&self) -> Vec<Vec<u32>> {
        let mut cells = vec![Vec::new(); self.units.num_cells()];
        for (unit, &cell) in self.grid.cell_of.iter().enumerate() {
            cells[cell as usize].push(unit as u32);
        }
        cells
    }

    /// Counts an evaluation; false if there is none left or it was stopped.
    fn may_evaluate(&mut self) -> bool {
        if self.end.is_some() {
            return false;
        }
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
        true
    }

    /// Makes a move if it lowers the score.
    fn attempt(&mut self, candidate: Move) -> bool {
        self.may_evaluate()
            && self.grid.try_attention(self.units, candidate, &mut self.trial)
            && self.make_if_better()
    }

    /// Makes an exchange of sets if it lowers the score.
    fn attempt_sets(&mut self, cells: [usize; 2], leaves: &[u32], comes: &[u32]) -> bool {
        let sets = [leaves, comes].map(|set| set.iter().copied());
        let [leaves, comes] = sets;
        self.may_evaluate()
            && self.grid.try_sets(self.units, cells, leaves, comes, &mut self.trial)
            && self.make_if_better()
    }

    fn make_if_better(&mut self) -> bool {
        if self.is_hopeless() {
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
        if rise <= 0 || a % self.units.groups != b % self.units.groups || self.units.shares() > 1 {
            return false;
        }
        if a == b {
            return !self.units.demand.charges_padding();
        }
        let excess = self.grid.excess(self.units, a) + self.grid.excess(self.units, b);
        rise as u64 > excess
    }
}
