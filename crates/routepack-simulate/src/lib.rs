#![doc = include_str!("../README.md")]

mod calibrate;
mod chunks;
mod cluster;
mod cost_weights;
mod error;
mod grouped_product;
mod hugging_face;
mod machine;
mod measurements;
mod model;
mod options;
pub mod pipeline;
pub mod presets;
mod row_time;
mod rows_in_order;
mod simulate;

/// What the model leaves out.
pub const LEAVES_OUT: [&str; 7] = [
    "collectives of tp and cp",
    "kernels that run beside each other",
    "padding routes",
    "the recurrent state of linear attention",
    "memory",
    "noise between ranks",
    "faster orders of reference arms' rows: theirs stand as their rules hand them",
];

pub use calibrate::{Calibrated, Measurement, calibrate};
pub use cluster::{Cluster, GroupedEfficiency, Link};
pub use cost_weights::cost_weights;
pub use error::SimulateError;
pub use hugging_face::model_from_config;
pub use machine::Machine;
pub use measurements::read_measurements;
pub use model::{Attention, Model};
pub use options::SimulateOptions;
pub use row_time::Work;
pub use rows_in_order::RowTimes;
pub use simulate::{StepTime, simulate, time_rows};
