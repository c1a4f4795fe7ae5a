//! Why no plan was made.

use routepack_problem::ProblemError;
use thiserror::Error;

/// Bad input, an infeasible job, or a broken invariant; running out of budget is no error.
#[derive(Debug, Error)]
pub enum PlanError {
    /// The window and the job do not make an instance.
    #[error(transparent)]
    Problem(#[from] routepack_problem::ProblemError),
    /// The placement stage refused its input.
    #[error("placement: {0}")]
    Place(#[from] routepack_place::PlaceError),
    /// The packing stage refused its input.
    #[error("rows: {0}")]
    Pack(#[from] routepack_binpack::PackError),
    /// The layout stage refused its input.
    #[error("layout: {0}")]
    Arrange(#[from] routepack_arrange::ArrangeError),
    /// The number of rows asked for cannot be had.
    #[error(
        "packing.rows = {asked}: at least {bound} rows are necessary and {found} rows are the fewest found in step {step}"
    )]
    Rows {
        /// Rows asked for.
        asked: u64,
        /// Rows proved necessary.
        bound: u64,
        /// Rows of the best packing.
        found: u64,
        /// Optimizer step.
        step: i64,
    },
    /// One of several steps cannot be planned.
    #[error("step {step}: {error}")]
    Step {
        /// Optimizer step, as recorded.
        step: i64,
        /// Why.
        error: Box<PlanError>,
    },
    /// The LP backend is not there.
    #[error("LP backend: {0}")]
    Backend(#[from] routepack_lp::LpError),
    /// The finished plan does not verify: a defect of this program.
    #[error("the plan does not verify, please report this: {0}")]
    Verify(#[from] routepack_verify::VerifyError),
}

impl PlanError {
    /// Whether the job is at fault rather than the window.
    pub fn concerns_job(&self) -> bool {
        match self {
            Self::Problem(error) => {
                // Fields of the job have dotted names, arrays of the window have not.
                match error {
                    ProblemError::Setting { .. } | ProblemError::Shards { .. } => true,
                    ProblemError::Shape { field, .. } | ProblemError::Value { field, .. } => {
                        field.contains('.')
                    }
                    _ => false,
                }
            }
            Self::Step { error, .. } => error.concerns_job(),
            Self::Place(_) | Self::Pack(_) | Self::Arrange(_) | Self::Rows { .. } => true,
            Self::Backend(_) | Self::Verify(_) => false,
        }
    }
}
