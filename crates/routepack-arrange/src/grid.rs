//! The state of the search: which unit is in which cell, and every charged sum, kept up to date move by move.
//!
//! Symbols as in DESIGN §1.3: φ attention charges, A = `Σ_s max_d Σ φ[s]` of a block, W loads and X expert cost, J = A + X
//! of a row-shard, `U_g = Σ_r J`. A *block* is one row and slot group; its parts are row-shards, and where the slowest
//! pipeline stage paces, each of its stages is charged apart: see [`Units`] for *shares*.
//! What a move would change is found in [`crate::trial`]. Complexity of making a move: O(kinds·|`D_g`| + parts·L·P).

use routepack_peaks::{Exchange, Loads, SetExchange};
use routepack_problem::Score;

use crate::leaders::Leaders;
use crate::trial::Trial;
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
    floor: Vec<u64>,
    /// Σ of the levels of every block's units, `[blocks, shares]`; see [`Units::level`].
    level: Vec<u64>,
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

    /// Makes a move that was just tried.
    pub(crate) fn make(&mut self, units: &Units, trial: &Trial) {
        let Trial { leaves, comes, cells: [a, b], blocks: [block_a, block_b], .. } = *trial;
        let shares = units.shares();
        for (side, block) in trial.blocks.into_iter().enumerate() {
            if side == 1 && block_a == block_b {
                break;
            }
            for share in 0..shares {
                let cost = block % units.groups * shares + share;
                let after = trial.attention[side] + trial.expert[share][side];
                self.stage_cost[cost] = self.stage_cost[cost] - self.row_cost(units, block, share) + after;
            }
        }
        if trial.of_sets {
            for (side, [from, to]) in [[a, b], [b, a]].into_iter().enumerate() {
                for &unit in &trial.sets[side] {
                    self.shift_unit(units, unit as usize, from, to);
                }
            }
        } else {
            self.shift_unit(units, leaves, a, b);
            if let Some(unit) = comes {
                self.shift_unit(units, unit, b, a);
            }
        }
        if block_a == block_b {
            if units.demand.charges_padding() {
                units.demand.repad(&mut self.loads, block_a, trial.pad_tokens[0]);
            }
        } else if trial.of_sets {
            let [leaves, comes] = &trial.sets;
            let exchange =
                SetExchange { from: block_a, to: block_b, leaves, comes, pad_tokens: trial.pad_tokens };
            units.demand.set_exchange(&mut self.loads, &exchange);
        } else {
            let exchange = Exchange {
                from: block_a,
                to: block_b,
                leaves: Some(leaves),
                comes,
                pad_tokens: trial.pad_tokens,
            };
            units.demand.exchange(&mut self.loads, &exchange);
        }
        self.block_attention[block_a] = trial.attention[0];
        self.block_attention[block_b] = trial.attention[1];
        self.follow(units, block_a, a);
        self.follow(units, block_b, b);
    }

    /// Trades all units of two blocks, cell for cell; `members` are the units of either.
    pub(crate) fn trade_blocks(&mut self, units: &Units, [a, b]: [usize; 2], members: [&[u32]; 2]) {
        for share in 0..units.shares() {
            let costs = [a, b].map(|block| self.row_cost(units, block, share));
            for (block, [lost, gained]) in [(a, costs), (b, [costs[1], costs[0]])] {
                let cost = &mut self.stage_cost[block % units.groups * units.shares() + share];
                *cost = *cost - lost + gained;
            }
        }
        let starts = [a, b].map(|block| units.cells_of(block).start);
        for (members, [from, to]) in members.into_iter().zip([starts, [starts[1], starts[0]]]) {
            for &unit in members {
                let cell = &mut self.cell_of[unit as usize];
                *cell = *cell - from as u32 + to as u32;
            }
        }
        for (at_a, at_b) in units.cells_of(a).zip(units.cells_of(b)) {
            self.tokens.swap(at_a, at_b);
            self.samples.swap(at_a, at_b);
            self.num_units.swap(at_a, at_b);
            for kind in 0..units.kinds {
                self.attention.swap(at_a * units.kinds + kind, at_b * units.kinds + kind);
            }
        }
        self.block_attention.swap(a, b);
        self.floor.swap(a, b);
        for share in 0..units.shares() {
            self.level.swap(a * units.shares() + share, b * units.shares() + share);
        }
        self.loads.swap_blocks(a, b);
        self.lead(units, a);
        self.lead(units, b);
    }

    fn shift_unit(&mut self, units: &Units, unit: usize, from: usize, to: usize) {
        self.cell_of[unit] = to as u32;
        let floor = units.demand.floor(unit, 0);
        let [left, entered] = [from, to].map(|cell| units.block_of[cell] as usize);
        self.floor[left] -= floor;
        self.floor[entered] += floor;
        if units.has_level() {
            for share in 0..units.shares() {
                self.level[left * units.shares() + share] -= units.level(unit, share);
                self.level[entered * units.shares() + share] += units.level(unit, share);
            }
        }
        self.tokens[from] -= units.tokens[unit];
        self.tokens[to] += units.tokens[unit];
        self.samples[from] -= units.samples[unit];
        self.samples[to] += units.samples[unit];
        self.num_units[from] -= 1;
        self.num_units[to] += 1;
        for (kind, &cost) in units.attention(unit).iter().enumerate() {
            self.attention[from * units.kinds + kind] -= cost;
            self.attention[to * units.kinds + kind] += cost;
        }
    }

    /// Brings the largest cells of a block up to date after one of its cells changed.
    #[inline]
    fn follow(&mut self, units: &Units, block: usize, cell: usize) {
        for kind in 0..units.kinds {
            let leaders = &self.leaders[block * units.kinds + kind];
            let cost = self.attention[cell * units.kinds + kind];
            let leads = leaders.cells.contains(&(cell as u32)) || leaders.cells[2] == u32::MAX;
            if leads || cost > leaders.costs[2] {
                self.lead_kind(units, block, kind);
            }
        }
    }

    /// Finds the largest cells of a block again; returns its A, or a stage's part of it.
    fn lead(&mut self, units: &Units, block: usize) -> u64 {
        units.of_stage((0..units.kinds).map(|kind| self.lead_kind(units, block, kind)).sum())
    }

    /// The same for one kind; returns the largest φ.
    fn lead_kind(&mut self, units: &Units, block: usize, kind: usize) -> u64 {
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
    use routepack_anneal::Stream;
    use routepack_problem::{check_layout, evaluate};

    use super::*;
    use crate::spread_bins::layout_of;
    use crate::support::{Recipe, recipes};
    use crate::trial::Move;

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

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        /// Trials are exact, moves keep every sum as from scratch, and what a move does not touch stays.
        #[test]
        fn incremental_is_from_scratch_after_every_move(recipe in recipes(14)) {
            let case = recipe.build();
            let (instance, placement) = (&case.instance, &case.placement);
            let units = Units::new(instance, placement, recipe.rows).expect("enough units");
            let mut grid = Grid::new(&units, units.cells_of_units(instance, &case.first));
            let mut stream = Stream::new(recipe.seed ^ 7);
            let mut trial = Trial::default();
            let count = units.num_units() as u64;
            for _ in 0..60 {
                let first = stream.below(count) as usize;
                let candidate = if stream.below(3) == 0 {
                    Move::Relocate { unit: first, cell: stream.below(units.num_cells() as u64) as usize }
                } else {
                    Move::Swap { first, second: stream.below(count) as usize }
                };
                let before = grid.clone();
                let score = grid.score(&units);
                let feasible = grid.try_move(&units, candidate, &mut trial);
                prop_assert_eq!(before.sums(), grid.sums(), "a trial changes nothing");

                // Feasible exactly if the layout it leads to is one, and another one.
                let mut cell_of = grid.cell_of.clone();
                let cells = [first, stream.below(count) as usize].map(|unit| grid.cell_of[unit]);
                let of_cells = cells[0] != cells[1] && stream.below(3) == 0;
                let feasible = if of_cells {
                    // Some units of either cell, now and then all of them, for some of the other.
                    let all = stream.below(2) == 0;
                    let sets = cells.map(|cell| -> Vec<u32> {
                        let of_cell = (0..count as u32).filter(|&unit| grid.cell_of[unit as usize] == cell);
                        of_cell.filter(|_| all || stream.below(2) == 0).collect()
                    });
                    for (set, target) in sets.iter().zip([cells[1], cells[0]]) {
                        set.iter().for_each(|&unit| cell_of[unit as usize] = target);
                    }
                    let ends = cells.map(|cell| cell as usize);
                    let [leaves, comes] = sets.each_ref().map(|set| set.iter().copied());
                    let feasible = grid.try_sets(&units, ends, leaves, comes, &mut trial);
                    if feasible {
                        grid.try_experts(&units, &mut trial);
                    }
                    if sets.iter().all(Vec::is_empty) {
                        continue;
                    }
                    feasible
                } else {
                    feasible
                };
                match candidate {
                    _ if of_cells => {}
                    Move::Relocate { unit, cell } => cell_of[unit] = cell as u32,
                    Move::Swap { first, second } => cell_of.swap(first, second),
                }
                let layout = layout_of(instance, &units, &cell_of);
                let valid = cell_of != grid.cell_of && check_layout(instance, &layout).is_ok();
                prop_assert_eq!(feasible, valid, "{:?}", candidate);
                if !feasible {
                    continue;
                }
                let evaluation = evaluate(instance, placement, &layout);
                match grid.score_after(&units, &trial, score) {
                    Some(after) => prop_assert_eq!(after, evaluation.score),
                    None => prop_assert!(evaluation.score > score),
                }
                grid.make(&units, &trial);
                prop_assert_eq!(grid.score(&units), evaluation.score);
                for shard_row in 0..evaluation.attention.len() {
                    let (block, part) = (shard_row / units.parts(), shard_row % units.parts());
                    let stages = units.demand.num_stages();
                    let shares = part * stages..(part + 1) * stages;
                    let expert = shares.clone().map(|share| units.demand.cost(&grid.loads, block, share));
                    prop_assert_eq!(expert.sum::<u64>(), evaluation.expert[shard_row]);
                    let attention = evaluation.attention[shard_row].div_ceil(stages as u64);
                    prop_assert_eq!(grid.block_attention[block], attention);
                }
                prop_assert_eq!(units.paced(&grid.stage_cost).collect::<Vec<_>>(), evaluation.shard_cost);
                if instance.paced_stages() == instance.topology().num_stages() {
                    prop_assert_eq!(&grid.stage_cost, &evaluation.stage_cost);
                }
                prop_assert_eq!(grid.sums(), Grid::new(&units, grid.cell_of.clone()).sums());

                // Shards that the move does not touch keep their cost, blocks their loads.
                let touched = trial.blocks();
                for block in (0..units.num_blocks()).filter(|block| !touched.contains(block)) {
                    prop_assert_eq!(before.block_attention[block], grid.block_attention[block]);
                    for part in 0..units.parts() {
                        for layer in 0..units.demand.num_layers() {
                            for rank in 0..units.demand.num_ranks() {
                                let load = |grid: &Grid| units.demand.load(&grid.loads, block, part, layer, rank);
                                prop_assert_eq!(load(&before), load(&grid));
                            }
                        }
                    }
                }
                let mut copy = before.clone();
                copy.clone_from(&grid);
                prop_assert_eq!(copy.sums(), grid.sums());
            }
        }
    }
}
