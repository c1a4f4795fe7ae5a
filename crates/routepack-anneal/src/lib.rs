#![doc = include_str!("../README.md")]

pub mod elementary;
pub mod stream;
