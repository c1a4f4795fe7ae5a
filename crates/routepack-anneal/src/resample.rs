//! Systematic resampling by Boltzmann weight.
//!
//! Problem: R replicas with energies Eᵢ represent inverse temperature β; make R that represent β' = β + δ.
//! Method: replica i has weight wᵢ = e^(−δ (Eᵢ − min E)) and expectation τᵢ = R wᵢ / Σw copies. Lay the weights
//! end to end, drop R equidistant points with one random offset on them; i gets as many copies as points fall on it:
//! ⌊τᵢ⌋ or ⌈τᵢ⌉, τᵢ in the mean, R in all.
//! Weights are rounded down to whole multiples of 2⁻⁴⁰, and everything after that is integers: the laws hold exactly.
//! Complexity: O(R), one random number.
//! References: K. Hukushima and Y. Iba, Population annealing and its application to a spin glass, AIP Conf. Proc. 690,
//! 2003, doi 10.1063/1.1632130; J. Carpenter, P. Clifford and P. Fearnhead, Improved particle filter for nonlinear
//! problems, IEE Proc. Radar Sonar Navig. 146(1), 1999, doi 10.1049/ip-rsn:19990255 (systematic resampling); J. Machta,
//! Population annealing with weighted averages, Phys. Rev. E 82, 026704, 2010, doi 10.1103/PhysRevE.82.026704 (the
//! normaliser). Deviation: Hukushima and Iba draw multinomially, Machta with a fluctuating population.

use crate::elementary;
use crate::stream::Stream;

/// Weights are multiples of its reciprocal; 2²⁰ of them still add up in 64 bits.
const SCALE: f64 = (1_u64 << 40) as f64;

/// The largest population that can be resampled.
pub const LARGEST_POPULATION: u32 = 1 << 20;

/// The weights of a population for a step in inverse temperature.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// Per replica, as multiples of 2⁻⁴⁰ of the largest weight; the replica of least energy has exactly 2⁴⁰.
    pub weights: Vec<u64>,
    /// ln of the mean of e^(−δ E): ln Z(β + δ) − ln Z(β), if the population is in equilibrium at β.
    pub log_mean: f64,
    /// Effective population (Σw)² / Σw²: from 1, one replica has all the weight, to R, all weigh the same.
    pub effective_population: f64,
}

/// Weighs replicas of those energies for a step of `step` ≥ 0 in inverse temperature. Not for an empty population.
pub fn weigh(energies: &[f64], step: f64) -> Weights {
    let least = energies.iter().copied().fold(f64::INFINITY, f64::min);
    let factors = energies.iter().map(|energy| boltzmann(step, energy - least));
    let (mut weights, mut sum, mut squares) = (Vec::with_capacity(energies.len()), 0.0, 0.0);
    for factor in factors {
        weights.push((factor * SCALE) as u64);
        sum += factor;
        squares += factor * factor;
    }
    Weights {
        weights,
        log_mean: elementary::ln(sum / energies.len() as f64) - step * least,
        effective_population: sum * sum / squares,
    }
}

/// How many copies each replica gets: whole numbers that add up to the population, each the expectation
/// `population * weight / sum of weights` rounded down or up, and equal to it in the mean.
///
/// # Panics
/// If all weights are 0, or their sum is beyond 64 bits.
pub fn resample(weights: &[u64], stream: &mut Stream) -> Vec<u32> {
    let population = weights.len() as u128;
    let total = weights.iter().try_fold(0_u64, |sum, weight| sum.checked_add(*weight));
    let total = total.expect("weights add up in 64 bits");
    let offset = u128::from(stream.below(total));
    let total = u128::from(total);
    // In units of 1 / population: points lie at offset, offset + total, …; replica i spans [before_i, after_i).
    let points_before = |position: u128| (position + total - 1).saturating_sub(offset) / total;
    let mut position = 0;
    let mut before = 0;
    weights
        .iter()
        .map(|weight| {
            position += population * u128::from(*weight);
            let after = points_before(position);
            let copies = after - before;
            before = after;
            copies as u32
        })
        .collect()
}

/// The fraction of a population that resampling for a step of `step` ≥ 0 replaces in the mean: Σ max(0, 1 − τᵢ) / R.
/// One minus the overlap of the energy distributions at the two temperatures. Grows with the step.
pub fn culled_fraction(energies: &[f64], step: f64) -> f64 {
    let least = energies.iter().copied().fold(f64::INFINITY, f64::min);
    let factors: Vec<f64> = energies.iter().map(|energy| boltzmann(step, energy - least)).collect();
    let mean = factors.iter().sum::<f64>() / energies.len() as f64;
    factors.iter().map(|factor| (1.0 - factor / mean).max(0.0)).sum::<f64>() / energies.len() as f64
}

/// e^(−step · excess), also where an infinite step meets no excess.
fn boltzmann(step: f64, excess: f64) -> f64 {
    if excess == 0.0 { 1.0 } else { elementary::exp(-step * excess) }
}
