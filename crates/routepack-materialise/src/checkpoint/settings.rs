//! Settings beside the shards, and in their metadata: one that names an expert by its number would speak of another.
//!
//! A full name is compared with the map. Whatever else has a number after `expert` or `experts`, as short names, globs and
//! regular expressions have, is refused: nobody knows which experts it means.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::folder::Folder;
use super::index::read;
use super::names::Claimed;
use super::relabel::Relabel;
use super::{CheckpointError, Names, Rewrite};

/// Larger files are no settings.
const MAX_BYTES: u64 = 1 << 26;

/// Pages and code speak of experts by number and set nothing.
const NO_SETTINGS: [&str; 2] = ["md", "py"];

/// Refuses settings that name an expert by its number.
pub(crate) fn check_settings(
    job: &Rewrite,
    folder: &Folder,
    relabel: &Relabel,
) -> Result<(), CheckpointError> {
    for file in &folder.others {
        let path = job.source.join(file);
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
        let ending = ending.as_deref().unwrap_or_default();
        let failed = |error: std::io::Error| CheckpointError::access(&path, "read", &error);
        if NO_SETTINGS.contains(&ending) || fs::metadata(&path).map_err(failed)?.len() > MAX_BYTES {
            continue;
        }
        let text = fs::read(&path).map_err(failed)?;
        let text = String::from_utf8_lossy(&text);
        // An unreadable file of settings is told, others are text.
        match (ending, serde_json::from_str(&text)) {
            ("json", Ok(value)) => check_value(job, relabel, &path, value)?,
            ("json", Err(_)) if file.contains("config") => drop(read(&path)?),
            _ => check_text(job, relabel, &path, &text)?,
        }
    }
    for file in &folder.indexes {
        let path = job.source.join(file);
        if let Some(about) = read(&path)?.get_mut("metadata") {
            check_value(job, relabel, &path, about.take())?;
        }
    }
    for shard in &folder.shards {
        for (key, text) in &shard.metadata {
            check_text(job, relabel, &shard.path, key)?;
            match serde_json::from_str(text) {
                Ok(value) => check_value(job, relabel, &shard.path, value)?,
                Err(_) => check_text(job, relabel, &shard.path, text)?,
            }
        }
    }
    Ok(())
}

/// Every text of a JSON value, keys too.
fn check_value(job: &Rewrite, relabel: &Relabel, path: &Path, value: Value) -> Result<(), CheckpointError> {
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        match value {
            Value::String(text) => check_text(job, relabel, path, &text)?,
            Value::Array(values) => waiting.extend(values),
            Value::Object(fields) => {
                for (key, value) in fields {
                    check_text(job, relabel, path, &key)?;
                    waiting.push(value);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_text(job: &Rewrite, relabel: &Relabel, path: &Path, text: &str) -> Result<(), CheckpointError> {
    let refuse = |what: &str| {
        let why =
            format!("{what}: a setting of one expert, which gets another number; name no expert in settings");
        Err(CheckpointError::input(path.display(), why))
    };
    let of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '.' || letter == '_';
    let of_all = Names { prefix: Vec::new(), ..job.names.clone() };
    // What is left once the full names of experts that keep their numbers are away.
    let mut rest = String::with_capacity(text.len());
    for part in text.split_inclusive(|letter| !of_name(letter)) {
        let name = part.trim_end_matches(|letter| !of_name(letter));
        let stays = match of_all.claim("", name) {
            Ok(Some(Claimed { layer, expert: Some((expert, _)), .. })) if job.names.moves(name) => {
                if relabel.number(layer, expert) != Some(expert) {
                    return refuse(name);
                }
                true
            }
            Ok(Some(claimed)) => claimed.expert.is_some(),
            _ => name.split('.').any(|part| part == "mtp"),
        };
        rest.push_str(if stays { &part[name.len()..] } else { part });
    }
    let text = &rest;
    match numbered_expert(text) {
        Some(at) => {
            let start = text[..at].char_indices().rev().take(40).last().map_or(at, |(start, _)| start);
            let line = text[start..].chars().take(72).collect::<String>();
            let around = line.split(['\n', '"']).find(|part| numbered_expert(part).is_some());
            refuse(around.unwrap_or(&line).trim())
        }
        None => Ok(()),
    }
}

/// Where a text names an expert by its number: `experts.3`, `expert_3`, `experts\\.(3|4)`, `experts.[0-2]`; not
/// `num_experts_per_tok`, `experts.[0-9]+`, shared experts.
fn numbered_expert(text: &str) -> Option<usize> {
    text.match_indices("expert").map(|(at, _)| at).find(|&at| {
        let rest = &text[at + "expert".len()..];
        let mut rest = rest.strip_prefix('s').unwrap_or(rest);
        for linear in ["linear_fc1", "linear_fc2"] {
            let grouped = rest.trim_start_matches(['.', '\\']).strip_prefix(linear);
            let grouped = grouped.map(|rest| rest.trim_start_matches(['.', '\\']));
            if let Some(found) =
                grouped.and_then(|rest| rest.strip_prefix("weight").or(rest.strip_prefix("bias")))
            {
                return found.starts_with(|letter: char| letter.is_ascii_digit());
            }
        }
        let between = rest.trim_start_matches(['.', '\\', '/', '_', '[', '(', '?', ':', '{']);
        let separated = between.len() < rest.len() && !rest.starts_with(':');
        let whole_class = rest[..rest.len() - between.len()].ends_with('[')
            && ["0-9]+", "0-9]*"].iter().any(|class| between.starts_with(class));
        rest = between;
        separated
            && !whole_class
            && !text[..at].ends_with("shared_")
            && rest.starts_with(|letter: char| letter.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::numbered_expert;

    #[test]
    fn numbers_of_experts_in_settings() {
        for named in [
            "layers.0.mlp.experts.2.up_proj",
            "model.layers.0.mlp.experts.2*",
            r"-:.*layers\.0\.mlp\.experts\.2\..*",
            "re:.*experts.2.*",
            "model.layers.0.mlp.experts.[0-2].up_proj",
            r"experts\.(?:1|3)\.",
            "layers_0_mlp_experts_3_up_proj",
            "mlp.expert.2",
            "mlp.experts.local_experts.3",
            r"experts\.linear_fc1\.weight3",
            "é experts/3",
        ] {
            assert!(numbered_expert(named).is_some(), "{named}");
        }
        for of_none in [
            "num_experts_per_tok",
            "\"num_experts\": 128",
            "num_experts: 128",
            "re:.*experts.*",
            r"re:.*experts\.\d+\.up_proj",
            r"re:.*experts\.[0-9]+\..*",
            "model.layers.0.mlp.shared_experts.0.up_proj",
            "8 experts, 2 active",
            "experts.linear_fc1.weight",
        ] {
            assert!(numbered_expert(of_none).is_none(), "{of_none}");
        }
    }
}
