//! The parameters of an annealing run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::AnnealError;
use crate::ladder::Ladder;
use crate::resample::LARGEST_POPULATION;

/// Parameters of [`crate::anneal`]. The work is `temperatures · sweeps · population` sweeps of one replica.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Replicas; 1 (plain simulated annealing) to 1,048,576.
    pub population: u32,
    /// Rungs of the ladder, at least 1; an adaptive ladder may need fewer.
    pub temperatures: u32,
    /// Sweeps of every replica at each temperature, at least 1.
    pub sweeps: u32,
    /// Ends and spacing of the ladder.
    pub ladder: Ladder,
    /// Makes the ladder adaptive: the fraction of the population that each resampling should replace, in (0, 1);
    /// usual values are 0.05 to 0.15.
    pub culling: Option<f64>,
    /// Sampled energy changes that a measured ladder is made from, at least 1.
    pub samples: u32,
    /// Whether the starting states are seeds to be improved or a sample in equilibrium.
    pub start: Start,
    /// Stop after this many sweeps of the whole population, all temperatures together. Set to what a stopped run
    /// reported, it gives the same result again.
    pub sweep_limit: Option<u64>,
}

/// What the starting states are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// Good states: repeated in turn where there are fewer than replicas, the best of them where there are more.
    #[default]
    Seeds,
    /// Independent draws from the Boltzmann distribution at the hottest temperature, one a replica.
    Equilibrium,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            population: 64,
            temperatures: 64,
            sweeps: 4,
            ladder: Ladder::default(),
            culling: None,
            samples: 1024,
            start: Start::default(),
            sweep_limit: None,
        }
    }
}

impl Options {
    /// Checks every parameter.
    ///
    /// # Errors
    /// [`AnnealError::Option`] names the first that can't be.
    pub fn validate(&self) -> Result<(), AnnealError> {
        let counts = [
            ("population", self.population, LARGEST_POPULATION, "it must be from 1 to 1048576"),
            ("temperatures", self.temperatures, u32::MAX, "it must be at least 1"),
            ("sweeps", self.sweeps, u32::MAX, "it must be at least 1"),
            ("samples", self.samples, u32::MAX, "it must be at least 1"),
        ];
        for (option, value, limit, rule) in counts {
            if value == 0 || value > limit {
                return Err(AnnealError::Option { option, value: f64::from(value), rule });
            }
        }
        if let Some(value) = self.culling
            && !(0.0 < value && value < 1.0)
        {
            return Err(AnnealError::Option {
                option: "culling",
                value,
                rule: "it must lie between 0 and 1",
            });
        }
        self.ladder.validate()
    }
}
