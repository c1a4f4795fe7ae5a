//! The part of a job that defines the problem: topology, routing, packing, cost.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::{CostModel, Parallelism, ProblemError};

/// What the trainer will run: everything that defines the problem beside the recorded samples.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Setting {
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
}

/// How the recorded routes are to be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Routing {
    /// Experts chosen per token and layer.
    pub top_k: u32,
    /// What the trainer's padding tokens do.
    pub pad_routes: PadRoutes,
    /// How demand is attributed when one DP slot spans several EP groups.
    pub attribution: Attribution,
}

impl Default for Routing {
    fn default() -> Self {
        Self { top_k: 8, pad_routes: PadRoutes::None, attribution: Attribution::Exact }
    }
}

/// Routes of padding tokens; charged in the loads, never mixed into the recorded counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PadRoutes {
    /// Padding tokens are not routed.
    #[default]
    None,
    /// Evenly over all ranks, each charged `⌈tokens·top_k/P⌉`.
    Spread,
    /// To logical experts `0..top_k`.
    Arange,
    /// To these logical experts (`top_k` different ids).
    Fixed(Vec<u32>),
}

/// How demand is attributed when one DP slot's tokens are cut over several EP groups (m < 1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Attribution {
    /// The window holds counts per part.
    #[default]
    Exact,
    /// Counts are divided evenly over the parts: every expert figure of the plan is an estimate.
    Spread,
}

/// Packing rules of the trainer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Packing {
    /// Token capacity C of one cell, in padded tokens.
    pub capacity: u32,
    /// Each sample is padded to a multiple of this many tokens.
    #[serde(default = "one")]
    pub sample_multiple: u32,
    /// Each cell is padded to a multiple m of this many tokens; C then counts as m·⌊C/m⌋.
    #[serde(default = "one")]
    pub cell_multiple: u32,
    /// How many rows to run.
    #[serde(default)]
    pub rows: RowsPolicy,
    /// The number of rows is a multiple of this (virtual pipelining).
    #[serde(default = "one")]
    pub rows_multiple: u32,
    /// At most this many samples in a cell; unlimited when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_samples: Option<u32>,
    /// What to do with a sample longer than the capacity.
    #[serde(default)]
    pub oversize: OversizePolicy,
    /// Dummies to fill cells when there are fewer units than cells; an error when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dummies: Option<Dummies>,
    /// Whether samples of different optimizer steps may share a row.
    #[serde(default, skip_serializing_if = "is_default")]
    pub steps: Steps,
}

/// Optimizer steps of a batch: windows of their own, or one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Steps {
    /// Every step is a window of its own.
    #[default]
    Apart,
    /// All samples are one window, step 0: for passes that end without an optimizer step, as forward-only ones do.
    Together,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn one() -> u32 {
    1
}

impl Packing {
    /// Rules with a capacity and everything else at its default.
    pub fn new(capacity: u32) -> Self {
        Self {
            capacity,
            sample_multiple: 1,
            cell_multiple: 1,
            rows: RowsPolicy::Min,
            rows_multiple: 1,
            max_samples: None,
            oversize: OversizePolicy::Error,
            dummies: None,
            steps: Steps::Apart,
        }
    }

    /// Usable tokens of a cell: m·⌊C/m⌋.
    pub fn cell_capacity(&self) -> u32 {
        self.capacity / self.cell_multiple * self.cell_multiple
    }
}

/// How many rows to run. R* is certified under every policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(deny_unknown_fields)]
pub enum RowsPolicy {
    /// The fewest rows R* (the paper's method).
    #[default]
    Min,
    /// Exactly this many rows.
    #[serde(untagged)]
    Fixed(u32),
    /// The R from R* on with the least score plus `row_cost` per row; without it, with the least simulated step time.
    #[serde(untagged)]
    Search {
        /// Rows tried beyond R* at most.
        extra_rows: u32,
        /// Cost of one more row on every shard, in tokens at α = 1. When absent the step time on the job's `[machine]`
        /// decides, pipeline bubble included.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        row_cost: Option<crate::ExactDecimal>,
    },
}

impl RowsPolicy {
    /// Whether the rows are those with the least simulated step time.
    pub fn by_step_time(&self) -> bool {
        matches!(self, Self::Search { row_cost: None, .. })
    }
}

impl<'de> Deserialize<'de> for RowsPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// The table of [`RowsPolicy::Search`].
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Search {
            extra_rows: u32,
            row_cost: Option<crate::ExactDecimal>,
        }

        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = RowsPolicy;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`min`, a number of rows below 2^32, or a table { extra_rows } or { extra_rows, row_cost }")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<RowsPolicy, E> {
                if text == "min" {
                    return Ok(RowsPolicy::Min);
                }
                Err(E::invalid_value(de::Unexpected::Str(text), &self))
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<RowsPolicy, E> {
                u32::try_from(value)
                    .map(RowsPolicy::Fixed)
                    .map_err(|_| E::invalid_value(de::Unexpected::Unsigned(value), &self))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<RowsPolicy, E> {
                u32::try_from(value)
                    .map(RowsPolicy::Fixed)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(value), &self))
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<RowsPolicy, A::Error> {
                let Search { extra_rows, row_cost } =
                    Search::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(RowsPolicy::Search { extra_rows, row_cost })
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// What to do with a sample longer than a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OversizePolicy {
    /// Refuse the window.
    #[default]
    Error,
    /// Leave the sample out and list it in the plan.
    Drop,
}

/// Dummy samples: zero loss, stated length, routes as the trainer's padding tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dummies {
    /// Raw tokens of one dummy.
    pub length: u32,
}

impl Setting {
    /// A setting with D slots, P ranks and capacity C; everything else at its default.
    pub fn new(dp: u32, ep: u32, capacity: u32) -> Self {
        Self {
            topology: Parallelism::new(dp, ep),
            routing: Routing::default(),
            packing: Packing::new(capacity),
            cost: CostModel::default(),
        }
    }

    /// Checks every field that does not depend on the window.
    ///
    /// # Errors
    /// The first field out of range.
    pub fn check(&self) -> Result<(), ProblemError> {
        let packing = &self.packing;
        for (field, value) in [
            ("packing.capacity", packing.capacity),
            ("packing.sample_multiple", packing.sample_multiple),
            ("packing.cell_multiple", packing.cell_multiple),
            ("packing.rows_multiple", packing.rows_multiple),
            ("packing.max_samples", packing.max_samples.unwrap_or(1)),
            ("packing.dummies.length", packing.dummies.map_or(1, |dummies| dummies.length)),
        ] {
            if value == 0 || value > 1 << 30 {
                return Err(ProblemError::setting(field, value, "expected 1 to 2^30"));
            }
        }
        if packing.cell_capacity() == 0 {
            return Err(ProblemError::setting(
                "packing.cell_multiple",
                packing.cell_multiple,
                format!("at most the capacity {}", packing.capacity),
            ));
        }
        match packing.rows {
            RowsPolicy::Fixed(rows) if rows == 0 || rows % packing.rows_multiple != 0 => {
                Err(ProblemError::setting(
                    "packing.rows",
                    rows,
                    format!("expected a positive multiple of rows_multiple = {}", packing.rows_multiple),
                ))
            }
            RowsPolicy::Search { extra_rows, .. } if extra_rows > 1024 => {
                Err(ProblemError::setting("packing.rows.extra_rows", extra_rows, "expected at most 1024"))
            }
            _ => Ok(()),
        }
    }

    /// The logical experts a padding token is routed to; `None` when it is not routed to fixed experts.
    ///
    /// # Errors
    /// Ids that repeat, are out of range, or are not `top_k` many.
    pub fn pad_experts(&self, num_experts: usize) -> Result<Option<Vec<u32>>, ProblemError> {
        let top_k = self.routing.top_k;
        match &self.routing.pad_routes {
            PadRoutes::None | PadRoutes::Spread => Ok(None),
            PadRoutes::Arange => Ok(Some((0..top_k).collect())),
            PadRoutes::Fixed(ids) => {
                let mut sorted = ids.clone();
                sorted.sort_unstable();
                sorted.dedup();
                if sorted.len() != top_k as usize
                    || ids.len() != sorted.len()
                    || sorted.last().is_some_and(|&id| id as usize >= num_experts)
                {
                    return Err(ProblemError::setting(
                        "routing.pad_routes.fixed",
                        format!("{ids:?}"),
                        format!("expected top_k = {top_k} different experts below {num_experts}"),
                    ));
                }
                Ok(Some(ids.clone()))
            }
        }
    }
}
