//! What rules share: unit sizes, row multiples, units dealt to slots, bins to layouts.

use routepack_problem::{Instance, Layout};

use crate::BaselineError;
use crate::split_heaviest::split_heaviest;

/// Padded tokens of every unit.
pub(crate) fn unit_sizes(instance: &Instance, rule: &'static str) -> Result<Vec<u64>, BaselineError> {
    let grouped = instance.num_units() < instance.num_samples();
    if grouped && instance.setting().packing.max_samples.is_some() {
        return Err(BaselineError::Unsupported {
            rule,
            constraint: "max_samples together with atomic groups",
        });
    }
    Ok((0..instance.num_units()).map(|unit| instance.unit_tokens(unit)).collect())
}

/// Rows needed, at least 1 and a multiple of the trainer's.
pub(crate) fn rows_for(rows: usize, multiple: u32) -> usize {
    rows.max(1).next_multiple_of(multiple as usize)
}

/// Splits bins of the window until they fill whole rows, at least `least` of them; gives the number of rows.
pub(crate) fn fill_rows(
    instance: &Instance,
    bins: &mut Vec<Vec<u32>>,
    sizes: &[u64],
    least: usize,
    rule: &'static str,
) -> Result<usize, BaselineError> {
    let slots = instance.topology().num_slots();
    let needed = rows_for(bins.len().div_ceil(slots), instance.setting().packing.rows_multiple);
    let rows = needed.max(least);
    let cells = rows * slots;
    split_heaviest(bins, cells, sizes).map_err(|units| BaselineError::EmptyCells {
        rule,
        units,
        cells,
        place: "the window".into(),
    })?;
    Ok(rows)
}

/// Bin b as cell b, row-major.
pub(crate) fn layout_of(instance: &Instance, rows: usize, bins: &[Vec<u32>]) -> Layout {
    let mut cell_of = vec![0; instance.num_samples()];
    for (cell, bin) in bins.iter().enumerate() {
        for &unit in bin {
            for &sample in instance.unit(unit as usize) {
                cell_of[sample as usize] = cell as u32;
            }
        }
    }
    Layout::new(rows, instance.topology().num_slots(), cell_of)
}

/// Bins of every slot, `[slots][rows]`, as cells.
pub(crate) fn cells_by_slot(instance: &Instance, rows: usize, bins: &[Vec<Vec<u32>>]) -> Layout {
    let in_rows = (0..rows).flat_map(|row| bins.iter().map(move |bins| bins[row].clone()));
    layout_of(instance, rows, &in_rows.collect::<Vec<_>>())
}

/// Units of every slot: longest first, each to the slot with fewest tokens so far (lowest slot on ties).
pub(crate) fn longest_first(sizes: &[u64], slots: usize) -> Vec<Vec<u32>> {
    let mut order: Vec<u32> = (0..sizes.len() as u32).collect();
    order.sort_by_key(|&unit| std::cmp::Reverse(sizes[unit as usize]));
    let mut tokens = vec![0u64; slots];
    let mut shards = vec![Vec::new(); slots];
    for unit in order {
        let slot = (0..slots).min_by_key(|&slot| tokens[slot]).expect("at least one slot");
        tokens[slot] += sizes[unit as usize];
        shards[slot].push(unit);
    }
    shards
}
