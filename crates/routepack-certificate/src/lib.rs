#![doc = include_str!("../README.md")]

mod certificate;
mod check;
mod knapsack;
mod lengths;
mod limits;
mod node;
mod reader;
mod statement;

pub use certificate::{Certificate, Cut, Leaf, Proof, TreeNode};
pub use check::{Checked, Header, Rule, check, check_lengths, check_text};
pub use knapsack::{check_leaf, max_pattern_value};
pub use lengths::Lengths;
pub use limits::{CheckError, Limits};
pub use node::Node;
pub use statement::{Statement, StatementError};
