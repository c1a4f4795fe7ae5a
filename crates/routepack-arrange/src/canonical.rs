//! Canonical form: one representative of all layouts that differ only in names.
//!
//! Slot groups, the rows of one slot group, and the DP slots of one block may be permuted without a change of the score,
//! since every sum is over them. In canonical form the groups ascend by their first unit, the rows of a group descend by
//! cost (so that rows of different groups are alike, and the heaviest micro-batch runs first), and the slots of a block
//! ascend by their first unit.
//! Complexity: O(U + cells·log cells).

use std::cmp::Reverse;

use crate::grid::Grid;
use crate::units::Units;

/// The cell of every unit in the canonical form of a grid.
pub(crate) fn canonical(units: &Units, grid: &Grid) -> Vec<u32> {
    let mut first_of_cell = vec![u32::MAX; units.num_cells()];
    for (unit, &cell) in grid.cell_of.iter().enumerate() {
        let first = &mut first_of_cell[cell as usize];
        *first = (*first).min(unit as u32);
    }
    let first_of_block = |block: usize| units.cells_of(block).map(|cell| first_of_cell[cell]).min();
    let cost =
        |block: usize| -> u64 { (0..units.shares()).map(|share| grid.row_cost(units, block, share)).sum() };
    let blocks_of = |group: usize| (0..units.rows).map(move |row| row * units.groups + group);

    let mut groups: Vec<usize> = (0..units.groups).collect();
    groups.sort_by_key(|&group| blocks_of(group).map(first_of_block).min());
    let mut name_of_cell = vec![0u32; units.num_cells()];
    for (new_group, &group) in groups.iter().enumerate() {
        let mut blocks: Vec<usize> = blocks_of(group).collect();
        blocks.sort_by_key(|&block| (Reverse(cost(block)), first_of_block(block)));
        for (new_row, &block) in blocks.iter().enumerate() {
            let mut cells: Vec<usize> = units.cells_of(block).collect();
            cells.sort_by_key(|&cell| first_of_cell[cell]);
            for (cell, name) in cells.into_iter().zip(units.cells_of(new_row * units.groups + new_group)) {
                name_of_cell[cell] = name as u32;
            }
        }
    }
    grid.cell_of.iter().map(|&cell| name_of_cell[cell as usize]).collect()
}
