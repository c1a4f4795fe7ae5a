//! The job: everything a plan depends on beside the recorded window.

use std::collections::BTreeMap;

use routepack_arrange::ArrangeOptions;
use routepack_binpack::PackOptions;
use routepack_place::PlaceOptions;
use routepack_problem::{CostModel, Packing, Parallelism, Placement, Routing, Setting};
use routepack_simulate::Machine;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Aim, MoveOptions, RefineOptions};

/// One job file: the problem's definition and one table of options per stage.
///
/// Only `topology` and `packing` are required. Budgets are counts; a deadline only decides when to stop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Parallel sizes.
    pub topology: Parallelism,
    /// Routing facts.
    #[serde(default)]
    pub routing: Routing,
    /// Packing rules.
    pub packing: Packing,
    /// Cost model.
    #[serde(default)]
    pub cost: CostModel,
    /// Options of the certified row bound.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pack: PackOptions,
    /// Options of the expert placement.
    #[serde(default, skip_serializing_if = "is_default")]
    pub place: PlaceOptions,
    /// What moving experts from the resident placement costs and how many may.
    #[serde(default, skip_serializing_if = "is_default")]
    pub moves: MoveOptions,
    /// Options of the layout search.
    #[serde(default, skip_serializing_if = "is_default")]
    pub arrange: ArrangeOptions,
    /// Options of the co-refinement of placement and layout.
    #[serde(default, skip_serializing_if = "is_default")]
    pub refine: RefineOptions,
    /// What steps run on: `model` and `cluster`, each the name of a preset or a table, and `options`. Rows of a pipeline stand
    /// in the order that is faster on it, and `rows = { extra_rows = … }` takes the rows with the least simulated step time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
    /// Passes beside training over the same samples, each packed by rules of its own under the placement of the training
    /// pass: `[passes.log-prob] capacity = …`. See [`crate::plan_passes`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub passes: BTreeMap<String, Packing>,
    /// Seed of every random stream.
    #[serde(default)]
    pub seed: u64,
    /// Stop with the best plan so far after this many milliseconds; only counts limit the search when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
}

fn is_default<T: Default + PartialEq>(options: &T) -> bool {
    *options == T::default()
}

impl Job {
    /// A job with default options.
    pub fn new(setting: Setting) -> Self {
        Self {
            topology: setting.topology,
            routing: setting.routing,
            packing: setting.packing,
            cost: setting.cost,
            pack: PackOptions::default(),
            place: PlaceOptions::default(),
            moves: MoveOptions::default(),
            arrange: ArrangeOptions::default(),
            refine: RefineOptions::default(),
            machine: None,
            passes: BTreeMap::new(),
            seed: 0,
            deadline_ms: None,
        }
    }

    /// The options of the stages as data, for the record: everything but the problem's definition and the seed.
    pub fn options(&self) -> serde_json::Value {
        let mut options = serde_json::json!({
            "pack": self.pack,
            "place": self.place,
            "arrange": self.arrange,
            "refine": self.refine,
            "deadline_ms": self.deadline_ms,
        });
        if self.moves != MoveOptions::default() {
            options["moves"] = serde_json::json!(self.moves);
        }
        options
    }

    /// The job of another pass over the same samples, forward only for example: packed by rules of its own, every expert
    /// where `placement` has it.
    #[must_use]
    pub fn pass(&self, packing: Packing, placement: Option<&Placement>) -> Self {
        let mut pass = Self { packing, passes: BTreeMap::new(), ..self.clone() };
        pass.refine.placement = Aim::Fixed;
        pass.place.resident = placement.cloned();
        pass
    }

    /// The problem's definition.
    pub fn setting(&self) -> Setting {
        Setting {
            topology: self.topology.clone(),
            routing: self.routing.clone(),
            packing: self.packing.clone(),
            cost: self.cost.clone(),
        }
    }
}
