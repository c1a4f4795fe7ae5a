//! What the annealing proposes: kinds of move, how often each, and how their units are drawn.
//!
//! Kinds: swap a unit with one of its neighbours ([`crate::neighbours`]) or with any unit, relocate a unit, the same within
//! one block, where only attention changes; exchange up to three units of a cell for up to three of another; chains over
//! three cells ([`crate::chain`]); trade the whole contents of two cells of different blocks, or of two blocks of different
//! slot groups, which is always feasible.
//! Complexity: O(1) draws; O(units of a block) for sets and trades.

use routepack_anneal::Stream;

use crate::chain::Chain;
use crate::state::LayoutState;
use crate::system::LayoutSystem;
use crate::trial::{Move, Trial};

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

/// Names of the kinds of move, by index.
pub(crate) const KINDS: &[&str] = &[
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

/// What is proposed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Proposal {
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

impl LayoutSystem<'_> {
    /// Draws a move and its kind.
    #[inline]
    pub(crate) fn propose(&self, state: &LayoutState, stream: &mut Stream) -> (usize, Proposal) {
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
    pub(crate) fn try_attention(
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
}
