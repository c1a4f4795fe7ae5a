//! What can be wrong with a simulation's input.

use routepack_problem::counted;

/// Why a step time cannot be told.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SimulateError {
    /// A model's shape is out of range.
    #[error("model {model}: {field} = {value}: expected {limit}")]
    Model {
        /// Its name.
        model: String,
        /// The field.
        field: &'static str,
        /// What it says.
        value: String,
        /// What it may say.
        limit: String,
    },
    /// A cluster's figure is out of range.
    #[error("cluster {cluster}: {field} = {value}: expected {limit}")]
    Cluster {
        /// Its name.
        cluster: String,
        /// The field.
        field: &'static str,
        /// What it says.
        value: String,
        /// What it may say.
        limit: String,
    },
    /// An option is out of range.
    #[error("options.{field} = {value}: expected {limit}")]
    Option {
        /// The option.
        field: &'static str,
        /// What it says.
        value: String,
        /// What it may say.
        limit: &'static str,
    },
    /// The window was not recorded with this model.
    #[error("the window has {}, model {model} has {expected}", counted(*found as u64, what))]
    OtherModel {
        /// The model's name.
        model: String,
        /// What differs.
        what: &'static str,
        /// The window's number.
        found: usize,
        /// The model's number.
        expected: usize,
    },
    /// More pipeline chunks than layers.
    #[error(
        "topology.pp = {stages}, vpp = {vpp}: model {model} has {}, one a stage and chunk is needed",
        counted(*layers as u64, "layer")
    )]
    Stages {
        /// The model's name.
        model: String,
        /// Its layers.
        layers: usize,
        /// Pipeline stages.
        stages: usize,
        /// Virtual chunks a stage.
        vpp: u32,
    },
    /// An interleaved pipeline takes rows in groups of its stages.
    #[error(
        "{} on {} with vpp = {vpp}: expected a multiple of {stages} (packing.rows_multiple)",
        counted(*rows as u64, "row"),
        counted(*stages as u64, "stage")
    )]
    Interleaved {
        /// Rows of the layout.
        rows: usize,
        /// Pipeline stages.
        stages: usize,
        /// Virtual chunks a stage.
        vpp: u32,
    },
    /// No preset of this name.
    #[error("no {kind} is called `{name}`: known are {known}")]
    Name {
        /// `model` or `cluster`.
        kind: &'static str,
        /// What was asked for.
        name: String,
        /// The presets.
        known: String,
    },
    /// A text is not what it should be.
    #[error("{name}: {message}")]
    Form {
        /// File or preset.
        name: String,
        /// What is wrong.
        message: String,
    },
    /// Measurements from which nothing can be fitted.
    #[error("cannot fit {parameters} weights: {why}")]
    Fit {
        /// Weights to fit.
        parameters: usize,
        /// What is missing.
        why: String,
    },
}
