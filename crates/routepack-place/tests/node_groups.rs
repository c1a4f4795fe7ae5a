//! Groups of experts whole on their nodes: brute force on small layers, and what is refused.

use proptest::prelude::*;
use routepack_place::{NodeGroups, PlaceError, PlaceOptions, Placed, place};
use routepack_problem::Placement;

fn options(groups: u32, nodes: u32) -> PlaceOptions {
    PlaceOptions { node_groups: Some(NodeGroups { groups, nodes }), ..PlaceOptions::default() }
}

/// Whether no group of a layer has experts on two nodes.
fn is_whole(placement: &Placement, layer: usize, groups: usize, nodes: usize) -> bool {
    let (width, per_node) = (placement.num_experts() / groups, placement.num_ranks() / nodes);
    (0..placement.num_experts()).all(|expert| {
        let node = |expert| placement.rank_of(layer, expert) / per_node;
        node(expert) == node(expert / width * width)
    })
}

/// The least peak over every way to deal the experts to ranks that splits no group.
fn least_peak(loads: &[u64], ranks: usize, groups: usize, nodes: usize) -> u64 {
    fn deal(loads: &[u64], sizes: (usize, usize, usize), rank_of: &mut Vec<usize>, best: &mut u64) {
        let (ranks, groups, nodes) = sizes;
        let expert = rank_of.len();
        if expert == loads.len() {
            let sum = |rank: usize| -> u64 {
                loads.iter().zip(&*rank_of).filter(|(_, of)| **of == rank).map(|(load, _)| load).sum()
            };
            *best = (*best).min((0..ranks).map(sum).max().expect("a rank"));
            return;
        }
        let first = expert / (loads.len() / groups) * (loads.len() / groups);
        for rank in 0..ranks {
            let node = |rank: usize| rank / (ranks / nodes);
            let has_room = rank_of.iter().filter(|&&of| of == rank).count() < loads.len() / ranks;
            if has_room && (first == expert || node(rank_of[first]) == node(rank)) {
                rank_of.push(rank);
                deal(loads, sizes, rank_of, best);
                rank_of.pop();
            }
        }
    }
    let mut best = u64::MAX;
    deal(loads, (ranks, groups, nodes), &mut Vec::new(), &mut best);
    best
}

fn run(loads: &[u64], ranks: usize, groups: u32, nodes: u32) -> Placed {
    place(&[loads.to_vec()], ranks, &options(groups, nodes), &|| false).expect("valid")
}

/// (experts, ranks, groups, nodes) small enough for brute force.
const SIZES: [(usize, usize, u32, u32); 6] =
    [(8, 4, 4, 2), (8, 2, 4, 2), (6, 6, 3, 3), (8, 4, 2, 2), (8, 4, 8, 2), (6, 3, 1, 1)];

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn held_to_brute_force(size in 0usize..6, loads in prop::collection::vec(prop_oneof![0u64..9, 0u64..1000], 8)) {
        let (experts, ranks, groups, nodes) = SIZES[size];
        let loads = &loads[..experts];
        let placed = run(loads, ranks, groups, nodes);
        let (layer, least) = (placed.layers[0], least_peak(loads, ranks, groups as usize, nodes as usize));
        prop_assert!(is_whole(&placed.placement, 0, groups as usize, nodes as usize));
        prop_assert!(layer.bound() <= least && least <= layer.peak, "{layer:?}, least {least}");
        prop_assert_eq!(layer.proved_optimal, layer.bound() == layer.peak);
        let mut sums = vec![0; ranks];
        for (expert, load) in loads.iter().enumerate() {
            sums[placed.placement.rank_of(0, expert)] += load;
        }
        prop_assert_eq!(sums.into_iter().max(), Some(layer.peak));
        // From there nothing moves.
        let again = PlaceOptions { resident: Some(placed.placement.clone()), ..options(groups, nodes) };
        let again = place(&[loads.to_vec()], ranks, &again, &|| false).expect("whole");
        prop_assert!(again.layers[0].peak <= layer.peak);
    }
}

#[test]
fn most_small_layers_end_at_the_optimum() {
    let optimal = (0..200u64)
        .filter(|&seed| {
            let mut stream = routepack_anneal::Stream::new(seed);
            let (experts, ranks, groups, nodes) = SIZES[seed as usize % SIZES.len()];
            let loads: Vec<u64> = (0..experts).map(|_| stream.below(100)).collect();
            let least = least_peak(&loads, ranks, groups as usize, nodes as usize);
            run(&loads, ranks, groups, nodes).layers[0].peak == least
        })
        .count();
    assert!(optimal >= 170, "{optimal} of 200");
}

#[test]
fn a_heavy_node_is_the_bound() {
    // Groups of 20, 2, 2 and 2: one node holds 22 whatever is done, its two ranks 11 at best; 7 without groups.
    let placed = run(&[10, 10, 1, 1, 1, 1, 1, 1], 4, 4, 2);
    let layer = placed.layers[0];
    assert_eq!((layer.peak, layer.node_bound, layer.proved_optimal), (11, 11, true));
}

#[test]
fn sizes_and_split_groups_are_refused() {
    let refused = |loads: &[u64], ranks, options: &PlaceOptions| {
        place(&[loads.to_vec()], ranks, options, &|| false).expect_err("refused")
    };
    for (groups, nodes) in [(3, 1), (4, 3), (2, 4), (0, 1), (4, 0)] {
        let error = refused(&[1; 8], 4, &options(groups, nodes));
        assert!(matches!(error, PlaceError::NodeGroups { experts: 8, ranks: 4, .. }), "{error}");
    }
    let split = Placement::new(2, vec![vec![0, 2, 1, 3]]).expect("a bijection");
    let error = refused(&[1; 4], 2, &PlaceOptions { resident: Some(split), ..options(2, 2) });
    assert_eq!(error, PlaceError::SplitGroup { layer: 0, group: 0 });
}
