//! Why a plan is refused.

use std::fmt::Display;

use routepack_certificate::CheckError;
use routepack_problem::{LayoutError, ProblemError};
use thiserror::Error;

/// Why a plan is refused, or cannot be put together.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum VerifyError {
    /// A claim differs from what the inputs give.
    #[error("{field}: the plan claims {claimed}, recomputed {recomputed}")]
    Mismatch {
        /// Path of the field in the plan.
        field: String,
        /// The claim.
        claimed: String,
        /// What the inputs give.
        recomputed: String,
    },
    /// The batch and the plan's setting make no instance, or the placement is none.
    #[error("{0}")]
    Problem(#[from] ProblemError),
    /// The cells of a step are no layout of its window.
    #[error("step {step}: {error}")]
    Layout {
        /// Optimizer step.
        step: i64,
        /// The first violation.
        error: LayoutError,
    },
    /// The certificate of a step is not accepted.
    #[error("step {step}: certificate: {error}")]
    Certificate {
        /// Optimizer step.
        step: i64,
        /// Why.
        error: CheckError,
    },
    /// The plan's machine cannot run it.
    #[error("machine: {0}")]
    Simulate(#[from] routepack_simulate::SimulateError),
}

impl VerifyError {
    pub(crate) fn mismatch(
        field: impl Into<String>,
        claimed: &dyn Display,
        recomputed: &dyn Display,
    ) -> Self {
        Self::Mismatch {
            field: field.into(),
            claimed: claimed.to_string(),
            recomputed: recomputed.to_string(),
        }
    }
}
