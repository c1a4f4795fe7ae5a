//! The head of the temperature ladder, measured.
//!
//! Problem: a move of a window with many units changes the cost by parts in a thousand, one of a window with ten units by
//! a tenth; find the temperature at which random swaps that raise the energy are accepted with a given mean probability.
//! Method: the changes of [`SAMPLES`] random feasible swaps between blocks, from the starting states in turn; then bisection
//! on ln T, as the mean acceptance grows with T.
//! Complexity: O(SAMPLES·L·P). Reference: W. Ben-Ameur, Comput. Optim. Appl. 29, 2004, doi
//! 10.1023/B:COAP.0000044187.23143.bd.

use routepack_anneal::elementary::{exp, ln};
use routepack_anneal::{Stream, System};

use crate::state::LayoutState;
use crate::system::LayoutSystem;

/// Changes sampled.
const SAMPLES: usize = 1024;
/// Halvings of the interval.
const HALVINGS: usize = 40;

/// The temperature at which uphill swaps are accepted with mean probability `acceptance`; `None` if no swap is uphill, or
/// it was stopped.
pub(crate) fn measure(
    system: &LayoutSystem<'_>,
    starts: &mut [LayoutState],
    acceptance: f64,
    stream: &mut Stream,
    stop: &(dyn Fn() -> bool + Sync),
) -> Option<f64> {
    let mut uphill = Vec::with_capacity(SAMPLES);
    for sample in 0..SAMPLES {
        if sample % 128 == 0 && stop() {
            return None;
        }
        let start = sample % starts.len();
        let change = system.sample_change(&mut starts[start], stream);
        if change > 0.0 {
            uphill.push(change);
        }
    }
    let least = uphill.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = uphill.iter().copied().fold(0.0, f64::max);
    if uphill.is_empty() {
        return None;
    }
    // One change alone would be accepted so at change / −ln(acceptance): the temperature lies between the extremes.
    let (mut low, mut high) = (ln(least / -ln(acceptance)), ln(greatest / -ln(acceptance)));
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        let temperature = exp(middle);
        let mean = uphill.iter().map(|change| exp(-change / temperature)).sum::<f64>() / uphill.len() as f64;
        if mean < acceptance {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(exp(high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::Energy;
    use crate::neighbours::Neighbours;
    use crate::support::Recipe;
    use crate::units::Units;

    /// At the measured temperature, swaps are accepted as often as asked.
    #[test]
    fn uphill_swaps_are_accepted_as_often_as_asked() {
        let recipe = Recipe {
            seed: 5,
            rows: 3,
            slots_per_group: 2,
            groups: 2,
            extra: 40,
            layers: 3,
            parts: 1,
            kinds: 2,
            pads: 0,
            grouped: false,
            limited: false,
            tight: false,
            stages: 1,
        };
        let case = recipe.build();
        let units = Units::new(&case.instance, &case.placement, 3).expect("enough units");
        let neighbours = Neighbours::new(&units, 4, &|| false).expect("not stopped");
        let energy = Energy { reference: 0.0, stiffness: 0.0, softness: 1.0 };
        let system = LayoutSystem { units: &units, neighbours: &neighbours, energy, proposals: 1 };
        let mut starts = vec![LayoutState::new(&units, units.cells_of_units(&case.instance, &case.first))];
        for acceptance in [0.1, 0.4, 0.8] {
            let temperature = measure(&system, &mut starts, acceptance, &mut Stream::new(1), &|| false)
                .expect("uphill swaps");
            let mut stream = Stream::new(2);
            let changes: Vec<f64> = (0..4000)
                .map(|_| system.sample_change(&mut starts[0], &mut stream))
                .filter(|&change| change > 0.0)
                .collect();
            let mean =
                changes.iter().map(|change| exp(-change / temperature)).sum::<f64>() / changes.len() as f64;
            assert!((mean - acceptance).abs() < 0.05, "{acceptance}: {mean}");
        }
        assert!(measure(&system, &mut starts, 0.4, &mut Stream::new(1), &|| true).is_none());
    }
}
