//! What a step runs on: a cluster, a model, and how the trainer runs it; the same options wherever a time is simulated.

use std::path::Path;

use routepack::formats;
use routepack::simulation::{Cluster, Model, SimulateError, SimulateOptions, model_from_config, presets};

use super::ends_with;
use super::outputs::Named;
use crate::exit::Failure;

/// A cluster, and how the trainer runs a step.
#[derive(clap::Args)]
pub(crate) struct ClusterArguments {
    /// Cluster: the name of a preset, or a TOML file.
    #[arg(long, value_name = "NAME|FILE")]
    cluster: String,
    #[command(flatten)]
    run: RunArguments,
}

/// How the trainer runs a step, where it is not as usual.
#[derive(clap::Args)]
pub(crate) struct RunArguments {
    /// Recompute activations in full: forward runs twice.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    recompute: Option<bool>,
    /// Bytes of one number dispatched forward, above 0, at most 8: 0.5 for FP4, 1 for FP8, 2 for BF16, which is usual.
    #[arg(long, allow_negative_numbers = true)]
    dispatch_bytes: Option<f64>,
    /// Share of the exchange of gradients that computation does not hide, 0 to 1; usually 1.
    #[arg(long, allow_negative_numbers = true)]
    exposed_gradients: Option<f64>,
}

impl ClusterArguments {
    /// The file that the cluster is read from, if it is no preset.
    pub(super) fn file(&self) -> Option<Named<'_>> {
        cluster_file(&self.cluster)
    }

    /// The cluster: a preset, or a TOML file.
    pub(crate) fn read(&self) -> Result<Cluster, Failure> {
        read_cluster(&self.cluster)
    }

    /// How the trainer runs a step.
    pub(crate) fn options(&self) -> Result<SimulateOptions, Failure> {
        let options = self.run.over(SimulateOptions::default());
        check_given(&options)?;
        Ok(options)
    }
}

/// Refuses values given on the command line, by the names they have there.
pub(super) fn check_given(options: &SimulateOptions) -> Result<(), Failure> {
    options.check().map_err(|error| match error {
        SimulateError::Option { field, value, limit } => {
            Failure::Input(format!("--{} {value}: expected {limit}", field.replace('_', "-")))
        }
        other => Failure::Input(other.to_string()),
    })
}

impl RunArguments {
    /// These options in place of the usual ones.
    pub(super) fn over(&self, usual: SimulateOptions) -> SimulateOptions {
        SimulateOptions {
            recompute: self.recompute.unwrap_or(usual.recompute),
            dispatch_bytes: self.dispatch_bytes.unwrap_or(usual.dispatch_bytes),
            exposed_gradients: self.exposed_gradients.unwrap_or(usual.exposed_gradients),
            ..usual
        }
    }
}

/// The file that a cluster is read from, if it is no preset.
pub(super) fn cluster_file(name: &str) -> Option<Named<'_>> {
    let preset = presets::cluster_names().any(|known| known == name);
    (!preset).then(|| ("--cluster", Path::new(name)))
}

/// The file that a model is read from, if it is no preset.
pub(super) fn model_file(name: &str) -> Option<Named<'_>> {
    let preset = presets::model_names().any(|known| known == name);
    (!preset).then(|| ("--model", Path::new(name)))
}

/// A preset, or a TOML file.
pub(super) fn read_cluster(name: &str) -> Result<Cluster, Failure> {
    if cluster_file(name).is_none() || !means_file(name) {
        return presets::cluster(name).map_err(|error| Failure::input("--cluster", error));
    }
    let (text, shown) = formats::read_text(Path::new(name))?;
    presets::parse_cluster(&text, &shown).map_err(|error| Failure::Input(error.to_string()))
}

/// A preset, or a file: config.json by its ending, else TOML.
pub(crate) fn read_model(name: &str) -> Result<Model, Failure> {
    if model_file(name).is_none() || !means_file(name) {
        return presets::model(name).map_err(|error| Failure::input("--model", error));
    }
    let (text, shown) = formats::read_text(Path::new(name))?;
    let read = if ends_with(Path::new(name), "json") { model_from_config } else { presets::parse_model };
    read(&text, &shown).map_err(|error| Failure::Input(error.to_string()))
}

/// Whether a name is that of a file: one that is there, or that looks like one.
fn means_file(name: &str) -> bool {
    let path = Path::new(name);
    path.exists() || path.components().count() > 1 || ends_with(path, "toml") || ends_with(path, "json")
}
