//! From bins to a grid: cells filled by whatever construction are put into rows.
//!
//! Problem: R·D sets of units, each one cell's worth; which row and slot does each get?
//! Method: attention charges a block its costliest cell, so cells of like cost belong together: cells descend by Σ_s φ,
//! each |D_g| in a row make a block, and blocks go one by one to the slot group with the least cost so far that has a row
//! left. What a block costs here is attention alone; the search sees to the experts.
//! Complexity: O(cells·(log cells + groups)).

use crate::units::Units;

/// Units of every cell, in no particular order.
pub(crate) type Cells = Vec<Vec<u32>>;

/// The cell of every unit, after `cells` were put into rows.
pub(crate) fn into_rows(units: &Units, cells: &[Vec<u32>]) -> Vec<u32> {
    let cost = |cell: &[u32]| -> u64 {
        cell.iter().map(|&unit| units.attention(unit as usize).iter().sum::<u64>()).sum()
    };
    let mut order: Vec<(u64, usize)> =
        cells.iter().enumerate().map(|(cell, members)| (cost(members), cell)).collect();
    order.sort_unstable_by_key(|&(cost, cell)| (std::cmp::Reverse(cost), cell));
    let blocks: Vec<Vec<usize>> = order
        .chunks(units.slots_per_group)
        .map(|block| block.iter().map(|&(_, cell)| cell).collect())
        .collect();
    let costs: Vec<u64> = order.chunks(units.slots_per_group).map(|block| block[0].0).collect();
    place_blocks(units, cells, &blocks, &costs)
}

/// The cell of every unit, given which cells make which block and what each block costs, costliest first.
pub(crate) fn place_blocks(
    units: &Units,
    cells: &[Vec<u32>],
    blocks: &[Vec<usize>],
    costs: &[u64],
) -> Vec<u32> {
    let mut cell_of = vec![0; units.num_units()];
    let mut filled = vec![(0u64, 0usize); units.groups];
    for (block, &cost) in blocks.iter().zip(costs) {
        let group = (0..units.groups)
            .filter(|&group| filled[group].1 < units.rows)
            .min_by_key(|&group| (filled[group].0, group))
            .expect("as many blocks as rows × groups");
        let row = filled[group].1;
        filled[group] = (filled[group].0 + cost, row + 1);
        for (&cell, target) in block.iter().zip(units.cells_of(row * units.groups + group)) {
            for &unit in &cells[cell] {
                cell_of[unit as usize] = target as u32;
            }
        }
    }
    cell_of
}

/// Splits cells of several units until there are `count`, always the one with the most tokens, its units dealt one by
/// one, longest first, to the half with fewer tokens. There must be as many units as cells wanted.
pub(crate) fn split_until(units: &Units, cells: &mut Cells, count: usize) {
    cells.retain(|cell| !cell.is_empty());
    let tokens =
        |cell: &[u32]| -> u64 { cell.iter().map(|&unit| u64::from(units.tokens[unit as usize])).sum() };
    let mut heap: std::collections::BinaryHeap<(u64, std::cmp::Reverse<usize>)> = cells
        .iter()
        .enumerate()
        .filter(|(_, cell)| cell.len() > 1)
        .map(|(index, cell)| (tokens(cell), std::cmp::Reverse(index)))
        .collect();
    while cells.len() < count {
        let (_, std::cmp::Reverse(index)) = heap.pop().expect("more units than cells");
        let mut whole = std::mem::take(&mut cells[index]);
        whole.sort_unstable_by_key(|&unit| (std::cmp::Reverse(units.tokens[unit as usize]), unit));
        let mut halves = [(0u64, Vec::new()), (0u64, Vec::new())];
        for unit in whole {
            let half = usize::from(halves[1].0 < halves[0].0);
            halves[half].0 += u64::from(units.tokens[unit as usize]);
            halves[half].1.push(unit);
        }
        let [(first, stays), (second, goes)] = halves;
        for (tokens, half, at) in [(first, &stays, index), (second, &goes, cells.len())] {
            if half.len() > 1 {
                heap.push((tokens, std::cmp::Reverse(at)));
            }
        }
        cells[index] = stays;
        cells.push(goes);
    }
}
