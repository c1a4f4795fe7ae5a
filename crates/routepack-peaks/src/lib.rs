#![doc = include_str!("../README.md")]

mod demand;
mod error;
mod kernels;
mod loads;
mod pads;
mod scalar;
mod tile;

pub use demand::Demand;
pub use error::PeaksError;
pub use loads::{Exchange, Loads, SetExchange, SetSums};
pub use tile::{Tile, TileRoom};
