//! Balancing: cut the units of one block into its cells anew, so that its attention is least.
//!
//! Problem: the units of a block are given; find cells within the capacity, nonempty, of at most q samples, with least
//! A = Σ_s max_d Σ φ\[s\]. This is scheduling on identical machines (makespan, several kinds at once) with capacities.
//! Method: (1) a short simulated annealing of swaps and relocations within the block; (2) pairs of cells are split anew
//! ([`crate::resplit`]) until no pair gains. Never worse than the cells it starts from.
//! Complexity: O(moves·cells·kinds) + O(rounds·cells²·2^15).
//! Reference: S. Kirkpatrick, C. D. Gelatt and M. P. Vecchi, Science 220, 1983, doi 10.1126/science.220.4598.671.

use rayon::prelude::*;
use routepack_anneal::{Stream, accepts};

use crate::grid::Grid;
use crate::resplit::{Load, resplit};
use crate::units::Units;

/// Proposals per unit of the block, in all.
const MOVES_PER_UNIT: usize = 2000;
/// Steps of temperature.
const TEMPERATURES: usize = 24;
/// First and last temperature as a fraction of A.
const HOTTEST: f64 = 1e-3;
const COLDEST: f64 = 1e-6;
/// Rounds over all pairs of cells at most.
const ROUNDS: usize = 12;

/// Balances the cells of every block of a layout; the cell of every unit then.
pub(crate) fn balance_blocks(
    units: &Units,
    cell_of: &[u32],
    stream: &Stream,
    stop: &(dyn Fn() -> bool + Sync),
) -> Vec<u32> {
    let grid = Grid::new(units, cell_of.to_vec());
    let mut members = vec![Vec::new(); units.num_blocks()];
    for (unit, &cell) in cell_of.iter().enumerate() {
        members[units.block_of[cell as usize] as usize].push(unit as u32);
    }
    let balanced: Vec<Vec<(u32, u32)>> = members
        .par_iter()
        .enumerate()
        .map(|(block, members)| {
            let mut cells = BlockCells::new(units, &grid, block, members);
            cells.balance(&mut stream.child(block as u64), stop);
            cells.placed(block).collect()
        })
        .collect();
    let mut cell_of = cell_of.to_vec();
    for (unit, cell) in balanced.into_iter().flatten() {
        cell_of[unit as usize] = cell;
    }
    cell_of
}

/// The cells of one block.
#[derive(Clone, Debug)]
pub(crate) struct BlockCells<'a> {
    units: &'a Units,
    /// Unit, per place.
    members: Vec<u32>,
    /// Cell within the block, per place.
    cell_of: Vec<u32>,
    loads: Vec<Load>,
}

impl<'a> BlockCells<'a> {
    pub(crate) fn new(units: &'a Units, grid: &Grid, block: usize, members: &[u32]) -> Self {
        let first = units.cells_of(block).start;
        let mut members = members.to_vec();
        members.sort_unstable();
        let cell_of: Vec<u32> =
            members.iter().map(|&unit| grid.cell_of[unit as usize] - first as u32).collect();
        let mut loads = vec![Load::empty(units.kinds); units.slots_per_group];
        for (&unit, &cell) in members.iter().zip(&cell_of) {
            loads[cell as usize].add(units, unit as usize);
        }
        Self { units, members, cell_of, loads }
    }

    /// A of the block.
    pub(crate) fn attention(&self) -> u64 {
        (0..self.units.kinds)
            .map(|kind| self.loads.iter().map(|load| load.attention[kind]).max().unwrap_or(0))
            .sum()
    }

    /// Bound on A from the units alone.
    pub(crate) fn floor(&self) -> u64 {
        (0..self.units.kinds)
            .map(|kind| {
                let sum: u64 = self.loads.iter().map(|load| load.attention[kind]).sum();
                let largest =
                    self.members.iter().map(|&unit| self.units.attention(unit as usize)[kind]).max();
                sum.div_ceil(self.loads.len() as u64).max(largest.unwrap_or(0))
            })
            .sum()
    }

    /// Units and their cells in the grid.
    pub(crate) fn placed(&self, block: usize) -> impl Iterator<Item = (u32, u32)> + '_ {
        let first = self.units.cells_of(block).start as u32;
        self.members.iter().zip(&self.cell_of).map(move |(&unit, &cell)| (unit, first + cell))
    }

    /// Balances the cells; `stop` is looked at every few milliseconds.
    pub(crate) fn balance(&mut self, stream: &mut Stream, stop: &(dyn Fn() -> bool + Sync)) {
        let start = self.clone();
        if self.loads.len() > 1 && self.members.len() > self.loads.len() {
            self.anneal(stream, stop);
            self.split_pairs(stream, stop);
        }
        if self.attention() > start.attention() {
            *self = start;
        }
    }

    fn anneal(&mut self, stream: &mut Stream, stop: &(dyn Fn() -> bool + Sync)) {
        let count = self.members.len();
        let mut attention = self.attention();
        let mut best = (attention, self.cell_of.clone());
        for step in 0..TEMPERATURES {
            let fraction = step as f64 / (TEMPERATURES - 1) as f64;
            let temperature = attention as f64
                * HOTTEST
                * routepack_anneal::elementary::exp(
                    fraction * routepack_anneal::elementary::ln(COLDEST / HOTTEST),
                );
            if stop() {
                break;
            }
            for _ in 0..count * MOVES_PER_UNIT / TEMPERATURES {
                let (i, j) = (stream.below(count as u64) as usize, stream.below(count as u64) as usize);
                let relocate = stream.below(8) == 0;
                if let Some(after) = self.try_move(i, j, relocate)
                    && accepts(after.wrapping_sub(attention) as i64 as f64, temperature, stream)
                {
                    self.make(i, j, relocate);
                    attention = after;
                    if attention < best.0 {
                        best.0 = attention;
                        best.1.clone_from(&self.cell_of);
                    }
                }
            }
        }
        self.restore(&best.1);
    }

    /// A after i and j change places, or i goes to j's cell.
    fn try_move(&self, i: usize, j: usize, relocate: bool) -> Option<u64> {
        let units = self.units;
        let (a, b) = (self.cell_of[i] as usize, self.cell_of[j] as usize);
        if a == b || relocate && self.loads[a].units == 1 {
            return None;
        }
        let (i, j) = (self.members[i] as usize, self.members[j] as usize);
        let (out, back) = (units.tokens[i], if relocate { 0 } else { units.tokens[j] });
        let (samples_out, samples_back) = (units.samples[i], if relocate { 0 } else { units.samples[j] });
        let (at_a, at_b) = (&self.loads[a], &self.loads[b]);
        if at_a.tokens - out + back > units.capacity
            || at_b.tokens - back + out > units.capacity
            || at_a.samples - samples_out + samples_back > units.max_samples
            || at_b.samples - samples_back + samples_out > units.max_samples
        {
            return None;
        }
        let mut after = 0;
        for kind in 0..units.kinds {
            let out = units.attention(i)[kind];
            let back = if relocate { 0 } else { units.attention(j)[kind] };
            let mut largest = (at_a.attention[kind] - out + back).max(at_b.attention[kind] - back + out);
            for (cell, load) in self.loads.iter().enumerate() {
                if cell != a && cell != b {
                    largest = largest.max(load.attention[kind]);
                }
            }
            after += largest;
        }
        Some(after)
    }

    fn make(&mut self, i: usize, j: usize, relocate: bool) {
        let (a, b) = (self.cell_of[i], self.cell_of[j]);
        self.shift(i, b);
        if !relocate {
            self.shift(j, a);
        }
    }

    fn shift(&mut self, place: usize, cell: u32) {
        let unit = self.members[place] as usize;
        self.loads[self.cell_of[place] as usize].remove(self.units, unit);
        self.loads[cell as usize].add(self.units, unit);
        self.cell_of[place] = cell;
    }

    fn restore(&mut self, cell_of: &[u32]) {
        for place in 0..cell_of.len() {
            if self.cell_of[place] != cell_of[place] {
                self.shift(place, cell_of[place]);
            }
        }
    }

    /// Splits pairs of cells anew until no pair gains.
    fn split_pairs(&mut self, stream: &mut Stream, stop: &(dyn Fn() -> bool + Sync)) {
        let cells = self.loads.len();
        let floor = self.floor();
        for _ in 0..ROUNDS {
            let mut gained = false;
            for a in 1..cells {
                for b in 0..a {
                    if stop() || self.attention() == floor {
                        return;
                    }
                    gained |= self.split_pair(a, b, stream);
                }
            }
            if !gained {
                return;
            }
        }
    }

    /// Splits one pair of cells anew; whether that gained anything.
    fn split_pair(&mut self, a: usize, b: usize, stream: &mut Stream) -> bool {
        let kinds = self.units.kinds;
        let rest: Vec<u64> = (0..kinds)
            .map(|kind| {
                let others = self.loads.iter().enumerate().filter(|&(cell, _)| cell != a && cell != b);
                others.map(|(_, load)| load.attention[kind]).max().unwrap_or(0)
            })
            .collect();
        let mut places: Vec<usize> = (0..self.members.len())
            .filter(|&place| self.cell_of[place] as usize == a || self.cell_of[place] as usize == b)
            .collect();
        stream.shuffle(&mut places);
        let goes_to_b =
            resplit(self.units, &self.members, &places, &self.cell_of, [a, b], &self.loads, &rest);
        let Some(sides) = goes_to_b else { return false };
        for (place, to_b) in sides {
            let cell = if to_b { b } else { a } as u32;
            if self.cell_of[place] != cell {
                self.shift(place, cell);
            }
        }
        true
    }
}
