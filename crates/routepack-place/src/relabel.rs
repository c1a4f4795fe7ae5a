//! Which rank a group of experts lives on: as few experts as possible leave their rank.
//!
//! Problem: P groups of experts without names, P ranks that hold experts now; give every group one rank so that the
//! experts found where they are now are most (an assignment problem; the peak does not depend on it).
//! Method: shortest augmenting paths with potentials, one group after the other (ties: lower rank first). O(P³).
//! Reference: R. Jonker and A. Volgenant, A shortest augmenting path algorithm for dense and sparse linear assignment
//! problems, Computing 38, 1987, doi 10.1007/BF02278710. Deviation: none of its initialisation, only the paths.

use routepack_problem::Placement;

use crate::slots::keep_slots;

/// `placement` with its ranks renamed so that fewest experts leave the rank they have in `resident`; who stays keeps its
/// slot. Loads and peaks do not change.
///
/// # Panics
/// The placements have different shapes.
pub fn match_ranks(placement: &Placement, resident: &Placement) -> Placement {
    assert_eq!(
        (placement.num_layers(), placement.num_experts(), placement.num_ranks()),
        (resident.num_layers(), resident.num_experts(), resident.num_ranks()),
        "[layers, experts, ranks]"
    );
    let slots = (0..placement.num_layers()).map(|layer| {
        let reference = resident.slots(layer);
        let members = relabel(&placement.experts(layer), placement.slots_per_rank(), reference);
        keep_slots(&members, placement.slots_per_rank(), reference)
    });
    Placement::new(placement.num_ranks(), slots.collect()).expect("renaming keeps bijections")
}

/// Reorders `members` `[ranks · slots]` by whole ranks; `reference` is the slot of every expert now, `[experts]`.
pub(crate) fn relabel(members: &[u32], slots_per_rank: usize, reference: &[u32]) -> Vec<u32> {
    let groups: Vec<&[u32]> = members.chunks(slots_per_rank.max(1)).collect();
    let moved: Vec<Vec<i64>> = groups
        .iter()
        .map(|group| {
            let mut moved = vec![slots_per_rank as i64; groups.len()];
            for &expert in *group {
                moved[reference[expert as usize] as usize / slots_per_rank] -= 1;
            }
            moved
        })
        .collect();
    let mut relabelled = vec![0; members.len()];
    for (group, rank) in groups.iter().zip(assign(&moved)) {
        relabelled[rank * slots_per_rank..(rank + 1) * slots_per_rank].copy_from_slice(group);
    }
    relabelled
}

/// The column of every line of a square matrix of costs so that the chosen entries sum to least, each column once.
pub(crate) fn assign(cost: &[Vec<i64>]) -> Vec<usize> {
    const NOBODY: usize = usize::MAX;
    let n = cost.len();
    let (mut of_line, mut of_column) = (vec![0i64; n], vec![0i64; n]);
    let mut line_of = vec![NOBODY; n];
    for first in 0..n {
        // Dijkstra over columns with reduced costs, from the line that has none yet.
        let mut distance = vec![i64::MAX; n];
        let mut came_from = vec![NOBODY; n];
        let mut settled = vec![false; n];
        let (mut line, mut reached, mut previous) = (first, 0, NOBODY);
        let last = loop {
            let (mut nearest, mut least) = (NOBODY, i64::MAX);
            for column in 0..n {
                if settled[column] {
                    continue;
                }
                let through = reached + cost[line][column] - of_line[line] - of_column[column];
                if through < distance[column] {
                    distance[column] = through;
                    came_from[column] = previous;
                }
                if distance[column] < least {
                    (nearest, least) = (column, distance[column]);
                }
            }
            settled[nearest] = true;
            reached = least;
            if line_of[nearest] == NOBODY {
                break nearest;
            }
            (line, previous) = (line_of[nearest], nearest);
        };
        for column in (0..n).filter(|&column| settled[column]) {
            of_column[column] += distance[column] - reached;
            if line_of[column] != NOBODY {
                of_line[line_of[column]] += reached - distance[column];
            }
        }
        of_line[first] += reached;
        let mut column = last;
        while came_from[column] != NOBODY {
            line_of[column] = line_of[came_from[column]];
            column = came_from[column];
        }
        line_of[column] = first;
    }
    let mut column_of = vec![0; n];
    for (column, line) in line_of.into_iter().enumerate() {
        column_of[line] = column;
    }
    column_of
}

#[cfg(test)]
mod tests {
    use itertools::Itertools;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_assignment_costs_less(cost in (1usize..=5)
            .prop_flat_map(|n| prop::collection::vec(prop::collection::vec(-9i64..9, n), n)))
        {
            let sum = |columns: &[usize]| columns.iter().zip(&cost).map(|(&column, line)| line[column]).sum::<i64>();
            let found = assign(&cost);
            prop_assert!(found.iter().all_unique());
            let least = (0..cost.len()).permutations(cost.len()).map(|columns| sum(&columns)).min();
            prop_assert_eq!(Some(sum(&found)), least);
        }
    }

    #[test]
    fn groups_go_home() {
        assert_eq!(relabel(&[2, 3, 4, 5, 0, 1], 2, &[0, 1, 2, 3, 4, 5]), [0, 1, 2, 3, 4, 5]);
    }
}
