#![doc = include_str!("../README.md")]

mod digest;
mod plan;

pub use digest::{plan_sha256, window_sha256};
pub use plan::{
    FORMAT, OutsideId, Plan, PlanBound, PlanBounds, PlanDropped, PlanPlacement, PlanStep, Status, TokenGrid,
    TokenTotals,
};
