//! The energy of a layout: what the annealer makes small.
//!
//! E = Σ_g U_g + Σ_g (U_g − Ū)²/(2τ) over the shards g, relative to a reference. While shards are within τ of their mean Ū,
//! all count alike, so the energy is not flat off the pacing shard, as max_g U_g is; the quadratic term keeps max_g U_g
//! within about √(T·τ) of the mean at temperature T. With one shard E = U.
//! Where the slowest pipeline stage paces, U_g = max_s U\[g,s\] would be flat off that stage: instead of the maximum stands
//! the soft one, σ·ln Σ_s exp(U\[g,s\]/σ), at most σ·ln S above it.
//! Complexity: O(shards·stages). Deviation from the paper (arXiv 2608.12146): there, max_g U_g + 10⁻⁶·Σ_g U_g +
//! 10⁻⁹·max J.

use routepack_anneal::elementary::{exp, ln};

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
    /// σ.
    pub(crate) softness: f64,
}

impl Energy {
    /// The energy of shards whose stages cost so much, `[shards, stages]`.
    pub(crate) fn of(&self, costs: &[u64], stages: usize) -> f64 {
        let shards = || costs.chunks(stages).map(|costs| self.above(costs, |_| 0));
        let (sum, squares) = (shards().sum::<f64>(), shards().map(|cost| cost * cost).sum::<f64>());
        sum + self.stiffness * (squares - sum * sum / (costs.len() / stages) as f64)
    }

    /// The change if, in each share, the costs of two blocks change by `changes(share)`; for one block twice, the second
    /// change must be 0.
    #[inline]
    pub(crate) fn change(
        &self,
        costs: &[u64],
        units: &Units,
        blocks: [usize; 2],
        changes: impl Fn(usize) -> [i64; 2],
    ) -> f64 {
        if costs.len() == 1 {
            let [a, b] = changes(0);
            return (a + b) as f64;
        }
        let (parts, stages) = (units.parts(), units.demand.num_stages());
        let groups = blocks.map(|block| block % units.groups);
        let of_shard = |shard: usize| &costs[shard * stages..(shard + 1) * stages];
        let sum: f64 = costs.chunks(stages).map(|costs| self.above(costs, |_| 0)).sum();
        let (mut change, mut squares) = (0.0, 0.0);
        for part in 0..parts {
            let share = |stage: usize| part * stages + stage;
            for (side, group) in groups.into_iter().enumerate() {
                let both = groups[0] == groups[1];
                if both && side == 1 {
                    continue;
                }
                let stages = of_shard(group * parts + part);
                let before = self.above(stages, |_| 0);
                let gain = |stage: usize| {
                    let changes = changes(share(stage));
                    if both { changes[0] + changes[1] } else { changes[side] }
                };
                let gained =
                    if stages.len() == 1 { gain(0) as f64 } else { self.above(stages, gain) - before };
                change += gained;
                squares += gained * (2.0 * before + gained);
            }
        }
        let shards = (costs.len() / stages) as f64;
        change + self.stiffness * (squares - change * (2.0 * sum + change) / shards)
    }

    /// U of a shard above the reference, after its stages' costs changed.
    #[inline]
    fn above(&self, stages: &[u64], change: impl Fn(usize) -> i64) -> f64 {
        if let [cost] = stages {
            return cost.wrapping_add(change(0) as u64) as f64 - self.reference;
        }
        let above = |stage: usize| stages[stage].wrapping_add(change(stage) as u64) as f64 - self.reference;
        let largest = (0..stages.len()).map(above).fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = (0..stages.len()).map(|stage| exp((above(stage) - largest) / self.softness)).sum();
        largest + self.softness * ln(sum)
    }

    /// Whether a move whose attention changes by so much is given up, whatever its experts bring.
    #[inline]
    pub(crate) fn is_hopeless(attention: i64, temperature: f64) -> bool {
        attention as f64 > LARGEST_RISE * temperature
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use routepack_anneal::Stream;

    use super::*;
    use crate::support::{Recipe, recipes};

    proptest! {
        /// The change is the difference of the energies, and the soft maximum is near the maximum.
        #[test]
        fn a_change_is_the_difference(recipe in recipes(2)) {
            let recipe = Recipe { rows: 2, ..recipe };
            let case = recipe.build();
            let units = Units::new(&case.instance, &case.placement, 2).expect("enough units");
            let energy = Energy { reference: 9_000.0, stiffness: 1e-3, softness: 50.0 };
            let stages = units.demand.num_stages();
            let mut stream = Stream::new(recipe.seed);
            let mut costs: Vec<u64> =
                (0..units.groups * units.shares()).map(|_| 9_000 + stream.below(1000)).collect();
            for _ in 0..20 {
                let blocks = [0; 2].map(|_| stream.below(units.num_blocks() as u64) as usize);
                let gains: Vec<[i64; 2]> = (0..units.shares())
                    .map(|_| [0; 2].map(|_| stream.below(300) as i64 - 150))
                    .map(|[a, b]| if blocks[0] == blocks[1] { [a, 0] } else { [a, b] })
                    .collect();
                let before = energy.of(&costs, stages);
                let change = energy.change(&costs, &units, blocks, |share| gains[share]);
                for (share, gains) in gains.iter().enumerate() {
                    for (block, gain) in blocks.into_iter().zip(gains) {
                        let cost = &mut costs[block % units.groups * units.shares() + share];
                        *cost = cost.wrapping_add_signed(*gain);
                    }
                }
                prop_assert!((energy.of(&costs, stages) - before - change).abs() < 1e-6);
                let flat = Energy { stiffness: 0.0, ..energy };
                let soft = flat.of(&costs, stages);
                let shards = costs.chunks(stages);
                let hard: f64 = shards.map(|costs| *costs.iter().max().expect("a stage") as f64 - 9_000.0).sum();
                let most = hard + (costs.len() / stages) as f64 * 50.0 * (stages as f64).ln() + 1e-6;
                prop_assert!((hard - 1e-6..=most).contains(&soft), "{soft} is not within {hard} to {most}");
            }
        }
    }
}
