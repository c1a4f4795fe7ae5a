#![doc = include_str!("../README.md")]

mod arrays;
mod atomic;
mod error;
mod json_arrays;
mod lengths;
mod npy;
mod npy_header;
mod npy_write;
mod npz;
mod plan_file;
mod routes;
mod schema;
mod toml_file;
mod window;
mod window_json;

pub use arrays::{ArrayHeader, ArrayKind, Arrays, split_npy};
pub use atomic::{check_writable, end_of_links, read_text, write_atomically};
pub use error::FormatError;
pub use lengths::{Lengths, LengthsForm, parse_lengths, read_lengths, write_lengths};
pub use plan_file::{
    compact_json, encode_plan, parse_plan, plan_json, read_plan, write_plan, write_plan_npz,
};
pub use routes::{Routes, read_routes};
pub use schema::{plan_schema, schema_of, window_schema};
pub use toml_file::{parse_toml, read_toml, write_toml};
pub use window::{encode_batch, read_batch, read_batch_from, write_batch_npz};
pub use window_json::{batch_json, write_batch_json};
