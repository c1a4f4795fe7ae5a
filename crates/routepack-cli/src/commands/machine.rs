//! What a step runs on: a cluster, a model, and how the trainer runs it; the same options wherever a time is simulated.

use std::path::Path;

use routepack::formats;
use routepack::simulation::{Cluster, Model, SimulateOptions, model_from_config, presets};

use super::ends_with;
use super::outputs::Named;
use crate::exit::Failure;

/// A cluster, and how the trainer runs a step.
#[derive(clap::Args)]
pub(crate) struct ClusterArguments {
    /// Cluster: the name of a preset, or a TOML file.
    #[arg(long, value_name = "NAME|FILE")]
    cluster: String,
    /// Recompute activations in full: forward runs twice.
    #[arg(long)]
    recompute: bool,
    /// Bytes of one number dispatched forward: 1 for FP8, 2 for BF16.
    #[arg(long, default_value_t = SimulateOptions::default().dispatch_bytes)]
    dispatch_bytes: f64,
    /// Share of the exchange of gradients that computation does not hide, 0 to 1.
    #[arg(long, default_value_t = SimulateOptions::default().exposed_gradients)]
    exposed_gradients: f64,
}

impl ClusterArguments {
    /// The file that the cluster is read from, if it is no preset.
    pub(super) fn file(&self) -> Option<Named<'_>> {
        let preset = presets::cluster_names().any(|known| known == self.cluster);
        (!preset).then(|| ("--cluster", Path::new(&self.cluster)))
    }

    /// The cluster: a preset, or a TOML file.
    pub(crate) fn read(&self) -> Result<Cluster, Failure> {
        let name = &self.cluster;
        if presets::cluster_names().any(|known| known == name) || !Path::new(name).exists() {
            return presets::cluster(name).map_err(|error| Failure::input("--cluster", error));
        }
        let (text, shown) = formats::read_text(Path::new(name))?;
        presets::parse_cluster(&text, &shown).map_err(|error| Failure::Input(error.to_string()))
    }

    /// How the trainer runs a step, with so many seconds of planning that nothing hides.
    pub(crate) fn options(&self, planning_seconds: f64) -> SimulateOptions {
        SimulateOptions {
            recompute: self.recompute,
            dispatch_bytes: self.dispatch_bytes,
            exposed_gradients: self.exposed_gradients,
            planning_seconds,
            ..SimulateOptions::default()
        }
    }
}

/// The file that a model is read from, if it is no preset.
pub(super) fn model_file(name: &str) -> Option<Named<'_>> {
    let preset = presets::model_names().any(|known| known == name);
    (!preset).then(|| ("--model", Path::new(name)))
}

/// A preset, or a file: config.json by its ending, else TOML.
pub(crate) fn read_model(name: &str) -> Result<Model, Failure> {
    if presets::model_names().any(|known| known == name) || !Path::new(name).exists() {
        return presets::model(name).map_err(|error| Failure::input("--model", error));
    }
    let (text, shown) = formats::read_text(Path::new(name))?;
    let read = if ends_with(Path::new(name), "json") { model_from_config } else { presets::parse_model };
    read(&text, &shown).map_err(|error| Failure::Input(error.to_string()))
}
