//! What a move costs: estimates that stay near the bound, with and without a small staging buffer.

use std::collections::BTreeMap;

use routepack_materialise::{ExpertState, Holdings, Links, MoveCost, MoveOptions, materialise, move_cost};
use routepack_problem::{Parallelism, Placement};

/// 8 layers of 32 experts on PP 4, EP 8, two EDP copies: nodes of 8 ranks. Experts 0 and 4, 8 and 12, … trade places.
fn cost(options: &MoveOptions) -> MoveCost {
    let state = ExpertState::mixed_precision_adam(32, 4096, 2048, 1);
    let holdings = Holdings::new(&Parallelism { pp: 4, ..Parallelism::new(16, 8) }, 8, state).expect("valid");
    let resident = Placement::identity(8, 32, 8).expect("valid");
    let swapped =
        (0..32).map(|expert: u32| if expert.is_multiple_of(4) { expert ^ 4 } else { expert }).collect();
    let target = Placement::new(8, vec![swapped; 8]).expect("bijections");
    let moved = materialise(&holdings, &resident, &target, options).expect("a plan");
    move_cost(&holdings, &moved, &options.links)
}

#[test]
fn a_staging_buffer_of_a_twentieth_costs_little_time() {
    let free = MoveOptions::default();
    let whole = cost(&free);
    let limit = whole.busiest_bytes / 20;
    let limited = cost(&MoveOptions { staging_bytes: Some(limit), ..free });
    assert_eq!(whole.links, limited.links, "the same bytes over the same links");
    assert!(
        whole.busiest_seconds <= whole.seconds && whole.seconds < 1.4 * whole.busiest_seconds,
        "{whole:?}"
    );
    assert!(limited.seconds < 1.5 * whole.seconds, "{} {}", limited.seconds, whole.seconds);
}

#[test]
fn every_stage_is_busy_in_every_pass() {
    let options = MoveOptions { staging_bytes: Some(4 << 20), ..MoveOptions::default() };
    let state = ExpertState::mixed_precision_adam(32, 256, 128, 1);
    let holdings = Holdings::new(&Parallelism { pp: 4, ..Parallelism::new(8, 8) }, 8, state).expect("valid");
    let resident = Placement::identity(8, 32, 8).expect("valid");
    let turned = (0..32).map(|expert: u32| (expert + 4) % 32).collect();
    let target = Placement::new(8, vec![turned; 8]).expect("bijections");
    let moved = materialise(&holdings, &resident, &target, &options).expect("a plan");
    let passes = moved.passes.len();
    assert!(passes > 2);
    for pass in &moved.passes[..passes - 1] {
        let mut received: BTreeMap<u32, u64> = BTreeMap::new();
        for transfer in pass.transfers() {
            *received.entry(transfer.to.owner.stage).or_default() += transfer.len();
        }
        let (least, most) = (received.values().min(), received.values().max());
        assert_eq!(received.len(), 4, "all stages");
        assert!(least.expect("a stage") * 2 > *most.expect("a stage"), "{received:?}");
    }
}

#[test]
fn blocks_of_a_round_take_equally_long() {
    // EP ranks 0 to 3 on one node, 4 to 7 on another: experts that trade between 3 and 4 cross.
    let links = Links { ranks_per_node: 4, round_seconds: 1e-6, ..Links::default() };
    let state = ExpertState::mixed_precision_adam(32, 1024, 512, 1);
    let holdings = Holdings::new(&Parallelism::new(8, 8), 1, state).expect("valid");
    let resident = Placement::identity(1, 32, 8).expect("valid");
    let mut slots: Vec<u32> = (0..32).collect();
    slots.swap(12, 16);
    // Within a node four times as much, at four times the speed.
    (0..4).for_each(|place| slots.swap(place, place + 4));
    let target = Placement::new(8, vec![slots]).expect("a bijection");
    let options = MoveOptions { links: links.clone(), ..MoveOptions::default() };
    let moved = materialise(&holdings, &resident, &target, &options).expect("a plan");
    for round in &moved.passes[0].rounds {
        let bytes = |between: bool| {
            let crosses = |from: u32, to: u32| (from / 4 != to / 4) == between;
            round.iter().filter(|block| crosses(block.from, block.to)).map(|block| block.num_bytes).max()
        };
        assert_eq!(bytes(true).map(|bytes| 4 * bytes), bytes(false));
    }
}
