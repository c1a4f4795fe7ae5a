//! Options of the placement stage.

use routepack_problem::Placement;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{NodeGroups, PlaceError};

/// Where the search for a placement begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// Where the weights are: the resident placement, expert e in slot e if none is given.
    #[default]
    Resident,
    /// Expert e in slot e.
    Identity,
    /// Longest processing time first.
    Lpt,
}

/// Options of [`crate::place`]; limits are counts, so that they never depend on a clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PlaceOptions {
    /// Where the search begins.
    pub start: Start,
    /// Best swaps against the heaviest rank, at most this many a layer; 0 switches them off.
    pub max_swaps: u32,
    /// Re-splits of the heaviest rank with another, at most this many a layer; 0 switches them off.
    pub max_resplits: u32,
    /// Re-splits exchange c experts at once where a rank has at most this many subsets of c experts.
    pub max_subsets: u32,
    /// Re-splits of the heaviest rank with two others (up to 5 slots a rank), at most this many a layer; 0 switches
    /// them off.
    pub max_triples: u32,
    /// Whether a layer that is not proved optimal from its start is searched again from LPT.
    pub second_start: bool,
    /// Groups of experts that stay whole on a node; none when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_groups: Option<NodeGroups>,
    /// What a routed row of every layer's peak costs `[layers]`, alike in all if empty: a common budget of moves is spent
    /// where it saves most. Given by the caller, not by options files.
    #[serde(skip)]
    #[schemars(skip)]
    pub layer_weights: Vec<u64>,
    /// The placement the weights have now; experts that stay on a rank keep their slot. Given by the caller, not by
    /// options files.
    #[serde(skip)]
    #[schemars(skip)]
    pub resident: Option<Placement>,
}

impl Default for PlaceOptions {
    fn default() -> Self {
        Self {
            start: Start::default(),
            max_swaps: 1000,
            max_resplits: 1000,
            max_subsets: 500,
            max_triples: 200,
            second_start: true,
            node_groups: None,
            layer_weights: Vec::new(),
            resident: None,
        }
    }
}

impl PlaceOptions {
    /// Checks the ranges.
    ///
    /// # Errors
    /// `max_subsets` beyond 65,536: the tables of subsets would not fit caches or memory.
    pub fn validate(&self) -> Result<(), PlaceError> {
        if self.max_subsets > 65_536 {
            return Err(PlaceError::Option {
                field: "place.max_subsets",
                value: self.max_subsets.to_string(),
                limit: "expected at most 65536",
            });
        }
        Ok(())
    }
}
