//! Placement by rank patterns against brute force, and its laws.

#[path = "../../routepack-bounds/tests/support/least_peak.rs"]
mod least_peak;

use least_peak::least_peak;
use proptest::prelude::*;
use routepack_bounds::Patterns;
use routepack_place::{
    NodeGroups, PatternOptions, PatternPlaced, PlaceError, PlaceOptions, place, place_by_patterns,
};
use routepack_problem::Placement;

fn run_with(loads: &[Vec<u64>], start: &Placement, patterns: PatternOptions) -> PatternPlaced {
    place_by_patterns(loads, start, &patterns, &PlaceOptions::default(), &|| false).expect("valid")
}

fn run(loads: &[Vec<u64>], start: &Placement) -> PatternPlaced {
    run_with(loads, start, PatternOptions::default())
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
    let stopped = place_by_patterns(
        &loads,
        &start.placement,
        &PatternOptions::default(),
        &PlaceOptions::default(),
        &|| true,
    )
    .expect("valid");
    for (layer, before) in stopped.layers.iter().zip(&start.layers) {
        assert_eq!((layer.peak, layer.bound, &layer.proof), (before.peak, before.bound(), &None));
    }
    assert_eq!(stopped.finished, start.layers.iter().all(|layer| layer.proved_optimal));
}

#[test]
fn another_shape_is_refused_and_nothing_is_nothing() {
    let start = Placement::identity(1, 8, 4).expect("divisible");
    let placed = |loads: &[Vec<u64>], patterns: PatternOptions, options: &PlaceOptions| {
        place_by_patterns(loads, &start, &patterns, options, &|| false)
    };
    let error = placed(&[vec![1; 12]], PatternOptions::default(), &PlaceOptions::default());
    assert!(matches!(error, Err(PlaceError::Placement { name: "start", .. })), "{error:?}");
    let grouped =
        PlaceOptions { node_groups: Some(NodeGroups { groups: 4, nodes: 2 }), ..PlaceOptions::default() };
    let error = placed(&[vec![1; 8]], PatternOptions::default(), &grouped);
    assert_eq!(error, Err(PlaceError::GroupedPatterns));
    let many = PatternOptions { dives: 1025, ..PatternOptions::default() };
    let error = placed(&[vec![1; 8]], many, &PlaceOptions::default());
    assert!(matches!(error, Err(PlaceError::Option { field: "patterns.dives", .. })), "{error:?}");
    let none = Placement::identity(0, 0, 4).expect("divisible");
    assert!(run(&[], &none).layers.is_empty());
    let zeros = run(&[vec![0; 8]], &start);
    assert_eq!((zeros.layers[0].peak, &zeros.placement), (0, &start));
}

/// Loads of a layer, and the identity or the placement of `place`.
fn drawn(seed: u64, ranks: usize, slots: usize, is_placed: bool) -> (Vec<Vec<u64>>, Placement) {
    let mut stream = routepack_anneal::Stream::new(seed);
    let load = |_| (1000.0 * (0.5 * stream.normal()).exp()) as u64;
    let loads = vec![(0..ranks * slots).map(load).collect::<Vec<u64>>()];
    let start = Placement::identity(1, ranks * slots, ranks).expect("divisible");
    let placed = place(&loads, ranks, &PlaceOptions::default(), &|| false).expect("valid");
    (loads, if is_placed { placed.placement } else { start })
}

fn dived(loads: &[Vec<u64>], start: &Placement, dives: u32) -> PatternPlaced {
    run_with(loads, start, PatternOptions { dives, ..PatternOptions::default() })
}

#[test]
fn the_last_target_is_not_solved_twice() {
    for seed in 0..5 {
        // Of three ranks two are left after the first pattern: nothing more is solved in a dive.
        let (loads, start) = drawn(seed, 3, 4, false);
        let (raised, found) = (dived(&loads, &start, 0), dived(&loads, &start, 1));
        assert!(found.layers[0].peak < raised.layers[0].peak, "there is something to dive for");
        assert_eq!(found.layers[0].solves, raised.layers[0].solves);
    }
}

#[test]
fn equal_dives_are_made_once() {
    // Layers where no dive helps, with one or two targets between bound and peak.
    let mut tried = 0;
    for seed in 0..60 {
        let (loads, start) = drawn(seed, 8, 4, true);
        let (raised, found) = (dived(&loads, &start, 0), dived(&loads, &start, 4));
        let room = raised.layers[0].peak - raised.layers[0].bound;
        if found.layers[0].peak == raised.layers[0].peak && (1..=2).contains(&room) {
            assert_eq!(dived(&loads, &start, room as u32), found);
            tried += 1;
        }
    }
    assert!(tried > 0);
}

#[test]
fn options_are_read_by_name_and_others_refused() {
    let read = |text| serde_json::from_str::<PatternOptions>(text);
    let few = PatternOptions { dives: 2, ..PatternOptions::default() };
    assert_eq!(read(r#"{"dives": 2}"#).expect("known"), few);
    assert!(read(r#"{"dive": 2}"#).is_err());
}
