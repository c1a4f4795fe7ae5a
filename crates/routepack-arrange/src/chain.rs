//! Ejection chains over three cells.
//!
//! Problem: where cells are nearly full, no two units may change places, but three can: i goes from its cell to j's, j
//! goes to a third cell, and a unit k of that one comes to i's; or none comes.
//! Method: the chain is two exchanges, i for j, whether it fits or not, then j for k (or j is relocated); only what comes
//! out must be feasible. The first is made, the second tried; if the whole is rejected by the Metropolis rule the first is
//! undone.
//! Complexity: at most three trials and two moves made.
//! Reference: F. Glover, Discrete Appl. Math. 65, 1996, doi 10.1016/0166-218X(94)00037-E.

use routepack_anneal::{Stream, accepts};

use crate::grid::Grid;
use crate::state::LayoutState;
use crate::system::LayoutSystem;
use crate::trial::Trial;
use crate::units::Units;

/// Where a chain ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// A unit comes back to the first cell.
    Unit(usize),
    /// None does; the third cell.
    Cell(usize),
}

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    pub(crate) first: usize,
    pub(crate) second: usize,
    pub(crate) end: End,
}

impl Chain {
    /// A random chain that begins with a unit.
    pub(crate) fn draw(units: &Units, first: usize, stream: &mut Stream) -> Self {
        let count = units.num_units() as u64;
        let second = stream.below(count) as usize;
        let end = match stream.below(4) {
            0 => End::Cell(stream.below(units.num_cells() as u64) as usize),
            _ => End::Unit(stream.below(count) as usize),
        };
        Self { first, second, end }
    }

    /// The three cells.
    fn cells(&self, grid: &Grid) -> [usize; 3] {
        let of = |unit: usize| grid.cell_of[unit] as usize;
        let third = match self.end {
            End::Unit(unit) => of(unit),
            End::Cell(cell) => cell,
        };
        [of(self.first), of(self.second), third]
    }

    /// Whether the cells are three and stay within their limits.
    pub(crate) fn fits(&self, units: &Units, grid: &Grid) -> bool {
        let [a, b, c] = self.cells(grid);
        let back = match self.end {
            End::Unit(unit) => Some(unit),
            End::Cell(_) => None,
        };
        let within = |cell: usize, leaves: Option<usize>, comes: Option<usize>| {
            let sum = |held: u32, of: &[u32]| held - leaves.map_or(0, |u| of[u]) + comes.map_or(0, |u| of[u]);
            sum(grid.tokens[cell], &units.tokens) <= units.capacity
                && sum(grid.samples[cell], &units.samples) <= units.max_samples
        };
        a != b
            && b != c
            && a != c
            && (back.is_some() || grid.num_units[a] > 1)
            && within(a, Some(self.first), back)
            && within(b, Some(self.second), Some(self.first))
            && within(c, back, Some(self.second))
    }
}

impl LayoutSystem<'_> {
    /// Makes a chain that fits by the Metropolis rule; the change of energy if it was made.
    pub(crate) fn follow_chain(
        &self,
        state: &mut LayoutState,
        chain: Chain,
        trial: &mut Trial,
        temperature: f64,
        stream: &mut Stream,
    ) -> Option<f64> {
        let units = self.units;
        let Chain { first, second, end } = chain;
        let [a, b, c] = chain.cells(&state.grid);
        let back = match end {
            End::Unit(unit) => Some(unit),
            End::Cell(_) => None,
        };
        let mut change = self.try_half(state, [first, a, b], Some(second), trial);
        state.make(units, trial);
        change += self.try_half(state, [second, a, c], back, trial);
        if accepts(change, temperature, stream) {
            state.make(units, trial);
            return Some(change);
        }
        self.try_half(state, [second, a, b], Some(first), trial);
        state.make(units, trial);
        None
    }

    /// Tries one exchange of a chain; its change of energy.
    fn try_half(
        &self,
        state: &LayoutState,
        leaves: [usize; 3],
        comes: Option<usize>,
        trial: &mut Trial,
    ) -> f64 {
        state.grid.try_anyway(self.units, leaves, comes, trial);
        state.grid.try_experts(self.units, trial);
        self.change(state, trial)
    }
}
