//! Why nothing could be generated.

use std::fmt::Display;

use routepack_problem::ProblemError;
use thiserror::Error;

/// Why a recipe or a trace makes no instance.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GenerateError {
    /// A field of a recipe has a value outside its range.
    #[error("{field} = {value}: {limit}")]
    Field {
        /// Dotted name of the field, as in the recipe.
        field: String,
        /// The value found.
        value: String,
        /// What is allowed.
        limit: String,
    },
    /// Changes to a recipe that do not fit its fields.
    #[error("recipe: {reason}")]
    Amendment {
        /// What does not fit, with the name of the field.
        reason: String,
    },
    /// There is no recipe of that name.
    #[error("no recipe is named `{name}`; there are {known}")]
    Name {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The setting is refused, or does not fit the window.
    #[error(transparent)]
    Problem(#[from] ProblemError),
    /// No draw had the property asked for.
    #[error("{what}: no draw in {attempts} had it; change the lengths or allow more attempts")]
    Exhausted {
        /// The property.
        what: &'static str,
        /// Draws made.
        attempts: u32,
    },
    /// A trace of routes has the wrong number of values.
    #[error("routed_experts: {found} values are no [tokens, {layers} layers, {top_k}] array")]
    TraceShape {
        /// Values found.
        found: usize,
        /// Layers.
        layers: usize,
        /// Experts chosen per token.
        top_k: usize,
    },
    /// A trace is shorter than the samples to be cut from it.
    #[error("routed_experts: sample {sample} needs tokens up to {needed}, the trace has {tokens}")]
    TraceLength {
        /// First sample that does not fit.
        sample: usize,
        /// Tokens needed up to its end.
        needed: u64,
        /// Tokens of the trace.
        tokens: usize,
    },
    /// A token's routes are no `top_k` different experts.
    #[error("routed_experts[token {token}, layer {layer}] names expert {expert} {problem}")]
    Route {
        /// Token of the trace.
        token: usize,
        /// Layer.
        layer: usize,
        /// The expert named.
        expert: u32,
        /// What is wrong with it.
        problem: String,
    },
}

impl GenerateError {
    pub(crate) fn field(field: impl Into<String>, value: impl Display, limit: impl Into<String>) -> Self {
        Self::Field { field: field.into(), value: value.to_string(), limit: limit.into() }
    }
}
