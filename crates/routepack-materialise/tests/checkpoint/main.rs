//! Checkpoints at rest: there and back, refusals, kills.

mod contradictions;
mod doubts;
mod folders;
mod hostile;
mod kills;

use std::fs;
use std::path::Path;

use folders::{EXPERTS, STYLES, Style, content, job, map, names, read, write};
use routepack_materialise::checkpoint::{
    CHECKSUMS_FILE, CheckpointError, CheckpointMap, Direction, MAP_FILE, NamePattern, rewrite,
};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

#[test]
fn there_and_back_in_every_style() {
    for style in STYLES {
        let root = folder();
        let [canonical, slots, back] = ["canonical", "slots", "back"].map(|name| root.path().join(name));
        write(&canonical, style, 700);
        let there = rewrite(&job(Direction::Apply, &canonical, &slots)).expect("rewritten");
        assert_eq!((there.num_shards, there.layers), (2, vec![1, 2]), "{style:?}");
        let (before, moved) = (read(&canonical), read(&slots));
        assert_ne!(before, moved, "{style:?}");
        for (layer, slots) in [1, 2].into_iter().zip(&map().log2phys) {
            for expert in 0..EXPERTS {
                let slot = slots[expert] as usize;
                for (tensor, name) in names(style, layer, slot).into_iter().enumerate() {
                    let start = if matches!(style, Style::Stacked) { slot * 700 } else { 0 };
                    assert_eq!(
                        moved[&name][start..start + 700],
                        content(layer, expert, tensor, 700),
                        "{name}"
                    );
                }
            }
        }
        assert_eq!(before["model.layers.1.mlp.gate.weight"], moved["model.layers.1.mlp.gate.weight"]);
        assert_eq!(fs::read(slots.join("config.json")).expect("copied"), b"{}\n");
        let again = rewrite(&job(Direction::Canonicalise, &slots, &back)).expect("rewritten");
        assert_eq!(again.map_sha256, there.map_sha256);
        assert_eq!(read(&back), before, "{style:?}");
        assert!(!back.join(MAP_FILE).exists() && back.join(CHECKSUMS_FILE).exists());
        // The checksums are by logical name, so all three agree.
        assert_eq!(
            fs::read(slots.join(CHECKSUMS_FILE)).unwrap(),
            fs::read(back.join(CHECKSUMS_FILE)).unwrap()
        );
    }
}

/// Seen in public: cached per-expert scales left behind by a move; accuracy 0.95 became 0.007.
#[test]
fn scales_go_with_their_weights() {
    let root = folder();
    let [canonical, slots] = ["canonical", "slots"].map(|name| root.path().join(name));
    write(&canonical, Style::DeepSeek, 16);
    rewrite(&job(Direction::Apply, &canonical, &slots)).expect("rewritten");
    let moved = read(&slots);
    for slot in 0..EXPERTS {
        let expert = map().log2phys[0].iter().position(|&at| at as usize == slot).expect("a bijection");
        let found = names(Style::DeepSeek, 1, slot).into_iter().enumerate();
        for (tensor, name) in found {
            assert_eq!(moved[&name], content(1, expert, tensor, 16), "{name}");
        }
    }
}

/// Seen in public: an expert's bias not permuted with it.
#[test]
fn biases_of_experts_go_with_them() {
    let root = folder();
    let [canonical, slots] = ["canonical", "slots"].map(|name| root.path().join(name));
    write(&canonical, Style::MegatronGrouped, 16);
    rewrite(&job(Direction::Apply, &canonical, &slots)).expect("rewritten");
    let moved = read(&slots);
    // Layer 1: expert 0 is in slot 2; tensor 1 is its bias.
    assert_eq!(moved["decoder.layers.1.mlp.experts.linear_fc1.bias2"], content(1, 0, 1, 16));
}

fn refusal(outcome: Result<impl std::fmt::Debug, CheckpointError>, root: &Path) -> String {
    outcome.expect_err("refused").to_string().replace(&format!("{}/", root.display()), "")
}

#[test]
fn slots_without_a_map_are_an_error() {
    let root = folder();
    let [canonical, slots, back] = ["canonical", "slots", "back"].map(|name| root.path().join(name));
    write(&canonical, Style::Qwen, 16);
    let canonicalise =
        |source: &Path| refusal(rewrite(&job(Direction::Canonicalise, source, &back)), root.path());
    assert_eq!(
        canonicalise(&canonical),
        "canonical: no routepack_map.json and no map given: nobody knows which expert is in which slot"
    );
    rewrite(&job(Direction::Apply, &canonical, &slots)).expect("rewritten");
    let twice = refusal(rewrite(&job(Direction::Apply, &slots, &back)), root.path());
    assert_eq!(
        twice,
        "slots/routepack_map.json: the experts are in slots already: applying a second map would mix them; canonicalise first"
    );
    // The map is lost: shards still say whose slots these are.
    fs::remove_file(slots.join(MAP_FILE)).expect("deleted");
    let lost = canonicalise(&slots);
    assert_eq!(
        lost,
        format!("slots: experts are in the slots of map {}, and the map is not there", map().sha256)
    );
    let twice = refusal(rewrite(&job(Direction::Apply, &slots, &back)), root.path());
    assert!(twice.ends_with("applying a second map would mix them; canonicalise first"), "{twice}");
    let mut other = job(Direction::Canonicalise, &slots, &back);
    let identity = vec![vec![0, 1, 2, 3]; 2];
    other.map = Some(CheckpointMap::new(identity, None).expect("bijections"));
    let other = refusal(rewrite(&other), root.path());
    assert!(other.contains("the map in force is"), "{other}");
    // The right map, given by hand, is taken.
    let mut right = job(Direction::Canonicalise, &slots, &back);
    right.map = Some(map());
    rewrite(&right).expect("rewritten");
    assert_eq!(read(&back), read(&canonical));
}

#[test]
fn bad_checkpoints_are_refused_and_nothing_is_made() {
    let change = |what: &dyn Fn(&Path), expected: &str| {
        let root = folder();
        let [source, target] = ["canonical", "slots"].map(|name| root.path().join(name));
        write(&source, Style::Qwen, 16);
        what(&source);
        let error = refusal(rewrite(&job(Direction::Apply, &source, &target)), root.path());
        assert!(error.contains(expected), "{error}");
        assert!(!target.exists());
        let mut unfinished = target.into_os_string();
        unfinished.push(".unfinished");
        assert!(!Path::new(&unfinished).exists(), "{error}");
    };
    let shard = "model-00001-of-00002.safetensors";
    let add = |folder: &Path, name: &str, shape: Vec<usize>| {
        let bytes = folders::Bytes(shape.clone(), vec![0; shape.iter().product()]);
        safetensors::serialize_to_file([(name, &bytes)], None, &folder.join("x.safetensors"))
            .expect("written");
    };
    change(&|folder| fs::write(folder.join(shard), b"short").unwrap(), "not a safetensors file: too short");
    change(
        &|folder| {
            let bytes = fs::read(folder.join(shard)).unwrap();
            fs::write(folder.join(shard), &bytes[..bytes.len() - 1]).unwrap();
        },
        "the header speaks of",
    );
    change(
        &|folder| fs::remove_file(folder.join(shard)).unwrap(),
        "model-00001-of-00002.safetensors is not there, 1 of 2 shards are; copy all files of the checkpoint",
    );
    change(
        &|folder| fs::write(folder.join("optimizer.pt"), b"").unwrap(),
        "optimizer.pt: may hold experts in a form",
    );
    change(&|folder| fs::create_dir(folder.join("global_step")).unwrap(), "global_step: expected only files");
    change(
        &|folder| add(folder, "model.layers.1.mlp.experts.9.up_proj.weight", vec![2]),
        "expert 9, the map has 4 experts a layer",
    );
    change(
        &|folder| add(folder, "model.layers.1.mlp.experts.fused", vec![3, 2]),
        "shape [3, 2], expected 4 experts along the first axis",
    );
    change(
        &|folder| add(folder, "blocks.1.experts.0.w", vec![2]),
        "x.safetensors: blocks.1.experts.0.w: a tensor of experts whose name fits no pattern",
    );
    change(
        &|folder| add(folder, "model.layers.1.mlp.experts.0.up_proj.weight", vec![2]),
        "this tensor is in an earlier shard too",
    );
    change(
        &|folder| {
            let name = |layer: usize| format!("model.layers.{layer}.mlp.experts.0.up_proj.weight");
            add(folder, &name(61), vec![2]);
        },
        "experts in 3 layers (1 to 61), the map has 2: name the model's layers with --layers",
    );
    change(
        &|folder| fs::write(folder.join("model.safetensors.index.json"), b"{}").unwrap(),
        "no weight_map in it",
    );
}

#[test]
fn bytes_that_rotted_are_refused() {
    let root = folder();
    let [canonical, slots, back] = ["canonical", "slots", "back"].map(|name| root.path().join(name));
    write(&canonical, Style::Mixtral, 16);
    rewrite(&job(Direction::Apply, &canonical, &slots)).expect("rewritten");
    let shard = slots.join("model-00001-of-00002.safetensors");
    let mut bytes = fs::read(&shard).expect("read");
    *bytes.last_mut().expect("bytes") ^= 1;
    fs::write(&shard, &bytes).expect("written");
    let error = rewrite(&job(Direction::Canonicalise, &slots, &back)).expect_err("refused");
    assert!(matches!(error, CheckpointError::Checksum { .. }), "{error}");
    assert!(error.to_string().contains("logical expert"), "{error}");
    assert!(!back.exists());
    // The same bytes under another type or shape are other weights.
    *bytes.last_mut().expect("bytes") ^= 1;
    for (old, new) in [("\"dtype\":\"U8\"", "\"dtype\":\"I8\""), ("\"shape\":[16]", "\"shape\":[2,8]")] {
        let end = 8 + u64::from_le_bytes(bytes[..8].try_into().expect("eight")) as usize;
        let header = std::str::from_utf8(&bytes[8..end]).expect("text").replacen(old, new, 1);
        let mut changed = (header.len() as u64).to_le_bytes().to_vec();
        changed.extend(header.as_bytes());
        changed.extend(&bytes[end..]);
        fs::write(&shard, changed).expect("written");
        let error = rewrite(&job(Direction::Canonicalise, &slots, &back)).expect_err("refused");
        assert!(matches!(error, CheckpointError::Checksum { .. }), "{new}: {error}");
    }
    fs::write(&shard, bytes).expect("written");
    rewrite(&job(Direction::Canonicalise, &slots, &back)).expect("rewritten");
}

#[test]
fn layers_that_were_not_recorded_and_names_of_others() {
    let root = folder();
    let [canonical, slots] = ["canonical", "slots"].map(|name| root.path().join(name));
    write(&canonical, Style::Qwen, 16);
    let mut one = job(Direction::Apply, &canonical, &slots);
    one.map = Some(CheckpointMap::new(vec![vec![2, 0, 3, 1]], Some(vec![2])).expect("a bijection"));
    assert_eq!(rewrite(&one).expect("rewritten").layers, [2]);
    let (before, moved) = (read(&canonical), read(&slots));
    let same =
        |layer, expert| names(Style::Qwen, layer, expert).iter().all(|name| before[name] == moved[name]);
    assert!((0..EXPERTS).all(|expert| same(1, expert)) && (0..EXPERTS).all(|expert| !same(2, expert)));

    let [own, target] = ["own", "target"].map(|name| root.path().join(name));
    fs::create_dir(&own).expect("made");
    let tensors: Vec<(String, folders::Bytes)> = (0..EXPERTS)
        .map(|expert| (format!("blocks.0.moe.up.e{expert}"), folders::Bytes(vec![1], vec![expert as u8])))
        .collect();
    safetensors::serialize_to_file(
        tensors.iter().map(|(name, bytes)| (name, bytes)),
        None,
        &own.join("m.safetensors"),
    )
    .expect("written");
    let mut job = job(Direction::Apply, &own, &target);
    job.map = Some(CheckpointMap::new(vec![vec![2, 0, 3, 1]], None).expect("a bijection"));
    job.names =
        toml::from_str("[[pattern]]\nname = \"blocks.{layer}.moe.{tensor}.e{expert}\"\n").expect("TOML");
    assert_eq!(
        job.names.pattern[0],
        NamePattern { name: "blocks.{layer}.moe.{tensor}.e{expert}".into(), stacked: false }
    );
    rewrite(&job).expect("rewritten");
    let bytes = fs::read(target.join("m.safetensors")).expect("read");
    let read = safetensors::SafeTensors::deserialize(&bytes).expect("safetensors");
    assert_eq!(read.tensor("blocks.0.moe.up.e2").expect("a slot").data(), [0]);
}

#[test]
fn a_map_is_checked() {
    let good = serde_json::to_string(&map()).expect("JSON");
    assert_eq!(CheckpointMap::parse(good.as_bytes(), "m").expect("a map"), map());
    let other = good.replacen("[2,0,3,1]", "[2,0,1,3]", 1);
    let error = CheckpointMap::parse(other.as_bytes(), "m").expect_err("refused").to_string();
    assert!(error.starts_with("m: sha256 = "), "{error}");
    let twice = good.replacen("[2,0,3,1]", "[2,0,3,3]", 1);
    assert!(CheckpointMap::parse(twice.as_bytes(), "m").is_err());
}
