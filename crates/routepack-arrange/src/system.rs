//! The layout search as a system for population annealing.
//!
//! Problem: least score of a layout (DESIGN §1.3); states are feasible layouts with all their sums ([`crate::Grid`]).
//! Moves: swap a unit with one of its neighbours ([`crate::neighbours`]) or with any unit, relocate a unit, and the same
//! within one block, where only attention changes.
//! Energy: [`crate::energy`]; a proposal is given up at once if its attention alone rises too much.
//! Complexity of a proposal: O(kinds + parts), and one kernel call of O(L·P) a part if it crosses blocks.
//! Reference: N. Metropolis et al., J. Chem. Phys. 21, 1953, doi 10.1063/1.1699114. Deviations from the paper (arXiv
//! 2608.12146): the energy; neighbours, so proposals are not symmetric; the early rejection.

use routepack_anneal::{Record, Stream, System, accepts};
use routepack_problem::Score;

use crate::energy::Energy;
use crate::grid::{Grid, Move, Trial};
use crate::neighbours::Neighbours;
use crate::units::Units;

/// Of 32 proposals, so many stay within a block, relocate a unit, swap any two units; the others swap neighbours.
const WITHIN_OF_32: u64 = 10;
const RELOCATE_OF_32: u64 = 2;
const SWAP_ANY_OF_32: u64 = 3;

/// See the module.
pub(crate) struct LayoutSystem<'a> {
    pub(crate) units: &'a Units,
    pub(crate) neighbours: &'a Neighbours,
    pub(crate) energy: Energy,
    /// Proposals per sweep.
    pub(crate) proposals: u32,
}

/// A layout with its sums and the units of every block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LayoutState {
    pub(crate) grid: Grid,
    /// Units of every block in no particular order, and each unit's place there.
    pub(crate) members: Vec<Vec<u32>>,
    place: Vec<u32>,
}

impl Clone for LayoutState {
    fn clone(&self) -> Self {
        Self { grid: self.grid.clone(), members: self.members.clone(), place: self.place.clone() }
    }

    fn clone_from(&mut self, source: &Self) {
        self.grid.clone_from(&source.grid);
        self.members.clone_from(&source.members);
        self.place.clone_from(&source.place);
    }
}

impl LayoutState {
    pub(crate) fn new(units: &Units, cell_of: Vec<u32>) -> Self {
        let mut members = vec![Vec::new(); units.num_blocks()];
        let mut place = vec![0; units.num_units()];
        for (unit, &cell) in cell_of.iter().enumerate() {
            let block = units.block_of[cell as usize] as usize;
            place[unit] = members[block].len() as u32;
            members[block].push(unit as u32);
        }
        Self { grid: Grid::new(units, cell_of), members, place }
    }

    /// Block of a unit.
    #[inline]
    pub(crate) fn block(&self, units: &Units, unit: usize) -> usize {
        units.block_of[self.grid.cell_of[unit] as usize] as usize
    }

    /// Makes a move that was just tried.
    fn make(&mut self, units: &Units, trial: &Trial) {
        self.grid.make(units, trial);
        let [from, to] = trial.blocks();
        if from != to {
            self.move_member(trial.leaves(), from, to);
            if let Some(unit) = trial.comes() {
                self.move_member(unit, to, from);
            }
        }
    }

    fn move_member(&mut self, unit: usize, from: usize, to: usize) {
        let place = self.place[unit] as usize;
        self.members[from].swap_remove(place);
        if let Some(&moved) = self.members[from].get(place) {
            self.place[moved as usize] = place as u32;
        }
        self.place[unit] = self.members[to].len() as u32;
        self.members[to].push(unit as u32);
    }
}

impl LayoutSystem<'_> {
    /// Draws a move and its kind.
    #[inline]
    fn propose(&self, state: &LayoutState, stream: &mut Stream) -> (usize, Move) {
        let units = self.units;
        let count = units.num_units() as u64;
        let first = stream.below(count) as usize;
        let choice = stream.below(32);
        if choice < WITHIN_OF_32 {
            let members = &state.members[state.block(units, first)];
            let second = members[stream.below(members.len() as u64) as usize] as usize;
            if stream.below(8) == 0 {
                return (4, Move::Relocate { unit: first, cell: state.grid.cell_of[second] as usize });
            }
            return (3, Move::Swap { first, second });
        }
        if choice < WITHIN_OF_32 + RELOCATE_OF_32 {
            let cell = stream.below(units.num_cells() as u64) as usize;
            return (2, Move::Relocate { unit: first, cell });
        }
        let near = self.neighbours.of(first);
        if choice < WITHIN_OF_32 + RELOCATE_OF_32 + SWAP_ANY_OF_32 || near.is_empty() {
            return (1, Move::Swap { first, second: stream.below(count) as usize });
        }
        let second = near[stream.below(near.len() as u64) as usize] as usize;
        (0, Move::Swap { first, second })
    }

    /// Change of the energy by a move that was tried.
    #[inline]
    fn change(&self, state: &LayoutState, trial: &Trial) -> f64 {
        let (units, grid) = (self.units, &state.grid);
        self.energy.change(&grid.shard_cost, units, trial.blocks(), |part| trial.changes(units, grid, part))
    }
}

impl System for LayoutSystem<'_> {
    type State = LayoutState;
    type Score = Score;
    /// Cell of every unit.
    type Snapshot = Vec<u32>;

    const MOVE_KINDS: &'static [&'static str] =
        &["swap-near", "swap-any", "relocate", "swap-within", "relocate-within"];

    fn energy(&self, state: &LayoutState) -> f64 {
        self.energy.of(&state.grid.shard_cost)
    }

    fn score(&self, state: &LayoutState) -> Score {
        state.grid.score(self.units)
    }

    fn snapshot(&self, state: &LayoutState) -> Vec<u32> {
        state.grid.cell_of.clone()
    }

    fn sample_change(&self, state: &mut LayoutState, stream: &mut Stream) -> f64 {
        let mut trial = Trial::default();
        for _ in 0..256 {
            let (kind, candidate) = self.propose(state, stream);
            if kind < 2 && state.grid.try_move(self.units, candidate, &mut trial) {
                let [a, b] = trial.blocks();
                if a != b {
                    return self.change(state, &trial);
                }
            }
        }
        0.0
    }

    fn sweep(
        &self,
        state: &mut LayoutState,
        temperature: f64,
        stream: &mut Stream,
        record: &mut Record<Self>,
    ) {
        let mut trial = Trial::default();
        for _ in 0..self.proposals {
            let (kind, candidate) = self.propose(state, stream);
            if !state.grid.try_attention(self.units, candidate, &mut trial) {
                continue;
            }
            record.propose(kind);
            if Energy::is_hopeless(trial.attention_change(&state.grid), temperature) {
                continue;
            }
            state.grid.try_experts(self.units, &mut trial);
            let change = self.change(state, &trial);
            if accepts(change, temperature, stream) {
                state.make(self.units, &trial);
                record.accept(kind, change);
            }
        }
    }
}
