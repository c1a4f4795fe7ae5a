#![doc = include_str!("../README.md")]

mod alone;
mod assemble;
mod costs;
mod digest;
mod error;
mod figures;
mod plan;
mod rows_tried;
mod statement;
mod tokens;
mod verify;

pub use alone::check_alone;
pub use assemble::{AssembleInputs, StepDecisions, assemble};
pub use digest::{plan_sha256, window_sha256};
pub use error::VerifyError;
pub use figures::{Figures, figures};
pub use plan::{
    FORMAT, OutsideId, Plan, PlanBound, PlanBounds, PlanDropped, PlanPlacement, PlanResident, PlanRows,
    PlanStep, Status, TokenGrid, TokenTotals,
};
pub use statement::{sample_bound, statement, witness_counts};
pub use verify::{Claim, Verified, verify, verify_within};
