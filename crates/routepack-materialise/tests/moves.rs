//! Laws of moves, on simulated memories of every rank.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use routepack_materialise::{
    ExpertPlace, ExpertState, ExpertTensor, FlatOptions, FlatOrder, Held, Holdings, Links, Materialised,
    Memories, MoveOptions, Pass, StateKind, apply, materialise,
};
use routepack_problem::{Parallelism, Placement};

/// A grid, its state, two placements, and how to move.
#[derive(Clone, Debug)]
struct Case {
    holdings: Holdings,
    resident: Placement,
    target: Placement,
    options: MoveOptions,
}

fn permutation(n: usize) -> impl Strategy<Value = Vec<u32>> {
    Just((0..n as u32).collect::<Vec<u32>>()).prop_shuffle()
}

prop_compose! {
    fn sizes()(
        (ep, etp, edp) in (1u32..=3, 1u32..=2, 1u32..=3),
        (pp, vpp) in (1u32..=2, 1u32..=2),
        places in 1u32..=4,
        tensors in prop::collection::vec(1u64..40, 1..3),
        (tensor_alignment, bucket_alignment, bucket) in (1u64..5, 1u64..4, prop::option::of(1u64..200)),
        (flat_adapter, order, bucket_everywhere, mtp_layers) in (any::<bool>(),
            prop::sample::select(vec![FlatOrder::Grouped, FlatOrder::Sequential, FlatOrder::Stacked]),
            any::<bool>(), 0u32..2),
        (block_bytes, staging) in (1u64..400, prop::option::of(64u64..600)),
        (ranks_per_node, between_nodes, round_seconds) in (1u32..5, 1e6..1e9, 0.0..2e-6),
    ) -> (Parallelism, ExpertState, MoveOptions) {
        let layers = 2 * (pp * vpp) as usize;
        // Interleaved chunks: two layers each.
        let layer_stage = (0..layers).map(|layer| (layer as u32 / 2) % pp).collect();
        let parallelism = Parallelism {
            pp, vpp, etp: Some(etp), layer_stage: Some(layer_stage), ..Parallelism::new(ep * etp * edp, ep)
        };
        let kind = |name: &str, element_bytes, held| {
            StateKind { name: name.into(), element_bytes, held, tensors: None }
        };
        let last = format!("w{}", tensors.len() - 1);
        let adapter = StateKind { tensors: Some(vec![last]), ..kind("adapter", 2, if flat_adapter { Held::Flat } else { Held::BySlot }) };
        let state = ExpertState {
            num_experts: ep * places,
            tensors: (0..).zip(tensors).map(|(index, elements)| ExpertTensor { name: format!("w{index}"), elements }).collect(),
            kinds: vec![kind("weight", 2, Held::BySlot), kind("master", 4, Held::Flat), adapter],
            flat: FlatOptions {
                order, tensor_alignment, bucket_alignment, bucket_elements: bucket, bucket_everywhere, mtp_layers
            },
        };
        let links = Links { ranks_per_node, within_node: 1e9, between_nodes, round_seconds, ..Links::default() };
        (parallelism, state, MoveOptions { block_bytes, staging_bytes: staging, links })
    }
}

fn case() -> impl Strategy<Value = Case> {
    sizes().prop_flat_map(|(parallelism, state, options)| {
        let (layers, experts) = (2 * (parallelism.pp * parallelism.vpp) as usize, state.num_experts as usize);
        let placement = || prop::collection::vec(permutation(experts), layers);
        (placement(), placement()).prop_map(move |(resident, target)| Case {
            holdings: Holdings::new(&parallelism, layers, state.clone()).expect("valid"),
            resident: Placement::new(parallelism.ep as usize, resident).expect("bijections"),
            target: Placement::new(parallelism.ep as usize, target).expect("bijections"),
            options: options.clone(),
        })
    })
}

/// Bytes that no other (layer, expert, kind, tensor, slice, offset) is likely to have.
fn content(seed: [usize; 5], len: usize) -> Vec<u8> {
    let mut state = seed.iter().fold(0x9E37_79B9_7F4A_7C15u64, |state, &part| {
        (state ^ part as u64).wrapping_mul(0xD129_0CF9_3B4F_A7B5).rotate_left(29)
    });
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect()
}

/// Memories in which every expert lies where the placement says.
fn laid_out(holdings: &Holdings, placement: &Placement) -> Memories {
    let mut memories = Memories::new(holdings);
    let state = holdings.state();
    for layer in 0..placement.num_layers() {
        for expert in 0..placement.num_experts() {
            for (kind, described) in state.kinds.iter().enumerate() {
                for &tensor in holdings.tensors_of(kind) {
                    let sized = &state.tensors[tensor];
                    let etps =
                        holdings.grid().owners(layer).map(|owner| owner.etp).collect::<BTreeSet<u32>>();
                    for etp in etps {
                        let place = ExpertPlace::of(placement, layer, expert, kind, tensor, etp);
                        let len = sized.elements * u64::from(described.element_bytes);
                        let bytes = content([layer, expert, kind, tensor, etp as usize], len as usize);
                        memories.scatter(holdings, &place, &bytes);
                    }
                }
            }
        }
    }
    memories
}

fn plan(case: &Case) -> Materialised {
    materialise(&case.holdings, &case.resident, &case.target, &case.options).expect("a plan")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_move_gives_exactly_the_target_within_the_stated_buffers(case in case()) {
        let moved = plan(&case);
        let before = laid_out(&case.holdings, &case.resident);
        let (after, usage) = apply(&case.holdings, &moved, &before);
        // Padding is zero in both, so the whole memories are equal: all EDP copies too.
        prop_assert!(after == laid_out(&case.holdings, &case.target));
        prop_assert_eq!(usage.staging_bytes, moved.staging_bytes);
        prop_assert_eq!(usage.message_bytes, moved.message_bytes);
        prop_assert!(case.options.staging_bytes.is_none_or(|limit| usage.staging_bytes <= limit));
        prop_assert!(usage.message_bytes <= case.options.block_bytes);
    }

    #[test]
    fn every_byte_is_written_once_and_only_where_something_changes(case in case()) {
        let moved = plan(&case);
        let mut written: BTreeMap<_, BTreeSet<u64>> = BTreeMap::new();
        for transfer in moved.passes.iter().flat_map(Pass::transfers) {
            prop_assert!(transfer.from.slot != transfer.to.slot);
            let tensor = transfer.tensor as usize;
            for offset in transfer.bytes.clone() {
                let held = case.holdings.address(
                    transfer.kind as usize, transfer.layer as usize, transfer.to, tensor, offset);
                let (at, _) = held.expect("held where it goes");
                let of_owner = written.entry((transfer.to.owner, transfer.kind)).or_default();
                prop_assert!(of_owner.insert(at), "written twice");
            }
        }
    }

    #[test]
    fn rounds_are_as_many_as_the_busiest_rank_has_messages(case in case()) {
        for pass in &plan(&case).passes {
            let mut sends: BTreeMap<u32, usize> = BTreeMap::new();
            let mut receives: BTreeMap<u32, usize> = BTreeMap::new();
            for round in &pass.rounds {
                let (mut from, mut to) = (BTreeSet::new(), BTreeSet::new());
                for block in round {
                    prop_assert!(from.insert(block.from) && to.insert(block.to), "two peers in a round");
                    prop_assert!(block.from != block.to);
                    *sends.entry(block.from).or_default() += 1;
                    *receives.entry(block.to).or_default() += 1;
                }
            }
            let most = sends.values().chain(receives.values()).max().copied().unwrap_or(0);
            prop_assert_eq!(pass.rounds.len(), most);
        }
    }

    #[test]
    fn weights_come_from_the_peer_at_the_same_copy(case in case()) {
        for transfer in plan(&case).passes.iter().flat_map(Pass::transfers) {
            let (from, to) = (transfer.from.owner, transfer.to.owner);
            prop_assert_eq!((from.stage, from.chunk, from.etp), (to.stage, to.chunk, to.etp));
            prop_assert!(transfer.kind != 0 || from.edp == to.edp);
        }
    }

    #[test]
    fn two_moves_are_their_composition_and_the_inverse_leads_back(case in case()) {
        let identity = Placement::identity(
            case.resident.num_layers(), case.resident.num_experts(), case.resident.num_ranks()).expect("valid");
        let before = laid_out(&case.holdings, &identity);
        let steps = [(&identity, &case.resident), (&case.resident, &case.target)];
        let mut memories = before.clone();
        for (from, to) in steps {
            let moved = materialise(&case.holdings, from, to, &case.options).expect("a plan");
            memories = apply(&case.holdings, &moved, &memories).0;
        }
        let direct = materialise(&case.holdings, &identity, &case.target, &case.options).expect("a plan");
        prop_assert!(memories == apply(&case.holdings, &direct, &before).0);
        let (back, usage) = apply(&case.holdings, &direct.inverse(), &memories);
        prop_assert!(back == before);
        prop_assert_eq!(usage.staging_bytes, direct.inverse().staging_bytes);
    }
}

#[test]
fn the_generator_reaches_the_hard_cases() {
    let mut runner = TestRunner::deterministic();
    let mut reached = [0; 4];
    for _ in 0..100 {
        let case = case().new_tree(&mut runner).expect("a case").current();
        let moved = plan(&case);
        let sent = || moved.passes.iter().flat_map(|pass| pass.rounds.iter().flatten());
        let hard = [
            moved.passes.len() > 1,
            moved.passes.iter().any(|pass| !pass.local.is_empty()),
            crossing_copies(&moved) > 0,
            sent().any(|block| block.pieces.len() > 1),
        ];
        for (count, hard) in reached.iter_mut().zip(hard) {
            *count += usize::from(hard);
        }
    }
    assert!(reached.iter().all(|&count| count >= 20), "{reached:?}");
}

/// One layer of 8 experts on EP 2, two copies, cuts inside experts.
fn pair(target: Vec<u32>) -> (Holdings, Materialised) {
    let state =
        ExpertState { flat: FlatOptions::default(), ..ExpertState::mixed_precision_adam(8, 24, 16, 1) };
    let holdings = Holdings::new(&Parallelism::new(4, 2), 1, state).expect("valid");
    let resident = Placement::identity(1, 8, 2).expect("valid");
    let target = Placement::new(2, vec![target]).expect("a bijection");
    let moved = materialise(&holdings, &resident, &target, &MoveOptions::default()).expect("a plan");
    (holdings, moved)
}

fn crossing_copies(moved: &Materialised) -> u64 {
    let transfers = moved.passes.iter().flat_map(Pass::transfers);
    transfers.filter(|t| t.from.owner.edp != t.to.owner.edp).map(|t| t.bytes.end - t.bytes.start).sum()
}

#[test]
fn a_swap_of_equal_places_moves_ranges_one_to_one() {
    // Experts 1 and 5: place 1 of either rank. No byte changes its EDP position.
    let (_, equal) = pair(vec![0, 5, 2, 3, 4, 1, 6, 7]);
    assert_eq!(crossing_copies(&equal), 0);
    assert_eq!(equal.passes[0].rounds.len(), 1);
    // Experts 0 and 7: the first place and the last. Their masters and moments change EDP positions as well, to a
    // second peer.
    let (_, unequal) = pair(vec![7, 1, 2, 3, 4, 5, 6, 0]);
    assert!(crossing_copies(&unequal) > 0);
    assert!(unequal.passes[0].rounds.len() > 1);
}

#[test]
fn a_change_of_place_inside_a_rank_moves_flat_state_between_copies() {
    let (holdings, moved) = pair(vec![3, 1, 2, 0, 4, 5, 6, 7]);
    assert!(!moved.passes[0].local.is_empty(), "weights stay on their rank");
    let sent: Vec<_> = moved.passes[0].rounds.iter().flatten().flat_map(|block| &block.pieces).collect();
    assert!(!sent.is_empty(), "flat state does not");
    for transfer in sent {
        assert_eq!(transfer.from.owner.ep, transfer.to.owner.ep);
        assert_eq!(holdings.state().kinds[transfer.kind as usize].held, Held::Flat);
    }
}

#[test]
fn nothing_moves_where_nothing_changes() {
    let (_, moved) = pair((0..8).collect());
    assert_eq!((moved.passes.len(), moved.staging_bytes), (0, 0));
}

#[test]
fn refusals_name_the_value() {
    let state = ExpertState::mixed_precision_adam(8, 24, 16, 1);
    let holdings = Holdings::new(&Parallelism::new(4, 2), 1, state.clone()).expect("valid");
    let placement = |ranks, experts| Placement::identity(1, experts, ranks).expect("valid");
    let refused = |resident: &Placement, target: &Placement, options: &MoveOptions| {
        materialise(&holdings, resident, target, options).expect_err("refused").to_string()
    };
    assert_eq!(
        refused(&placement(4, 8), &placement(2, 8), &MoveOptions::default()),
        "resident placement has 1 layers, 8 experts, 4 ranks, the state has 1 layers, 8 experts, 2 ranks"
    );
    let swapped = Placement::new(2, vec![vec![4, 1, 2, 3, 0, 5, 6, 7]]).expect("a bijection");
    let narrow = MoveOptions { staging_bytes: Some(1), ..MoveOptions::default() };
    assert_eq!(
        refused(&placement(2, 8), &swapped, &narrow),
        "options.staging_bytes = 1: layer 0 needs at least 2 bytes: one element of every expert a rank receives"
    );
    let none = MoveOptions { block_bytes: 0, ..MoveOptions::default() };
    assert_eq!(refused(&placement(2, 8), &swapped, &none), "options.block_bytes = 0: expected at least 1");
    let links = Links { between_nodes: 0.0, ..Links::default() };
    assert_eq!(
        refused(&placement(2, 8), &swapped, &MoveOptions { links, ..MoveOptions::default() }),
        "options.links.between_nodes = 0: expected bytes a second above 0"
    );
    let of = |state| Holdings::new(&Parallelism::new(4, 2), 1, state).expect_err("refused").to_string();
    let mut kinds = state.kinds.clone();
    kinds[1].tensors = Some(vec!["lora".into()]);
    assert_eq!(of(ExpertState { kinds, ..state.clone() }), "kinds[1].tensors = lora: no such tensor");
    let mut tensors = state.tensors.clone();
    tensors[1] = tensors[0].clone();
    let twice = of(ExpertState { tensors, ..state.clone() });
    assert_eq!(twice, "tensors[1].name = linear_fc1.weight: is there already");
    let error = Holdings::new(&Parallelism::new(4, 2), 1, ExpertState { num_experts: 7, ..state });
    assert!(error.expect_err("refused").to_string().contains("experts not divisible by ranks"));
}
