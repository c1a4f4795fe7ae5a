#![doc = include_str!("../README.md")]
#![allow(clippy::doc_markdown, reason = "the headers hold formulas")]

mod best_swap;
mod error;
mod exchange;
mod incremental;
mod least_moves;
mod lpt;
mod options;
mod place;
mod program;
mod ranks;
mod relabel;
mod resplit;
mod slots;
mod transfers;
mod triple;

pub use error::PlaceError;
pub use incremental::{MoveGoal, Moved, MovedLayer, place_incrementally};
pub use options::{PlaceOptions, Start};
pub use place::{Placed, PlacedLayer, place};
pub use program::equal_cardinality_partition;
pub use transfers::{Transfer, transfers};
