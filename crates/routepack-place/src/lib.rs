#![doc = include_str!("../README.md")]
#![allow(clippy::doc_markdown, reason = "the headers hold formulas")]

mod best_swap;
mod block_ranks;
mod error;
mod exchange;
mod incremental;
mod least_moves;
mod lpt;
mod node_groups;
mod options;
mod overload;
mod pattern_cover;
mod place;
mod program;
mod rank_patterns;
mod ranks;
mod relabel;
mod resplit;
mod row_loads;
mod row_peaks;
mod slots;
mod transfers;
mod triple;

pub use error::PlaceError;
pub use incremental::{MoveGoal, Moved, MovedLayer, TradeOff, place_incrementally, trade_off};
pub use node_groups::NodeGroups;
pub use options::{PlaceOptions, Start};
pub use place::{Placed, PlacedLayer, check_resident, place};
pub use program::{equal_cardinality_partition, rank_pattern_program};
pub use rank_patterns::{PatternLayer, PatternOptions, PatternPlaced, place_by_patterns};
pub use relabel::match_ranks;
pub use row_loads::RowLoads;
pub use row_peaks::{MoveCharge, MoveLimit, RowPeakOptions, RowPlaced, RowPlacedLayer, place_on_row_peaks};
pub use transfers::{Transfer, transfers};
