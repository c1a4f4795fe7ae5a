//! One replica: a layout with all its sums ([`crate::grid`]) and the units of every block, from which moves are drawn.
//!
//! Complexity of a move made: that of the grid's, and O(1) a unit that changes blocks.

use crate::grid::Grid;
use crate::trial::Trial;
use crate::units::Units;

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

    /// The cell of every unit, then the units block by block in the order that moves draw them from.
    pub(crate) fn pack(&self) -> Vec<u32> {
        let members = self.members.iter().flatten();
        self.grid.cell_of.iter().chain(members).copied().collect()
    }

    /// The state that was packed; `None` for words that are no layout's.
    pub(crate) fn unpack(units: &Units, words: &[u32]) -> Option<Self> {
        let (cell_of, members) = words.split_at_checked(units.num_units())?;
        let known = |cell: &u32| (*cell as usize) < units.num_cells();
        let mut sorted = members.to_vec();
        sorted.sort_unstable();
        if !cell_of.iter().all(known) || !sorted.into_iter().eq(0..cell_of.len() as u32) {
            return None;
        }
        let mut state = Self::new(units, cell_of.to_vec());
        state.members.iter_mut().for_each(Vec::clear);
        for &unit in members {
            let block = units.block_of[cell_of[unit as usize] as usize] as usize;
            state.place[unit as usize] = state.members[block].len() as u32;
            state.members[block].push(unit);
        }
        Some(state)
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
