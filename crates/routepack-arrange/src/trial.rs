//! Moves, and what trying one finds out.

use routepack_peaks::SetSums;

use crate::grid::Grid;
use crate::units::Units;

/// A move: units change cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// A unit goes to another cell.
    Relocate {
        /// The unit.
        unit: usize,
        /// Where it goes.
        cell: usize,
    },
    /// Two units of different cells change places.
    Swap {
        /// One unit.
        first: usize,
        /// The other.
        second: usize,
    },
}

/// What a feasible move would do: filled by [`Grid::try_attention`] and [`Grid::try_experts`], made by [`Grid::make`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Trial {
    pub(crate) leaves: usize,
    pub(crate) comes: Option<usize>,
    pub(crate) cells: [usize; 2],
    pub(crate) blocks: [usize; 2],
    /// A of both blocks afterwards; the same block twice if only one is involved.
    pub(crate) attention: [u64; 2],
    /// X of both blocks afterwards, per part.
    pub(crate) expert: Vec<[u64; 2]>,
    pub(crate) pad_tokens: [u64; 2],
    /// Whether sets of units change places instead of `leaves` and `comes`.
    pub(crate) of_sets: bool,
    /// Units that leave the first cell for the second, and those that come back.
    pub(crate) sets: [Vec<u32>; 2],
    pub(crate) sums: SetSums,
}

impl Trial {
    /// Change of A over both blocks.
    #[inline]
    pub(crate) fn attention_change(&self, grid: &Grid) -> i64 {
        let [a, b] = self.blocks;
        let change = self.attention[0].wrapping_sub(grid.block_attention[a]) as i64;
        if a == b { change } else { change + self.attention[1].wrapping_sub(grid.block_attention[b]) as i64 }
    }

    /// Changes of J of both blocks in a part, if they are two; of the one block and 0, else.
    #[inline]
    pub(crate) fn changes(&self, units: &Units, grid: &Grid, part: usize) -> [i64; 2] {
        let change = |side: usize| {
            let after = self.attention[side] + self.expert[part][side];
            after.wrapping_sub(grid.row_cost(units, self.blocks[side], part)) as i64
        };
        if self.blocks[0] == self.blocks[1] { [change(0), 0] } else { [change(0), change(1)] }
    }

    pub(crate) fn blocks(&self) -> [usize; 2] {
        self.blocks
    }

    /// Units that leave the first cell (side 0) or the second (side 1).
    pub(crate) fn leaving(&self, side: usize) -> impl Iterator<Item = usize> + '_ {
        let single = match side {
            _ if self.of_sets => None,
            0 => Some(self.leaves),
            _ => self.comes,
        };
        let set: &[u32] = if self.of_sets { &self.sets[side] } else { &[] };
        single.into_iter().chain(set.iter().map(|&unit| unit as usize))
    }

    /// Padded tokens, and padding tokens among them, of the units that leave a side.
    pub(crate) fn tokens_and_pads(&self, units: &Units, side: usize) -> (u32, u64) {
        self.leaving(side).fold((0, 0), |(tokens, pads), unit| {
            (tokens + units.tokens[unit], pads + u64::from(units.pads[unit]))
        })
    }
}
