#![doc = include_str!("../README.md")]

mod bins;
mod error;
mod layouts;
mod measured;
mod paper;
mod record;
mod statistics;
mod table;

pub use bins::{BinsBench, Summary, bench_bins};
pub use error::BenchError;
pub use layouts::{LayoutArm, LayoutWindow, LayoutsBench, WindowArms, bench_layouts};
pub use measured::ArmFigures;
pub use paper::{PAPER_ARMS, PAPER_CASES, PaperArm, PaperBench, PaperCase, PaperRecord, bench_paper};
pub use record::{Record, Status};
pub use statistics::Sample;
pub use table::{Optima, Table, TableLine, read_lines};
