//! Generators and oracles shared by the tests of the whole workspace.

pub mod oracle;
pub mod small;

/// The README's Rust runs as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
