//! The map beside a checkpoint: which logical expert is in which slot of which layer of the model.

use routepack_problem::Placement;
use serde::{Deserialize, Serialize};

use super::CheckpointError;
use super::names::Names;
use crate::map_sha256;

/// Name of the file that holds the map of a checkpoint in slots.
pub const MAP_FILE: &str = "routepack_map.json";

/// Name of the file with the map that was in force when experts were saved in logical order (`routepack.torch`).
pub(crate) const LIVE_MAP_FILE: &str = "routepack_live_map.json";

/// Name of the file of checksums.
pub const CHECKSUMS_FILE: &str = "routepack_checksums.json";

/// Key of a shard's metadata that holds the map's hash while its experts are in slots.
pub(crate) const MAP_KEY: &str = "routepack_map_sha256";

/// Key of a shard's metadata that holds the layers of the model whose experts are in slots: a map of the same hash may
/// be laid over others.
pub(crate) const LAYERS_KEY: &str = "routepack_map_layers";

const FORMAT: &str = "routepack-map 1";

/// A map as a file: JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointMap {
    /// `routepack-map 1`.
    pub format: String,
    /// [`map_sha256`] of the map.
    pub sha256: String,
    /// The model's layer of every recorded layer, ascending; all layers with experts when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_layers: Option<Vec<usize>>,
    /// Names by which experts were found; only the built-in ones when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<Names>,
    /// Slot of every logical expert, `[layers][experts]`.
    pub log2phys: Vec<Vec<u32>>,
}

impl CheckpointMap {
    /// A map of these slots.
    ///
    /// # Errors
    /// A layer is no bijection.
    pub fn new(log2phys: Vec<Vec<u32>>, model_layers: Option<Vec<usize>>) -> Result<Self, CheckpointError> {
        let placement = placement("map", &log2phys)?;
        let map = Self {
            format: FORMAT.into(),
            sha256: map_sha256(&placement),
            model_layers,
            names: None,
            log2phys,
        };
        map.check("map")?;
        Ok(map)
    }

    /// Reads a map; `name` stands for the file in messages.
    ///
    /// # Errors
    /// No map, a layer that is no bijection, or a hash that is another map's.
    pub fn parse(json: &[u8], name: &str) -> Result<Self, CheckpointError> {
        let map: Self = serde_json::from_slice(json)
            .map_err(|error| CheckpointError::input(name, format!("no map: {error}")))?;
        map.check(name)?;
        Ok(map)
    }

    fn check(&self, name: &str) -> Result<(), CheckpointError> {
        let wrong = |why: String| Err(CheckpointError::input(name, why));
        if self.format != FORMAT {
            return wrong(format!("format = {:?}, expected {FORMAT:?}", self.format));
        }
        let sha256 = map_sha256(&placement(name, &self.log2phys)?);
        if sha256 != self.sha256 {
            return wrong(format!("sha256 = {}, its slots have {sha256}", self.sha256));
        }
        if let Some(layers) = &self.model_layers {
            if layers.len() != self.log2phys.len() || !layers.is_sorted_by(|a, b| a < b) {
                let expected = self.log2phys.len();
                return wrong(format!(
                    "model_layers: expected {expected} ascending layers, found {layers:?}"
                ));
            }
        }
        Ok(())
    }
}

fn placement(name: &str, log2phys: &[Vec<u32>]) -> Result<Placement, CheckpointError> {
    if log2phys.first().is_none_or(Vec::is_empty) {
        return Err(CheckpointError::input(name, "log2phys has no layers, or no experts in them"));
    }
    Placement::new(1, log2phys.to_vec()).map_err(|error| CheckpointError::input(name, error.to_string()))
}
