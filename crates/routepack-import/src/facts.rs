//! What is said of samples beside their routes, and what was read in all.

use routepack_problem::SampleIds;
use serde::{Deserialize, Serialize};

/// What a file says about a sample beside its routes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) length: u32,
    pub(crate) loss_tokens: Option<u32>,
    pub(crate) id: Option<OutsideId>,
    pub(crate) prompt_id: Option<i64>,
    /// The number of the prompt's `uid`.
    pub(crate) uid: Option<i64>,
    pub(crate) step: Option<i64>,
}

/// Identity of a sample outside this program.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "an id: expected a text, or an integer from -2^63 to 2^63 - 1")]
pub(crate) enum OutsideId {
    Integer(i64),
    Text(String),
}

impl OutsideId {
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Integer(id) => id.to_string(),
            Self::Text(id) => id.clone(),
        }
    }
}

/// What was read, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Samples.
    pub samples: u64,
    /// Tokens T of all samples.
    pub tokens: u64,
    /// `MoE` layers.
    pub layers: u64,
    /// Experts E per layer.
    pub experts: u64,
    /// Experts chosen per token and layer.
    pub top_k: u64,
    /// Rows counted.
    pub rows_counted: u64,
    /// Samples whose last token's row was recorded too: T rows.
    pub samples_with_last_row: u64,
    /// Samples whose last token's row was not: T − 1 rows.
    pub samples_without_last_row: u64,
    /// Rows missing beside the last tokens'.
    pub rows_missing: u64,
    /// Samples with missing rows.
    pub samples_with_missing_rows: u64,
    /// Samples without any row.
    pub samples_without_rows: u64,
    /// Filler rows, not counted.
    pub filler_rows: u64,
    /// Rows of earlier turns that a later turn replaced.
    pub replaced_rows: u64,
}

/// Integers where all ids are, else texts.
pub(crate) fn sample_ids(ids: Vec<OutsideId>) -> SampleIds {
    let integers = ids.iter().map(|id| match id {
        OutsideId::Integer(id) => Some(*id),
        OutsideId::Text(_) => None,
    });
    match integers.collect() {
        Some(integers) => SampleIds::Integers(integers),
        None => SampleIds::Strings(ids.iter().map(OutsideId::text).collect()),
    }
}
