//! Placement from where the weights are: brute force on small layers, and laws.

use proptest::prelude::*;
use routepack_place::{
    MoveGoal, Moved, PlaceError, PlaceOptions, TradeOff, place_incrementally, trade_off, transfers,
};
use routepack_problem::Placement;

/// Every way to deal the experts to ranks, as the rank of every expert.
fn deals(experts: usize, ranks: usize) -> Vec<Vec<usize>> {
    fn deal(of: &mut Vec<usize>, left: &mut [usize], experts: usize, all: &mut Vec<Vec<usize>>) {
        if of.len() == experts {
            all.push(of.clone());
            return;
        }
        for rank in 0..left.len() {
            if left[rank] > 0 {
                left[rank] -= 1;
                of.push(rank);
                deal(of, left, experts, all);
                of.pop();
                left[rank] += 1;
            }
        }
    }
    let mut all = Vec::new();
    deal(&mut Vec::new(), &mut vec![experts / ranks; ranks], experts, &mut all);
    all
}

/// (moved, peak) of every deal.
fn outcomes(loads: &[u64], resident: &Placement) -> Vec<(u32, u64)> {
    deals(loads.len(), resident.num_ranks())
        .into_iter()
        .map(|ranks| {
            let mut sums = vec![0; resident.num_ranks()];
            let mut moved = 0;
            for (expert, &rank) in ranks.iter().enumerate() {
                sums[rank] += loads[expert];
                moved += u32::from(rank != resident.rank_of(0, expert));
            }
            (moved, sums.into_iter().max().unwrap_or(0))
        })
        .collect()
}

fn resident(layers: usize, experts: usize, ranks: usize, seed: u64) -> Placement {
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

fn some_layer(max_experts: usize) -> impl Strategy<Value = (usize, Vec<u64>, u64)> {
    (2usize..=4, 1usize..=6).prop_filter("small", move |(p, s)| p * s <= max_experts).prop_flat_map(
        |(p, s)| {
            let loads = prop::collection::vec(prop_oneof![0u64..9, 0u64..1000, 0u64..1000], p * s);
            (Just(p), loads, any::<u64>())
        },
    )
}

fn run(loads: &[Vec<u64>], resident: &Placement, goal: MoveGoal) -> Moved {
    place_incrementally(loads, resident, goal, &PlaceOptions::default(), &|| false).expect("valid")
}

/// Σ of peaks and moves.
fn totals(moved: &Moved) -> (u64, u32) {
    (moved.layers.iter().map(|layer| layer.peak).sum(), moved.layers.iter().map(|layer| layer.moved).sum())
}

fn within(tolerance_ppm: u32) -> MoveGoal {
    MoveGoal::Within { tolerance_ppm }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, ..ProptestConfig::default() })]

    #[test]
    fn fewest_moves_against_brute_force((ranks, loads, seed) in some_layer(8), tolerance_ppm in 0u32..400_000) {
        let resident = resident(1, loads.len(), ranks, seed);
        let placed = run(std::slice::from_ref(&loads), &resident, within(tolerance_ppm));
        let layer = placed.layers[0];
        let limit = |peak: u64| {
            u128::from(peak) * 1_000_000
                <= u128::from(layer.bounds.best()) * (1_000_000 + u128::from(tolerance_ppm))
        };
        let all = outcomes(&loads, &resident);
        prop_assert!(all.contains(&(layer.moved, layer.peak)), "what is reported exists");
        let fewest = all.iter().filter(|(_, peak)| limit(*peak)).map(|&(moved, _)| moved).min();
        if limit(layer.peak) {
            prop_assert!(Some(layer.moved) >= fewest);
        }
        let no_greater = all.iter().filter(|(_, peak)| *peak <= layer.peak).map(|&(moved, _)| moved).min();
        prop_assert!(Some(layer.moved_bound) <= no_greater, "{} of {:?}", layer.moved_bound, no_greater);
        if no_greater <= Some(3) {
            prop_assert_eq!(Some(layer.moved_bound), no_greater, "up to three moves are settled by trying");
        }
    }

    #[test]
    fn a_budget_is_kept_and_costs_weigh(
        (ranks, loads, seed) in some_layer(8), budget in 0u32..8, move_cost in 0u64..400,
    ) {
        let resident = resident(1, loads.len(), ranks, seed);
        let all = outcomes(&loads, &resident);
        let goal = MoveGoal::Budget { per_layer: Some(budget), total: None };
        let layer = run(std::slice::from_ref(&loads), &resident, goal).layers[0];
        prop_assert!(layer.moved <= budget && layer.peak <= layer.resident_peak);
        prop_assert!(budget > 1 || layer.moved == 0);
        let best = all.iter().filter(|(moved, _)| *moved <= budget).map(|&(_, peak)| peak).min();
        prop_assert!(Some(layer.peak) >= best);

        let layer = run(std::slice::from_ref(&loads), &resident, MoveGoal::Cost { move_cost, steps: 2 }).layers[0];
        let cost = |moved: u32, peak: u64| 2 * peak + move_cost * u64::from(moved);
        prop_assert!(cost(layer.moved, layer.peak) <= cost(0, layer.resident_peak), "no worse than staying");
        prop_assert!(Some(cost(layer.moved, layer.peak)) >= all.iter().map(|&(m, p)| cost(m, p)).min());
    }

    #[test]
    fn who_stays_keeps_its_slot_and_transfers_lead_there(
        (ranks, layers, seed) in (2usize..=5, 1usize..=5).prop_flat_map(|(p, s)| {
            (Just(p), prop::collection::vec(prop::collection::vec(0u64..1000, p * s), 1..4), any::<u64>())
        }),
        tolerance_ppm in 0u32..200_000,
    ) {
        let experts = layers[0].len();
        let resident = resident(layers.len(), experts, ranks, seed);
        let placed = run(&layers, &resident, within(tolerance_ppm));
        let mut held: Vec<Vec<u32>> = (0..layers.len()).map(|layer| resident.experts(layer)).collect();
        for transfer in &placed.transfers {
            held[transfer.layer as usize][transfer.to as usize] = transfer.expert;
        }
        for layer in 0..layers.len() {
            prop_assert_eq!(&held[layer], &placed.placement.experts(layer), "transfers give the target");
            let mut moved = 0;
            for expert in 0..experts {
                if placed.placement.rank_of(layer, expert) == resident.rank_of(layer, expert) {
                    prop_assert_eq!(placed.placement.slots(layer)[expert], resident.slots(layer)[expert]);
                } else {
                    moved += 1;
                }
            }
            prop_assert_eq!(placed.layers[layer].moved, moved);
        }
        let listed = placed.transfers.len() as u32;
        prop_assert_eq!(listed, totals(&placed).1, "who changes ranks is listed, nobody else");
        prop_assert_eq!(transfers(&resident, &placed.placement), placed.transfers);
    }

    #[test]
    fn a_common_budget_beats_equal_shares(
        layers in prop::collection::vec(prop::collection::vec(0u64..1000, 12), 2..5),
        share in 0u32..6, seed in any::<u64>(),
    ) {
        let resident = resident(layers.len(), 12, 4, seed);
        let total = share * layers.len() as u32;
        let each = run(&layers, &resident, MoveGoal::Budget { per_layer: Some(share), total: None });
        let common = run(&layers, &resident, MoveGoal::Budget { per_layer: None, total: Some(total) });
        prop_assert!(totals(&common).1 <= total);
        prop_assert!(totals(&common).0 <= totals(&each).0);
    }

    #[test]
    fn a_common_budget_saves_cost_not_rows(
        layers in prop::collection::vec((prop::collection::vec(0u64..1000, 12), 0u64..5), 2..5),
        share in 0u32..6, seed in any::<u64>(),
    ) {
        let (loads, layer_weights): (Vec<_>, Vec<u64>) = layers.into_iter().unzip();
        let resident = resident(loads.len(), 12, 4, seed);
        let cost = |moved: &Moved| -> u64 {
            moved.layers.iter().zip(&layer_weights).map(|(layer, weight)| layer.peak * weight).sum()
        };
        let each = run(&loads, &resident, MoveGoal::Budget { per_layer: Some(share), total: None });
        let goal = MoveGoal::Budget { per_layer: None, total: Some(share * loads.len() as u32) };
        let options = PlaceOptions { layer_weights: layer_weights.clone(), ..PlaceOptions::default() };
        let common = place_incrementally(&loads, &resident, goal, &options, &|| false).expect("valid");
        prop_assert!(cost(&common) <= cost(&each));
        for (layer, weight) in common.layers.iter().zip(&layer_weights) {
            prop_assert!(*weight > 0 || layer.moved == 0, "nothing moves where nothing is saved");
        }
    }
}

/// Moves of best swaps against the heaviest rank until it is within the tolerance: written anew, from its definition.
fn greedy_moves(loads: &[u64], ranks: usize, tolerance_ppm: u64, bound: u64) -> Option<u32> {
    let home = |expert: usize| expert / (loads.len() / ranks);
    let mut rank_of: Vec<usize> = (0..loads.len()).map(home).collect();
    loop {
        let mut sums = vec![0; ranks];
        for (expert, &rank) in rank_of.iter().enumerate() {
            sums[rank] += loads[expert];
        }
        let peak = *sums.iter().max().expect("a rank");
        if peak * 1_000_000 <= bound * (1_000_000 + tolerance_ppm) {
            return Some((0..loads.len()).filter(|&expert| rank_of[expert] != home(expert)).count() as u32);
        }
        let heaviest = sums.iter().position(|&sum| sum == peak).expect("the peak is a sum");
        let mut best = (peak, 0, 0);
        for x in (0..loads.len()).filter(|&x| rank_of[x] == heaviest) {
            for y in (0..loads.len()).filter(|&y| rank_of[y] != heaviest && loads[y] < loads[x]) {
                let less = loads[x] - loads[y];
                best = best.min(((peak - less).max(sums[rank_of[y]] + less), x, y));
            }
        }
        if best.0 == peak {
            return None;
        }
        rank_of.swap(best.1, best.2);
    }
}

#[test]
fn never_more_moves_than_greedy_best_swaps() {
    let fewest = |points: &[(u32, u64)], bound: u64, ppm: u64| {
        points
            .iter()
            .filter(|(_, peak)| peak * 1_000_000 <= bound * (1_000_000 + ppm))
            .map(|point| point.0)
            .min()
    };
    let (mut ours_in_all, mut greedy_in_all) = (0, 0);
    for (layer, sigma) in (0..24u64).zip([0.3, 0.5, 1.0].into_iter().cycle()) {
        let mut stream = routepack_anneal::stream::Stream::new(5).child(layer);
        let loads: Vec<u64> = (0..64).map(|_| (1e5 * (sigma * stream.normal()).exp()) as u64).collect();
        let identity = Placement::identity(1, 64, 8).expect("divisible");
        let layers = std::slice::from_ref(&loads);
        let curve = trade_off(layers, &identity, &PlaceOptions::default(), &|| false).expect("valid");
        let TradeOff { bound, points, greedy } = &curve[0];
        assert!(points.is_sorted_by(|a, b| a.0 < b.0 && a.1 > b.1), "{points:?}");
        assert!((points[0].0, points[0]) == (0, greedy[0]) && points.iter().all(|point| point.1 >= *bound));
        for ppm in [50_000, 20_000, 10_000] {
            let expected = greedy_moves(&loads, 8, ppm, *bound);
            assert_eq!(fewest(greedy, *bound, ppm), expected);
            let goal = within(ppm as u32);
            let moved = run(layers, &identity, goal).layers[0].moved;
            if let Some(greedy) = expected {
                assert!(moved <= greedy, "layer {layer}: {moved} moves, greedy {greedy}");
                assert!(fewest(points, *bound, ppm) <= Some(greedy));
                (ours_in_all, greedy_in_all) = (ours_in_all + moved, greedy_in_all + greedy);
            }
        }
    }
    assert!(10 * ours_in_all < 9 * greedy_in_all, "{ours_in_all} moves, greedy {greedy_in_all}");
}

#[test]
fn nothing_moves_without_need() {
    let resident = resident(2, 8, 4, 7);
    let placed = run(&[vec![0; 8], vec![3; 8]], &resident, within(0));
    assert_eq!((&placed.placement, placed.transfers.len(), placed.finished), (&resident, 0, true));
    let goal = MoveGoal::Budget { per_layer: None, total: Some(0) };
    assert_eq!(run(&[vec![0; 8], (0..8).collect()], &resident, goal).placement, resident);
}

#[test]
fn the_cheapest_cycle_is_found() {
    // Ranks of 12, 12 and 6 to be brought to 10: two ranks over, one receiver, three moves.
    let identity = Placement::identity(1, 6, 3).expect("divisible");
    let placed = run(&[vec![8, 4, 6, 6, 4, 2]], &identity, within(0));
    let layer = placed.layers[0];
    assert_eq!((layer.peak, layer.moved, layer.moved_bound), (10, 3, 3));
}

#[test]
fn stopped_at_once_still_answers() {
    let resident = resident(1, 8, 4, 1);
    let stop = || true;
    let placed =
        place_incrementally(&[(0..8).collect()], &resident, within(0), &PlaceOptions::default(), &stop)
            .expect("valid");
    assert!(!placed.finished && placed.layers[0].peak <= placed.layers[0].resident_peak);
}

#[test]
fn another_shape_is_refused() {
    let resident = resident(1, 8, 4, 1);
    let options = PlaceOptions::default();
    let error = place_incrementally(&[vec![1; 12]], &resident, within(0), &options, &|| false);
    assert!(matches!(error, Err(PlaceError::Resident { .. })), "{error:?}");
}

#[test]
fn few_moves_go_where_they_save_most() {
    // One swap brings the first layer from 30 to 20 and the second from 16 to 10.
    let loads = [vec![15, 15, 5, 5], vec![8, 8, 2, 2]];
    let resident = Placement::identity(2, 4, 2).expect("divisible");
    let goal = MoveGoal::Budget { per_layer: None, total: Some(2) };
    let moved = |layer_weights: &[u64]| {
        let options = PlaceOptions { layer_weights: layer_weights.to_vec(), ..PlaceOptions::default() };
        place_incrementally(&loads, &resident, goal, &options, &|| false)
    };
    let moves = |weights: &[u64]| -> Vec<u32> {
        moved(weights).expect("valid").layers.iter().map(|layer| layer.moved).collect()
    };
    assert_eq!(moves(&[]), [2, 0]);
    assert_eq!(moves(&[1, 1]), [2, 0]);
    assert_eq!(moves(&[1, 2]), [0, 2], "2 · 6 of cost are more than 10");
    assert_eq!(moved(&[1]), Err(PlaceError::LayerWeights { found: 1, expected: 2 }));
    let heavy = [vec![1 << 60, 1 << 60, 0, 0], vec![0; 4]];
    let options = PlaceOptions { layer_weights: vec![u64::MAX, 1], ..PlaceOptions::default() };
    assert!(place_incrementally(&heavy, &resident, goal, &options, &|| false).is_ok());
    let options = PlaceOptions { layer_weights: vec![u64::MAX; 40], ..PlaceOptions::default() };
    let (heavy, resident) = (vec![heavy[0].clone(); 40], Placement::identity(40, 4, 2).expect("divisible"));
    let error = place_incrementally(&heavy, &resident, goal, &options, &|| false);
    assert_eq!(error, Err(PlaceError::WeightedOverflow));
}
