//! Brute force on small instances, and laws.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use routepack_anneal::Stream;
use routepack_binpack::{
    ColumnLimits, DecideLimits, Decided, Goal, PackOptions, Packed, Types, count_bound, decide,
    dual_feasible_bound, generate_columns, l2_bound, pack, volume_bound,
};
use routepack_certificate::{Limits, Statement, check};

/// Fewest bins, by trying every bin for every item, largest first.
fn fewest(statement: &Statement) -> u64 {
    fn place(statement: &Statement, sizes: &[u64], bins: &mut Vec<(u64, u32)>, best: &mut usize) {
        if bins.len() >= *best {
            return;
        }
        let Some((&size, rest)) = sizes.split_first() else {
            *best = bins.len();
            return;
        };
        for bin in 0..bins.len() {
            let (load, count) = bins[bin];
            if load + size <= statement.capacity && statement.max_items.is_none_or(|limit| count < limit) {
                bins[bin] = (load + size, count + 1);
                place(statement, rest, bins, best);
                bins[bin] = (load, count);
            }
        }
        bins.push((size, 1));
        place(statement, rest, bins, best);
        bins.pop();
    }
    let mut sizes = statement.sizes.clone();
    sizes.sort_by(|a, b| b.cmp(a));
    let mut best = sizes.len() + 1;
    place(statement, &sizes, &mut Vec::new(), &mut best);
    best as u64
}

fn packed(statement: &Statement, options: &PackOptions, seed: u64) -> Packed {
    let packed = pack(statement, options, seed, &|| false, &mut |_| {}).unwrap();
    let checked = check(statement, &packed.certificate, &Limits::default()).unwrap();
    assert_eq!((checked.cells_lower, checked.cells_upper), (packed.cells_bound, Some(packed.cells)));
    assert_eq!((checked.rows_lower, checked.rows_upper), (packed.rows_bound, Some(packed.rows)));
    assert!(packed.finished);
    packed
}

/// Few heuristics, so that linear programs and trees have something to do.
fn bare(goal: Goal) -> PackOptions {
    PackOptions { goal, fill_tries: 1, fill_window: 1, repack_tries: 0, dives: 1, ..PackOptions::default() }
}

prop_compose! {
    /// Instances with few items in a bin, where bounds and packings differ.
    fn statements()(
        capacity in prop_oneof![12_u64..60, 1_000_000_u64..2_000_000, 1_u64 << 40..1 << 41],
        shares in prop::collection::vec(50_u64..700, 1..10),
        max_items in prop::option::of(1_u32..4),
        slots in 1_u64..4,
        rows_multiple in 1_u64..3,
    ) -> Statement {
        let sizes = shares.iter().map(|share| (capacity * share / 1000).max(1)).collect();
        Statement { sizes, capacity, max_items, slots, rows_multiple }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn packings_and_bounds_enclose_the_optimum(statement in statements(), seed: u64) {
        let optimum = fewest(&statement);
        for goal in [Goal::Rows, Goal::Cells] {
            for options in [bare(goal), PackOptions { goal, ..PackOptions::default() }] {
                let packed = packed(&statement, &options, seed);
                prop_assert!(packed.cells_bound <= optimum && optimum <= packed.cells);
                prop_assert_eq!(packed.rows, packed.rows_bound);
                prop_assert_eq!(packed.rows, statement.rows_for(optimum));
                if goal == Goal::Cells {
                    prop_assert_eq!(packed.cells, optimum);
                }
            }
        }
    }

    #[test]
    fn every_bound_alone_is_below_the_optimum(statement in statements()) {
        let types = Types::new(&statement).unwrap();
        let optimum = fewest(&statement);
        let alone: Vec<Vec<u32>> = (0..types.len() as u32).map(|kind| vec![kind]).collect();
        let limits = ColumnLimits { wanted: u64::MAX, exhaust: true, rounds: 100, table_bytes: 1 << 20 };
        let generated = generate_columns(&types, &alone, &limits, &|| false).unwrap();
        let bounds = [
            Some(volume_bound(&types)), count_bound(&types), Some(l2_bound(&types)),
            dual_feasible_bound(&types, u64::MAX), generated.bound.clone(),
        ];
        for bound in bounds.into_iter().flatten() {
            prop_assert!(bound.cells <= optimum, "{}", bound.method);
        }
        if generated.converged {
            prop_assert!(generated.bound.unwrap().cells >= volume_bound(&types).cells.max(l2_bound(&types).cells));
        }
    }

    #[test]
    fn decides_as_brute_force_does(statement in statements(), dives in 0_u32..2) {
        let types = Types::new(&statement).unwrap();
        let optimum = fewest(&statement);
        let limits = DecideLimits { cases: 10_000, dives, rounds: 1000, table_bytes: 1 << 20, check: Limits::default() };
        let volume = volume_bound(&types).cells;
        for bins in volume..=optimum {
            match decide(&statement, &types, bins, &[], &limits, &Stream::new(0), &|| false).unwrap().answer {
                Decided::Fits(packing) => {
                    prop_assert!(bins == optimum && packing.len() as u64 <= bins);
                    types.hand_out(&packing);
                }
                Decided::Refuted(_) => prop_assert!(bins < optimum),
                Decided::Open => prop_assert!(false, "{bins} of {optimum} left open"),
            }
        }
    }

    #[test]
    fn laws(statement in statements(), seed: u64, factor in 2_u64..1000) {
        let options = PackOptions { goal: Goal::Cells, ..PackOptions::default() };
        let optimum = packed(&statement, &options, seed).cells;
        let mut permuted = statement.clone();
        permuted.sizes.reverse();
        prop_assert_eq!(packed(&permuted, &options, seed).cells, optimum);
        let mut larger = statement.clone();
        larger.capacity += statement.capacity / 20;
        prop_assert!(packed(&larger, &options, seed).cells <= optimum);
        let mut scaled = statement.clone();
        scaled.capacity *= factor;
        scaled.sizes.iter_mut().for_each(|size| *size *= factor);
        prop_assert_eq!(packed(&scaled, &options, seed).cells, optimum);
        let mut more = statement.clone();
        more.sizes.push(more.sizes[0]);
        let with_one_more = packed(&more, &options, seed).cells;
        prop_assert!(optimum <= with_one_more && with_one_more <= optimum + 1);
    }
}
