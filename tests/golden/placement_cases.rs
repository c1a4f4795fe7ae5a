//! Expert loads that broke placement tools.

use routepack::place::{PlaceError, PlaceOptions, Placed, place};

fn placed(loads: Vec<u64>, ranks: usize) -> Result<Placed, PlaceError> {
    place(&[loads], ranks, &PlaceOptions::default(), &|| false)
}

fn proved_peak(loads: Vec<u64>, ranks: usize) -> u64 {
    let placed = placed(loads.clone(), ranks).expect("a placement");
    let layer = &placed.layers[0];
    let mut rank_loads = vec![0; ranks];
    for (expert, load) in loads.iter().enumerate() {
        rank_loads[placed.placement.rank_of(0, expert)] += load;
    }
    assert_eq!(rank_loads.into_iter().max(), Some(layer.peak));
    assert!(layer.proved_optimal, "{layer:?}");
    layer.peak
}

/// Longest processing time first alone is 15 % off.
#[test]
fn lpt_is_15_percent_off() {
    assert_eq!(placed(vec![4, 4, 2, 9, 2, 5], 2).expect("a placement").layers[0].peak, 13);
}

/// Loads that 32-bit floats cannot tell apart.
#[test]
fn counts_above_2_24() {
    assert_eq!(proved_peak(vec![16_777_217, 16_777_216, 16_777_216, 16_777_215], 2), 33_554_432);
}

/// 30 experts on 8 ranks.
#[test]
fn indivisible() {
    let error = placed(vec![1; 30], 8).expect_err("no placement").to_string();
    assert!(error.contains("experts not divisible by ranks"), "{error}");
}

/// Nothing to balance: nothing moves.
#[test]
fn all_zero() {
    let placed = placed(vec![0; 8], 4).expect("a placement");
    assert_eq!(placed.layers[0].peak, 0);
    assert_eq!(placed.placement.slots(0), [0, 1, 2, 3, 4, 5, 6, 7]);
}

/// The hottest expert and the smallest make the bound.
#[test]
fn hottest_expert_is_the_bound() {
    assert_eq!(proved_peak(vec![100, 1, 1, 1, 1, 1, 1, 1], 4), 101);
}
