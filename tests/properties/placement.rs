//! Placement on row peaks works on what the objective charges.

use proptest::prelude::*;
use routepack_place::{RowLoads, RowPeakOptions, place_on_row_peaks};
use routepack_problem::{PadRoutes, evaluate};
use routepack_tests::small::{scatter, shapes};

proptest! {
    #[test]
    fn the_sum_of_row_peaks_is_the_one_charged(shape in shapes(1..12), rows in 1usize..=3, seed in any::<u64>()) {
        let (instance, placement) = (shape.instance(), shape.placement());
        let layout = scatter(&instance, rows, seed);
        let loads = RowLoads::of_layouts(&[(&instance, &layout)]).expect("small");
        let placed = place_on_row_peaks(&loads, &placement, None, &RowPeakOptions::default(), 0, &|| false)
            .expect("valid");
        let layers = instance.num_layers();
        let charged = |placement| {
            let peaks = evaluate(&instance, placement, &layout).peaks;
            (0..layers).map(|layer| peaks.iter().skip(layer).step_by(layers).sum()).collect::<Vec<u64>>()
        };
        let (before, after) = (charged(&placement), charged(&placed.placement));
        // Padding that is spread evenly lies on every rank alike, whatever the placement.
        let spread = shape.pad_routes == PadRoutes::Spread;
        for (layer, outcome) in placed.layers.iter().enumerate() {
            let constant = if spread { before[layer] - outcome.before } else { 0 };
            prop_assert_eq!(outcome.before + constant, before[layer]);
            prop_assert_eq!(outcome.after + constant, after[layer]);
        }
    }
}
