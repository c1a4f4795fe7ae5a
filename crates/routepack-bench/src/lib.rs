#![doc = include_str!("../README.md")]

mod bins;
mod error;
mod record;
mod table;

pub use bins::{BinsBench, Summary, bench_bins};
pub use error::BenchError;
pub use record::{Record, Status};
pub use table::{Optima, Table};
