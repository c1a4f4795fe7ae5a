//! The assignment program: the text that is published, and its optimum against the search.

use proptest::prelude::*;
use routepack_lp::{SolveOptions, Status, solve};
use routepack_place::{PlaceOptions, equal_cardinality_partition, place, rank_pattern_program};

#[test]
fn the_published_text_is_what_the_code_writes() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/equal_cardinality_partition.lp");
    let text = equal_cardinality_partition(&[9, 6, 5, 2], 2).write_lp();
    if std::env::var_os("UPDATE_MODELS").is_some() {
        std::fs::write(path, &text).expect("models is writable");
    }
    assert_eq!(std::fs::read_to_string(path).expect("the published text"), text);
}

#[test]
fn the_published_text_of_rank_patterns_is_what_the_code_writes() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/rank_patterns.lp");
    let text = rank_pattern_program(&[7, 6, 5, 3, 2, 1], 2, 12).write_lp();
    if std::env::var_os("UPDATE_MODELS").is_some() {
        std::fs::write(path, &text).expect("models is writable");
    }
    assert_eq!(std::fs::read_to_string(path).expect("the published text"), text);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn its_optimum_is_the_least_peak(
        (ranks, loads) in (1usize..=4, 1usize..=3).prop_flat_map(|(ranks, slots)| {
            (Just(ranks), prop::collection::vec(prop_oneof![0u64..9, 0u64..500], ranks * slots))
        }),
    ) {
        let solved = solve(&equal_cardinality_partition(&loads, ranks), &SolveOptions::default()).expect("solved");
        prop_assert_eq!(solved.status, Status::Optimal);
        let optimum = solved.objective.expect("an optimum").round() as u64;
        let placed = place(std::slice::from_ref(&loads), ranks, &PlaceOptions::default(), &|| false);
        let layer = placed.expect("valid").layers[0];
        prop_assert!(layer.bounds.best() <= optimum && optimum <= layer.peak);
        if layer.proved_optimal || ranks <= 2 {
            prop_assert_eq!(layer.peak, optimum);
        }
        // Its answer is a placement with that peak.
        let mut sums = vec![0; ranks];
        let mut values = solved.values[1..].iter();
        for (expert, &load) in loads.iter().enumerate() {
            for sum in sums.iter_mut().take(expert + 1) {
                if values.next().expect("one value a variable") > &0.5 {
                    *sum += load;
                }
            }
        }
        prop_assert_eq!(sums.iter().sum::<u64>(), loads.iter().sum::<u64>());
        prop_assert_eq!(sums.into_iter().max(), Some(optimum));
    }

    /// P patterns cover every expert exactly for the targets from the least peak on.
    #[test]
    fn rank_patterns_meet_the_least_peak_and_nothing_below(
        (ranks, loads) in (1usize..=3, 1usize..=3).prop_flat_map(|(ranks, slots)| {
            (Just(ranks), prop::collection::vec(prop_oneof![0u64..9, 0u64..500], ranks * slots))
        }),
    ) {
        let solved = solve(&equal_cardinality_partition(&loads, ranks), &SolveOptions::default()).expect("solved");
        let least = solved.objective.expect("an optimum").round() as u64;
        let met = |peak| {
            let solved = solve(&rank_pattern_program(&loads, ranks, peak), &SolveOptions::default()).expect("solved");
            solved.objective.is_some_and(|patterns| patterns.round() as usize == ranks)
        };
        prop_assert!(met(least));
        prop_assert!(least == 0 || !met(least - 1));
    }
}
