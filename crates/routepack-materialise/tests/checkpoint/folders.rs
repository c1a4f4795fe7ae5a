//! Small checkpoints on disk.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use routepack_materialise::checkpoint::{CheckpointMap, Direction, Names, Rewrite};
use safetensors::{Dtype, SafeTensors, View};

pub(crate) const EXPERTS: usize = 4;

/// How a framework names its experts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Style {
    Qwen,
    Mixtral,
    DeepSeek,
    Megatron,
    MegatronGrouped,
    Stacked,
}

pub(crate) const STYLES: [Style; 6] =
    [Style::Qwen, Style::Mixtral, Style::DeepSeek, Style::Megatron, Style::MegatronGrouped, Style::Stacked];

/// A tensor of bytes.
pub(crate) struct Bytes(pub(crate) Vec<usize>, pub(crate) Vec<u8>);

impl View for Bytes {
    fn dtype(&self) -> Dtype {
        Dtype::U8
    }
    fn shape(&self) -> &[usize] {
        &self.0
    }
    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.1)
    }
    fn data_len(&self) -> usize {
        self.1.len()
    }
}

/// Names of one expert's tensors.
pub(crate) fn names(style: Style, layer: usize, expert: usize) -> Vec<String> {
    let end = |prefix: String, ends: &[&str]| ends.iter().map(|end| format!("{prefix}{end}")).collect();
    match style {
        Style::Qwen => end(
            format!("model.layers.{layer}.mlp.experts.{expert}."),
            &["gate_proj.weight", "up_proj.weight", "down_proj.weight"],
        ),
        Style::DeepSeek => end(
            format!("model.layers.{layer}.mlp.experts.{expert}."),
            &["down_proj.weight", "down_proj.weight_scale_inv"],
        ),
        Style::Mixtral => end(
            format!("model.layers.{layer}.block_sparse_moe.experts.{expert}."),
            &["w1.weight", "w2.weight", "w3.weight"],
        ),
        Style::Megatron => end(
            format!("decoder.layers.{layer}.mlp.experts.local_experts.{expert}."),
            &["linear_fc1.weight", "linear_fc2.weight"],
        ),
        Style::MegatronGrouped => ["linear_fc1.weight", "linear_fc1.bias", "linear_fc2.weight"]
            .map(|end| format!("decoder.layers.{layer}.mlp.experts.{end}{expert}"))
            .to_vec(),
        Style::Stacked => end(format!("model.layers.{layer}.mlp.experts."), &["gate_up_proj", "down_proj"]),
    }
}

/// What a tensor of an expert holds.
pub(crate) fn content(layer: usize, expert: usize, tensor: usize, size: usize) -> Vec<u8> {
    (0..size).map(|at| (layer * 101 + expert * 37 + tensor * 11 + at * 7 + at / 256) as u8).collect()
}

/// Writes a checkpoint of 2 `MoE` layers (1 and 2 of 3) in two shards, with an index and a configuration.
pub(crate) fn write(folder: &Path, style: Style, size: usize) {
    fs::create_dir_all(folder).expect("made");
    let mut shards: [BTreeMap<String, Bytes>; 2] = [BTreeMap::new(), BTreeMap::new()];
    for layer in 0..3 {
        let router = format!("model.layers.{layer}.mlp.gate.weight");
        shards[0].insert(router, Bytes(vec![3, 5], content(layer, 90, 0, 15)));
    }
    for layer in 1..3 {
        if matches!(style, Style::Stacked) {
            for (tensor, name) in names(style, layer, 0).into_iter().enumerate() {
                let all = (0..EXPERTS).flat_map(|expert| content(layer, expert, tensor, size)).collect();
                shards[tensor].insert(name, Bytes(vec![EXPERTS, size], all));
            }
            continue;
        }
        for expert in 0..EXPERTS {
            for (tensor, name) in names(style, layer, expert).into_iter().enumerate() {
                // Experts of one layer are spread over both shards.
                let bytes = Bytes(vec![size], content(layer, expert, tensor, size));
                shards[expert % 2].insert(name, bytes);
            }
        }
    }
    let mut index = serde_json::Map::new();
    for (number, shard) in shards.iter().enumerate() {
        let file = format!("model-{:05}-of-00002.safetensors", number + 1);
        index.extend(shard.keys().map(|name| (name.clone(), file.clone().into())));
        let metadata = [("format".to_owned(), "pt".to_owned())].into();
        let views = shard.iter().map(|(name, bytes)| (name.as_str(), bytes));
        safetensors::serialize_to_file(views, Some(metadata), &folder.join(file)).expect("written");
    }
    let index = serde_json::json!({"metadata": {"total_size": 0}, "weight_map": index});
    fs::write(folder.join("model.safetensors.index.json"), index.to_string()).expect("written");
    fs::write(folder.join("config.json"), "{}\n").expect("written");
}

impl View for &Bytes {
    fn dtype(&self) -> Dtype {
        Dtype::U8
    }
    fn shape(&self) -> &[usize] {
        &self.0
    }
    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.1)
    }
    fn data_len(&self) -> usize {
        self.1.len()
    }
}

/// Every tensor of a folder by name; the index must lead to each.
pub(crate) fn read(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let index: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.join("model.safetensors.index.json")).expect("an index"))
            .expect("JSON");
    let mut tensors = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|ending| ending == "safetensors") {
            let bytes = fs::read(&path).expect("read");
            for (name, view) in SafeTensors::deserialize(&bytes).expect("safetensors").tensors() {
                let file = path.file_name().and_then(|name| name.to_str()).expect("a name");
                assert_eq!(index["weight_map"][&name], file, "{name}");
                tensors.insert(name, view.data().to_vec());
            }
        }
    }
    assert_eq!(index["weight_map"].as_object().expect("a map").len(), tensors.len());
    tensors
}

/// The map of layers 1 and 2.
pub(crate) fn map() -> CheckpointMap {
    CheckpointMap::new(vec![vec![2, 0, 3, 1], vec![0, 3, 2, 1]], None).expect("bijections")
}

pub(crate) fn job(direction: Direction, source: &Path, target: &Path) -> Rewrite {
    Rewrite {
        source: source.to_owned(),
        target: target.to_owned(),
        direction,
        map: (direction == Direction::Apply).then(map),
        names: Names::default(),
        again: false,
    }
}
