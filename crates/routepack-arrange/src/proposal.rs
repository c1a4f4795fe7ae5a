//! What the annealing proposes: kinds of move, how often each, and how their units are drawn.
//!
//! Kinds: swap a unit with one of its neighbours ([`crate::neighbours`]) or with any unit, relocate a unit, the same within
//! one block, where only attention changes; exchange up to three units of a cell for up to three of another, or for as many
//! as take their room, which full cells need; chains over three cells ([`crate::chain`]); trade the whole contents of two
//! cells of different blocks, or of two blocks of different slot groups, which is always feasible.
//! Complexity: O(1) draws; O(units of a block) for sets and trades.

use std::ops::RangeInclusive;

use routepack_anneal::Stream;

use crate::chain::Chain;
use crate::state::LayoutState;
use crate::system::LayoutSystem;
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

    /// Draws up to [`SET_UNITS`] units of either cell until they can change places; half of the times, up to as many of the
    /// second and then as many of the first as take their room.
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
        let matched = stream.below(2) == 0;
        for _ in 0..SET_DRAWS {
            let counts = if matched {
                let comes = draw_some(&mut of_cells[1], stream);
                let tokens: u32 = of_cells[1][..comes].iter().map(|&unit| units.tokens[unit as usize]).sum();
                let [free_a, free_b] = cells.map(|cell| units.capacity - state.grid.tokens[cell]);
                let room = tokens.saturating_sub(free_a)..=tokens + free_b;
                match draw_to_fit(units, &mut of_cells[0], room, stream) {
                    Some(leaves) => [leaves, comes],
                    None => continue,
                }
            } else {
                of_cells.each_mut().map(|of_cell| draw_some(of_cell, stream))
            };
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

/// Brings one to [`SET_UNITS`] random units to the front; how many.
fn draw_some(of_cell: &mut [u32], stream: &mut Stream) -> usize {
    let count = (1 + stream.below(SET_UNITS) as usize).min(of_cell.len());
    for place in 0..count {
        let other = place + stream.below((of_cell.len() - place) as u64) as usize;
        of_cell.swap(place, other);
    }
    count
}

/// Brings random units to the front whose tokens sum to within `room`: one that completes the sum as soon as there is one,
/// else any that leaves room; how many, if it can be completed so.
fn draw_to_fit(
    units: &Units,
    of_cell: &mut [u32],
    room: RangeInclusive<u32>,
    stream: &mut Stream,
) -> Option<usize> {
    let tokens = |unit: u32| units.tokens[unit as usize];
    let mut sum = 0;
    for place in 0..of_cell.len() {
        let rest = (of_cell.len() - place) as u64;
        let from = stream.below(rest) as usize;
        let others = || (0..rest as usize).map(|step| place + (from + step) % rest as usize);
        if let Some(last) = others().find(|&other| room.contains(&(sum + tokens(of_cell[other])))) {
            of_cell.swap(place, last);
            return Some(place + 1);
        }
        let next = others().find(|&other| sum + tokens(of_cell[other]) < *room.start())?;
        of_cell.swap(place, next);
        sum += tokens(of_cell[place]);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::Recipe;

    /// What is drawn to fit does, and where single units fit, or two that are enough together, something is drawn.
    #[test]
    fn what_is_drawn_to_fit_does() {
        let recipe = Recipe {
            seed: 3,
            rows: 2,
            slots_per_group: 2,
            groups: 1,
            extra: 30,
            layers: 0,
            parts: 1,
            kinds: 1,
            pads: 0,
            grouped: false,
            limited: false,
            tight: false,
            stages: 1,
        };
        let case = recipe.build();
        let units = Units::new(&case.instance, &case.placement, 2).expect("enough units");
        let mut stream = Stream::new(1);
        let mut found = 0;
        for _ in 0..2000 {
            let mut of_cell: Vec<u32> = (0..units.num_units() as u32).collect();
            stream.shuffle(&mut of_cell);
            of_cell.truncate(1 + stream.index(12));
            let before: u32 = of_cell.iter().map(|&unit| units.tokens[unit as usize]).sum();
            let low = stream.below(30) as u32;
            let room = low..=low + stream.below(4) as u32;
            let single = of_cell.iter().any(|&unit| room.contains(&units.tokens[unit as usize]));
            let drawn = draw_to_fit(&units, &mut of_cell, room.clone(), &mut stream);
            assert!(drawn.is_some() || !single);
            assert_eq!(before, of_cell.iter().map(|&unit| units.tokens[unit as usize]).sum::<u32>());
            if let Some(count) = drawn {
                found += 1;
                let sum = of_cell[..count].iter().map(|&unit| units.tokens[unit as usize]).sum::<u32>();
                assert!(room.contains(&sum), "{sum} for {room:?}");
            }
        }
        assert!((400..1900).contains(&found), "{found}");
    }
}
