//! The parameters of the layout search.

use std::ops::RangeInclusive;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ArrangeError;

/// Parameters of [`crate::arrange()`]. The default takes one to two seconds for 512 samples on two cores, and in
/// proportion to units × layers × EP ranks for others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ArrangeOptions {
    /// Replicas annealed together; 1 to [`ArrangeOptions::MAX_POPULATION`]. A multiple of the threads uses them best.
    pub population: u32,
    /// Rungs of the temperature ladder; at least 1.
    pub temperatures: u32,
    /// Moves proposed per unit in a full round, all replicas and temperatures together; at least 1.
    pub proposals_per_unit: u32,
    /// Rounds of annealing, each 4 times as long as the one before, the last a full one; 1 to 8. Early rounds make a
    /// search that is stopped at any time a good one.
    pub rounds: u32,
    /// First temperature at least, as a fraction of the mean cost J of a row-shard; 1e-12 to 1e12.
    pub hottest: f64,
    /// Mean acceptance, at the first temperature at least, of random swaps that raise the energy; in (0, 1). It decides
    /// where units are few and every swap moves much.
    pub hot_acceptance: f64,
    /// The first temperature divided by the last; 1 to 1e12.
    pub cooling: f64,
    /// How far shards may differ before the energy pulls them together, as a fraction of the mean cost J of a
    /// row-shard; 1e-12 to 1e12.
    pub shard_tolerance: f64,
    /// Neighbours of a unit that swaps are proposed with, at least 1.
    pub neighbours: u32,
    /// Starting layouts constructed per construction beside the given one; 0 to 64.
    pub seeds: u32,
    /// Seeds with a score above the best by more than this fraction are not started from; at least 0.
    pub quality_gate: f64,
    /// Moves evaluated per unit in the final descent, at most; small windows count as 100 units.
    pub descent_per_unit: u32,
    /// Nodes of the exact search that ends the search of windows of up to 24 units, at most; 0 for none.
    pub exact_nodes: u32,
}

/// Fractions of a cost that leave energies and temperatures finite.
const FRACTION: RangeInclusive<f64> = 1e-12..=1e12;
/// Coolings that leave the last temperature positive.
const COOLING: RangeInclusive<f64> = 1.0..=1e12;

impl Default for ArrangeOptions {
    fn default() -> Self {
        Self {
            population: 4,
            temperatures: 64,
            proposals_per_unit: 22_000,
            rounds: 3,
            hottest: 3e-3,
            hot_acceptance: 0.05,
            cooling: 150.0,
            shard_tolerance: 1e-2,
            neighbours: 16,
            seeds: 2,
            quality_gate: 0.1,
            descent_per_unit: 2_000,
            exact_nodes: 100_000,
        }
    }
}

impl ArrangeOptions {
    /// The largest `population`.
    pub const MAX_POPULATION: u32 = 4096;

    /// Checks every parameter.
    ///
    /// # Errors
    /// [`ArrangeError::Option`] names the first that can't be.
    pub fn validate(&self) -> Result<(), ArrangeError> {
        let counts = [
            ("population", self.population, 1..=Self::MAX_POPULATION, "it must be from 1 to 4096"),
            ("temperatures", self.temperatures, 1..=1 << 20, "it must be from 1 to 1048576"),
            ("proposals_per_unit", self.proposals_per_unit, 1..=u32::MAX, "it must be at least 1"),
            ("rounds", self.rounds, 1..=8, "it must be from 1 to 8"),
            ("neighbours", self.neighbours, 1..=4096, "it must be from 1 to 4096"),
            ("seeds", self.seeds, 0..=64, "it must be at most 64"),
        ];
        for (option, value, allowed, rule) in counts {
            if !allowed.contains(&value) {
                return Err(ArrangeError::Option { option, value: value.to_string(), rule });
            }
        }
        let fractions = [
            (
                "hot_acceptance",
                self.hot_acceptance,
                0.0 < self.hot_acceptance && self.hot_acceptance < 1.0,
                "it must lie between 0 and 1",
            ),
            ("hottest", self.hottest, FRACTION.contains(&self.hottest), "it must be from 1e-12 to 1e12"),
            ("cooling", self.cooling, COOLING.contains(&self.cooling), "it must be from 1 to 1e12"),
            (
                "shard_tolerance",
                self.shard_tolerance,
                FRACTION.contains(&self.shard_tolerance),
                "it must be from 1e-12 to 1e12",
            ),
            ("quality_gate", self.quality_gate, self.quality_gate >= 0.0, "it must be at least 0 and finite"),
        ];
        for (option, value, holds, rule) in fractions {
            if !(holds && value.is_finite()) {
                return Err(ArrangeError::Option { option, value: format!("{value:?}"), rule });
            }
        }
        Ok(())
    }
}
