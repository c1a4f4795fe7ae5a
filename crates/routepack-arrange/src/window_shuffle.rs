//! Seed construction `WindowShuffle`: length-descending order, perturbed.
//!
//! Problem: fill R·D cells with units, nearly level, differently for every draw.
//! Method: units descend by tokens; the order is shuffled within consecutive windows of [`WINDOW`] units; each unit goes
//! to the cell with the fewest tokens that has room. Fails where slack is small: then `None`.
//! Complexity: O(U·(log U + log cells)).
//! Reference: arXiv 2608.12146 (name and idea); levelling is LPT, R. L. Graham, SIAM J. Appl. Math. 17(2), 1969, doi
//! 10.1137/0117039.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use routepack_anneal::Stream;

use crate::cells::Cells;
use crate::units::Units;

/// Units shuffled among each other.
const WINDOW: usize = 8;

/// The units by tokens, descending, each window of `width` shuffled.
pub(crate) fn shuffled_order(units: &Units, width: usize, stream: &mut Stream) -> Vec<u32> {
    let mut order: Vec<u32> = (0..units.num_units() as u32).collect();
    order.sort_unstable_by_key(|&unit| (Reverse(units.tokens[unit as usize]), unit));
    for window in order.chunks_mut(width.max(1)) {
        stream.shuffle(window);
    }
    order
}

/// Cells filled level; `None` if a unit finds no room or a cell stays empty.
pub(crate) fn window_shuffle(units: &Units, stream: &mut Stream) -> Option<Cells> {
    let order = shuffled_order(units, WINDOW, stream);
    let mut cells: Cells = vec![Vec::new(); units.num_cells()];
    let mut samples = vec![0u32; units.num_cells()];
    let mut heap: BinaryHeap<(Reverse<u64>, Reverse<usize>)> =
        (0..units.num_cells()).map(|cell| (Reverse(0), Reverse(cell))).collect();
    for unit in order {
        let (tokens, of_unit) = (u64::from(units.tokens[unit as usize]), units.samples[unit as usize]);
        // Cells without room for more samples leave the heap for good: units of one sample are the rule.
        loop {
            let (Reverse(filled), Reverse(cell)) = heap.pop()?;
            if filled + tokens > u64::from(units.capacity) {
                return None;
            }
            if samples[cell] + of_unit <= units.max_samples {
                samples[cell] += of_unit;
                cells[cell].push(unit);
                heap.push((Reverse(filled + tokens), Reverse(cell)));
                break;
            }
        }
    }
    cells.iter().all(|cell| !cell.is_empty()).then_some(cells)
}
