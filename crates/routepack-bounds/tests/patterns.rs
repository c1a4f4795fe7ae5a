//! Weighing of patterns against brute force, and what it proves.

#[path = "support/least_peak.rs"]
mod least_peak;

use least_peak::least_peak;
use proptest::prelude::*;
use routepack_bounds::Patterns;

/// Every set of `size` of the first `of` experts.
fn sets(of: u32, size: usize) -> Vec<Vec<u32>> {
    if size == 0 {
        return vec![Vec::new()];
    }
    (0..of)
        .flat_map(|last| {
            sets(last, size - 1).into_iter().map(move |mut set| {
                set.push(last);
                set
            })
        })
        .collect()
}

/// Ranks, and loads and weights of experts.
fn layers() -> impl Strategy<Value = (usize, Vec<(u64, u64)>)> {
    (1usize..=4, 1usize..=5).prop_filter("small", |(p, s)| p * s <= 10).prop_flat_map(|(ranks, slots)| {
        let loads = prop_oneof![0u64..6, 0u64..1000, (1u64 << 57)..(1 << 57) + 6];
        (Just(ranks), prop::collection::vec((loads, 0u64..20), ranks * slots))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn the_heaviest_pattern_is_found((ranks, experts) in layers(), share in 0.0f64..1.5, least in 0u64..40) {
        let (loads, weights): (Vec<u64>, Vec<u64>) = experts.into_iter().unzip();
        let (slots, mean) = (loads.len() / ranks, loads.iter().sum::<u64>() / ranks as u64);
        let patterns = Patterns::new(&loads, ranks).expect("few");
        let high = (mean as f64 * (0.5 + share)) as u64;
        for range in [0..=high, (mean as f64 * share) as u64..=high, patterns.rank_loads(high)] {
            let all: Vec<(u64, Vec<u32>)> = sets(loads.len() as u32, slots)
                .into_iter()
                .filter(|set| range.contains(&patterns.load(set)))
                .map(|set| (set.iter().map(|&expert| weights[expert as usize]).sum(), set))
                .collect();
            let most = all.iter().map(|(weight, _)| *weight).max().filter(|&weight| weight > least);
            let found = patterns.heaviest(&weights, &range, least);
            prop_assert_eq!(found.iter().map(|(weight, _)| *weight).max(), most);
            for pattern in found {
                prop_assert!(all.contains(&pattern) && pattern.0 > least, "{pattern:?}");
            }
        }
    }

    #[test]
    fn nothing_that_exists_is_proved_away((ranks, experts) in layers(), below in 0u64..9) {
        let (loads, weights): (Vec<u64>, Vec<u64>) = experts.into_iter().unzip();
        let patterns = Patterns::new(&loads, ranks).expect("few");
        let least = least_peak(&loads, ranks);
        prop_assert!(!patterns.proves(&weights, least));
        prop_assert!(!patterns.proves(&vec![1; loads.len()], least));
        // And the definition: Σπ > P·V over the patterns that such ranks could hold.
        let peak = least.saturating_sub(below);
        let range = patterns.rank_loads(peak);
        let most = sets(loads.len() as u32, loads.len() / ranks)
            .into_iter()
            .filter(|set| range.contains(&patterns.load(set)))
            .map(|set| set.iter().map(|&expert| weights[expert as usize]).sum::<u64>())
            .max();
        let sum: u64 = weights.iter().sum();
        let proved = range.is_empty() || (sum > 0 && most.is_none_or(|most| sum > ranks as u64 * most));
        prop_assert_eq!(patterns.proves(&weights, peak), proved);
    }
}

#[test]
fn what_is_too_much_is_not_weighed() {
    assert!(Patterns::new(&[1; 256], 16).is_none(), "2^27 halves");
    assert!(Patterns::new(&[], 4).is_none());
    assert!(Patterns::new(&[1 << 61, 1 << 61], 2).is_none());
    assert!(Patterns::new(&[7; 128], 32).is_some());
}
