//! Placement by rank patterns against brute force, and its laws.

use proptest::prelude::*;
use routepack_bounds::Patterns;
use routepack_place::{PatternOptions, PatternPlaced, PlaceError, PlaceOptions, place, place_by_patterns};
use routepack_problem::Placement;

/// The least peak over every way to deal `loads` to ranks of equal slots.
fn least_peak(loads: &[u64], ranks: usize) -> u64 {
    fn deal(loads: &[u64], sums: &mut [u64], used: &mut [usize], slots: usize, best: &mut u64) {
        let Some((&load, rest)) = loads.split_first() else {
            *best = (*best).min(sums.iter().copied().max().unwrap_or(0));
            return;
        };
        for rank in 0..sums.len() {
            if used[rank] < slots && sums[rank] + load < *best {
                used[rank] += 1;
                sums[rank] += load;
                deal(rest, sums, used, slots, best);
                sums[rank] -= load;
                used[rank] -= 1;
            }
            if used[rank] == 0 {
                break; // empty ranks are alike
            }
        }
    }
    let mut best = u64::MAX;
    deal(loads, &mut vec![0; ranks], &mut vec![0; ranks], loads.len() / ranks, &mut best);
    best
}

fn run(loads: &[Vec<u64>], start: &Placement) -> PatternPlaced {
    place_by_patterns(loads, start, &PatternOptions::default(), &|| false).expect("valid")
}

fn some_layer() -> impl Strategy<Value = (usize, Vec<u64>)> {
    (1usize..=4, 1usize..=4).prop_filter("small", |(p, s)| p * s <= 12).prop_flat_map(|(ranks, slots)| {
        let load = prop_oneof![3 => 0u64..60, 1 => 60u64..400, 1 => Just(1u64 << 40)];
        (Just(ranks), prop::collection::vec(load, ranks * slots))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    #[test]
    fn held_to_brute_force((ranks, loads) in some_layer()) {
        let start = Placement::identity(1, loads.len(), ranks).expect("divisible");
        let placed = run(std::slice::from_ref(&loads), &start);
        let layer = &placed.layers[0];
        let optimum = least_peak(&loads, ranks);
        prop_assert!(layer.bound <= optimum && optimum <= layer.peak, "{layer:?}, least {optimum}");
        let mut sums = vec![0; ranks];
        for (expert, &load) in loads.iter().enumerate() {
            sums[placed.placement.rank_of(0, expert)] += load;
            if placed.placement.rank_of(0, expert) == start.rank_of(0, expert) {
                prop_assert_eq!(placed.placement.slots(0)[expert], expert as u32);
            }
        }
        prop_assert_eq!(sums.into_iter().max(), Some(layer.peak));
        if let Some(weights) = &layer.proof {
            let patterns = Patterns::new(&loads, ranks).expect("few");
            prop_assert!(patterns.proves(weights, layer.bound - 1));
        } else {
            prop_assert_eq!(layer.bound, routepack_bounds::peak_bounds(&loads, ranks).best());
        }
        let placed = place(std::slice::from_ref(&loads), ranks, &PlaceOptions::default(), &|| false).expect("valid");
        let again = run(std::slice::from_ref(&loads), &placed.placement);
        prop_assert!(again.layers[0].peak <= placed.layers[0].peak);
        prop_assert_eq!(again.layers[0].bound, layer.bound, "the bound does not depend on the start");
    }
}

/// Layers with three to six slots a rank whose formulas leave a gap: how many does the program close?
#[test]
fn some_gaps_that_formulas_leave_are_closed() {
    let (mut open, mut closed) = (0, 0);
    for seed in 0..300u64 {
        let mut stream = routepack_anneal::Stream::new(seed);
        let loads: Vec<u64> = (0..12).map(|_| (50.0 * (0.8 * stream.normal()).exp()) as u64).collect();
        let optimum = least_peak(&loads, 4);
        let placed =
            place(std::slice::from_ref(&loads), 4, &PlaceOptions::default(), &|| false).expect("valid");
        if placed.layers[0].bound() < optimum {
            open += 1;
            closed += u32::from(run(&[loads], &placed.placement).layers[0].bound == optimum);
        }
    }
    assert!(open >= 10 && 2 * closed > open, "{closed} of {open}");
}

#[test]
fn threads_change_nothing_and_stopping_claims_nothing_new() {
    let loads: Vec<Vec<u64>> = (0..6u64)
        .map(|seed| {
            let mut stream = routepack_anneal::Stream::new(seed);
            (0..24).map(|_| (1000.0 * (0.7 * stream.normal()).exp()) as u64).collect()
        })
        .collect();
    let start = place(&loads, 8, &PlaceOptions::default(), &|| false).expect("valid");
    let placed = run(&loads, &start.placement);
    for threads in [1, 3] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
        assert_eq!(pool.install(|| run(&loads, &start.placement)), placed);
    }
    let stopped =
        place_by_patterns(&loads, &start.placement, &PatternOptions::default(), &|| true).expect("valid");
    for (layer, before) in stopped.layers.iter().zip(&start.layers) {
        assert_eq!((layer.peak, layer.bound, &layer.proof), (before.peak, before.bound(), &None));
    }
    assert_eq!(stopped.finished, start.layers.iter().all(|layer| layer.proved_optimal));
}

#[test]
fn another_shape_is_refused_and_nothing_is_nothing() {
    let start = Placement::identity(1, 8, 4).expect("divisible");
    let error = place_by_patterns(&[vec![1; 12]], &start, &PatternOptions::default(), &|| false);
    assert!(matches!(error, Err(PlaceError::Placement { name: "start", .. })), "{error:?}");
    let none = Placement::identity(0, 0, 4).expect("divisible");
    assert!(run(&[], &none).layers.is_empty());
    let zeros = run(&[vec![0; 8]], &start);
    assert_eq!((zeros.layers[0].peak, &zeros.placement), (0, &start));
}
