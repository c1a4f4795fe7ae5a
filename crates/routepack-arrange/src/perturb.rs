//! Perturbed layouts: a feasible layout, shaken.
//!
//! Problem: start from somewhere else than a given layout when constructions fail because cells are nearly full.
//! Method: [`SWAPS_PER_UNIT`] random swaps per unit, each made if both cells stay within their limits.
//! Complexity: O(U).

use routepack_anneal::Stream;

use crate::units::Units;

/// Swaps tried per unit.
const SWAPS_PER_UNIT: usize = 4;

/// The layout after random feasible swaps.
pub(crate) fn perturb(units: &Units, cell_of: &[u32], stream: &mut Stream) -> Vec<u32> {
    let mut cell_of = cell_of.to_vec();
    let (mut tokens, mut samples) = (vec![0u32; units.num_cells()], vec![0u32; units.num_cells()]);
    for (unit, &cell) in cell_of.iter().enumerate() {
        tokens[cell as usize] += units.tokens[unit];
        samples[cell as usize] += units.samples[unit];
    }
    let count = units.num_units() as u64;
    for _ in 0..units.num_units() * SWAPS_PER_UNIT {
        let (i, j) = (stream.below(count) as usize, stream.below(count) as usize);
        let (a, b) = (cell_of[i] as usize, cell_of[j] as usize);
        if a == b {
            continue;
        }
        let tokens_after =
            [tokens[a] - units.tokens[i] + units.tokens[j], tokens[b] - units.tokens[j] + units.tokens[i]];
        let samples_after = [
            samples[a] - units.samples[i] + units.samples[j],
            samples[b] - units.samples[j] + units.samples[i],
        ];
        if tokens_after.into_iter().all(|tokens| tokens <= units.capacity)
            && samples_after.into_iter().all(|samples| samples <= units.max_samples)
        {
            [tokens[a], tokens[b]] = tokens_after;
            [samples[a], samples[b]] = samples_after;
            cell_of.swap(i, j);
        }
    }
    cell_of
}
