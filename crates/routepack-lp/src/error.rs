//! What can be wrong with a program, or go wrong inside a solver.

use thiserror::Error;

use crate::backend::Backend;

/// Bad input, a backend this build lacks, or a solver that failed. A limit that is reached is no error.
#[derive(Debug, Error, Clone, PartialEq)]
pub enum LpError {
    /// A number that must be finite is not.
    #[error("{place}: {value} is not finite")]
    NotFinite {
        /// Where the number stands, by name.
        place: String,
        /// The number.
        value: f64,
    },
    /// The bounds of a variable exclude every value.
    #[error("variable {name}: no value between {lower} and {upper}")]
    CrossedBounds {
        /// The variable.
        name: String,
        /// Its lower bound.
        lower: f64,
        /// Its upper bound.
        upper: f64,
    },
    /// An index past the end.
    #[error("{place}: index {index} where there are {len}")]
    IndexOutOfRange {
        /// What is indexed.
        place: &'static str,
        /// The index.
        index: usize,
        /// How many there are.
        len: usize,
    },
    /// A vector of the wrong length.
    #[error("{place}: length {len}, expected {expected}")]
    WrongLength {
        /// Which vector.
        place: &'static str,
        /// Its length.
        len: usize,
        /// The length it must have.
        expected: usize,
    },
    /// A bound of an integer variable too large for the backend.
    #[error("integer variable {name}: bound {value} is beyond the 32 bits of {backend}")]
    IntegerRange {
        /// The variable.
        name: String,
        /// The bound.
        value: f64,
        /// The backend.
        backend: Backend,
    },
    /// The crate was built without this backend.
    #[error("this build has no backend {backend}: build with the feature `highs`, or choose microlp")]
    BackendMissing {
        /// The backend asked for.
        backend: Backend,
    },
    /// The solver gave up, or contradicted itself.
    #[error("{backend}: {message}")]
    Solver {
        /// The solver.
        backend: Backend,
        /// What it said, or did.
        message: String,
    },
}
