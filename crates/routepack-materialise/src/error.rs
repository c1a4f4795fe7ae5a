//! What can be wrong with a move.

use routepack_problem::ProblemError;
use thiserror::Error;

/// Why expert state cannot be moved.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MaterialiseError {
    /// Parallel sizes or a placement are wrong.
    #[error(transparent)]
    Problem(#[from] ProblemError),
    /// A placement is of another model or job than the state.
    #[error("{which} placement has {found}, the state has {expected}")]
    Placement {
        /// `resident` or `target`.
        which: &'static str,
        /// Its layers, experts and ranks.
        found: String,
        /// Those of the state.
        expected: String,
    },
    /// A description of state is wrong.
    #[error("{field} = {value}: {limit}")]
    State {
        /// Name of the field.
        field: String,
        /// Value found.
        value: String,
        /// What is allowed.
        limit: String,
    },
}

impl MaterialiseError {
    pub(crate) fn state(field: impl Into<String>, value: impl ToString, limit: impl Into<String>) -> Self {
        Self::State { field: field.into(), value: value.to_string(), limit: limit.into() }
    }
}
