//! Indexes of shards, which speak of tensors by name: they get the new names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::folder::Folder;
use super::relabel::Relabel;
use super::target::json;
use super::{CheckpointError, Rewrite};

/// The index of shards under new names. What it names must be where it says.
pub(crate) fn index(
    path: &Path,
    job: &Rewrite,
    folder: &Folder,
    relabel: &Relabel,
) -> Result<Vec<u8>, CheckpointError> {
    let wrong = |why: String| CheckpointError::input(path.display(), why);
    let mut index = read(path)?;
    let named = index.get_mut("weight_map").and_then(Value::as_object_mut);
    let named = named.ok_or_else(|| wrong("no weight_map in it".into()))?;
    let held: BTreeMap<&str, &str> = folder
        .shards
        .iter()
        .flat_map(|shard| shard.tensors.iter().map(|tensor| (tensor.name.as_str(), shard.file.as_str())))
        .collect();
    let mut renamed = serde_json::Map::new();
    for (name, shard) in std::mem::take(named) {
        if held.get(name.as_str()).copied() != shard.as_str() {
            return Err(wrong(format!(
                "{name}: said to be in {shard}, which has no such tensor or is not there"
            )));
        }
        let claimed = job.names.claim(&path.display().to_string(), &name)?;
        renamed.insert(relabel.name(&name, claimed.as_ref()), shard);
    }
    *named = renamed;
    Ok(json(&index))
}

/// The shards an index names.
pub(crate) fn named_shards(path: &Path) -> Result<BTreeSet<String>, CheckpointError> {
    let index = read(path)?;
    let named = index.get("weight_map").and_then(Value::as_object);
    let named = named.ok_or_else(|| CheckpointError::input(path.display(), "no weight_map in it"))?;
    Ok(named.values().filter_map(Value::as_str).map(str::to_owned).collect())
}

pub(crate) fn read(path: &Path) -> Result<Value, CheckpointError> {
    let text = fs::read(path).map_err(|error| CheckpointError::access(path, "read", &error))?;
    serde_json::from_slice(&text)
        .map_err(|error| CheckpointError::input(path.display(), format!("no JSON: {error}")))
}
