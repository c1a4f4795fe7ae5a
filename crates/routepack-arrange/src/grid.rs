//! The state of the search: which unit is in which cell, and every charged sum, kept up to date move by move.
//!
//! Symbols as in DESIGN §1.3: φ attention charges, A = `Σ_s max_d Σ φ[s]` of a block, W loads and X expert cost, J = A + X
//! of a row-shard, `U_g = Σ_r J`. A *block* is one row and slot group; its parts are row-shards, and where the slowest
//! pipeline stage paces, each of its stages is charged apart: see [`Units`] for *shares*.
//! What a move would change is found in [`crate::trial`], and moves are made in [`crate::make`]. Complexity of a grid from
//! scratch: O(units·parts·L·P).

use routepack_peaks::Loads;
use routepack_problem::Score;

use crate::leaders::Leaders;
use crate::units::Units;

/// A feasible assignment of units to cells with its sums.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    pub(crate) cell_of: Vec<u32>,
    /// Padded tokens, samples and units of every cell.
    pub(crate) tokens: Vec<u32>,
    pub(crate) samples: Vec<u32>,
    pub(crate) num_units: Vec<u32>,
    /// φ of every cell, `[cells, kinds]`.
    pub(crate) attention: Vec<u64>,
    /// `[blocks, kinds]`.
    pub(crate) leaders: Vec<Leaders>,
    /// A of every block, or a stage's part of it.
    pub(crate) block_attention: Vec<u64>,
    pub(crate) loads: Loads,
    /// Σ of the floors of every block's units in the first share, see [`routepack_peaks::Demand::floor`].
    pub(crate) floor: Vec<u64>,
    /// Σ of the levels of every block's units, `[blocks, shares]`; see [`Units::level`].
    pub(crate) level: Vec<u64>,
    /// U of every shard and paced stage, `[shards, stages]`.
    pub(crate) stage_cost: Vec<u64>,
}

impl Clone for Grid {
    fn clone(&self) -> Self {
        Self {
            cell_of: self.cell_of.clone(),
            tokens: self.tokens.clone(),
            samples: self.samples.clone(),
            num_units: self.num_units.clone(),
            attention: self.attention.clone(),
            leaders: self.leaders.clone(),
            block_attention: self.block_attention.clone(),
            loads: self.loads.clone(),
            floor: self.floor.clone(),
            level: self.level.clone(),
            stage_cost: self.stage_cost.clone(),
        }
    }

    fn clone_from(&mut self, source: &Self) {
        self.cell_of.clone_from(&source.cell_of);
        self.tokens.clone_from(&source.tokens);
        self.samples.clone_from(&source.samples);
        self.num_units.clone_from(&source.num_units);
        self.attention.clone_from(&source.attention);
        self.leaders.clone_from(&source.leaders);
        self.block_attention.clone_from(&source.block_attention);
        self.loads.clone_from(&source.loads);
        self.floor.clone_from(&source.floor);
        self.level.clone_from(&source.level);
        self.stage_cost.clone_from(&source.stage_cost);
    }
}

impl Grid {
    /// The grid with unit u in cell `cell_of[u]`: a feasible assignment.
    pub(crate) fn new(units: &Units, cell_of: Vec<u32>) -> Self {
        let (cells, kinds, blocks) = (units.num_cells(), units.kinds, units.num_blocks());
        let mut grid = Self {
            tokens: vec![0; cells],
            samples: vec![0; cells],
            num_units: vec![0; cells],
            attention: vec![0; cells * kinds],
            leaders: vec![Leaders::NONE; blocks * kinds],
            block_attention: vec![0; blocks],
            loads: units.demand.empty_loads(blocks),
            floor: vec![0; blocks],
            level: vec![0; blocks * units.shares()],
            stage_cost: vec![0; units.groups * units.shares()],
            cell_of,
        };
        let mut pads = vec![0u64; blocks];
        for unit in 0..units.num_units() {
            let cell = grid.cell_of[unit] as usize;
            grid.tokens[cell] += units.tokens[unit];
            grid.samples[cell] += units.samples[unit];
            grid.num_units[cell] += 1;
            for (sum, &cost) in grid.attention[cell * kinds..].iter_mut().zip(units.attention(unit)) {
                *sum += cost;
            }
            let block = units.block_of[cell] as usize;
            pads[block] += u64::from(units.pads[unit]);
            units.demand.add(&mut grid.loads, block, unit);
            grid.floor[block] += units.demand.floor(unit, 0);
            for share in 0..units.shares() {
                grid.level[block * units.shares() + share] += units.level(unit, share);
            }
        }
        for block in 0..blocks {
            // Padding is counted only where it is charged.
            let cell_pads = units.cells_of(block).map(|cell| units.cell_padding(grid.tokens[cell]));
            let pad_tokens = pads[block] + cell_pads.sum::<u64>();
            let pad_tokens = if units.demand.charges_padding() { pad_tokens } else { 0 };
            units.demand.repad(&mut grid.loads, block, pad_tokens);
            grid.block_attention[block] = grid.lead(units, block);
            for share in 0..units.shares() {
                grid.stage_cost[block % units.groups * units.shares() + share] +=
                    grid.row_cost(units, block, share);
            }
        }
        grid
    }

    /// J of a block and share.
    #[inline]
    pub(crate) fn row_cost(&self, units: &Units, block: usize, share: usize) -> u64 {
        self.block_attention[block]
            + units.demand.cost(&self.loads, block, share)
            + self.level(units, block, share)
    }

    /// Σ of the levels of a block's units in a share.
    #[inline]
    pub(crate) fn level(&self, units: &Units, block: usize, share: usize) -> u64 {
        self.level[block * units.shares() + share]
    }

    /// The exact score.
    pub(crate) fn score(&self, units: &Units) -> Score {
        let rows = (0..units.num_blocks())
            .flat_map(|block| (0..units.shares()).map(move |share| self.row_cost(units, block, share)));
        Score {
            worst_shard: self.stage_cost.iter().copied().max().unwrap_or(0),
            total: units.paced(&self.stage_cost).sum(),
            worst_row: rows.max().unwrap_or(0),
        }
    }

    /// Mean J of a row-shard, or of the stage that paces it.
    pub(crate) fn mean_row_cost(&self, units: &Units) -> f64 {
        let shards = units.groups * units.parts();
        units.paced(&self.stage_cost).sum::<u64>() as f64 / (units.rows * shards) as f64
    }

    /// Σ and max over the cells of a block of φ, by kind.
    pub(crate) fn attention_of_kinds(&self, units: &Units, block: usize) -> Vec<(u64, u64)> {
        (0..units.kinds)
            .map(|kind| {
                let costs = units.cells_of(block).map(|cell| self.attention[cell * units.kinds + kind]);
                (costs.sum(), self.leaders[block * units.kinds + kind].costs[0])
            })
            .collect()
    }

    /// What X of a block exceeds its perfectly balanced demand by, in the only share.
    pub(crate) fn excess(&self, units: &Units, block: usize) -> u64 {
        units.demand.cost(&self.loads, block, 0) - self.floor[block] / units.demand.num_ranks() as u64
    }

    /// Finds the largest cells of a block again; returns its A, or a stage's part of it.
    pub(crate) fn lead(&mut self, units: &Units, block: usize) -> u64 {
        units.of_stage((0..units.kinds).map(|kind| self.lead_kind(units, block, kind)).sum())
    }

    /// The same for one kind; returns the largest φ.
    pub(crate) fn lead_kind(&mut self, units: &Units, block: usize, kind: usize) -> u64 {
        let (kinds, cells) = (units.kinds, units.cells_of(block));
        let costs = self.attention[cells.start * kinds + kind..cells.end * kinds].iter().step_by(kinds);
        let leaders = Leaders::of((cells.start as u32..).zip(costs.copied()));
        self.leaders[block * kinds + kind] = leaders;
        leaders.costs[0]
    }
}

#[cfg(test)]
impl Grid {
    /// Everything a grid keeps, except which of several equally large cells it remembers.
    pub(crate) fn sums(&self) -> impl PartialEq + std::fmt::Debug + use<> {
        let leaders: Vec<[u64; 3]> = self.leaders.iter().map(|leaders| leaders.costs).collect();
        (
            (self.cell_of.clone(), self.tokens.clone(), self.samples.clone(), self.num_units.clone()),
            (self.attention.clone(), self.block_attention.clone(), leaders),
            (self.loads.clone(), self.floor.clone(), self.level.clone(), self.stage_cost.clone()),
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::support::{Recipe, recipes};

    proptest! {
        /// Of every charged peak, the percentage asked for is charged as it is, and the rest at the mean over the ranks.
        #[test]
        fn light_peaks_are_between_mean_and_peak(recipe in recipes(14), percent in 0u32..=100) {
            let recipe = Recipe { pads: 0, stages: 1, ..recipe };
            let case = recipe.build();
            let (instance, placement) = (&case.instance, &case.placement);
            let units = Units::with_light_peaks(instance, placement, recipe.rows, percent, &|| false);
            let units = units.expect("enough units").expect("not stopped");
            let grid = Grid::new(&units, units.cells_of_units(instance, &case.first));
            let whole = Units::new(instance, placement, recipe.rows).expect("enough units");
            let exact = Grid::new(&whole, grid.cell_of.clone());
            let ranks = instance.topology().num_ranks() as f64;
            for block in 0..units.num_blocks() {
                for share in 0..units.shares() {
                    let members = (0..units.num_units())
                        .filter(|&unit| units.block_of[grid.cell_of[unit] as usize] as usize == block);
                    let mean = members.map(|unit| whole.demand.floor(unit, share)).sum::<u64>() as f64 / ranks;
                    let peak = whole.demand.cost(&exact.loads, block, share) as f64;
                    let part = f64::from(percent) / 100.0;
                    let expected = exact.block_attention[block] as f64 + part * peak + (1.0 - part) * mean;
                    let found = grid.row_cost(&units, block, share) as f64;
                    prop_assert!((found - expected).abs() <= 1e-5 * expected + 40.0, "{} for {}", found, expected);
                }
            }
        }
    }
}
