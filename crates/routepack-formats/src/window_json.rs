//! A window as JSON: the written form and its schema; reading goes through [`crate::read_batch`].

use std::path::Path;

use routepack_problem::{Batch, SampleIds};
use schemars::JsonSchema;
use serde::Serialize;

use crate::FormatError;
use crate::atomic::write_atomically;
use crate::plan_file::compact_json;

/// A window: recorded samples as arrays in input order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WindowJson {
    /// Raw tokens (prompt + response) of every sample, at least 1.
    lengths: Vec<u32>,
    /// How many routed rows chose each expert, `[samples][layers][experts]` or `[samples][parts][layers][experts]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    expert_counts: Option<CountsJson>,
    /// Tokens whose routes were recorded; derived from the counts when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    routed_rows: Option<Vec<u32>>,
    /// Loss-mask tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    loss_tokens: Option<Vec<u32>>,
    /// Ids outside this program.
    #[serde(skip_serializing_if = "Option::is_none")]
    sample_ids: Option<IdsJson>,
    /// Prompt of every sample; statistics only.
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_ids: Option<Vec<i64>>,
    /// Samples with the same nonnegative value must share a cell.
    #[serde(skip_serializing_if = "Option::is_none")]
    atomic_groups: Option<Vec<i64>>,
    /// Optimizer step of every sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<Vec<i64>>,
    /// Given attention cost, `[samples][attention kinds]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<Vec<Vec<u32>>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
enum CountsJson {
    Whole(Vec<Vec<Vec<u32>>>),
    Parts(Vec<Vec<Vec<Vec<u32>>>>),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
enum IdsJson {
    Integers(Vec<i64>),
    Strings(Vec<String>),
}

/// Writes a window as JSON (`-`: the standard output), for tiny ones.
///
/// # Errors
/// The file cannot be written; then nothing is changed.
pub fn write_batch_json(path: &Path, batch: &Batch) -> Result<(), FormatError> {
    write_atomically(path, batch_json(batch).as_bytes())
}

/// A window as JSON.
pub fn batch_json(batch: &Batch) -> String {
    let expert_counts = batch.expert_counts.as_ref().map(|counts| {
        let [samples, parts, layers, _] = counts.shape();
        let of_part =
            |sample, part| (0..layers).map(|layer| counts.of(sample, part, layer).to_vec()).collect();
        if parts == 1 {
            CountsJson::Whole((0..samples).map(|sample| of_part(sample, 0)).collect())
        } else {
            let of_sample = |sample| (0..parts).map(|part| of_part(sample, part)).collect();
            CountsJson::Parts((0..samples).map(of_sample).collect())
        }
    });
    compact_json(&WindowJson {
        lengths: batch.lengths.clone(),
        expert_counts,
        routed_rows: batch.routed_rows.clone(),
        loss_tokens: batch.loss_tokens.clone(),
        sample_ids: batch.sample_ids.as_ref().map(|ids| match ids {
            SampleIds::Integers(ids) => IdsJson::Integers(ids.clone()),
            SampleIds::Strings(ids) => IdsJson::Strings(ids.clone()),
        }),
        prompt_ids: batch.prompt_ids.clone(),
        atomic_groups: batch.atomic_groups.clone(),
        step: batch.step.clone(),
        cost: batch
            .cost
            .as_ref()
            .map(|cost| cost.values.chunks(cost.kinds.max(1)).map(<[u32]>::to_vec).collect()),
    })
}
