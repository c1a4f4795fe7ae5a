#![doc = include_str!("../README.md")]

mod axes;
mod batch_arrays;
mod beside;
mod carrier;
mod count_routes;
mod count_rows;
mod decode;
mod distribution;
mod dtype;
mod error;
mod facts;
mod form;
mod import;
mod layer_arrays;
mod options;
mod rollout_line;
mod rollouts;
mod routes_value;
mod sample;
mod scale_up;
mod valid_row;
mod vectors;
mod window;

pub use count_routes::{Routes, count_routes};
pub use dtype::Dtype;
pub use error::{ImportError, Place};
pub use facts::Summary;
pub use form::Form;
pub use import::{ImportProgress, import, import_lines};
pub use options::{Ids, ImportOptions, Layers, MAX_EXPERTS, Missing};
pub use window::Imported;
