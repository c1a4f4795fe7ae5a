//! Layout: every sample in exactly one cell of the R×D grid.

use crate::{Instance, LayoutError};

/// Samples → cells: cell r·D + d is the micro-batch of DP slot d in row r (DESIGN §1.2).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    rows: u32,
    slots: u32,
    cell_of: Vec<u32>,
}

impl Layout {
    /// The layout that puts sample i into cell `cell_of[i]` of `rows` × `slots` cells.
    pub fn new(rows: usize, slots: usize, cell_of: Vec<u32>) -> Self {
        Self { rows: rows as u32, slots: slots as u32, cell_of }
    }

    /// The layout with the given samples per cell, cells in row-major order `[rows · slots]`.
    ///
    /// # Errors
    /// A sample that occurs in no cell or in several.
    pub fn from_cells(
        rows: usize,
        slots: usize,
        num_samples: usize,
        cells: &[Vec<u32>],
    ) -> Result<Self, LayoutError> {
        if cells.len() != rows * slots {
            return Err(LayoutError::Size { what: "cells", found: cells.len(), expected: rows * slots });
        }
        let mut cell_of = vec![u32::MAX; num_samples];
        let mut times = vec![0usize; num_samples];
        for (cell, samples) in cells.iter().enumerate() {
            for &sample in samples {
                let Some(entry) = cell_of.get_mut(sample as usize) else {
                    return Err(LayoutError::Size {
                        what: "samples",
                        found: sample as usize + 1,
                        expected: num_samples,
                    });
                };
                *entry = cell as u32;
                times[sample as usize] += 1;
            }
        }
        match times.iter().position(|&times| times != 1) {
            Some(sample) => Err(LayoutError::Coverage { sample, times: times[sample] }),
            None => Ok(Self::new(rows, slots, cell_of)),
        }
    }

    /// Rows R.
    pub fn num_rows(&self) -> usize {
        self.rows as usize
    }

    /// DP slots D.
    pub fn num_slots(&self) -> usize {
        self.slots as usize
    }

    /// Cells R·D.
    pub fn num_cells(&self) -> usize {
        self.num_rows() * self.num_slots()
    }

    /// Cell of every sample, `[samples]`.
    pub fn cell_of(&self) -> &[u32] {
        &self.cell_of
    }

    /// Samples of every cell in input order, `[rows · slots][…]`.
    pub fn cells(&self) -> Vec<Vec<u32>> {
        let mut cells = vec![Vec::new(); self.num_cells()];
        for (sample, &cell) in self.cell_of.iter().enumerate() {
            cells[cell as usize].push(sample as u32);
        }
        cells
    }
}

/// Checks coverage, capacity, non-empty cells, samples per cell, atomic groups and the rows multiple.
///
/// Equal micro-batch counts hold by construction: every slot has R cells and none is empty.
///
/// # Errors
/// The first violation, with its place, value and limit.
pub fn check_layout(instance: &Instance, layout: &Layout) -> Result<(), LayoutError> {
    let slots = instance.topology().num_slots();
    for (what, found, expected) in
        [("DP slots", layout.num_slots(), slots), ("samples", layout.cell_of().len(), instance.num_samples())]
    {
        if found != expected {
            return Err(LayoutError::Size { what, found, expected });
        }
    }
    let multiple = instance.setting().packing.rows_multiple;
    if layout.rows == 0 || !layout.rows.is_multiple_of(multiple) {
        return Err(LayoutError::RowsMultiple { rows: layout.rows, multiple });
    }
    let cells = layout.num_cells();
    let (mut tokens, mut samples) = (vec![0u64; cells], vec![0usize; cells]);
    for (sample, &cell) in layout.cell_of().iter().enumerate() {
        if cell as usize >= cells {
            return Err(LayoutError::NoSuchCell { sample, cell, cells });
        }
        tokens[cell as usize] += u64::from(instance.padded_length(sample));
        samples[cell as usize] += 1;
    }
    for unit in 0..instance.num_units() {
        let members = instance.unit(unit);
        let first = layout.cell_of()[members[0] as usize];
        for &sample in members {
            let second = layout.cell_of()[sample as usize];
            if second != first {
                return Err(LayoutError::SplitGroup { sample: sample as usize, first, second });
            }
        }
    }
    let capacity = instance.cell_capacity();
    let limit = instance.setting().packing.max_samples;
    for cell in 0..cells {
        let (row, slot) = ((cell / slots) as u32, (cell % slots) as u32);
        if samples[cell] == 0 {
            return Err(LayoutError::EmptyCell { row, slot });
        }
        if tokens[cell] > u64::from(capacity) {
            return Err(LayoutError::OverCapacity { row, slot, tokens: tokens[cell], capacity });
        }
        if let Some(limit) = limit.filter(|&limit| samples[cell] > limit as usize) {
            return Err(LayoutError::TooManySamples { row, slot, samples: samples[cell], limit });
        }
    }
    Ok(())
}
