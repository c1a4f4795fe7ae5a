//! The order of rows in a pipeline: the score does not see it, the step time does.
//!
//! Problem: one-forward-one-backward pipelines run the rows of a layout in order; give an order with a small makespan.
//! Symbols: rows by falling time. While the pipeline fills and drains, stages wait for its first and last rows, so these
//! should be short: rows rise to the longest in the middle and fall again.
//! Method: that order or the given one, whichever is faster in simulation; then two rows change places wherever that is
//! faster, until no pair does, [`MOST_SWAPS`] were tried or there is no more time. Rows are timed once, and every try is a
//! makespan; one in all with a single stage.
//! Complexity: at most [`MOST_SWAPS`] + 2 makespans.
//! Reference: swaps as in local search for flow shops: E. Taillard, European J. of Operational Research 47 (1990),
//! doi:10.1016/0377-2217(90)90090-X.

use routepack_problem::Layout;
use routepack_simulate::{RowTimes, StepTime};

/// Swaps of rows tried: a makespan each, and a layout search takes longer than these.
const MOST_SWAPS: usize = 64;

/// A layout with its rows in the fastest order found.
pub(crate) struct Ordered {
    pub(crate) layout: Layout,
    /// Its step time.
    pub(crate) time: StepTime,
    /// Whether the search ended by itself.
    pub(crate) finished: bool,
}

/// Orders the rows of a layout, timed as `times`, over so many stages; as they stand where nothing is faster.
pub(crate) fn order_rows(
    layout: &Layout,
    times: &RowTimes,
    stages: usize,
    stop: &dyn Fn() -> bool,
) -> Ordered {
    let step_time = |order: &[usize]| times.step_time(order);
    let (order, time, finished) = fastest_order(&times.longest_first(), stages, &step_time, stop);
    Ordered { layout: in_order(layout, &order), time, finished }
}

/// The fastest order found of rows that are given `falling`, with its step time, and whether the search ended by itself.
fn fastest_order(
    falling: &[usize],
    stages: usize,
    step_time: &dyn Fn(&[usize]) -> StepTime,
    stop: &dyn Fn() -> bool,
) -> (Vec<usize>, StepTime, bool) {
    let rows = falling.len();
    let given: Vec<usize> = (0..rows).collect();
    let time = step_time(&given);
    if stages == 1 {
        return (given, time, true);
    }
    let risen = rise_and_fall(falling);
    let other = step_time(&risen);
    let (mut best, mut time) = if other.seconds < time.seconds { (risen, other) } else { (given, time) };
    let pairs = (0..rows).flat_map(|one| (one + 1..rows).map(move |other| (one, other)));
    let num_pairs = rows * rows.saturating_sub(1) / 2;
    // Ends once every pair was tried since the last change.
    let mut unchanged = 0;
    for (one, other) in pairs.cycle().take(MOST_SWAPS) {
        if unchanged == num_pairs {
            break;
        }
        if stop() {
            return (best, time, false);
        }
        unchanged += 1;
        let mut swapped = best.clone();
        swapped.swap(one, other);
        let faster = step_time(&swapped);
        if faster.seconds < time.seconds {
            // The same pair again would only take it back.
            (best, time, unchanged) = (swapped, faster, 1);
        }
    }
    (best, time, true)
}

/// The rows, given longest first, with every second one moved behind the middle.
fn rise_and_fall(falling: &[usize]) -> Vec<usize> {
    let rows = falling.len();
    let rising = (0..rows).rev().step_by(2);
    let sinking = (0..rows).filter(|row| (rows - 1 - row) % 2 == 1);
    rising.chain(sinking).map(|at| falling[at]).collect()
}

/// The layout with row `order[k]` in place k.
fn in_order(layout: &Layout, order: &[usize]) -> Layout {
    let (rows, slots) = (layout.num_rows(), layout.num_slots());
    let mut place = vec![0; rows];
    order.iter().enumerate().for_each(|(at, &row)| place[row] = at);
    let moved = |&cell: &u32| (place[cell as usize / slots] * slots + cell as usize % slots) as u32;
    Layout::new(rows, slots, layout.cell_of().iter().map(moved).collect())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn lasting(seconds: f64) -> StepTime {
        StepTime { seconds, ..StepTime::default() }
    }

    #[test]
    fn rows_rise_to_the_longest_and_fall() {
        for (rows, order) in
            [(1, vec![0]), (2, vec![1, 0]), (5, vec![4, 2, 0, 1, 3]), (6, vec![5, 3, 1, 0, 2, 4])]
        {
            assert_eq!(rise_and_fall(&(0..rows).collect::<Vec<_>>()), order);
        }
        assert_eq!(rise_and_fall(&[7, 5, 9]), [9, 7, 5]);
        // One sample a row of two slots, in slot 1.
        let moved = in_order(&Layout::new(3, 2, vec![1, 3, 5]), &[2, 0, 1]);
        assert_eq!(moved.cell_of(), [3, 5, 1], "row 2 stands first, and slots stay");
    }

    #[test]
    fn rows_are_swapped_while_that_is_faster() {
        // The more rows stand where this order has them, the faster: neither of the first two orders, but swaps away.
        let wanted = [1, 3, 0, 2];
        let seconds = |order: &[usize]| {
            lasting(order.iter().zip(wanted).filter(|(row, wanted)| *row != wanted).count() as f64)
        };
        let (found, time, finished) = fastest_order(&[0, 1, 2, 3], 2, &seconds, &|| false);
        assert_eq!((&found[..], time.seconds.to_bits(), finished), (&wanted[..], 0f64.to_bits(), true));
        // Many rows: no more tries than the limit.
        let asked = Cell::new(0);
        let same = |_: &[usize]| {
            asked.set(asked.get() + 1);
            StepTime::default()
        };
        fastest_order(&(0..50).collect::<Vec<_>>(), 2, &same, &|| false);
        assert_eq!(asked.get(), MOST_SWAPS + 2);
    }

    #[test]
    fn a_stop_is_heard_between_tries_and_what_was_found_is_kept() {
        let falling: Vec<usize> = (0..12).collect();
        for tries in 0..8 {
            let asked = Cell::new(0);
            // Every try is faster than all before.
            let faster = |_: &[usize]| {
                asked.set(asked.get() + 1);
                lasting(f64::from(100 - asked.get()))
            };
            let (_, time, finished) = fastest_order(&falling, 2, &faster, &|| asked.get() >= 2 + tries);
            assert_eq!((asked.get(), finished), (2 + tries, false));
            assert_eq!(time.seconds.to_bits(), f64::from(100 - (2 + tries)).to_bits());
        }
    }

    #[test]
    fn the_faster_order_is_taken_and_a_single_stage_keeps_its_own() {
        for (stages, own, other, same) in
            [(2, 3.0, 2.0, false), (2, 2.0, 3.0, true), (2, 2.0, 2.0, true), (1, 3.0, 2.0, true)]
        {
            let seconds = |order: &[usize]| lasting(if order.is_sorted() { own } else { other });
            let (found, time, finished) = fastest_order(&[0, 1, 2], stages, &seconds, &|| false);
            assert!(finished && found.is_sorted() == same);
            assert!((time.seconds - if same { own } else { other }).abs() < 1e-12);
        }
    }
}
