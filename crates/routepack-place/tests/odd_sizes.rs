//! Odd sizes and values: right answers, no panics.

use routepack_place::{
    MoveCharge, MoveGoal, MoveLimit, NodeGroups, PatternOptions, PlaceError, PlaceOptions, RowLoads,
    RowPeakOptions, Start, match_ranks, place, place_by_patterns, place_incrementally, place_on_row_peaks,
    trade_off,
};
use routepack_problem::Placement;

const GOALS: [MoveGoal; 9] = [
    MoveGoal::Within { tolerance_ppm: 0 },
    MoveGoal::Within { tolerance_ppm: u32::MAX },
    MoveGoal::Budget { per_layer: Some(0), total: None },
    MoveGoal::Budget { per_layer: Some(1), total: Some(0) },
    MoveGoal::Budget { per_layer: None, total: None },
    MoveGoal::Budget { per_layer: None, total: Some(u32::MAX) },
    MoveGoal::Cost { move_cost: 0, steps: 0 },
    MoveGoal::Cost { move_cost: 0, steps: 1 },
    MoveGoal::Cost { move_cost: u64::MAX, steps: u32::MAX },
];

fn peak(loads: &[u64], layer: usize, placement: &Placement) -> u64 {
    let mut sums = vec![0; placement.num_ranks()];
    for (expert, &load) in loads.iter().enumerate() {
        sums[placement.rank_of(layer, expert)] += load;
    }
    sums.into_iter().max().unwrap_or(0)
}

/// Every way to place, from two resident placements, with every kind of goal.
fn place_in_every_way(loads: &[Vec<u64>], ranks: usize) {
    let experts = loads.first().map_or(0, Vec::len);
    let identity = Placement::identity(loads.len(), experts, ranks).expect("divisible");
    let backwards = vec![(0..experts as u32).rev().collect(); loads.len()];
    let backwards = Placement::new(ranks, backwards).expect("bijections");
    for start in [Start::Resident, Start::Identity, Start::Lpt] {
        let options = PlaceOptions { start, resident: Some(backwards.clone()), ..PlaceOptions::default() };
        let placed = place(loads, ranks, &options, &|| false).expect("valid");
        let few = PatternOptions { max_solves: 20, dives: 1 };
        let by_patterns =
            place_by_patterns(loads, &placed.placement, &few, &options, &|| false).expect("valid");
        for (layer, loads) in loads.iter().enumerate() {
            assert_eq!(placed.layers[layer].peak, peak(loads, layer, &placed.placement));
            assert_eq!(by_patterns.layers[layer].peak, peak(loads, layer, &by_patterns.placement));
            assert!(by_patterns.layers[layer].bound <= by_patterns.layers[layer].peak);
        }
    }
    for resident in [&identity, &backwards] {
        for goal in GOALS {
            let moved = place_incrementally(loads, resident, goal, &PlaceOptions::default(), &|| false);
            let moved = moved.expect("valid");
            let stays =
                matches!(goal, MoveGoal::Budget { per_layer: Some(_), .. } | MoveGoal::Cost { steps: 0, .. });
            assert!(!stays || moved.transfers.is_empty(), "{goal:?}");
            for (layer, loads) in loads.iter().enumerate() {
                let outcome = &moved.layers[layer];
                assert_eq!(outcome.peak, peak(loads, layer, &moved.placement));
                assert!(outcome.peak <= outcome.resident_peak && outcome.moved_bound <= outcome.moved);
            }
            assert!(match_ranks(&moved.placement, resident).num_layers() == loads.len());
        }
        let curves = trade_off(loads, resident, &PlaceOptions::default(), &|| false).expect("valid");
        assert!(curves.iter().all(|curve| curve.points[0].0 == 0));
    }
}

#[test]
fn no_expert_one_expert_one_rank_one_slot() {
    for (experts, ranks) in [(0, 1), (0, 4), (1, 1), (5, 1), (5, 5), (9, 3), (15, 5), (64, 64), (48, 16)] {
        for layers in [0, 1, 3] {
            let of = |load: &dyn Fn(u64, u64) -> u64| -> Vec<Vec<u64>> {
                (0..layers).map(|layer| (0..experts).map(|expert| load(layer, expert)).collect()).collect()
            };
            place_in_every_way(&of(&|_, _| 0), ranks);
            place_in_every_way(&of(&|_, _| 7), ranks);
            // Totals that differ from layer to layer.
            place_in_every_way(&of(&|layer, expert| expert * expert * (layer + 1)), ranks);
            // Counts as wide as u32, and one expert that dominates.
            place_in_every_way(&of(&|_, expert| u64::from(u32::MAX) - expert), ranks);
            place_in_every_way(
                &of(&|layer, expert| if expert == 0 { 1 << 60 } else { expert * layer }),
                ranks,
            );
        }
    }
}

#[test]
fn totals_just_below_the_limit() {
    let most = (1u64 << 62) / 16 - 1;
    for ranks in [1, 2, 4, 8] {
        place_in_every_way(&[vec![most; 16]], ranks);
        place_in_every_way(&[(1..=16).map(|part| most / part).collect()], ranks);
    }
}

#[test]
fn rows_without_experts_blocks_or_layers() {
    for (experts, ranks, blocks) in [(0, 1, 0), (0, 2, 3), (4, 2, 0), (4, 4, 2), (4, 1, 2), (6, 3, 1)] {
        for (layers, load) in [(0, 0), (1, 0), (2, 1), (1, (1 << 31) / 8 - 1)] {
            let loads = RowLoads::new(experts, blocks, vec![vec![load; experts * blocks]; layers]);
            let loads = loads.expect("small");
            let start = Placement::identity(layers, experts, ranks).expect("divisible");
            let (none, all) = (vec![0; layers], vec![u32::MAX; layers]);
            let charge = |move_cost, steps| Some(MoveCharge { move_cost, steps });
            for limit in [
                None,
                Some(MoveLimit { resident: &start, moves: &none, charge: None }),
                Some(MoveLimit { resident: &start, moves: &all, charge: charge(u64::MAX, u32::MAX) }),
                Some(MoveLimit { resident: &start, moves: &all, charge: charge(1, 0) }),
            ] {
                let options = RowPeakOptions::default();
                let placed = place_on_row_peaks(&loads, &start, limit, &options, 0, &|| false);
                let placed = placed.expect("valid");
                assert!(placed.finished && placed.placement.num_layers() == layers);
                assert!(placed.layers.iter().all(|layer| layer.after == layer.bound));
            }
        }
    }
}

#[test]
fn groups_of_no_experts_and_of_one() {
    for (experts, ranks, groups, nodes, layers) in
        [(0, 2, 4, 2, 1), (0, 2, u32::MAX, 1, 0), (4, 4, 4, 4, 1), (4, 1, 1, 1, 2), (8, 2, 8, 2, 1)]
    {
        let loads: Vec<Vec<u64>> = vec![(0..experts).collect(); layers];
        let node_groups = Some(NodeGroups { groups, nodes });
        let options = PlaceOptions { node_groups, ..PlaceOptions::default() };
        let placed = place(&loads, ranks, &options, &|| false).expect("valid");
        assert!(placed.layers.iter().all(|layer| layer.bound() <= layer.peak));
        // Few moves of whole groups are not sought: said at once, whatever the sizes.
        let goal = MoveGoal::Within { tolerance_ppm: 0 };
        let moved = place_incrementally(&loads, &placed.placement, goal, &options, &|| false);
        assert_eq!(moved, Err(PlaceError::GroupedMoves));
    }
}
