//! The layout search as a system for population annealing.
//!
//! Problem: least score of a layout (DESIGN §1.3); states are feasible layouts with all their sums ([`crate::Grid`]).
//! Moves: swap a unit with one of its neighbours ([`crate::neighbours`]) or with any unit, relocate a unit, the same
//! within one block, where only attention changes; exchange two units of a cell for one of another, and trade the whole
//! contents of two cells of different blocks, which is always feasible.
//! Energy: [`crate::energy`]; a proposal is given up at once if its attention alone rises too much.
//! Complexity of a proposal: O(kinds + parts), and one kernel call of O(L·P) a part if it crosses blocks.
//! Reference: N. Metropolis et al., J. Chem. Phys. 21, 1953, doi 10.1063/1.1699114. Deviations from the paper (arXiv
//! 2608.12146): the energy; neighbours, so proposals are not symmetric; the early rejection.

use routepack_anneal::{Record, Stream, System, accepts};
use routepack_problem::Score;

use crate::energy::Energy;
use crate::grid::Grid;
use crate::neighbours::Neighbours;
use crate::trial::{Move, Trial};
use crate::units::Units;

/// Of 64 proposals, so many stay within a block, relocate a unit, swap any two units, exchange two units for one, trade
/// the whole contents of two cells; the others swap neighbours.
const WITHIN_OF_64: u64 = 20;
const RELOCATE_OF_64: u64 = 4;
const SWAP_ANY_OF_64: u64 = 6;
const TWO_FOR_ONE_OF_64: u64 = 2;
const TRADE_OF_64: u64 = 1;

/// What is proposed.
#[derive(Clone, Copy, Debug)]
enum Proposal {
    /// One unit or two change places.
    Single(Move),
    /// Two units of one cell for one of another.
    TwoForOne([usize; 2], usize),
    /// All units of two cells.
    Trade([usize; 2]),
}

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
            for unit in trial.leaving(0) {
                self.move_member(unit, from, to);
            }
            for unit in trial.leaving(1) {
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
    fn propose(&self, state: &LayoutState, stream: &mut Stream) -> (usize, Proposal) {
        let units = self.units;
        let count = units.num_units() as u64;
        let first = stream.below(count) as usize;
        let mut choice = stream.below(64);
        let mut is = |share: u64| {
            let chosen = choice < share;
            choice = choice.wrapping_sub(share);
            chosen
        };
        let cell_of = |unit: usize| state.grid.cell_of[unit] as usize;
        let mate = |stream: &mut Stream| {
            let members = &state.members[state.block(units, first)];
            members[stream.below(members.len() as u64) as usize] as usize
        };
        let mut any = || stream.below(count) as usize;
        if is(WITHIN_OF_64) {
            let second = mate(stream);
            if stream.below(8) == 0 {
                return (4, Proposal::Single(Move::Relocate { unit: first, cell: cell_of(second) }));
            }
            return (3, Proposal::Single(Move::Swap { first, second }));
        }
        if is(RELOCATE_OF_64) {
            let cell = stream.below(units.num_cells() as u64) as usize;
            return (2, Proposal::Single(Move::Relocate { unit: first, cell }));
        }
        if is(SWAP_ANY_OF_64) {
            return (1, Proposal::Single(Move::Swap { first, second: any() }));
        }
        if is(TWO_FOR_ONE_OF_64) {
            let third = any();
            return (5, Proposal::TwoForOne([first, mate(stream)], third));
        }
        if is(TRADE_OF_64) {
            return (6, Proposal::Trade([cell_of(first), cell_of(any())]));
        }
        let near = self.neighbours.of(first);
        if near.is_empty() {
            return (1, Proposal::Single(Move::Swap { first, second: any() }));
        }
        let second = near[stream.below(near.len() as u64) as usize] as usize;
        (0, Proposal::Single(Move::Swap { first, second }))
    }

    /// Feasibility and attention of a proposal.
    #[inline]
    fn try_attention(&self, state: &LayoutState, proposal: Proposal, trial: &mut Trial) -> bool {
        let (units, grid) = (self.units, &state.grid);
        match proposal {
            Proposal::Single(candidate) => grid.try_attention(units, candidate, trial),
            Proposal::TwoForOne([first, second], third) => {
                let cells = [first, third].map(|unit| grid.cell_of[unit] as usize);
                first != second
                    && grid.cell_of[first] == grid.cell_of[second]
                    && grid.try_sets(
                        units,
                        cells,
                        [first as u32, second as u32].into_iter(),
                        std::iter::once(third as u32),
                        trial,
                    )
            }
            Proposal::Trade(cells) => {
                let [leaves, comes] = cells.map(|cell| {
                    let members = &state.members[units.block_of[cell] as usize];
                    members.iter().copied().filter(move |&unit| grid.cell_of[unit as usize] as usize == cell)
                });
                grid.try_sets(units, cells, leaves, comes, trial)
            }
        }
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

    const MOVE_KINDS: &'static [&'static str] = &[
        "swap-near",
        "swap-any",
        "relocate",
        "swap-within",
        "relocate-within",
        "two-for-one",
        "trade-cells",
    ];

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
        let count = self.units.num_units() as u64;
        for _ in 0..256 {
            let [first, second] = [0; 2].map(|_| stream.below(count) as usize);
            if state.grid.try_attention(self.units, Move::Swap { first, second }, &mut trial) {
                let [a, b] = trial.blocks();
                if a != b {
                    state.grid.try_experts(self.units, &mut trial);
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
            let (kind, proposal) = self.propose(state, stream);
            if !self.try_attention(state, proposal, &mut trial) {
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
                // The whole score is only looked at where its first component can be the best.
                if state.grid.shard_cost.iter().all(|&cost| cost <= record.bar().worst_shard) {
                    record.offer(self, state);
                }
            }
        }
    }
}
