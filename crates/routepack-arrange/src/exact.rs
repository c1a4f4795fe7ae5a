//! The optimum of tiny cases: branch and bound over all layouts.
//!
//! Problem: least score over all layouts with R rows; for a handful of units.
//! Method: units, longest first, go to every cell that can take them; of slot groups, rows of a group and cells of a block
//! that are still empty only the first is tried, since they differ in name alone, and of units alike in everything the next
//! goes to no earlier cell than the one before (the least assignment in lexicographic order obeys both rules). A partial layout is given up when its
//! own score, without padding, is no better than the best: every component of the score only grows with more units, and none
//! is below that of an even window; or when
//! cells that no unit left fits into leave more room than there is to spare.
//! Complete layouts are judged by [`routepack_problem::evaluate`], so nothing incremental is trusted.
//! The search ends with it where the windows are small, from the best layout found, as long as its nodes last.
//! Complexity: at worst (R·D)^U / symmetries; meant for U ≤ 12 in a few cells, more where cells are nearly full.
//! Reference: A. H. Land and A. G. Doig, Econometrica 28(3), 1960, doi 10.2307/1910129.

use routepack_problem::{Instance, Layout, Placement, RankDemand, Score, evaluate, project};

use crate::ArrangeError;
use crate::even::Even;
use crate::spread_bins::layout_of;
use crate::units::Units;

/// Nodes between two looks at `stop`.
const BETWEEN_LOOKS: u64 = 256;

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
    let mut nodes = u64::MAX;
    Ok(search_tree(instance, placement, &units, None, &mut nodes, &|| false))
}

/// Searches the tree for a layout better than `incumbent`, through at most `nodes` nodes, which it takes from them: the
/// best layout known then, the optimum if any nodes are left and it was not stopped.
pub(crate) fn search_tree(
    instance: &Instance,
    placement: &Placement,
    units: &Units,
    incumbent: Option<(Layout, Score)>,
    nodes: &mut u64,
    stop: &(dyn Fn() -> bool + Sync),
) -> Option<(Layout, Score)> {
    let mut order: Vec<usize> = (0..units.num_units()).collect();
    order.sort_by_key(|&unit| (std::cmp::Reverse(units.tokens[unit]), unit));
    let demand = project(instance, placement);
    let mut twins = vec![false];
    twins.extend(order.windows(2).map(|pair| are_twins(instance, units, &demand, [pair[0], pair[1]])));
    let mut tree = Tree {
        instance,
        placement,
        even: Even::new(instance, units, |unit, part, layer, rank| {
            let of_sample = |&sample: &u32| u64::from(demand.of(sample as usize, part, layer)[rank]);
            instance.unit(unit).iter().map(of_sample).sum()
        }),
        demand,
        twins,
        cell_of: vec![u32::MAX; order.len()],
        members: vec![Vec::new(); units.num_cells()],
        units,
        order,
        best: incumbent,
        nodes: *nodes,
        stop,
    };
    tree.branch(0);
    *nodes = tree.nodes;
    tree.best
}

/// Whether two units are one sample each and alike in everything that is charged or limited.
fn are_twins(instance: &Instance, units: &Units, demand: &RankDemand, pair: [usize; 2]) -> bool {
    let [a, b] = pair;
    let ([first], [second]) = (instance.unit(a), instance.unit(b)) else { return false };
    let rows = |sample: u32, part, layer| demand.of(sample as usize, part, layer);
    units.tokens[a] == units.tokens[b]
        && units.pads[a] == units.pads[b]
        && units.attention(a) == units.attention(b)
        && (0..instance.topology().num_parts()).all(|part| {
            (0..demand.layers()).all(|layer| rows(*first, part, layer) == rows(*second, part, layer))
        })
}

struct Tree<'a> {
    instance: &'a Instance,
    placement: &'a Placement,
    demand: RankDemand,
    even: Even,
    /// By depth, whether the unit is a twin of the one before it.
    twins: Vec<bool>,
    units: &'a Units,
    order: Vec<usize>,
    cell_of: Vec<u32>,
    /// Units of every cell.
    members: Vec<Vec<usize>>,
    best: Option<(Layout, Score)>,
    /// Nodes left; 0 as soon as it is stopped.
    nodes: u64,
    stop: &'a (dyn Fn() -> bool + Sync),
}

impl Tree<'_> {
    fn branch(&mut self, depth: usize) {
        self.nodes =
            if self.nodes % BETWEEN_LOOKS == 1 && (self.stop)() { 0 } else { self.nodes.saturating_sub(1) };
        if self.nodes == 0 {
            return;
        }
        let empty = self.members.iter().filter(|cell| cell.is_empty()).count();
        if self.order.len() - depth < empty || self.wastes_too_much(depth) {
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
        let first = if self.twins[depth] { self.cell_of[self.order[depth - 1]] as usize } else { 0 };
        for cell in first..self.units.num_cells() {
            if self.takes(cell, unit) && !self.repeats(cell) {
                self.cell_of[unit] = cell as u32;
                self.members[cell].push(unit);
                self.branch(depth + 1);
                self.members[cell].pop();
            }
        }
    }

    /// Whether cells that no unit left fits into have more room than a layout can leave empty.
    fn wastes_too_much(&self, depth: usize) -> bool {
        let Some(&least) = self.order.get(depth..).and_then(<[usize]>::last) else { return false };
        let units = self.units;
        let wasted = self.members.iter().map(|members| {
            let room = units.capacity - members.iter().map(|&unit| units.tokens[unit]).sum::<u32>();
            if room < units.tokens[least] { u64::from(room) } else { 0 }
        });
        let taken: u64 = units.tokens.iter().map(|&tokens| u64::from(tokens)).sum();
        wasted.sum::<u64>() + taken > units.num_cells() as u64 * u64::from(units.capacity)
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

    /// Lower bounds on the score of any layout that completes the present one: its own score, without padding tokens, but
    /// at least what the whole window costs where every row-group is even ([`Even`]).
    fn partial_score(&self) -> Score {
        let units = self.units;
        let (parts, kinds) = (self.instance.topology().num_parts(), units.kinds);
        let (layers, ranks) = (self.demand.layers(), self.demand.ranks());
        let stages = self.instance.paced_stages();
        let mut costs = vec![0u64; units.groups * parts * stages];
        let mut worst_row = 0;
        let (mut of_kinds, mut of_layers) = (vec![0u64; kinds], vec![0u64; parts * layers]);
        let mut loads = vec![0u64; ranks];
        for block in 0..units.num_blocks() {
            let mut attention = 0;
            for (kind, sum) in of_kinds.iter_mut().enumerate() {
                let cells = units.cells_of(block).map(|cell| {
                    self.members[cell].iter().map(|&unit| units.attention(unit)[kind]).sum::<u64>()
                });
                let largest = cells.max().unwrap_or(0);
                *sum += largest;
                attention += largest;
            }
            for part in 0..parts {
                let mut row = vec![attention.div_ceil(stages as u64); stages];
                for layer in 0..layers {
                    loads.fill(0);
                    for &unit in units.cells_of(block).flat_map(|cell| &self.members[cell]) {
                        for &sample in self.instance.unit(unit) {
                            let rows = self.demand.of(sample as usize, part, layer);
                            loads.iter_mut().zip(rows).for_each(|(load, &rows)| *load += u64::from(rows));
                        }
                    }
                    let peak = loads.iter().copied().max().unwrap_or(0);
                    of_layers[part * layers + layer] += peak;
                    row[self.instance.paced_stage(layer)] += self.instance.charges().expert()[layer] * peak;
                }
                let shard = block % units.groups * parts + part;
                for (sum, cost) in costs[shard * stages..].iter_mut().zip(row) {
                    *sum += cost;
                    worst_row = worst_row.max(cost);
                }
            }
        }
        let even = self.even.totals(self.instance, &of_kinds, &of_layers);
        let shards = costs.chunks(stages).map(|stages| stages.iter().copied().max().unwrap_or(0));
        let slowest = even.iter().map(|total| total.div_ceil(units.groups as u64)).max().unwrap_or(0);
        Score {
            worst_shard: shards.clone().fold(slowest, u64::max),
            total: shards.sum::<u64>().max(even.iter().sum()),
            worst_row,
        }
    }
}
