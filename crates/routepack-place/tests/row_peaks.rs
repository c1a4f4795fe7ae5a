//! Placement on row peaks against brute force, and its laws.

use proptest::prelude::*;
use routepack_anneal::Stream;
use routepack_place::{
    MoveCharge, MoveLimit, PlaceError, RowLoads, RowPeakOptions, RowPlaced, place_on_row_peaks,
};
use routepack_problem::Placement;

/// Small loads: ranks, slots a rank, blocks, and a seed for everything else.
#[derive(Clone, Copy, Debug)]
struct Case {
    ranks: usize,
    slots: usize,
    blocks: usize,
    layers: usize,
    seed: u64,
}

impl Case {
    fn experts(self) -> usize {
        self.ranks * self.slots
    }

    fn loads(self) -> RowLoads {
        let mut stream = Stream::new(self.seed);
        let most = [2, 10, 1000][stream.index(3)];
        let layers = (0..self.layers)
            .map(|_| (0..self.experts() * self.blocks).map(|_| stream.below(most) as u32).collect())
            .collect();
        RowLoads::new(self.experts(), self.blocks, layers).expect("small")
    }

    fn placement(self, name: u64) -> Placement {
        let root = Stream::new(self.seed).child(name);
        let slots = (0..self.layers as u64)
            .map(|layer| {
                let mut slots: Vec<u32> = (0..self.experts() as u32).collect();
                root.child(layer).shuffle(&mut slots);
                slots
            })
            .collect();
        Placement::new(self.ranks, slots).expect("bijections")
    }
}

fn cases(ranks: std::ops::Range<usize>, slots: std::ops::Range<usize>) -> impl Strategy<Value = Case> {
    (ranks, slots, 1usize..10, 1usize..3, any::<u64>())
        .prop_map(|(ranks, slots, blocks, layers, seed)| Case { ranks, slots, blocks, layers, seed })
}

/// Σ over blocks of the largest rank load, from the definition.
fn cost(loads: &RowLoads, layer: usize, rank_of: impl Fn(usize) -> usize, ranks: usize) -> u64 {
    let mut sums = vec![vec![0u64; ranks]; loads.num_blocks()];
    for expert in 0..loads.num_experts() {
        for (sums, &load) in sums.iter_mut().zip(loads.of(layer, expert)) {
            sums[rank_of(expert)] += u64::from(load);
        }
    }
    sums.iter().map(|block| block.iter().max().copied().unwrap_or(0)).sum()
}

/// The least cost over every way to deal the experts to ranks.
fn least_cost(loads: &RowLoads, layer: usize, ranks: usize) -> u64 {
    fn deal(loads: &RowLoads, layer: usize, ranks: usize, rank_of: &mut Vec<usize>, best: &mut u64) {
        let slots = loads.num_experts() / ranks;
        if rank_of.len() == loads.num_experts() {
            *best = (*best).min(cost(loads, layer, |expert| rank_of[expert], ranks));
            return;
        }
        for rank in 0..ranks {
            let used = rank_of.iter().filter(|&&other| other == rank).count();
            if used < slots {
                rank_of.push(rank);
                deal(loads, layer, ranks, rank_of, best);
                rank_of.pop();
            }
            if used == 0 {
                break; // empty ranks are alike
            }
        }
    }
    let mut best = u64::MAX;
    deal(loads, layer, ranks, &mut Vec::new(), &mut best);
    best
}

fn search(case: Case, start: &Placement, limit: Option<MoveLimit<'_>>, stop: bool) -> RowPlaced {
    let options = RowPeakOptions { proposals_per_expert: 4000, ..RowPeakOptions::default() };
    place_on_row_peaks(&case.loads(), start, limit, &options, 1, &|| stop).expect("valid")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn held_to_brute_force(case in cases(1..4, 1..4)) {
        let (loads, start) = (case.loads(), case.placement(0));
        let placed = search(case, &start, None, false);
        prop_assert!(placed.finished);
        for (layer, outcome) in placed.layers.iter().enumerate() {
            let least = least_cost(&loads, layer, case.ranks);
            prop_assert!(outcome.bound <= least && least <= outcome.after, "{outcome:?}, least {least}");
            if case.slots == 1 || case.ranks == 1 {
                prop_assert_eq!(outcome.after, least, "all placements cost the same");
            }
            let recomputed = cost(&loads, layer, |expert| placed.placement.rank_of(layer, expert), case.ranks);
            prop_assert_eq!(outcome.after, recomputed);
            prop_assert_eq!(outcome.before, cost(&loads, layer, |expert| start.rank_of(layer, expert), case.ranks));
        }
    }

    #[test]
    fn no_swap_improves_and_who_stays_keeps_its_slot(case in cases(2..7, 1..6)) {
        let (loads, start) = (case.loads(), case.placement(0));
        let placed = search(case, &start, None, false);
        for (layer, outcome) in placed.layers.iter().enumerate() {
            prop_assert!(outcome.bound <= outcome.after && outcome.after <= outcome.before);
            let rank_of: Vec<usize> =
                (0..case.experts()).map(|expert| placed.placement.rank_of(layer, expert)).collect();
            for a in 0..case.experts() {
                for b in 0..a {
                    let mut swapped = rank_of.clone();
                    swapped.swap(a, b);
                    prop_assert!(cost(&loads, layer, |expert| swapped[expert], case.ranks) >= outcome.after);
                }
                if rank_of[a] == start.rank_of(layer, a) {
                    prop_assert_eq!(placed.placement.slots(layer)[a], start.slots(layer)[a]);
                }
            }
        }
    }

    #[test]
    fn moves_stay_within_the_limit(case in cases(2..6, 1..5), moves in 0u32..6) {
        let resident = case.placement(0);
        let moves = vec![moves; case.layers];
        let limit = MoveLimit { resident: &resident, moves: &moves, charge: None };
        let placed = search(case, &resident, Some(limit), false);
        for (layer, outcome) in placed.layers.iter().enumerate() {
            let away = (0..case.experts())
                .filter(|&expert| placed.placement.rank_of(layer, expert) != resident.rank_of(layer, expert));
            prop_assert!(away.count() <= moves[layer] as usize);
            prop_assert!(outcome.after <= outcome.before);
            for expert in 0..case.experts() {
                if placed.placement.rank_of(layer, expert) == resident.rank_of(layer, expert) {
                    prop_assert_eq!(placed.placement.slots(layer)[expert], resident.slots(layer)[expert]);
                }
            }
        }
    }

    /// No swap pays for its moves, and none is made for less than it costs.
    #[test]
    fn charged_moves_pay(case in cases(2..6, 1..5), move_cost in 0u64..60, steps in 1u32..4) {
        let (loads, resident) = (case.loads(), case.placement(0));
        let moves = vec![u32::MAX; case.layers];
        let charge = MoveCharge { move_cost, steps };
        let limit = MoveLimit { resident: &resident, moves: &moves, charge: Some(charge) };
        let placed = search(case, &case.placement(1), Some(limit), false);
        for (layer, outcome) in placed.layers.iter().enumerate() {
            let rank_of: Vec<usize> =
                (0..case.experts()).map(|expert| placed.placement.rank_of(layer, expert)).collect();
            let charged = |rank_of: &[usize]| {
                let moved = (0..case.experts()).filter(|&expert| rank_of[expert] != resident.rank_of(layer, expert));
                u64::from(steps) * cost(&loads, layer, |expert| rank_of[expert], case.ranks)
                    + move_cost * moved.count() as u64
            };
            prop_assert_eq!(outcome.after, cost(&loads, layer, |expert| rank_of[expert], case.ranks));
            let start: Vec<usize> = (0..case.experts()).map(|e| case.placement(1).rank_of(layer, e)).collect();
            prop_assert!(charged(&rank_of) <= charged(&start));
            for a in 0..case.experts() {
                for b in 0..a {
                    let mut swapped = rank_of.clone();
                    swapped.swap(a, b);
                    prop_assert!(charged(&swapped) >= charged(&rank_of));
                }
            }
        }
    }

    #[test]
    fn threads_change_nothing_and_stopping_keeps_the_best(case in cases(2..7, 1..6)) {
        let start = case.placement(0);
        let placed = search(case, &start, None, false);
        for threads in [1, 2, 4] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
            prop_assert_eq!(&pool.install(|| search(case, &start, None, false)), &placed);
        }
        let stopped = search(case, &start, None, true);
        prop_assert!(stopped.layers.iter().all(|layer| layer.after <= layer.before));
        prop_assert_eq!(stopped.finished, stopped.layers.iter().all(|layer| layer.before == layer.bound));
    }
}

#[test]
fn most_small_cases_end_at_the_optimum() {
    let optimal = (0..300)
        .filter(|&seed| {
            let case = Case { ranks: 3, slots: 3, blocks: 1 + seed as usize % 8, layers: 1, seed };
            let placed = search(case, &case.placement(0), None, false);
            placed.layers[0].after == least_cost(&case.loads(), 0, case.ranks)
        })
        .count();
    assert!(optimal >= 268, "{optimal} of 300");
}

#[test]
fn bad_input_is_named() {
    let case = Case { ranks: 2, slots: 2, blocks: 1, layers: 1, seed: 0 };
    let (loads, start, options) = (case.loads(), case.placement(0), RowPeakOptions::default());
    let run = |start: &Placement, limit, options: &RowPeakOptions| {
        place_on_row_peaks(&loads, start, limit, options, 0, &|| false).map(drop)
    };
    let other = Placement::identity(1, 6, 2).expect("divisible");
    let error = run(&other, None, &options).expect_err("six experts");
    assert_eq!(
        error.to_string(),
        "start placement has 1 layers, 6 experts, the loads have 1 layers, 4 experts"
    );
    let hot = RowPeakOptions { hottest: f64::NAN, ..options.clone() };
    assert!(matches!(run(&start, None, &hot), Err(PlaceError::Option { field: "row_peaks.hottest", .. })));
    let far = Placement::new(2, vec![vec![0, 1, 2, 3]]).expect("bijection");
    let near = Placement::new(2, vec![vec![2, 3, 0, 1]]).expect("bijection");
    let limit = MoveLimit { resident: &near, moves: &[3], charge: None };
    let error = run(&far, Some(limit), &options).expect_err("four are away");
    assert_eq!(error, PlaceError::Moves { layer: 0, moved: 4, limit: 3 });
    let limit = MoveLimit { resident: &near, moves: &[4, 4], charge: None };
    assert_eq!(run(&far, Some(limit), &options), Err(PlaceError::Limits { found: 2, expected: 1 }));
    let heavy = RowLoads::new(2, 1, vec![vec![1 << 30, 1 << 30]]);
    assert_eq!(heavy, Err(PlaceError::BlockOverflow { layer: 0, block: 0, sum: 1 << 31 }));
}

#[test]
fn proposals_in_all_are_shared_by_the_experts_of_all_layers() {
    let case = Case { ranks: 4, slots: 8, blocks: 9, layers: 3, seed: 5 };
    let placed = |proposals_per_expert, proposals| {
        let options = RowPeakOptions { proposals_per_expert, proposals, ..RowPeakOptions::default() };
        place_on_row_peaks(&case.loads(), &case.placement(0), None, &options, 0, &|| false).expect("valid")
    };
    let forty = placed(40, u64::MAX);
    assert_eq!(placed(u32::MAX, 3 * 32 * 40), forty);
    assert_eq!(placed(40, 3 * 32 * 40), forty);
    assert_ne!(placed(u32::MAX, 3 * 32 * 20), forty);
}

#[test]
fn heavier_blocks_are_levelled_first() {
    // Experts 0 and 1 meet in block 0, 0 and 2 in block 1.
    let loads = RowLoads::new(4, 2, vec![vec![4, 4, 4, 0, 0, 4, 0, 0]]).expect("small");
    let start = Placement::identity(1, 4, 2).expect("divisible");
    let peaks = |weights: &[u32]| {
        let weighted = loads.weighted(weights).expect("small");
        assert_eq!(weighted.of(0, 0), [4 * weights[0], 4 * weights[1]]);
        let placed = place_on_row_peaks(&weighted, &start, None, &RowPeakOptions::default(), 0, &|| false);
        placed.expect("valid").layers[0].after
    };
    assert_eq!(peaks(&[1, 1]), least_cost(&loads, 0, 2));
    assert_eq!(peaks(&[3, 1]), least_cost(&loads.weighted(&[3, 1]).expect("small"), 0, 2));
    assert_eq!(loads.weighted(&[1]), Err(PlaceError::Weights { found: 1, expected: 2 }));
    let error = loads.weighted(&[1 << 30, 1]).expect_err("too much");
    assert!(matches!(error, PlaceError::BlockOverflow { block: 0, .. }), "{error}");
}
