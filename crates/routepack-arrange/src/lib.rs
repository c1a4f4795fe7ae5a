#![doc = include_str!("../README.md")]

mod arrange;
mod balance;
mod canonical;
mod cells;
mod descend;
mod edp_aware_pair;
mod energy;
mod error;
mod grid;
mod neighbours;
mod options;
mod perturb;
mod randomized_best_fit;
mod resplit;
mod seeds;
mod select;
mod sketch;
mod spread_bins;
mod system;
mod units;
mod window_shuffle;

pub use arrange::{ArrangeProgress, Arranged, Stage, arrange};
pub use error::ArrangeError;
pub use options::ArrangeOptions;
pub use spread_bins::spread_bins;
