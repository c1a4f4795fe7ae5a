//! Seed construction `EdpAwarePair`: cells whose loads complete each other share a block.
//!
//! Problem: cells are given; cut them into blocks of |D_g| such that Σ_l Γ_l·max_p W of every block is small, and cells of
//! a block cost about the same attention.
//! Method: cells descend by attention. A block opens with the costliest cell left and takes, until it is full, that one
//! of the next [`LOOKAHEAD`]·|D_g| cells whose loads make the sum of the block's per-layer peaks grow least above its
//! share; ties go to the costlier cell.
//! Complexity: O(cells·|D_g|·parts·L·P); memory |D_g|·parts·L·P.
//! Reference: arXiv 2608.12146 (name and idea: insertion key = growth of the per-layer peaks).

use std::cmp::Reverse;

use crate::cells::place_blocks;
use crate::units::Units;

/// Cells looked at, in blocks.
const LOOKAHEAD: usize = 2;

/// The cell of every unit, after `cells` were put into blocks and rows; `None` if stopped.
pub(crate) fn edp_aware_pair(
    units: &Units,
    cells: &[Vec<u32>],
    stop: &(dyn Fn() -> bool + Sync),
) -> Option<Vec<u32>> {
    let demand = &units.demand;
    let (parts, layers, ranks) = (units.parts(), demand.num_layers(), demand.num_ranks());
    let width = parts * layers * ranks;
    let loads_of = |members: &[u32]| {
        let mut loads = vec![0u32; width];
        for &unit in members {
            let mut loads = loads.iter_mut();
            for part in 0..parts {
                for layer in 0..layers {
                    for rank in 0..ranks {
                        let load = loads.next().expect("one entry per part, layer and rank");
                        *load += demand.of(unit as usize, part, layer, rank);
                    }
                }
            }
        }
        loads
    };
    let peaks = |block: &[u32], cell: &[u32]| -> u64 {
        let per_layer = block.chunks(ranks).zip(cell.chunks(ranks));
        let costs = per_layer.enumerate().map(|(place, (block, cell))| {
            let peak = block.iter().zip(cell).map(|(a, b)| u64::from(a + b)).max().unwrap_or(0);
            demand.weight(place % layers) * peak
        });
        costs.sum()
    };
    // What the cell would add if it were perfectly balanced.
    let share: Vec<u64> = cells
        .iter()
        .map(|members| {
            let floors = members.iter().flat_map(|&unit| (0..units.shares()).map(move |share| (unit, share)));
            floors.map(|(unit, share)| demand.floor(unit as usize, share)).sum::<u64>() / ranks as u64
        })
        .collect();
    let attention: Vec<u64> = cells
        .iter()
        .map(|members| members.iter().map(|&unit| units.attention(unit as usize).iter().sum::<u64>()).sum())
        .collect();
    let mut order: Vec<usize> = (0..cells.len()).collect();
    order.sort_unstable_by_key(|&cell| (Reverse(attention[cell]), cell));
    // The cells left that are within reach, with their loads: those of all would take the room of many replicas.
    let mut left = order.into_iter();
    let mut near: Vec<(usize, Vec<u32>)> = Vec::new();
    let mut reach = |near: &mut Vec<(usize, Vec<u32>)>, count: usize| {
        let more = left.by_ref().take(count.saturating_sub(near.len()));
        near.extend(more.map(|cell| (cell, loads_of(&cells[cell]))));
    };
    let (mut blocks, mut costs) = (Vec::new(), Vec::new());
    reach(&mut near, 1);
    while !near.is_empty() {
        if stop() {
            return None;
        }
        let (first, mut sums) = near.remove(0);
        let mut block = vec![first];
        while block.len() < units.slots_per_group {
            reach(&mut near, LOOKAHEAD * units.slots_per_group);
            let growth =
                |(cell, loads): &(usize, Vec<u32>)| peaks(&sums, loads).wrapping_sub(share[*cell]) as i64;
            let best = (0..near.len())
                .min_by_key(|&place| (growth(&near[place]), place))
                .expect("cells are a multiple of the block");
            let (cell, loads) = near.remove(best);
            sums.iter_mut().zip(loads).for_each(|(sum, load)| *sum += load);
            block.push(cell);
        }
        costs.push(attention[block[0]]);
        blocks.push(block);
        reach(&mut near, 1);
    }
    Some(place_blocks(units, cells, &blocks, &costs))
}
