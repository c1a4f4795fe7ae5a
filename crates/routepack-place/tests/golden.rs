//! Named cases, by value.

use routepack_place::{PlaceError, PlaceOptions, Placed, Start, place};
use routepack_problem::Placement;

fn run(loads: &[u64], ranks: usize) -> Placed {
    place(&[loads.to_vec()], ranks, &PlaceOptions::default(), &|| false).expect("valid")
}

/// Slots of one layer.
fn moves_from_identity(placed: &Placed) -> usize {
    let slots = placed.placement.slots(0);
    (0..slots.len()).filter(|&expert| slots[expert] != expert as u32).count()
}

#[test]
fn lpt_is_15_percent_off() {
    let loads = [4, 4, 2, 9, 2, 5];
    let lpt = PlaceOptions {
        start: Start::Lpt,
        max_swaps: 0,
        max_resplits: 0,
        max_triples: 0,
        ..PlaceOptions::default()
    };
    let lpt = place(&[loads.to_vec()], 2, &lpt, &|| false).expect("valid");
    assert_eq!(lpt.layers[0].peak, 15);
    let placed = run(&loads, 2);
    assert_eq!((placed.layers[0].peak, placed.layers[0].proved_optimal), (13, true));
}

#[test]
fn counts_above_2_to_the_24() {
    let placed = run(&[16_777_217, 16_777_216, 16_777_216, 16_777_215], 2);
    assert_eq!((placed.layers[0].peak, placed.layers[0].proved_optimal), (33_554_432, true));
}

#[test]
fn indivisible() {
    let error = place(&[vec![1; 30]], 8, &PlaceOptions::default(), &|| false).expect_err("refused");
    assert_eq!(error, PlaceError::Indivisible { experts: 30, ranks: 8 });
    assert!(error.to_string().contains("experts not divisible by ranks"), "{error}");
}

#[test]
fn all_zero() {
    let placed = run(&[0; 8], 4);
    assert_eq!((placed.layers[0].peak, moves_from_identity(&placed)), (0, 0));
}

#[test]
fn hottest_expert_is_the_bound() {
    let placed = run(&[100, 1, 1, 1, 1, 1, 1, 1], 4);
    assert_eq!((placed.layers[0].peak, placed.layers[0].proved_optimal), (101, true));
}

#[test]
fn loads_beyond_2_to_the_53() {
    // The exact answer differs from the rounded one in the last unit.
    let big = 1u64 << 59;
    let placed = run(&[big + 1, big, big, big - 1], 2);
    assert_eq!((placed.layers[0].peak, placed.layers[0].proved_optimal), (2 * big, true));
    let error =
        place(&[vec![1 << 61, 1 << 61]], 2, &PlaceOptions::default(), &|| false).expect_err("refused");
    assert_eq!(error, PlaceError::Overflow { layer: 0, sum: 1 << 62 });
}

#[test]
fn all_zero_layers_stay_where_they_are() {
    let resident = Placement::new(2, vec![vec![3, 1, 0, 2], vec![1, 0, 3, 2]]).expect("bijections");
    for start in [Start::Resident, Start::Identity, Start::Lpt] {
        let options = PlaceOptions { start, resident: Some(resident.clone()), ..PlaceOptions::default() };
        let placed = place(&[vec![0; 4], vec![5, 5, 1, 1]], 2, &options, &|| false).expect("valid");
        assert_eq!(placed.placement.slots(0), resident.slots(0), "{start:?}");
        assert_eq!(placed.layers[1].peak, 6, "{start:?}");
    }
}

#[test]
fn shapes_are_named() {
    let options = PlaceOptions::default();
    let error = place(&[vec![1; 4], vec![1; 6]], 2, &options, &|| false).expect_err("refused");
    assert_eq!(error, PlaceError::Shape { layer: 1, found: 6, expected: 4 });
    assert!(place(&[vec![1; 4]], 0, &options, &|| false).is_err());
    let resident = Some(Placement::identity(1, 4, 4).expect("divisible"));
    let error =
        place(&[vec![1; 4]], 2, &PlaceOptions { resident, ..options }, &|| false).expect_err("refused");
    assert!(error.to_string().contains("4 ranks"), "{error}");
    assert!(PlaceOptions { max_subsets: 70_000, ..PlaceOptions::default() }.validate().is_err());
}

#[test]
fn nothing_to_place() {
    let placed = place(&[], 4, &PlaceOptions::default(), &|| false).expect("valid");
    assert_eq!((placed.placement.num_layers(), placed.finished), (0, true));
    let one_rank = run(&[3, 4, 5], 1);
    assert_eq!((one_rank.layers[0].peak, moves_from_identity(&one_rank)), (12, 0));
    let one_slot = run(&[3, 4, 5], 3);
    assert_eq!((one_slot.layers[0].peak, moves_from_identity(&one_slot)), (5, 0));
}

#[test]
fn a_resident_placement_that_is_no_bijection() {
    for (slots, expert) in
        [(vec![0, 1, 1, 2], "expert 2"), (vec![0, 1, 4, 2], "expert 2"), (vec![3; 4], "expert 1")]
    {
        let error = Placement::new(2, vec![vec![0, 1, 2, 3], slots]).expect_err("refused").to_string();
        assert!(
            ["layer 1", expert, "bijection onto slots 0 to 3"].iter().all(|part| error.contains(part)),
            "{error}"
        );
    }
}
