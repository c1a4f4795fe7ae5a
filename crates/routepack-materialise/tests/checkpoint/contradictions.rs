//! Folders that contradict themselves: missing shards, experts in no slots, maps over other layers, fields of the files
//! beside the shards.

use std::fs;

use routepack_materialise::checkpoint::{CheckpointMap, Direction, MAP_FILE, Rewrite, rewrite};

use crate::folders::{Bytes, Style, job, map, read, write};
use crate::hostile::{SHARDS, refused};
use crate::{folder, refusal};

/// Without an index, numbers tell.
#[test]
fn a_shard_that_is_missing_is_named() {
    for missing in SHARDS {
        let said = refused(&|folder| {
            fs::remove_file(folder.join("model.safetensors.index.json")).expect("deleted");
            fs::remove_file(folder.join(missing)).expect("deleted");
        });
        assert_eq!(
            said,
            format!("canonical: {missing} is not there, 1 of 2 shards are; copy all files of the checkpoint")
        );
    }
    // As many as a number can say.
    let said = refused(&|folder| {
        let shard = format!("m-{:020}-of-{}.safetensors", 1, u64::MAX);
        fs::rename(folder.join(SHARDS[0]), folder.join(shard)).expect("renamed");
        fs::remove_file(folder.join("model.safetensors.index.json")).expect("deleted");
        fs::remove_file(folder.join(SHARDS[1])).expect("deleted");
    });
    assert!(
        said.starts_with(
            "canonical: m-00000000000000000002-of-18446744073709551615.safetensors is not there"
        )
    );
    // More than a number can say; numbers beyond their total, twice, as wide as they are.
    for (names, why) in [
        (["m-00001-of-99999999999999999999", "n"], "said to be one of more shards than 2^64 - 1"),
        (["m-99999999999999999999-of-00002", "n"], "said to be one of more shards than 2^64 - 1"),
        (["m-00001-of-00001", "m-00002-of-00001"], "m-00002-of-00001.safetensors: shard 2 of 1: of another"),
        (["m-00000-of-00000", "n"], "m-00000-of-00000.safetensors: shard 0 of 0: of another checkpoint"),
        (["m-1-of-00001", "m-00001-of-00001"], "m-1-of-00001.safetensors: another shard has this number"),
        (["m-1-of-3", "m-3-of-3"], "m-2-of-3.safetensors is not there, 2 of 3 shards are"),
        // Others are not counted.
        (
            ["m-00001-of-00002", "n-00001-of-00001"],
            "m-00002-of-00002.safetensors is not there, 1 of 2 shards are",
        ),
        (["m-9-of-10", "m-10-of-10"], "m-1-of-10.safetensors is not there, 2 of 10 shards are"),
    ] {
        let said = refused(&|folder| {
            fs::remove_file(folder.join("model.safetensors.index.json")).expect("deleted");
            for (old, new) in SHARDS.iter().zip(names) {
                fs::rename(folder.join(old), folder.join(format!("{new}.safetensors"))).expect("renamed");
            }
        });
        assert!(said.contains(why), "{names:?}: {said}");
    }
    // Numbers that count from 0, are as wide as they are, or mean something else, are all right.
    for names in [
        ["m-00000-of-00002", "m-00001-of-00002"],
        ["m-1-of-00002", "m-2-of-00002"],
        ["m-1-of-the-best", "m-2-of-the-best"],
    ] {
        let root = folder();
        let [source, target] = ["canonical", "slots"].map(|name| root.path().join(name));
        write(&source, Style::Qwen, 16);
        fs::remove_file(source.join("model.safetensors.index.json")).expect("deleted");
        for (old, new) in SHARDS.iter().zip(names) {
            fs::rename(source.join(old), source.join(format!("{new}.safetensors"))).expect("renamed");
        }
        rewrite(&job(Direction::Apply, &source, &target)).expect("rewritten");
    }
}

/// `save_logical` writes experts by their logical numbers, with the map that was in force beside them: they are in no
/// slots, and its names are no model's.
#[test]
fn what_was_saved_live_is_in_no_slots() {
    let root = folder();
    let [live, target] = ["live", "target"].map(|name| root.path().join(name));
    fs::create_dir(&live).expect("made");
    let tensor = Bytes(vec![2], vec![1, 2]);
    let tensors = [("weight.layers.0.experts.0.up", &tensor)];
    safetensors::serialize_to_file(tensors, None, &live.join("experts-00000-of-00001.safetensors"))
        .expect("written");
    fs::write(live.join("routepack_live_map.json"), "{}").expect("written");
    for (direction, given) in [
        (Direction::Canonicalise, None),
        (Direction::Canonicalise, Some(map())),
        (Direction::Apply, Some(map())),
    ] {
        let job = Rewrite { map: given, ..job(direction, &live, &target) };
        let said = refusal(rewrite(&job), root.path());
        assert!(said.starts_with("live/routepack_live_map.json: saved by save_logical: "), "{said}");
        assert!(!target.exists());
    }
}

/// One map over layers 1 and 2, or over 0 and 2: the hash is the same, the experts are not.
#[test]
fn a_map_laid_over_other_layers() {
    let root = folder();
    let [source, slots, back] = ["canonical", "slots", "back"].map(|name| root.path().join(name));
    write(&source, Style::Qwen, 16);
    let one = |layer| CheckpointMap::new(vec![vec![2, 0, 3, 1]], Some(vec![layer])).expect("a bijection");
    rewrite(&Rewrite { map: Some(one(1)), ..job(Direction::Apply, &source, &slots) }).expect("rewritten");
    let other = Rewrite { map: Some(one(2)), ..job(Direction::Canonicalise, &slots, &back) };
    let said = refusal(rewrite(&other), root.path());
    assert!(said.ends_with("the layers given are [2], the checkpoint's own map has [1]"), "{said}");
    // The map is lost, and the checksums, which would tell.
    fs::remove_file(slots.join(MAP_FILE)).expect("deleted");
    fs::remove_file(slots.join("routepack_checksums.json")).expect("deleted");
    let said = refusal(rewrite(&other), root.path());
    assert!(said.ends_with("layers 1 are in slots, the map is laid over 2"), "{said}");
    rewrite(&Rewrite { map: Some(one(1)), ..other }).expect("rewritten");
    assert_eq!(read(&back), read(&source));
    // Where all layers with experts are meant, the map says which these were.
    let all = root.path().join("all");
    rewrite(&job(Direction::Apply, &source, &all)).expect("rewritten");
    let json = fs::read(all.join(MAP_FILE)).expect("a map");
    assert_eq!(CheckpointMap::parse(&json, "m").expect("a map").model_layers, Some(vec![1, 2]));
}

/// Every field of the files beside the shards: missing, of another type, short, huge. An error, and no panic.
#[test]
fn files_beside_the_shards_are_checked_field_by_field() {
    let root = folder();
    let [source, slots, back] = ["canonical", "slots", "back"].map(|name| root.path().join(name));
    write(&source, Style::Qwen, 16);
    rewrite(&job(Direction::Apply, &source, &slots)).expect("rewritten");
    let mut tried = 0;
    for file in [MAP_FILE, "routepack_checksums.json", "model.safetensors.index.json"] {
        let path = slots.join(file);
        let good = fs::read(&path).expect("read");
        let whole: serde_json::Value = serde_json::from_slice(&good).expect("JSON");
        for place in places(&whole) {
            for value in [
                serde_json::Value::Null,
                true.into(),
                (-1).into(),
                u64::MAX.into(),
                1.5.into(),
                "".into(),
                "é\u{0}".into(),
                serde_json::json!([]),
                serde_json::json!([[[]]]),
                serde_json::json!({}),
            ] {
                let mut bad = whole.clone();
                let at = bad.pointer_mut(&place).expect("a place");
                // A map of all layers, an index of nothing, and what it says beside its map: all right.
                let fine = value.is_null() && place == "/model_layers"
                    || value == serde_json::json!({}) && place == "/weight_map";
                if *at == value || fine || place.starts_with("/metadata") {
                    continue;
                }
                *at = value;
                fs::write(&path, bad.to_string()).expect("written");
                let said = refusal(rewrite(&job(Direction::Canonicalise, &slots, &back)), root.path());
                assert!(said.lines().count() == 1 && !back.exists(), "{place}: {said}");
                tried += 1;
            }
        }
        for cut in [0, 1, good.len() / 2, good.len() - 2] {
            fs::write(&path, &good[..cut]).expect("written");
            refusal(rewrite(&job(Direction::Canonicalise, &slots, &back)), root.path());
        }
        fs::write(&path, good).expect("written");
    }
    assert!(tried > 300, "{tried}");
    rewrite(&job(Direction::Canonicalise, &slots, &back)).expect("rewritten");
}

/// Pointers to the values of a file, those of `null` left out.
fn places(value: &serde_json::Value) -> Vec<String> {
    let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
    let inner: Vec<(String, &serde_json::Value)> = match value {
        serde_json::Value::Object(fields) => {
            fields.iter().map(|(key, value)| (escaped(key), value)).collect()
        }
        serde_json::Value::Array(values) => {
            values.iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect()
        }
        _ => vec![],
    };
    let own = std::iter::once(String::new());
    own.chain(
        inner
            .into_iter()
            .flat_map(|(key, value)| places(value).into_iter().map(move |place| format!("/{key}{place}"))),
    )
    .collect()
}
