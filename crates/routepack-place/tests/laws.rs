//! Brute force on small layers, and laws on all.

#[path = "../../routepack-bounds/tests/support/least_peak.rs"]
mod least_peak;

use least_peak::least_peak;
use proptest::prelude::*;
use routepack_place::{PlaceOptions, Placed, Start, place};
use routepack_problem::Placement;

fn rank_loads(placed: &Placed, layer: usize, loads: &[u64]) -> Vec<u64> {
    let mut sums = vec![0; placed.placement.num_ranks()];
    for (expert, &load) in loads.iter().enumerate() {
        sums[placed.placement.rank_of(layer, expert)] += load;
    }
    sums
}

fn some_loads(count: usize) -> impl Strategy<Value = Vec<u64>> {
    prop_oneof![
        prop::collection::vec(0u64..6, count),
        prop::collection::vec(0u64..1000, count),
        prop::collection::vec(prop_oneof![4 => 0u64..1000, 1 => 1000u64..9000], count),
    ]
}

/// Ranks and layers `[layers][experts]` with E ≤ `max_experts`.
fn some_layers(max_experts: usize) -> impl Strategy<Value = (usize, Vec<Vec<u64>>)> {
    (1usize..=5, 1usize..=5).prop_filter("small", move |(p, s)| p * s <= max_experts).prop_flat_map(
        |(ranks, slots)| (Just(ranks), prop::collection::vec(some_loads(ranks * slots), 1..=3)),
    )
}

fn some_start() -> impl Strategy<Value = Start> {
    prop_oneof![Just(Start::Resident), Just(Start::Identity), Just(Start::Lpt)]
}

fn alone(start: Start) -> PlaceOptions {
    PlaceOptions { start, max_swaps: 0, max_resplits: 0, max_triples: 0, ..PlaceOptions::default() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn held_to_brute_force((ranks, layers) in some_layers(10), start in some_start()) {
        let options = PlaceOptions { start, ..PlaceOptions::default() };
        let placed = place(&layers, ranks, &options, &|| false).expect("valid");
        let lpt = place(&layers, ranks, &alone(Start::Lpt), &|| false).expect("valid");
        prop_assert!(placed.finished);
        for (layer, loads) in layers.iter().enumerate() {
            let optimum = least_peak(loads, ranks);
            let outcome = placed.layers[layer];
            let peak = rank_loads(&placed, layer, loads).into_iter().max().unwrap_or(0);
            prop_assert_eq!(outcome.peak, peak, "the peak is that of the placement");
            prop_assert!(outcome.bounds.best() <= optimum && optimum <= peak);
            prop_assert!(peak <= lpt.layers[layer].peak, "never worse than LPT");
            prop_assert_eq!(outcome.proved_optimal, peak == outcome.bounds.best());
            if ranks <= 2 || loads.len() / ranks <= 2 {
                prop_assert_eq!(peak, optimum, "two ranks, or two slots a rank, are solved exactly");
            }
        }
    }

    #[test]
    fn who_stays_on_a_rank_stays_in_its_slot(
        (ranks, layers) in some_layers(25), seed in any::<u64>(), start in some_start(),
    ) {
        let experts = layers[0].len();
        let resident = shuffled(layers.len(), experts, ranks, seed);
        let options = PlaceOptions { start, resident: Some(resident.clone()), ..PlaceOptions::default() };
        let placed = place(&layers, ranks, &options, &|| false).expect("valid");
        for layer in 0..layers.len() {
            for expert in 0..experts {
                if placed.placement.rank_of(layer, expert) == resident.rank_of(layer, expert) {
                    prop_assert_eq!(placed.placement.slots(layer)[expert], resident.slots(layer)[expert]);
                }
            }
        }
    }

    #[test]
    fn layers_are_independent_of_each_other_and_of_threads((ranks, layers) in some_layers(25)) {
        let options = PlaceOptions::default();
        let all = place(&layers, ranks, &options, &|| false).expect("valid");
        for threads in [1, 2, 4] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
            let again = pool.install(|| place(&layers, ranks, &options, &|| false)).expect("valid");
            prop_assert_eq!(&again, &all);
        }
        for (layer, loads) in layers.iter().enumerate() {
            let single = place(std::slice::from_ref(loads), ranks, &options, &|| false).expect("valid");
            prop_assert_eq!(single.placement.slots(0), all.placement.slots(layer));
        }
    }

    #[test]
    fn stopped_at_once_is_the_better_of_start_and_lpt((ranks, layers) in some_layers(25)) {
        let placed = place(&layers, ranks, &PlaceOptions::default(), &|| true).expect("valid");
        let start = place(&layers, ranks, &alone(Start::Resident), &|| false).expect("valid");
        let lpt = place(&layers, ranks, &alone(Start::Lpt), &|| false).expect("valid");
        for layer in 0..layers.len() {
            let peak = placed.layers[layer].peak;
            prop_assert_eq!(peak, start.layers[layer].peak.min(lpt.layers[layer].peak));
        }
        let proved = placed.layers.iter().all(|layer| layer.proved_optimal);
        prop_assert_eq!(placed.finished, proved, "nothing is left to do for a proved layer");
    }
}

/// A placement from a seed.
fn shuffled(layers: usize, experts: usize, ranks: usize, seed: u64) -> Placement {
    let root = routepack_anneal::stream::Stream::new(seed);
    let slots = (0..layers)
        .map(|layer| {
            let mut slots: Vec<u32> = (0..experts as u32).collect();
            root.child(layer as u64).shuffle(&mut slots);
            slots
        })
        .collect();
    Placement::new(ranks, slots).expect("bijections")
}
