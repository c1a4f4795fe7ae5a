//! Training does not notice that experts move: a small MoE on simulated ranks, bit for bit.

mod moe;

use moe::{Canonical, DP, Draw, EXPERTS, LAYERS, Trainer, floats_of, from_bf16, tensor_index, to_bf16};
use routepack_materialise::{MoveOptions, apply, materialise};
use routepack_problem::Placement;

fn identity(ranks: usize) -> Placement {
    Placement::identity(LAYERS, EXPERTS, ranks).expect("valid")
}

/// Moves all state; buffers small enough for several passes.
fn move_to(trainer: &mut Trainer, target: &Placement) {
    let options = MoveOptions { block_bytes: 100, staging_bytes: Some(700), ..MoveOptions::default() };
    let moved = materialise(&trainer.holdings, &trainer.placement, target, &options).expect("a plan");
    assert!(moved.passes.len() > 1);
    trainer.memories = apply(&trainer.holdings, &moved, &trainer.memories).0;
    trainer.placement = target.clone();
}

fn train(trainer: &mut Trainer, steps: usize) {
    (0..steps).for_each(|_| trainer.train_step());
}

/// Weights, masters and moments in logical order, and the losses of the next step.
fn seen(trainer: &Trainer) -> (Vec<Canonical>, Vec<f32>) {
    (trainer.canonical(), trainer.losses())
}

#[test]
fn training_learns() {
    let mut trainer = Trainer::new(2, identity(2));
    let before: f32 = trainer.losses().iter().sum();
    train(&mut trainer, 20);
    let mut later = trainer.clone();
    later.step = 0;
    assert!(later.losses().iter().sum::<f32>() < 0.9 * before);
}

#[test]
fn three_steps_a_move_three_steps_are_six_steps() {
    let mut still = Trainer::new(2, identity(2));
    train(&mut still, 6);
    let mut moving = Trainer::new(2, identity(2));
    train(&mut moving, 3);
    move_to(&mut moving, &Draw(1).placement(2));
    train(&mut moving, 3);
    assert!(seen(&still) == seen(&moving));
    // All EDP copies are equal, and equal to a fresh layout of the same logical state.
    let mut fresh = Trainer { placement: moving.placement.clone(), ..moving.clone() };
    fresh.load(&still.canonical());
    assert!(fresh.memories == moving.memories);
}

#[test]
fn two_moves_are_their_composition() {
    let (first, second) = (Draw(2).placement(2), Draw(3).placement(2));
    let mut twice = Trainer::new(2, identity(2));
    train(&mut twice, 2);
    let mut once = twice.clone();
    move_to(&mut twice, &first);
    move_to(&mut twice, &second);
    move_to(&mut once, &second);
    assert!(twice.memories == once.memories);
}

#[test]
fn saved_in_logical_order_it_loads_at_another_ep_size() {
    let mut at_two = Trainer::new(2, identity(2));
    train(&mut at_two, 3);
    move_to(&mut at_two, &Draw(4).placement(2));
    train(&mut at_two, 1);
    let mut at_four = Trainer { step: at_two.step, ..Trainer::new(4, Draw(5).placement(4)) };
    at_four.load(&at_two.canonical());
    assert!(seen(&at_two) == seen(&at_four));
    // Further steps sum gradients in another order: two shards of two slots each, or one of four.
    train(&mut at_two, 2);
    train(&mut at_four, 2);
    let masters = |trainer: &Trainer| -> Vec<f32> {
        trainer.canonical().iter().flat_map(|state| floats_of(&state[1])).collect()
    };
    // Adam divides by the root of the second moment, so a gradient near 0 may differ in sign: at most the rate a step.
    let far = masters(&at_two).iter().zip(masters(&at_four)).filter(|(a, b)| (*a - b).abs() > 1e-4).count();
    assert!(far == 0, "{far} masters differ by more than 1e-4");
}

#[test]
fn a_move_without_its_map_is_noticed() {
    let mut trainer = Trainer::new(2, identity(2));
    train(&mut trainer, 2);
    let before = seen(&trainer);
    move_to(&mut trainer, &Draw(1).placement(2));
    assert!(seen(&trainer) == before);
    trainer.placement = identity(2);
    assert!(seen(&trainer) != before, "weights in their new slots, the map the old one");
}

/// Seen in public: after an expert swap the FP32 masters were filled again from BF16 weights; 1.0009765625 became 1.0.
#[test]
fn masters_are_moved_not_refilled_from_bf16() {
    let exact = 1.0 + 1.0 / 1024.0f32; // 1.0009765625
    assert!(from_bf16(to_bf16(exact).to_le_bytes()).to_bits() == 1.0f32.to_bits(), "BF16 cannot hold it");
    let mut trainer = Trainer::new(2, identity(2));
    let mut state = trainer.canonical();
    let index = tensor_index(1, 3, 1);
    state[index][1][..4].copy_from_slice(&exact.to_le_bytes());
    trainer.load(&state);
    move_to(&mut trainer, &Draw(6).placement(2));
    assert_ne!(trainer.placement.slots(1)[3], 3, "expert 3 moves");
    assert_eq!(floats_of(&trainer.canonical()[index][1])[0].to_bits(), exact.to_bits());
}

/// Seen in public: a router that spoke of slots after a move, its bias left behind. Here the router stays logical, so
/// routes of the same tokens are the same before and after.
#[test]
fn the_router_is_logical_and_does_not_move() {
    let mut trainer = Trainer::new(2, identity(2));
    let (router, losses) = (trainer.router.clone(), trainer.losses());
    move_to(&mut trainer, &Draw(8).placement(2));
    assert!(trainer.router == router && trainer.losses() == losses && losses.len() == DP);
}
