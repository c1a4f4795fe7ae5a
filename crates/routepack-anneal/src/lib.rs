#![doc = include_str!("../README.md")]

pub mod annealing;
pub mod elementary;
mod error;
pub mod ladder;
pub mod metropolis;
mod options;
mod population;
pub mod resample;
pub mod stream;
pub mod system;
pub mod systems;
pub mod trace;

pub use annealing::{Annealed, Outcome, anneal};
pub use error::AnnealError;
pub use ladder::Ladder;
pub use metropolis::accepts;
pub use options::{Options, Start};
pub use stream::Stream;
pub use system::{MoveCount, Record, System};
pub use trace::TemperatureReport;
