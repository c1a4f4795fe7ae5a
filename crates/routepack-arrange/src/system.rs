//! The layout search as a system for population annealing.
//!
//! Problem: least score of a layout (DESIGN §1.3); states are feasible layouts with all their sums ([`crate::Grid`]).
//! Moves: swap a unit with one of its neighbours ([`crate::neighbours`]) or with any unit, relocate a unit, the same
//! within one block, where only attention changes; exchange up to three units of a cell for up to three of another; chains
//! over three cells ([`crate::chain`]); trade the whole contents of two cells of different blocks, or of two blocks of
//! different slot groups, which is always feasible.
//! Energy: [`crate::energy`]; a proposal is given up at once if its attention alone rises too much.
//! Complexity of a proposal: O(kinds + parts), and one kernel call of O(L·P) a part if it crosses blocks.
//! Reference: N. Metropolis et al., J. Chem. Phys. 21, 1953, doi 10.1063/1.1699114. Deviations from the paper (arXiv
//! 2608.12146): the energy; neighbours, so proposals are not symmetric; the early rejection.

use routepack_anneal::{Record, Stream, System, accepts};
use routepack_problem::Score;

use crate::chain::Chain;
use crate::energy::Energy;
use crate::grid::Grid;
use crate::neighbours::Neighbours;
use crate::trial::{Move, Trial};
use crate::units::Units;

/// Of 64 proposals, so many stay within a block, relocate a unit, swap any two units, exchange sets of units, are chains,
/// trade the whole contents of two cells, or of two blocks where there are several slot groups; the others swap
/// neighbours.
const WITHIN_OF_64: u64 = 20;
const RELOCATE_OF_64: u64 = 4;
const SWAP_ANY_OF_64: u64 = 6;
const SETS_OF_64: u64 = 3;
const CHAIN_OF_64: u64 = 1;
const TRADE_OF_64: u64 = 1;
const TRADE_ROWS_OF_64: u64 = 1;
/// Units of a set at most, and draws of sets until two fit.
const SET_UNITS: u64 = 3;
const SET_DRAWS: u32 = 8;
/// Draws of a move that changes the energy, when changes are sampled.
const SAMPLE_DRAWS: u32 = 128;

/// What is proposed.
#[derive(Clone, Copy, Debug)]
enum Proposal {
    /// One unit or two change places.
    Single(Move),
    /// Some units of two cells.
    Sets([usize; 2]),
    /// Three cells.
    Chain(Chain),
    /// All units of two cells.
    Trade([usize; 2]),
    /// All units of two blocks.
    TradeRows([usize; 2]),
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
    pub(crate) fn make(&mut self, units: &Units, trial: &Trial) {
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

    /// Units of a cell.
    pub(crate) fn units_of(&self, units: &Units, cell: usize) -> impl Iterator<Item = u32> + '_ {
        let members = &self.members[units.block_of[cell] as usize];
        members.iter().copied().filter(move |&unit| self.grid.cell_of[unit as usize] as usize == cell)
    }

    /// Trades all units of two blocks.
    pub(crate) fn trade_blocks(&mut self, units: &Units, [a, b]: [usize; 2]) {
        self.grid.trade_blocks(units, [a, b], [&self.members[a], &self.members[b]]);
        self.members.swap(a, b);
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
            return (1, Proposal::Single(Move::Swap { first, second: stream.below(count) as usize }));
        }
        if is(SETS_OF_64) {
            let other = if stream.below(4) == 0 { mate(stream) } else { stream.below(count) as usize };
            return (5, Proposal::Sets([cell_of(first), cell_of(other)]));
        }
        if is(CHAIN_OF_64) {
            return (6, Proposal::Chain(Chain::draw(units, first, stream)));
        }
        if is(TRADE_OF_64) {
            return (7, Proposal::Trade([first, stream.below(count) as usize].map(cell_of)));
        }
        if units.groups > 1 && is(TRADE_ROWS_OF_64) {
            return (
                8,
                Proposal::TradeRows([0; 2].map(|_| stream.below(units.num_blocks() as u64) as usize)),
            );
        }
        let near = self.neighbours.of(first);
        if near.is_empty() {
            return (1, Proposal::Single(Move::Swap { first, second: stream.below(count) as usize }));
        }
        let second = near[stream.below(near.len() as u64) as usize] as usize;
        (0, Proposal::Single(Move::Swap { first, second }))
    }

    /// Feasibility and attention of an exchange between two cells.
    #[inline]
    fn try_attention(
        &self,
        state: &LayoutState,
        proposal: Proposal,
        trial: &mut Trial,
        stream: &mut Stream,
    ) -> bool {
        let (units, grid) = (self.units, &state.grid);
        match proposal {
            Proposal::Single(candidate) => grid.try_attention(units, candidate, trial),
            Proposal::Sets(cells) => self.try_some(state, cells, trial, stream),
            Proposal::Trade(cells) => {
                let [leaves, comes] = cells.map(|cell| state.units_of(units, cell));
                units.block_of[cells[0]] != units.block_of[cells[1]]
                    && grid.try_sets(units, cells, leaves, comes, trial)
            }
            Proposal::Chain(_) | Proposal::TradeRows(_) => false,
        }
    }

    /// Draws up to [`SET_UNITS`] units of either cell until they can change places.
    fn try_some(
        &self,
        state: &LayoutState,
        cells: [usize; 2],
        trial: &mut Trial,
        stream: &mut Stream,
    ) -> bool {
        let units = self.units;
        if cells[0] == cells[1] {
            return false;
        }
        let mut of_cells = std::mem::take(&mut trial.drawn_from);
        for (of_cell, cell) in of_cells.iter_mut().zip(cells) {
            of_cell.clear();
            of_cell.extend(state.units_of(units, cell));
        }
        let mut found = false;
        for _ in 0..SET_DRAWS {
            let counts = of_cells.each_mut().map(|of_cell| {
                let count = (1 + stream.below(SET_UNITS) as usize).min(of_cell.len());
                for place in 0..count {
                    let other = place + stream.below((of_cell.len() - place) as u64) as usize;
                    of_cell.swap(place, other);
                }
                count
            });
            let [leaves, comes] = [0, 1].map(|side| of_cells[side][..counts[side]].iter().copied());
            if counts != [1, 1] && state.grid.try_sets(units, cells, leaves, comes, trial) {
                found = true;
                break;
            }
        }
        trial.drawn_from = of_cells;
        found
    }

    /// Makes an exchange whose attention was tried, by the Metropolis rule; the change of energy if it was made.
    #[inline]
    fn exchange(
        &self,
        state: &mut LayoutState,
        trial: &mut Trial,
        temperature: f64,
        stream: &mut Stream,
    ) -> Option<f64> {
        if Energy::is_hopeless(trial.attention_change(&state.grid), temperature) {
            return None;
        }
        state.grid.try_experts(self.units, trial);
        let change = self.change(state, trial);
        accepts(change, temperature, stream).then(|| {
            state.make(self.units, trial);
            change
        })
    }

    /// Trades two blocks by the Metropolis rule.
    fn trade_rows(
        &self,
        state: &mut LayoutState,
        blocks: [usize; 2],
        temperature: f64,
        stream: &mut Stream,
    ) -> Option<f64> {
        let (units, grid) = (self.units, &state.grid);
        if blocks[0] % units.groups == blocks[1] % units.groups {
            return None;
        }
        let change = self.energy.change(&grid.shard_cost, units, blocks, |part| {
            let [a, b] = blocks.map(|block| grid.row_cost(units, block, part) as i64);
            [b - a, a - b]
        });
        accepts(change, temperature, stream).then(|| {
            state.trade_blocks(units, blocks);
            change
        })
    }

    /// Change of the energy by a move that was tried.
    #[inline]
    pub(crate) fn change(&self, state: &LayoutState, trial: &Trial) -> f64 {
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
        "sets",
        "chain",
        "trade-cells",
        "trade-rows",
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
        for _ in 0..SAMPLE_DRAWS {
            let [first, second] = [0; 2].map(|_| stream.below(count) as usize);
            if state.grid.try_attention(self.units, Move::Swap { first, second }, &mut trial)
                && trial.blocks[0] != trial.blocks[1]
            {
                state.grid.try_experts(self.units, &mut trial);
                let change = self.change(state, &trial);
                if change != 0.0 {
                    return change;
                }
            }
        }
        // No two units can change places and make a difference: whatever else can be done.
        for _ in 0..SAMPLE_DRAWS {
            let (_, proposal) = self.propose(state, stream);
            if self.try_attention(state, proposal, &mut trial, stream) {
                state.grid.try_experts(self.units, &mut trial);
                let change = self.change(state, &trial);
                if change != 0.0 {
                    return change;
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
            let made = match proposal {
                Proposal::Chain(chain) => {
                    if !chain.fits(self.units, &state.grid) {
                        continue;
                    }
                    self.follow_chain(state, chain, &mut trial, temperature, stream)
                }
                Proposal::TradeRows(blocks) => self.trade_rows(state, blocks, temperature, stream),
                _ => {
                    if !self.try_attention(state, proposal, &mut trial, stream) {
                        continue;
                    }
                    self.exchange(state, &mut trial, temperature, stream)
                }
            };
            record.propose(kind);
            let Some(change) = made else { continue };
            record.accept(kind, change);
            // The whole score is only looked at where its first component can be the best.
            if state.grid.shard_cost.iter().all(|&cost| cost <= record.bar().worst_shard) {
                record.offer(self, state);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::strategy::{Strategy, ValueTree};
    use routepack_problem::{check_layout, evaluate};

    use super::*;
    use crate::spread_bins::layout_of;
    use crate::support::recipes;

    /// After every proposal of every kind, made or not: a feasible layout, all sums as from scratch, the energy as well,
    /// untouched shards as they were; and the cases reach every kind.
    #[test]
    fn every_kind_of_move_keeps_every_sum() {
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let strategy = recipes(14);
        let mut accepted = vec![0u64; LayoutSystem::MOVE_KINDS.len()];
        for _ in 0..300 {
            let recipe = strategy.new_tree(&mut runner).expect("a recipe").current();
            let case = recipe.build();
            let (instance, placement) = (&case.instance, &case.placement);
            let units = Units::new(instance, placement, recipe.rows).expect("enough units");
            let neighbours = Neighbours::new(&units, 4, &|| false).expect("not stopped");
            let energy = Energy { reference: 10.0, stiffness: 1e-6 };
            let system = LayoutSystem { units: &units, neighbours: &neighbours, energy, proposals: 1 };
            let mut state = LayoutState::new(&units, units.cells_of_units(instance, &case.first));
            let mut stream = Stream::new(recipe.seed ^ 5);
            let temperature = state.grid.mean_row_cost(&units);
            for _ in 0..400 {
                let before = state.clone();
                let mut record = Record::new(system.score(&state));
                system.sweep(&mut state, temperature, &mut stream, &mut record);
                let kind = record.moves().iter().position(|count| count.accepted > 0);
                let Some(kind) = kind else {
                    assert_eq!(before.grid.sums(), state.grid.sums(), "nothing was made");
                    continue;
                };
                accepted[kind] += 1;
                let layout = layout_of(instance, &units, &state.grid.cell_of);
                check_layout(instance, &layout).expect("feasible");
                let scratch = LayoutState::new(&units, state.grid.cell_of.clone());
                assert_eq!(state.grid.sums(), scratch.grid.sums(), "{}", LayoutSystem::MOVE_KINDS[kind]);
                let evaluation = evaluate(instance, placement, &layout);
                assert_eq!(state.grid.score(&units), evaluation.score);
                assert!((system.energy(&state) - system.energy(&scratch)).abs() == 0.0);
                for (block, members) in state.members.iter().enumerate() {
                    let mut members = members.clone();
                    members.sort_unstable();
                    assert_eq!(members, scratch.members[block]);
                }
                let moved =
                    (0..units.num_units()).filter(|&u| before.grid.cell_of[u] != state.grid.cell_of[u]);
                let touched: Vec<usize> =
                    moved.flat_map(|u| [before.block(&units, u), state.block(&units, u)]).collect();
                for (shard, cost) in before.grid.shard_cost.iter().enumerate() {
                    let group = shard / units.parts();
                    if touched.iter().all(|block| block % units.groups != group) {
                        assert_eq!(*cost, state.grid.shard_cost[shard]);
                    }
                }
            }
        }
        assert!(accepted.iter().all(|&count| count >= 50), "{accepted:?}");
    }
}
