#![doc = include_str!("../README.md")]

mod best_swap;
mod error;
mod lpt;
mod options;
mod place;
mod ranks;
mod resplit;
mod slots;
mod triple;

pub use error::PlaceError;
pub use options::{PlaceOptions, Start};
pub use place::{Placed, PlacedLayer, place};
