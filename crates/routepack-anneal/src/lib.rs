#![doc = include_str!("../README.md")]

pub mod annealing;
pub mod elementary;
mod error;
pub mod ladder;
pub mod metropolis;
mod options;
pub mod peers;
mod population;
pub mod resample;
pub mod stream;
pub mod system;
pub mod systems;
pub mod trace;

pub use annealing::{Annealed, Outcome, anneal, anneal_among};
pub use error::AnnealError;
pub use ladder::Ladder;
pub use metropolis::accepts;
pub use options::{Options, Start};
pub use peers::{Peers, Portable};
pub use stream::Stream;
pub use system::{MoveCount, Record, System};
pub use trace::TemperatureReport;
