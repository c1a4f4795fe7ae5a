#![doc = include_str!("../README.md")]

mod backend;
mod dual;
mod error;
#[cfg(feature = "highs")]
mod highs_calls;
mod master;
mod program;
mod solve;
mod write_lp;

pub use backend::Backend;
pub use error::LpError;
pub use master::{Basis, Column, CoverMaster, Cut, MasterSolved, MasterStatus};
pub use program::{Constraint, ConstraintId, Program, Relation, Sense, Variable, VariableId};
pub use solve::{SolveOptions, Solved, Status, solve, solve_until};
