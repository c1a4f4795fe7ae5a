//! Subset-row cuts on triples.
//!
//! Problem: in a packing at most one bin holds two or more of three single items: Σ_P ⌊(a_1 + a_2 + a_3)/2⌋ x_P ≤ 1.
//! Finds violated triples of a fractional solution: pairs that share positive patterns make a graph, triangles whose
//! pair values sum to more than 1 are candidates. The most violated are kept, no item in more than a few.
//! Complexity: O(Σ |P|² + triangles · support).
//! References: M. Jepsen, B. Petersen, S. Spoorendonk, D. Pisinger, Operations Research 56 (2008),
//! doi:10.1287/opre.1070.0449; for bin packing: L. Wei, Z. Luo, R. Baldacci, A. Lim, INFORMS J. on Computing 32 (2020),
//! doi:10.1287/ijoc.2018.0867.

use std::collections::BTreeMap;

use routepack_certificate::Cut;

use crate::types::Pattern;

/// Cuts of one round, and cuts of one round that share an item.
const CUTS: usize = 20;
const SHARING: usize = 5;
/// A cut counts as violated by more than this.
const VIOLATED: f64 = 1e-6;

/// The most violated cuts on types of demand 1, each of scale 1.
pub(crate) fn subset_row_cuts(solution: &[(Pattern, f64)], demands: &[u32]) -> Vec<Cut> {
    let mut neighbours: Vec<BTreeMap<u32, f64>> = vec![BTreeMap::new(); demands.len()];
    let mut patterns_of: Vec<Vec<usize>> = vec![Vec::new(); demands.len()];
    for (place, (pattern, value)) in solution.iter().enumerate() {
        let single: Vec<u32> = pattern.iter().copied().filter(|&kind| demands[kind as usize] == 1).collect();
        for (index, &one) in single.iter().enumerate() {
            patterns_of[one as usize].push(place);
            for &other in &single[index + 1..] {
                *neighbours[one as usize].entry(other).or_default() += value;
            }
        }
    }
    let mut candidates: Vec<(f64, [u32; 3])> = Vec::new();
    for (one, near) in neighbours.iter().enumerate() {
        for (&two, first) in near {
            for (three, second) in &neighbours[two as usize] {
                let Some(third) = near.get(three) else { continue };
                if first + second + third > 1.0 + VIOLATED {
                    let triple = [one as u32, two, *three];
                    let value = value(&triple, solution, &patterns_of);
                    if value > 1.0 + VIOLATED {
                        candidates.push((value, triple));
                    }
                }
            }
        }
    }
    candidates.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut shared = vec![0; demands.len()];
    let mut cuts = Vec::new();
    for (_, triple) in candidates {
        if cuts.len() < CUTS && triple.iter().all(|&kind| shared[kind as usize] < SHARING) {
            triple.iter().for_each(|&kind| shared[kind as usize] += 1);
            cuts.push(Cut { scale: 1, denominator: 2, multipliers: triple.map(|kind| (kind, 1)).to_vec() });
        }
    }
    cuts
}

/// Σ x over the patterns that hold two or more of the triple.
fn value(triple: &[u32; 3], solution: &[(Pattern, f64)], patterns_of: &[Vec<usize>]) -> f64 {
    let mut places: Vec<usize> =
        triple.iter().flat_map(|&kind| &patterns_of[kind as usize]).copied().collect();
    places.sort_unstable();
    places.chunk_by(|a, b| a == b).filter(|same| same.len() >= 2).map(|same| solution[same[0]].1).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_off_the_odd_triangle() {
        let solution = [(vec![0, 1], 0.5), (vec![0, 2, 3], 0.5), (vec![1, 2], 0.5), (vec![3], 0.5)];
        let cuts = subset_row_cuts(&solution, &[1, 1, 1, 2]);
        assert_eq!(cuts, [Cut { scale: 1, denominator: 2, multipliers: vec![(0, 1), (1, 1), (2, 1)] }]);
        assert_eq!(subset_row_cuts(&solution, &[1, 1, 2, 2]), []);
    }
}
