//! Files beside the shards that speak of tensors by name: indexes get the new names, settings must not need them.

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

/// Settings that name an expert by its number would speak of another one.
pub(crate) fn check_configs(
    job: &Rewrite,
    folder: &Folder,
    relabel: &Relabel,
) -> Result<(), CheckpointError> {
    let ends_in_json =
        |file: &str| Path::new(file).extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json"));
    let settings = |file: &&String| file.contains("config") && ends_in_json(file);
    for file in folder.others.iter().filter(settings) {
        let path = job.source.join(file);
        let mut waiting = vec![read(&path)?];
        while let Some(value) = waiting.pop() {
            let texts: Vec<String> = match value {
                Value::String(text) => vec![text],
                Value::Array(values) => {
                    waiting.extend(values);
                    continue;
                }
                Value::Object(fields) => {
                    let (keys, values): (Vec<String>, Vec<Value>) = fields.into_iter().unzip();
                    waiting.extend(values);
                    keys
                }
                _ => continue,
            };
            for text in texts {
                // What fits no pattern is no name of a tensor here.
                let Ok(Some(claimed)) = job.names.claim(file, &text) else { continue };
                let Some((expert, _)) = claimed.expert else { continue };
                if relabel.number(claimed.layer, expert) != Some(expert) {
                    let why = format!(
                        "{text}: a setting of one expert, which gets another number; name no expert in settings"
                    );
                    return Err(CheckpointError::input(path.display(), why));
                }
            }
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<Value, CheckpointError> {
    let text = fs::read(path).map_err(|error| CheckpointError::access(path, "read", &error))?;
    serde_json::from_slice(&text)
        .map_err(|error| CheckpointError::input(path.display(), format!("no JSON: {error}")))
}
