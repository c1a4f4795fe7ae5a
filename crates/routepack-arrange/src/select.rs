//! Choice of starting layouts: good first, then different.
//!
//! Problem: of many seeds, choose at most k to start from.
//! Method: seeds that score worse than the best by more than the quality gate are out; the best is chosen; then, one by
//! one, the seed farthest from all chosen ones ([`crate::sketch`]), until none is left that is farther than
//! [`NEAR_DUPLICATE`].
//! Complexity: O(k·seeds) distances. Reference: T. F. Gonzalez, Theor. Comput. Sci. 38, 1985, doi
//! 10.1016/0304-3975(85)90224-5 (farthest-first); arXiv 2608.12146 (gate before diversity).

use routepack_problem::Score;

use crate::sketch::Sketch;

/// Sketches nearer than this count as the same.
const NEAR_DUPLICATE: f64 = 1e-6;

/// Positions of the chosen seeds, the best first.
pub(crate) fn select(seeds: &[(Score, Sketch)], quality_gate: f64, count: usize) -> Vec<usize> {
    let Some(best) = (0..seeds.len()).min_by_key(|&seed| (seeds[seed].0, seed)) else { return Vec::new() };
    let limit = seeds[best].0.worst_shard as f64 * (1.0 + quality_gate);
    let mut nearest: Vec<(usize, f64)> = (0..seeds.len())
        .filter(|&seed| seed != best && seeds[seed].0.worst_shard as f64 <= limit)
        .map(|seed| (seed, seeds[seed].1.distance(&seeds[best].1)))
        .collect();
    let mut chosen = vec![best];
    while chosen.len() < count {
        let farthest = nearest.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
        let Some((seed, _)) = farthest.filter(|&(_, distance)| distance > NEAR_DUPLICATE) else { break };
        chosen.push(seed);
        for (other, distance) in &mut nearest {
            *distance = distance.min(seeds[*other].1.distance(&seeds[seed].1));
        }
    }
    chosen
}
