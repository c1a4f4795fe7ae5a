//! Making the moves of [`crate::trial`]: every sum of a grid is kept up to date.
//!
//! Symbols: a unit changes its cell; a block is one row and slot group with its cells of |`D_g`| DP slots a part; shares of a
//! block hold loads W\[l,p\] of L layers and P ranks, attention is charged apart for every kind.
//! Complexity: O(kinds·|`D_g`| + parts·L·P) a unit that changes its block.

use routepack_peaks::{Exchange, SetExchange};

use crate::grid::Grid;
use crate::trial::Trial;
use crate::units::Units;

impl Grid {
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
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use routepack_anneal::Stream;
    use routepack_problem::{check_layout, evaluate};

    use super::*;
    use crate::spread_bins::layout_of;
    use crate::support::recipes;
    use crate::trial::Move;

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
