//! Settings beside the shards, and in their metadata: one that names an expert by its number would speak of another.
//!
//! A full name is compared with the map. Whatever else has a number after `expert` or `experts`, as short names, globs and
//! regular expressions have, is refused, and so are lists and tables by number, or with an entry for each expert, under a
//! key of experts: nobody knows which experts they mean.

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
    let num_experts = relabel.num_experts();
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
            ("json", Ok(value)) if of_tokens(file) => check_texts(job, relabel, &path, value)?,
            ("json", Ok(value)) => check_value(job, relabel, &path, value)?,
            ("json", Err(_)) if file.contains("config") => drop(read(&path)?),
            _ => {
                check_text(job, relabel, &path, &text)?;
                // Headings of TOML are keys, too; lists of words are long, and none.
                let table: Option<Value> = if of_tokens(file) { None } else { toml::from_str(&text).ok() };
                if let Some(entry) = table.and_then(|table| numbered_entry(&table, num_experts)) {
                    refuse(&path, &entry)?;
                }
            }
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

/// Files of a tokenizer have words as keys, with numbers that are no experts'.
fn of_tokens(file: &str) -> bool {
    ["token", "vocab", "merges"].iter().any(|word| file.contains(word))
}

/// Every text of a JSON value, keys too, and what stands under keys of experts.
fn check_value(job: &Rewrite, relabel: &Relabel, path: &Path, value: Value) -> Result<(), CheckpointError> {
    if let Some(entry) = numbered_entry(&value, relabel.num_experts()) {
        return refuse(path, &entry);
    }
    check_texts(job, relabel, path, value)
}

/// Every text of a JSON value, keys too.
fn check_texts(job: &Rewrite, relabel: &Relabel, path: &Path, value: Value) -> Result<(), CheckpointError> {
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

/// The first entry of a JSON value that may name an expert by number, as `skip_experts: [3]`.
fn numbered_entry(value: &Value, num_experts: usize) -> Option<String> {
    match value {
        Value::Array(values) => values.iter().find_map(|value| numbered_entry(value, num_experts)),
        Value::Object(fields) => fields.iter().find_map(|(key, value)| {
            let named = speaks_of(key).is_some_and(|one| by_number(value) || one && value.is_number());
            if named || of_experts(key).is_some() && of_each(value, num_experts) {
                return Some(format!("{key}: {}", brief(value)));
            }
            numbered_entry(value, num_experts)
        }),
        _ => None,
    }
}

/// Whether a key speaks of routed experts, not of how many there are; and then, whether of one of them, as `expert_id` does.
fn speaks_of(key: &str) -> Option<bool> {
    let last = of_experts(key)?;
    let words: Vec<&str> = last.split(['_', '-', ' ']).collect();
    let any = |among: &[&str]| words.iter().any(|word| among.contains(word));
    // `experts_per_token` is a count, `bits_per_expert` is none.
    let per_other = words.windows(2).any(|two| two[0] == "per" && !two[1].starts_with("expert"));
    if per_other || any(&["num", "n", "nr", "number", "count", "counts", "top", "k"]) {
        return None;
    }
    let one = last == "expert"
        || any(&[
            "id", "ids", "idx", "index", "indices", "skip", "ignore", "ignored", "exclude", "excluded",
            "only", "keep",
        ]);
    Some(one)
}

/// The part of a key that speaks of routed experts, be it of how many.
fn of_experts(key: &str) -> Option<String> {
    let key = key.to_ascii_lowercase();
    let last = key.rsplit(['.', '/']).find(|part| part.contains("expert"))?;
    (!last.contains("shared")).then(|| last.to_owned())
}

/// Whether a value has a list with an entry for each expert, or a table whose keys have numbers: words are no experts.
fn of_each(value: &Value, num_experts: usize) -> bool {
    match value {
        Value::Array(values) => {
            values.len() == num_experts || values.iter().any(|value| of_each(value, num_experts))
        }
        Value::Object(fields) => {
            let inside = |(key, value): (&String, &Value)| !of_size(key) && of_each(value, num_experts);
            let numbered = |mut keys: serde_json::map::Keys<'_>| keys.all(|key| key.contains(is_digit));
            fields.len() == num_experts && numbered(fields.keys()) || fields.iter().any(inside)
        }
        _ => false,
    }
}

/// Sizes of blocks and tensors are lists, too.
fn of_size(key: &str) -> bool {
    ["block", "group", "shape", "size", "dim"].iter().any(|word| key.contains(word))
}

/// Whether a value has numbers in a list, or as keys or texts: places of experts, or their numbers.
fn by_number(value: &Value) -> bool {
    match value {
        Value::Array(values) => values.iter().any(|value| value.is_number() || by_number(value)),
        Value::Object(fields) => {
            fields.iter().any(|(key, value)| is_numbers(key) || !of_size(key) && by_number(value))
        }
        Value::String(text) => is_numbers(text),
        _ => false,
    }
}

/// `3`, `0-3`, `1, 2`.
fn is_numbers(text: &str) -> bool {
    let is_part = |letter: char| letter.is_ascii_digit() || " ,;:-~".contains(letter);
    text.starts_with(|letter: char| letter.is_ascii_digit()) && text.chars().all(is_part)
}

/// A value in a few words.
fn brief(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn refuse(path: &Path, what: &str) -> Result<(), CheckpointError> {
    let why =
        format!("{what}: a setting of one expert, which gets another number; name no expert in settings");
    Err(CheckpointError::input(path.display(), why))
}

fn check_text(job: &Rewrite, relabel: &Relabel, path: &Path, text: &str) -> Result<(), CheckpointError> {
    let of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '.' || letter == '_';
    let of_all = Names { prefix: Vec::new(), ..job.names.clone() };
    // What is left once the full names of experts that keep their numbers are away.
    let mut rest = String::with_capacity(text.len());
    for part in text.split_inclusive(|letter| !of_name(letter)) {
        let name = part.trim_end_matches(|letter| !of_name(letter));
        let stays = match of_all.claim("", name) {
            Ok(Some(Claimed { layer, expert: Some((expert, _)), .. })) if job.names.moves(name) => {
                if relabel.number(layer, expert) != Some(expert) {
                    return refuse(path, name);
                }
                true
            }
            Ok(Some(claimed)) => claimed.expert.is_some(),
            _ => name.split('.').any(|part| part == "mtp"),
        };
        rest.push_str(if stays { &part[name.len()..] } else { part });
    }
    let text = &rest;
    match numbered_expert(text, relabel.num_experts()) {
        Some(at) => {
            let start = text[..at].char_indices().rev().take(40).last().map_or(at, |(start, _)| start);
            let start = text[start..at].rfind(['\n', '"']).map_or(start, |end| start + end + 1);
            let line = text[start..].chars().take(72).collect::<String>();
            let around =
                line.split(['\n', '"']).find(|part| numbered_expert(part, relabel.num_experts()).is_some());
            refuse(path, around.unwrap_or(&line).trim())
        }
        None => Ok(()),
    }
}

/// Where a text names an expert by its number: `experts.3`, `expert_3`, `experts-3`, `experts\\.(3|4)`, `experts.[0-2]`,
/// `experts:3`, `skip_experts: [3]`; not `num_experts_per_tok`, `experts.[0-9]+`, shared experts.
fn numbered_expert(text: &str, num_experts: usize) -> Option<usize> {
    // As long as the text, letter by letter.
    let text = &*text.to_ascii_lowercase();
    text.match_indices("expert").map(|(at, _)| at).find(|&at| {
        let rest = &text[at + "expert".len()..];
        let rest = rest.strip_prefix('s').unwrap_or(rest);
        if text[..at].ends_with("shared_") {
            return false;
        }
        for linear in ["linear_fc1", "linear_fc2"] {
            let grouped = rest.trim_start_matches(['.', '\\']).strip_prefix(linear);
            let grouped = grouped.map(|rest| rest.trim_start_matches(['.', '\\']));
            if let Some(found) =
                grouped.and_then(|rest| rest.strip_prefix("weight").or(rest.strip_prefix("bias")))
            {
                return is_one(found);
            }
        }
        is_one(rest) || entry_by_number(&text[..at], &text[at..], num_experts)
    })
}

/// Whether a number of an expert follows, perhaps as one of several or as a pattern of some.
fn is_one(whole: &str) -> bool {
    const BETWEEN: [char; 10] = ['.', '\\', '/', '_', '-', '#', '@', '{', '<', '|'];
    let mut rest = whole.trim_start_matches(' ').trim_start_matches(BETWEEN);
    // `(?:`, `(?!`, `(?<!`.
    while let Some(inner) = rest.strip_prefix('(') {
        let inner =
            inner.strip_prefix('?').map_or(inner, |mark| mark.trim_start_matches([':', '!', '=', '<']));
        let others = inner.split(')').next().unwrap_or_default().split('|');
        if others.skip(1).any(|other| other.trim_start_matches(BETWEEN).starts_with(is_digit)) {
            return true;
        }
        rest = inner.trim_start_matches(BETWEEN);
    }
    // A class names all if it stands for any number of digits.
    if let Some(class) = rest.strip_prefix('[') {
        let Some((class, after)) = class.split_once(']') else { return class.starts_with(is_digit) };
        let all = ["0-9", "\\d", "^.", "^/", "^\\."].contains(&class) && after.starts_with(['+', '*']);
        return !all && (class.contains(is_digit) || class.contains("\\d") || class.starts_with(['^', '!']));
    }
    // `\d` alone, or so many of it.
    let escaped = whole[..whole.len() - rest.len()].ends_with('\\');
    let digit = rest.strip_prefix('d').filter(|after| !after.starts_with(".*"));
    let some = digit.is_some_and(|after| after.is_empty() || after.starts_with(['\\', '.', '{', '$', '?']));
    rest.starts_with(is_digit) || escaped && some
}

/// Whether a line of settings, as YAML and TOML have them, gives numbers to a key of experts, `skip_experts: [3]`, or
/// something to each.
fn entry_by_number(before: &str, from: &str, num_experts: usize) -> bool {
    let of_key = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
    let start = before.char_indices().rev().take_while(|&(_, letter)| of_key(letter)).last();
    let start = start.map_or(before.len(), |(start, _)| start);
    let len = from.find(|letter| !of_key(letter)).unwrap_or(from.len());
    let key = format!("{}{}", &before[start..], &from[..len]);
    let rest = from[len..].trim_start_matches(['"', '\'', ']', ' ']);
    let Some(value) = rest.strip_prefix([':', '=']) else { return false };
    let column = start - before[..start].rfind('\n').map_or(0, |end| end + 1);
    let has_each = |(listed, found): (bool, Vec<&str>)| {
        let numbered =
            |entry: &&str| entry.split([':', '=']).next().is_some_and(|key| key.contains(is_digit));
        found.len() == num_experts && (listed || found.iter().all(numbered))
    };
    if of_experts(&key).is_some() && entries(value, column).is_some_and(has_each) {
        return true;
    }
    let Some(one) = speaks_of(&key) else { return false };
    // A name, `experts:3`: settings have a space there.
    if from[len..].starts_with(':') && value.starts_with(is_digit) {
        return true;
    }
    let of_line = value.trim_start_matches([' ', '"', '\'']);
    if one && of_line.starts_with(is_digit) {
        return true;
    }
    // A list or table, on this line or below it.
    let listed = value.trim_start_matches([' ', '\n', '\r', '\t']);
    let below = listed.len() < value.len() && value.trim_start_matches(' ').starts_with(['\n', '\r']);
    let item = listed.trim_start_matches(['[', '{', '(', '-', ' ', '\n', '\r', '\t', '"', '\'']);
    let digits = item.trim_start_matches(is_digit);
    if item.len() < listed.len() {
        return item.starts_with(is_digit);
    }
    below && digits.len() < item.len() && digits.trim_start_matches(['"', '\'']).starts_with([':', '='])
}

/// Entries behind a key, or below a key in that column, and whether they are a list's.
fn entries(value: &str, column: usize) -> Option<(bool, Vec<&str>)> {
    let inner = value.trim_start();
    if !inner.starts_with(['[', '{', '(']) {
        let (first, below) = value.split_once('\n')?;
        let indent = |line: &str| line.len() - line.trim_start().len();
        let is_said = |line: &&str| !line.trim_start().is_empty() && !line.trim_start().starts_with('#');
        let mut lines = below.lines().filter(is_said).peekable();
        let deep = indent(lines.peek()?);
        let is_item = |line: &str| line.trim_start().starts_with('-');
        let listed = is_item(lines.peek()?);
        if !first.trim().is_empty() || deep < column || deep == column && !listed {
            return None;
        }
        let inside =
            lines.take_while(|line| indent(line) > deep || indent(line) == deep && is_item(line) == listed);
        return Some((listed, inside.filter(|line| indent(line) == deep).collect()));
    }
    let (mut depth, mut start, mut found) = (0, 1, Vec::new());
    for (at, letter) in inner.char_indices() {
        match letter {
            '[' | '{' | '(' => depth += 1,
            ']' | '}' | ')' if depth > 1 => depth -= 1,
            ',' | ']' | '}' | ')' if depth == 1 => {
                // Nothing is behind a last comma.
                found.extend(Some(&inner[start..at]).filter(|entry| !entry.trim().is_empty()));
                start = at + 1;
                if letter != ',' {
                    return Some((!inner.starts_with('{'), found));
                }
            }
            _ => {}
        }
    }
    None
}

fn is_digit(letter: char) -> bool {
    letter.is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::{numbered_entry, numbered_expert};
    use serde_json::json;

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
            "experts-1",
            "expert3",
            "Experts.3",
            "expert 3",
            "expert #3",
            r"experts\.(gate|3)\.",
            r"experts\.(?!3\.)",
            r"experts\.\d\.",
            r"experts\.\d{2}\.",
            "experts.[!0].up_proj",
            r"experts\.[^0]\.",
            "experts.[0-9].up_proj",
            r"experts.linear_fc1.weight_3",
            "skip_experts: [3]",
            "skip_experts:\n  - 3",
            "experts_bits:\n  3: 4",
            "experts_bits = [4, 8]",
            "experts_bits = { 3 = 4 }",
            "expert: 3",
            "skip_expert = 3",
            "expert_ids: '3'",
            "local_experts:3",
            "re:.*experts:3.*",
            "per_expert_bits: [4, 8, 4, 8]",
            "bits_per_expert = [\n  4,\n  8,\n  4,\n  8,\n]",
            "num_experts_bits: {e0: 4, e1: {c: 1, d: 2}, e2: [1, 2], e3: 8}",
            "bits_per_expert: [4, 8]",
            "expert_dtype: [fp8, bf16, fp8, bf16]",
            "all:\n  expert_dtype:\n    - fp8\n    # of them all\n    - bf16\n    - fp8\n\n    - bf16\n  other: 3",
            "expert_dtype:\n- fp8\n- bf16\n- fp8\n- bf16\nother: 3",
            "expert_dtype:\n  e0: fp8\n  e1:\n    c: x\n  e2: fp8\n  e3: bf16",
        ] {
            assert!(numbered_expert(named, 4).is_some(), "{named}");
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
            "experts.down_proj",
            "experts.d.weight",
            r"experts\.\d.*",
            "experts.[^.]+.up_proj",
            "moe_num_experts: [64, 64]",
            "n_routed_experts: 256",
            "experts_bits: 4",
            "experts_bits: 4\nlayers: [3]",
            "experts:\n  bits: 4",
            "expert_layer_period: 2",
            "experts: 128",
            "num_shared_expert: [1, 1]",
            "expert_dtype: [fp8, bf16, fp8]",
            "shared_expert_dtype: [fp8, bf16, fp8, bf16]",
            "expert_dtype:\n  - fp8\n  - bf16\nother:\n  - fp8\n  - bf16",
            "- expert_dtype:\n- b\n- c\n- d\n- e",
            "expert_dtype: fp8\na: 1\nb: 2\nc: 3\nd: 4",
            "\"n_routed_experts\":4,\"local_experts\":4",
            "num_experts:4",
            // As many words as experts are no experts.
            "experts: {bits: 4, group: 128, sym: true, dtype: int4}",
            "experts:\n  bits: 4\n  group: 128\n  sym: true\n  dtype: int4",
        ] {
            assert!(numbered_expert(of_none, 4).is_none(), "{of_none}");
        }
    }

    #[test]
    fn entries_by_number() {
        for named in [
            json!({"skip_experts": [3]}),
            json!({"quantization_config": {"experts_bits": [4, 8]}}),
            json!({"experts_bits": {"3": 8}}),
            json!({"experts_bits": {"0-3": 8}}),
            json!({"model.layers.1.mlp.experts": {"bits": [4, 8]}}),
            json!({"model.layers.1.mlp.experts": {"up_proj": {"3": 4}}}),
            json!([{"expert": 3, "bits": 8}]),
            json!({"rules": [{"expert_id": 3}]}),
            json!({"skip_experts": "1, 3"}),
            json!({"SkipExperts": ["3"]}),
            json!({"experts": [[1, 3]]}),
            json!({"hotExperts": [3]}),
            json!({"per_expert_bits": [4, 8, 4, 8]}),
            json!({"quantization_config": {"bits_per_expert": {"e0": 4, "e1": 8, "e2": 4, "e3": 8}}}),
            json!({"bits_per_expert": {"3": 8}}),
            json!({"num_experts_bits": [4, 8, 4, 8]}),
            json!({"expert_dtype": ["fp8", "bf16", "fp8", "bf16"]}),
            json!({"expert_dtype": {"up": ["fp8", "bf16", "fp8", "bf16"]}}),
        ] {
            assert!(numbered_entry(&named, 4).is_some(), "{named}");
        }
        for of_none in [
            json!({"num_experts": 128, "num_experts_per_tok": 8, "n_routed_experts": 256}),
            json!({"moe_num_experts": [64, 64], "num_shared_expert": [1, 1], "experts_per_token": 4}),
            json!({"experts_bits": 4, "expert_layer_offset": 1, "zero_expert_num": 256}),
            json!({"experts": {"bits": 4, "weight_block_size": [128, 128], "dtype": "fp8"}}),
            json!({"ignore": ["mlp.experts"], "mlp_only_layers": [3]}),
            json!({"skip_experts": [], "experts_implementation": "grouped_mm"}),
            json!({"expert_dtype": ["fp8", "bf16", "fp8"], "shared_expert_dtype": ["a", "b", "c", "d"]}),
            json!({"experts": {"block_shape": [1, 2, 3, 4]}, "local_experts": 4}),
            json!({"experts": {"bits": 4, "group": 128, "sym": true, "dtype": "int4"}}),
            json!({"bits_per_expert": 4, "tokens_per_expert": {"mean": 4}}),
        ] {
            assert!(numbered_entry(&of_none, 4).is_none(), "{of_none}");
        }
    }
}
