//! Peers' rules: what each promises, and what is known to go wrong.

use proptest::prelude::*;
use routepack_baselines::{BaselineError, PEERS, areal, verl_0_8, verl_0_9};
use routepack_problem::{Batch, ExpertCounts, Instance, Layout, Placement, Setting, check_layout};

/// Samples on two EP ranks whose tokens all go to the rank given with them.
fn instance(samples: &[(u32, usize)], slots: u32) -> Instance {
    let counts = samples.iter().flat_map(|&(length, rank)| if rank == 0 { [length, 0] } else { [0, length] });
    let batch = Batch {
        lengths: samples.iter().map(|&(length, _)| length).collect(),
        expert_counts: Some(ExpertCounts::new([samples.len(), 1, 1, 2], counts.collect()).expect("shape")),
        ..Batch::default()
    };
    let mut setting = Setting::new(slots, 2, 100);
    setting.routing.top_k = 1;
    Instance::single(batch, &setting).expect("valid")
}

fn tokens(instance: &Instance, layout: &Layout) -> Vec<u64> {
    let cell =
        |cell: &Vec<u32>| cell.iter().map(|&sample| u64::from(instance.padded_length(sample as usize))).sum();
    layout.cells().iter().map(cell).collect()
}

proptest! {
    /// Every rule covers all samples and leaves no cell empty; only verl 0.8 fills a cell beyond its capacity.
    #[test]
    fn layouts_are_valid(samples in prop::collection::vec((1u32..=100, 0usize..2), 1..48), pairs in 1u32..=2) {
        let instance = instance(&samples, 2 * pairs);
        let placement = Placement::identity(1, 2, 2).expect("divides");
        for peer in PEERS {
            match (peer.pack)(&instance, &placement, 1) {
                Ok(packed) if peer.name == "verl 0.8" => {
                    let cells = packed.layout.cells();
                    prop_assert!(cells.iter().all(|cell| !cell.is_empty()));
                    prop_assert_eq!(cells.concat().len(), samples.len());
                }
                Ok(packed) => prop_assert_eq!(check_layout(&instance, &packed.layout), Ok(()), "{}", peer.name),
                Err(BaselineError::EmptyCells { units, cells, .. }) => prop_assert!(units < cells, "{}", peer.name),
                Err(BaselineError::Unsupported { rule, .. }) => {
                    prop_assert!(rule.starts_with("verl") && samples.len() % instance.topology().num_slots() != 0);
                }
            }
        }
    }
}

#[test]
fn verl_kept_no_capacity_until_it_added_rows() {
    // Three samples of 60 a slot fit two to a cell only by breaking it: ⌈180/100⌉ = 2 micro-batches hold 60 and 120.
    let instance = instance(&[(60, 0); 6], 2);
    let old = verl_0_8(&instance, 2).expect("a layout");
    assert_eq!(tokens(&instance, &old.layout).iter().max(), Some(&120));
    let new = verl_0_9(&instance, 2).expect("a layout");
    assert_eq!((new.layout.num_rows(), new.own_rows), (3, true));
    assert!(tokens(&instance, &new.layout).iter().all(|&tokens| tokens == 60));
}

#[test]
fn areal_fills_groups_to_the_brim() {
    let instance = instance(&[(60, 0), (60, 0), (40, 1), (40, 1)], 2);
    let packed = areal(&instance, 1).expect("a layout");
    // LPT deals 60 and 40 to each slot, which one group holds to the brim.
    assert_eq!((packed.layout.num_rows(), packed.own_rows), (1, false));
    assert_eq!(tokens(&instance, &packed.layout), [100, 100]);
}

#[test]
fn rules_differ_where_they_should() {
    // Arrival order matters to first fit, not to first-fit decreasing: 30 30 70 70 takes three bins or two.
    let instance = instance(&[(30, 0), (30, 1), (70, 0), (70, 1)], 2);
    let placement = Placement::identity(1, 2, 2).expect("divides");
    let rows = |name: &str| {
        let peer = PEERS.iter().find(|peer| peer.name == name).expect("a rule");
        (peer.pack)(&instance, &placement, 1).expect("a layout").layout.num_rows()
    };
    assert_eq!((rows("slime"), rows("miles"), rows("TRL"), rows("prime-rl")), (2, 1, 1, 1));
}

#[test]
fn open_instruct_looks_at_experts() {
    // Samples alike in all but their rank: in arrival order a row's are of one rank.
    let instance = instance(&[0, 0, 0, 0, 1, 1, 1, 1].map(|rank| (50, rank)), 2);
    let placement = Placement::identity(1, 2, 2).expect("divides");
    let peaks = |layout: &Layout| {
        routepack_problem::evaluate(&instance, &placement, layout).peaks.iter().sum::<u64>()
    };
    let of = |name: &str| {
        let peer = PEERS.iter().find(|peer| peer.name == name).expect("a rule");
        peaks(&(peer.pack)(&instance, &placement, 1).expect("a layout").layout)
    };
    assert_eq!((of("slime"), of("open-instruct")), (400, 200), "8 samples of 50 over two ranks");
}
