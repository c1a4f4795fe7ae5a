//! The order of rows in a pipeline: the score does not see it, the step time does.
//!
//! Problem: one-forward-one-backward pipelines run the rows of a layout in order; give an order with a small makespan.
//! Symbols: rows by falling cost, as a layout search leaves them. While the pipeline fills and drains, stages wait for its
//! first and last rows, so these should be short: rows rise to the longest in the middle and fall again.
//! Method: that order or the given one, whichever is faster in simulation; then two rows change places wherever that is
//! faster, until no pair does or [`MOST_SWAPS`] were tried. One simulation a try; one in all with a single stage.

use routepack_problem::Layout;
use routepack_simulate::{SimulateError, StepTime};

/// Swaps of rows tried: a simulation each, and a layout search takes longer than these.
const MOST_SWAPS: usize = 64;

/// The fastest order found of a layout's rows, with its step time; the given one where none is faster.
pub(crate) fn fastest_order(
    layout: Layout,
    stages: usize,
    step_time: &dyn Fn(&Layout) -> Result<StepTime, SimulateError>,
) -> Result<(Layout, StepTime), SimulateError> {
    let time = step_time(&layout)?;
    if stages == 1 {
        return Ok((layout, time));
    }
    let risen = rise_and_fall(&layout);
    let other = step_time(&risen)?;
    let (mut best, mut time) = if other.seconds < time.seconds { (risen, other) } else { (layout, time) };
    let rows = best.num_rows();
    let pairs: Vec<_> = (0..rows).flat_map(|one| (one + 1..rows).map(move |other| (one, other))).collect();
    // Ends once every pair was tried since the last change.
    let mut unchanged = 0;
    for &(one, other) in pairs.iter().cycle().take(MOST_SWAPS) {
        if unchanged == pairs.len() {
            break;
        }
        unchanged += 1;
        let mut place: Vec<usize> = (0..rows).collect();
        place.swap(one, other);
        let swapped = in_places(&best, &place);
        let faster = step_time(&swapped)?;
        if faster.seconds < time.seconds {
            // The same pair again would only take it back.
            (best, time, unchanged) = (swapped, faster, 1);
        }
    }
    Ok((best, time))
}

/// The rows of a layout, longest first, with every second one moved behind the middle.
fn rise_and_fall(layout: &Layout) -> Layout {
    let rows = layout.num_rows();
    let rising = (0..rows).rev().step_by(2);
    let falling = (0..rows).filter(|row| (rows - 1 - row) % 2 == 1);
    let mut place = vec![0; rows];
    rising.chain(falling).enumerate().for_each(|(at, row)| place[row] = at);
    in_places(layout, &place)
}

/// The layout with every row in the place given for it.
fn in_places(layout: &Layout, place: &[usize]) -> Layout {
    let (rows, slots) = (layout.num_rows(), layout.num_slots());
    let moved = |&cell: &u32| (place[cell as usize / slots] * slots + cell as usize % slots) as u32;
    Layout::new(rows, slots, layout.cell_of().iter().map(moved).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_rise_to_the_longest_and_fall() {
        // One sample a row of two slots, in slot 1, rows by falling length.
        for (rows, order) in
            [(1, vec![0]), (2, vec![1, 0]), (5, vec![4, 2, 0, 1, 3]), (6, vec![5, 3, 1, 0, 2, 4])]
        {
            let layout = Layout::new(rows, 2, (0..rows as u32).map(|row| 2 * row + 1).collect());
            let moved = rise_and_fall(&layout);
            let mut found = vec![0; rows];
            for (row, cell) in moved.cell_of().iter().enumerate() {
                assert_eq!(cell % 2, 1, "slots stay");
                found[*cell as usize / 2] = row;
            }
            assert_eq!(found, order);
        }
    }

    #[test]
    fn rows_are_swapped_while_that_is_faster() {
        // The more rows stand where this order has them, the faster: neither of the first two orders, but swaps away.
        let wanted = [2, 0, 3, 1];
        let of = |order: &[u32]| Layout::new(order.len(), 1, order.to_vec());
        let seconds = |layout: &Layout| {
            let wrong = layout.cell_of().iter().zip(wanted).filter(|(cell, wanted)| *cell != wanted).count();
            Ok(StepTime { seconds: wrong as f64, ..StepTime::default() })
        };
        let (found, time) = fastest_order(of(&[0, 1, 2, 3]), 2, &seconds).expect("simulated");
        assert_eq!((found, time.seconds.to_bits()), (of(&wanted), 0f64.to_bits()));
        // Many rows: no more simulations than the limit.
        let asked = std::cell::Cell::new(0);
        let same = |_: &Layout| {
            asked.set(asked.get() + 1);
            Ok(StepTime::default())
        };
        fastest_order(of(&(0..50).collect::<Vec<_>>()), 2, &same).expect("simulated");
        assert_eq!(asked.get(), MOST_SWAPS + 2);
    }

    #[test]
    fn the_faster_order_is_taken_and_a_single_stage_keeps_its_own() {
        let layout = Layout::new(3, 1, vec![0, 1, 2]);
        let takes = |own: f64, other: f64| {
            let own_order = layout.clone();
            move |asked: &Layout| {
                Ok(StepTime { seconds: if *asked == own_order { own } else { other }, ..StepTime::default() })
            }
        };
        for (stages, own, other, same) in
            [(2, 3.0, 2.0, false), (2, 2.0, 3.0, true), (2, 2.0, 2.0, true), (1, 3.0, 2.0, true)]
        {
            let (found, time) = fastest_order(layout.clone(), stages, &takes(own, other)).expect("simulated");
            assert_eq!(found == layout, same);
            assert!((time.seconds - if same { own } else { other }).abs() < 1e-12);
        }
    }
}
