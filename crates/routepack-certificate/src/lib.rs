#![doc = include_str!("../README.md")]

mod certificate;
mod check;
mod fill;
mod knapsack;
mod lengths;
mod limits;
mod node;
mod prover;
mod reader;
mod statement;

pub use certificate::{Certificate, Cut, Leaf, Proof, TreeNode};
pub use check::{check, check_text};
pub use lengths::{Form, Lengths, check_lengths};
pub use limits::{CheckError, Checked, Limits, Rule};
pub use node::Node;
pub use prover::{check_leaf, max_pattern_value};
pub use statement::Statement;
