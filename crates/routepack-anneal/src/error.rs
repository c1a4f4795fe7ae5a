//! What can be wrong with the input of an annealing run.

use thiserror::Error;

/// Bad options, bad starting states, or a system that breaks its contract. Running out of budget is no error.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum AnnealError {
    /// An option has a value it can't have.
    #[error("option {option} is {value}: {rule}")]
    Option {
        /// Its name, as in TOML.
        option: &'static str,
        /// What it was set to.
        value: f64,
        /// What it must be.
        rule: &'static str,
    },
    /// There is nothing to start from.
    #[error("no starting state was given: at least 1 is needed")]
    NoStart,
    /// `start = "equilibrium"` needs one independent state a replica.
    #[error(
        "{starts} starting states were given as a sample in equilibrium for a population of {population}: \
         the two must be equal"
    )]
    SampleSize {
        /// The states given.
        starts: usize,
        /// The replicas wanted.
        population: u32,
    },
    /// The system's energy of a state is infinite or not a number.
    #[error("replica {replica} has energy {energy} after {sweeps} sweeps: energies must be finite")]
    Energy {
        /// The replica.
        replica: usize,
        /// Its energy.
        energy: f64,
        /// Sweeps of the population done before.
        sweeps: u64,
    },
    /// The system sampled an energy change that is infinite or not a number.
    #[error("sample {sample} of the energy changes is {change}: energy changes must be finite")]
    Change {
        /// Which sample.
        sample: usize,
        /// The energy change.
        change: f64,
    },
    /// The processes that walk the population together have lost each other.
    #[error("the population is shared with other processes: {why}")]
    Peers {
        /// What happened.
        why: String,
    },
}
