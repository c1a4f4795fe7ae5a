//! Why no plan was made.

use routepack_place::PlaceError;
use routepack_problem::ProblemError;
use thiserror::Error;

/// Bad input, an infeasible job, or a broken invariant. Running out of budget is no error but where no plan exists yet,
/// which is [`PlanError::NotFound`].
#[derive(Debug, Error)]
pub enum PlanError {
    /// The window and the job do not make an instance.
    #[error(transparent)]
    Problem(#[from] routepack_problem::ProblemError),
    /// The placement stage refused its input.
    #[error("placement: {0}")]
    Place(#[from] PlaceError),
    /// The packing stage refused its input.
    #[error("rows: {0}")]
    Pack(#[from] routepack_binpack::PackError),
    /// The layout stage refused its input.
    #[error("layout: {0}")]
    Arrange(#[from] routepack_arrange::ArrangeError),
    /// The number of rows asked for cannot be had: proved.
    #[error("infeasible: packing.rows = {asked}: at least {bound} rows are necessary in step {step}")]
    Rows {
        /// Rows asked for.
        asked: u64,
        /// Rows proved necessary.
        bound: u64,
        /// Optimizer step.
        step: i64,
    },
    /// No packing was found into as few rows as a plan may have, and none was proved impossible.
    #[error(
        "no plan was found within the budget: step {step} may have {most} rows at most, {bound} are proved necessary, {found} are the fewest found; a later deadline or larger counts in [pack] may find one"
    )]
    NotFound {
        /// The most rows a plan may have, by the rows policy and the units that must fill them.
        most: u64,
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
    /// A batch of another model than those planned before it.
    #[error(
        "expert_counts has {found}: in the windows before it has {expected}, and a sequence is of one model"
    )]
    OtherModel {
        /// Layers and experts of the batch.
        found: String,
        /// Layers and experts of the batches before.
        expected: String,
    },
    /// The job's machine cannot run the window.
    #[error("[machine]: {0}")]
    Machine(#[from] routepack_simulate::SimulateError),
    /// The LP backend is not there.
    #[error("LP backend: {0}")]
    Backend(#[from] routepack_lp::LpError),
    /// The finished plan does not verify: a defect of this program.
    #[error("the plan does not verify, please report this: {0}")]
    Verify(#[from] routepack_verify::VerifyError),
}

impl PlanError {
    /// The error with the step it concerns, where there are several and it does not name it.
    pub(crate) fn in_step(self, step: i64, num_steps: usize) -> Self {
        match self {
            Self::Rows { .. } | Self::NotFound { .. } => self,
            _ if num_steps == 1 => self,
            _ => Self::Step { step, error: Box::new(self) },
        }
    }

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
            Self::Place(_)
            | Self::Pack(_)
            | Self::Arrange(_)
            | Self::Machine(_)
            | Self::Rows { .. }
            | Self::NotFound { .. } => true,
            Self::OtherModel { .. } | Self::Backend(_) | Self::Verify(_) => false,
        }
    }

    /// Whether the resident placement is at fault, if one was given.
    pub fn concerns_resident(&self) -> bool {
        match self {
            Self::Place(PlaceError::Resident { .. } | PlaceError::SplitGroup { .. }) => true,
            Self::Step { error, .. } => error.concerns_resident(),
            _ => false,
        }
    }
}
