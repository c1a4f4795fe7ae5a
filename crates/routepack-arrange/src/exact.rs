//! The optimum of tiny cases: branch and bound over all layouts.
//!
//! Problem: least score over all layouts with R rows; for a handful of units.
//! Method: units, longest first, go to every cell that can take them; of slot groups, rows of a group and cells of a block
//! that are still empty only the first is tried, since they differ in name alone. A partial layout is given up when its
//! own score, without padding, is no better than the best: every component of the score only grows with more units.
//! Complete layouts are judged by [`routepack_problem::evaluate`], so nothing incremental is trusted.
//! Complexity: at worst (R·D)^U / symmetries; meant for U ≤ 12 in a few cells.
//! Reference: A. H. Land and A. G. Doig, Econometrica 28(3), 1960, doi 10.2307/1910129.

use routepack_problem::{Instance, Layout, Placement, RankDemand, Score, evaluate, project};

use crate::ArrangeError;
use crate::spread_bins::layout_of;
use crate::units::Units;

/// Finds a layout of least score with `rows` rows; `None` if there is no layout at all.
///
/// # Errors
/// Fewer units than cells.
pub fn arrange_exactly(
    instance: &Instance,
    placement: &Placement,
    rows: usize,
) -> Result<Option<(Layout, Score)>, ArrangeError> {
    let units = Units::without_demand(instance, rows)?;
    let mut order: Vec<usize> = (0..units.num_units()).collect();
    order.sort_by_key(|&unit| (std::cmp::Reverse(units.tokens[unit]), unit));
    let mut tree = Tree {
        instance,
        placement,
        demand: project(instance, placement),
        cell_of: vec![u32::MAX; order.len()],
        members: vec![Vec::new(); units.num_cells()],
        units: &units,
        order,
        best: None,
    };
    tree.branch(0);
    Ok(tree.best)
}

struct Tree<'a> {
    instance: &'a Instance,
    placement: &'a Placement,
    demand: RankDemand,
    units: &'a Units,
    order: Vec<usize>,
    cell_of: Vec<u32>,
    /// Units of every cell.
    members: Vec<Vec<usize>>,
    best: Option<(Layout, Score)>,
}

impl Tree<'_> {
    fn branch(&mut self, depth: usize) {
        let empty = self.members.iter().filter(|cell| cell.is_empty()).count();
        if self.order.len() - depth < empty {
            return;
        }
        if self.best.as_ref().is_some_and(|(_, best)| self.partial_score() >= *best) {
            return;
        }
        let Some(&unit) = self.order.get(depth) else {
            let layout = layout_of(self.instance, self.units, &self.cell_of);
            let score = evaluate(self.instance, self.placement, &layout).score;
            if self.best.as_ref().is_none_or(|(_, best)| score < *best) {
                self.best = Some((layout, score));
            }
            return;
        };
        for cell in 0..self.units.num_cells() {
            if self.takes(cell, unit) && !self.repeats(cell) {
                self.cell_of[unit] = cell as u32;
                self.members[cell].push(unit);
                self.branch(depth + 1);
                self.members[cell].pop();
            }
        }
    }

    fn takes(&self, cell: usize, unit: usize) -> bool {
        let units = self.units;
        let tokens: u32 = self.members[cell].iter().map(|&unit| units.tokens[unit]).sum();
        let samples: u32 = self.members[cell].iter().map(|&unit| units.samples[unit]).sum();
        tokens + units.tokens[unit] <= units.capacity && samples + units.samples[unit] <= units.max_samples
    }

    /// Whether this empty cell differs from an earlier one in name alone.
    fn repeats(&self, cell: usize) -> bool {
        let units = self.units;
        if !self.members[cell].is_empty() {
            return false;
        }
        let is_empty = |block: usize| units.cells_of(block).all(|cell| self.members[cell].is_empty());
        let block = units.block_of[cell] as usize;
        if units.cells_of(block).take_while(|&other| other < cell).any(|other| self.members[other].is_empty())
        {
            return true;
        }
        let (row, group) = (block / units.groups, block % units.groups);
        if !is_empty(block) {
            return false;
        }
        let group_is_empty = |group: usize| (0..units.rows).all(|row| is_empty(row * units.groups + group));
        (0..row).any(|earlier| is_empty(earlier * units.groups + group))
            || group_is_empty(group) && (0..group).any(group_is_empty)
    }

    /// The score of the units placed so far, without padding tokens.
    fn partial_score(&self) -> Score {
        let (units, charges) = (self.units, self.instance.charges());
        let (parts, layers, ranks) =
            (self.instance.topology().num_parts(), self.demand.layers(), self.demand.ranks());
        let mut shards = vec![0u64; units.groups * parts];
        let mut worst_row = 0;
        for block in 0..units.num_blocks() {
            let attention: u64 = (0..units.kinds)
                .map(|kind| {
                    let cells = units.cells_of(block).map(|cell| {
                        self.members[cell].iter().map(|&unit| units.attention(unit)[kind]).sum::<u64>()
                    });
                    cells.max().unwrap_or(0)
                })
                .sum();
            for part in 0..parts {
                let mut expert = 0;
                for layer in 0..layers {
                    let mut loads = vec![0u64; ranks];
                    for &unit in units.cells_of(block).flat_map(|cell| &self.members[cell]) {
                        for &sample in self.instance.unit(unit) {
                            for (load, &rows) in
                                loads.iter_mut().zip(self.demand.of(sample as usize, part, layer))
                            {
                                *load += u64::from(rows);
                            }
                        }
                    }
                    expert += charges.expert()[layer] * loads.into_iter().max().unwrap_or(0);
                }
                shards[block % units.groups * parts + part] += attention + expert;
                worst_row = worst_row.max(attention + expert);
            }
        }
        Score {
            worst_shard: shards.iter().copied().max().unwrap_or(0),
            total: shards.iter().sum(),
            worst_row,
        }
    }
}
