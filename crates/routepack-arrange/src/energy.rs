//! The energy of a layout: what the annealer makes small.
//!
//! E = Σ_g U_g + Σ_g (U_g − Ū)²/(2τ) over the shards g, relative to a reference. While shards are within τ of their mean Ū,
//! all count alike, so the energy is not flat off the pacing shard, as max_g U_g is; the quadratic term keeps max_g U_g
//! within about √(T·τ) of the mean at temperature T. With one shard E = U.
//! Complexity: O(shards). Deviation from the paper (arXiv 2608.12146): there, max_g U_g + 10⁻⁶·Σ_g U_g + 10⁻⁹·max J.

use crate::units::Units;

/// Temperatures by which attention may rise before a move is given up: accepted rises stayed below 10, as experts gain
/// little more than that, and a Metropolis test hardly accepts 4 more.
const LARGEST_RISE: f64 = 14.0;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Energy {
    /// U of a balanced shard: costs are taken relative to it, so that no digits are lost.
    pub(crate) reference: f64,
    /// 1/(2τ).
    pub(crate) stiffness: f64,
}

impl Energy {
    /// The energy of shards of these costs.
    pub(crate) fn of(&self, costs: &[u64]) -> f64 {
        let costs_above = || costs.iter().map(|&cost| cost as f64 - self.reference);
        let (sum, squares) = (costs_above().sum::<f64>(), costs_above().map(|cost| cost * cost).sum::<f64>());
        sum + self.stiffness * (squares - sum * sum / costs.len() as f64)
    }

    /// The change if, in each part, the shards of two blocks change by `changes(part)`; for one block twice, the second
    /// change must be 0.
    #[inline]
    pub(crate) fn change(
        &self,
        costs: &[u64],
        units: &Units,
        blocks: [usize; 2],
        mut changes: impl FnMut(usize) -> [i64; 2],
    ) -> f64 {
        if costs.len() == 1 {
            let [a, b] = changes(0);
            return (a + b) as f64;
        }
        let parts = units.parts();
        let groups = blocks.map(|block| block % units.groups);
        let sum: f64 = costs.iter().map(|&cost| cost as f64 - self.reference).sum();
        let (mut change, mut squares) = (0.0, 0.0);
        for part in 0..parts {
            let [mut a, mut b] = changes(part).map(|change| change as f64);
            change += a + b;
            if groups[0] == groups[1] {
                a += b;
                b = 0.0;
            }
            for (group, change) in groups.into_iter().zip([a, b]) {
                let cost = costs[group * parts + part] as f64 - self.reference;
                squares += change * (2.0 * cost + change);
            }
        }
        change + self.stiffness * (squares - change * (2.0 * sum + change) / costs.len() as f64)
    }

    /// Whether a move whose attention changes by so much is given up, whatever its experts bring.
    #[inline]
    pub(crate) fn is_hopeless(attention: i64, temperature: f64) -> bool {
        attention as f64 > LARGEST_RISE * temperature
    }
}
