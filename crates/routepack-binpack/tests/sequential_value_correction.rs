//! Sequential value correction: every item packed within all limits, and better with every round.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use routepack_anneal::Stream;
use routepack_binpack::{Types, first_fit_decreasing, sequential_value_correction};
use routepack_certificate::Statement;
use routepack_generate::{BinsRecipe, bins};

fn corrected(types: &Types, rounds: u32, wanted: u64) -> Vec<Vec<u32>> {
    let stream = Stream::new(1);
    sequential_value_correction(types, rounds, wanted, 1 << 26, &stream, &|| false).unwrap()
}

#[test]
fn later_rounds_reach_the_volume_that_greedy_packers_and_the_first_round_miss() {
    for name in ["falkenauer-u", "scholl-2"] {
        let (mut first, mut later, mut greedy, mut volume) = (0, 0, 0, 0);
        for seed in 0..10 {
            let made = bins(&BinsRecipe::named(name).unwrap(), seed).unwrap();
            let types = Types::new(&Statement::bins(made.sizes.clone(), made.capacity)).unwrap();
            volume += made.sizes.iter().sum::<u64>().div_ceil(made.capacity) as usize;
            greedy += first_fit_decreasing(&made.sizes, made.capacity, None).len();
            first += corrected(&types, 1, 0).len();
            later += corrected(&types, 20, 0).len();
        }
        assert!(volume < first && first < greedy, "{name}: {volume} {first} {greedy}");
        assert_eq!(later, volume, "{name}");
    }
}

#[test]
fn a_table_that_does_not_fit_is_no_packing() {
    let types = Types::new(&Statement::bins(vec![7, 6, 5], 1 << 30)).unwrap();
    assert_eq!(sequential_value_correction(&types, 1, 0, 1 << 20, &Stream::new(0), &|| false), None);
}

proptest! {
    #[test]
    fn every_item_is_packed(
        sizes in prop::collection::vec(1_u64..=40, 1..40),
        limit in prop::option::of(1_u32..5),
        rounds in 1_u32..5,
    ) {
        let statement = Statement { max_items: limit, ..Statement::bins(sizes, 40) };
        let types = Types::new(&statement).unwrap();
        let bins = corrected(&types, rounds, 0);
        // Panics if an item is missing or packed twice.
        types.hand_out(&bins);
        prop_assert!(bins.iter().all(|bin| types.load(bin) <= 40));
        prop_assert!(bins.iter().all(|bin| limit.is_none_or(|limit| bin.len() <= limit as usize)));
    }
}
