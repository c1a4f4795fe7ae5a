#![doc = include_str!("../README.md")]

mod alike;
mod arrange;
mod arranged;
mod balance;
mod canonical;
mod cells;
mod chain;
mod descend;
mod edp_aware_pair;
mod energy;
mod error;
mod even;
mod exact;
mod grid;
mod leaders;
mod make;
mod neighbours;
mod options;
mod perturb;
mod program;
mod proposal;
mod randomized_best_fit;
mod resplit;
mod rich_cells;
mod search;
mod seeds;
mod select;
mod sketch;
mod spread_bins;
mod state;
mod system;
mod temperature;
mod trial;
mod units;
mod window_shuffle;

pub use arrange::{arrange, arrange_among, arrange_to_place};
pub use arranged::{ArrangeProgress, Arranged, Stage};
pub use error::ArrangeError;
pub use exact::arrange_exactly;
pub use options::ArrangeOptions;
pub use program::{LayoutProgram, layout_program};
pub use spread_bins::spread_bins;

#[cfg(test)]
#[path = "../tests/support/mod.rs"]
mod support;
