#![doc = include_str!("../README.md")]

mod demand;
mod error;
mod kernels;
mod loads;
mod pads;
mod scalar;

pub use demand::Demand;
pub use error::PeaksError;
pub use loads::{Exchange, Loads, SetExchange, SetSums};
