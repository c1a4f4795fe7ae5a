//! Subset-row cuts on triples.
//!
//! Problem: of three types with an odd number d of items in all, at most (d − 1)/2 pairs can be in bins:
//! Σ_P ⌊(a_1 + a_2 + a_3)/2⌋ x_P ≤ (d − 1)/2; for three single items, at most one bin holds two or more of them.
//! Finds violated triples of a fractional solution: pairs that share positive patterns make a graph, triangles whose
//! pair values sum to more than the right side are candidates. The most violated are kept, no type in more than a few.
//! Complexity: O(Σ |P|² + triangles · support).
//! References: M. Jepsen, B. Petersen, S. Spoorendonk, D. Pisinger, Operations Research 56 (2008),
//! doi:10.1287/opre.1070.0449; for bin packing: L. Wei, Z. Luo, R. Baldacci, A. Lim, INFORMS J. on Computing 32 (2020),
//! doi:10.1287/ijoc.2018.0867. Deviation: types of several items too.

use std::collections::BTreeMap;

use routepack_certificate::Cut;

use crate::types::Pattern;

/// Cuts of one round, and cuts of one round that share a type.
const CUTS: usize = 20;
const SHARING: usize = 5;
/// A cut counts as violated by more than this.
const VIOLATED: f64 = 1e-6;

/// The most violated cuts, each of scale 1.
pub(crate) fn subset_row_cuts(solution: &[(Pattern, f64)], demands: &[u32]) -> Vec<Cut> {
    let mut neighbours: Vec<BTreeMap<u32, f64>> = vec![BTreeMap::new(); demands.len()];
    // Pairs of one type, and the patterns of a type.
    let mut twins = vec![0.0; demands.len()];
    let mut patterns_of: Vec<Vec<usize>> = vec![Vec::new(); demands.len()];
    for (place, (pattern, value)) in solution.iter().enumerate() {
        for same in pattern.chunk_by(|a, b| a == b) {
            let (one, copies) = (same[0], same.len() as f64);
            patterns_of[one as usize].push(place);
            twins[one as usize] += value * copies * (copies - 1.0) / 2.0;
            for &other in pattern.iter().filter(|&&other| other > one) {
                *neighbours[one as usize].entry(other).or_default() += value * copies;
            }
        }
    }
    let mut candidates: Vec<(f64, [u32; 3])> = Vec::new();
    for (one, near) in neighbours.iter().enumerate() {
        for (&two, first) in near {
            for (three, second) in &neighbours[two as usize] {
                let Some(third) = near.get(three) else { continue };
                let triple = [one as u32, two, *three];
                let items: u32 = triple.iter().map(|&kind| demands[kind as usize]).sum();
                let most = f64::from(items / 2) + VIOLATED;
                let pairs =
                    first + second + third + triple.map(|kind| twins[kind as usize]).iter().sum::<f64>();
                if items % 2 == 1 && pairs > most {
                    let value = value(&triple, solution, &patterns_of);
                    if value > most {
                        candidates.push((value - most, triple));
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

/// Σ ⌊items of the triple / 2⌋ x over the patterns.
fn value(triple: &[u32; 3], solution: &[(Pattern, f64)], patterns_of: &[Vec<usize>]) -> f64 {
    let mut places: Vec<usize> =
        triple.iter().flat_map(|&kind| &patterns_of[kind as usize]).copied().collect();
    places.sort_unstable();
    places.dedup();
    let halves = places.into_iter().map(|place| {
        let (pattern, value) = &solution[place];
        (pattern.iter().filter(|kind| triple.contains(kind)).count() / 2) as f64 * value
    });
    halves.sum()
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
        // Three pairs of five items can't be.
        let solution = [
            (vec![0, 0], 0.5),
            (vec![0, 1], 0.5),
            (vec![0, 2], 0.5),
            (vec![1, 1, 2], 0.5),
            (vec![1, 2], 0.5),
        ];
        assert_eq!(subset_row_cuts(&solution, &[2, 2, 1]).len(), 1);
    }
}
