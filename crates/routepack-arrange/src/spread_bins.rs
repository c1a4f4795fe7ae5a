//! Seed 0: the bins of a packing as a layout.
//!
//! Problem: a certificate's witness packs all units into at most R·D bins; make a layout of R rows in which no cell is
//! empty.
//! Method: split bins until there are R·D, always the one with the most tokens; put like cells into rows
//! ([`crate::cells`]). Splitting keeps capacity and the limit of samples, so this always succeeds when there are at least
//! R·D units.
//! Complexity: O(U log U). Reference: DESIGN §1.4, step 3.

use routepack_problem::{Instance, Layout, check_layout};

use crate::ArrangeError;
use crate::cells::{into_rows, split_until};
use crate::units::Units;

/// The layout of `rows` rows made of `bins`, given as unit indices.
///
/// # Errors
/// A unit that is in no bin or in several, more bins than cells, fewer units than cells, or a bin that breaks the limits
/// of a cell.
pub fn spread_bins(instance: &Instance, bins: &[Vec<u32>], rows: usize) -> Result<Layout, ArrangeError> {
    let units = Units::without_demand(instance, rows)?;
    let mut times = vec![0usize; units.num_units()];
    for &unit in bins.iter().flatten() {
        match times.get_mut(unit as usize) {
            Some(times) => *times += 1,
            None => return Err(ArrangeError::NoSuchUnit { unit, units: units.num_units() }),
        }
    }
    if let Some(unit) = times.iter().position(|&times| times != 1) {
        return Err(ArrangeError::Coverage { unit, times: times[unit] });
    }
    let mut cells = bins.to_vec();
    cells.retain(|bin| !bin.is_empty());
    if cells.len() > units.num_cells() {
        return Err(ArrangeError::TooManyBins {
            bins: cells.len(),
            rows,
            slots: units.slots,
            cells: units.num_cells(),
        });
    }
    split_until(&units, &mut cells, units.num_cells());
    let layout = layout_of(instance, &units, &into_rows(&units, &cells));
    check_layout(instance, &layout)?;
    Ok(layout)
}

/// The layout with unit u in cell `cell_of[u]`.
pub(crate) fn layout_of(instance: &Instance, units: &Units, cell_of: &[u32]) -> Layout {
    let mut cell_of_sample = vec![0; instance.num_samples()];
    for (unit, &cell) in cell_of.iter().enumerate() {
        for &sample in instance.unit(unit) {
            cell_of_sample[sample as usize] = cell;
        }
    }
    Layout::new(units.rows, units.slots, cell_of_sample)
}
