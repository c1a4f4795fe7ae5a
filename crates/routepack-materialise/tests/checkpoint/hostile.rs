//! Folders as they should not be: each is refused by name, and nothing is made.

use std::fs;
use std::path::Path;

use routepack_materialise::checkpoint::{CheckpointMap, Direction, MAP_FILE, rewrite};
use safetensors::SafeTensors;

use crate::folders::{Bytes, Style, job, map, read, write};
use crate::{folder, refusal};

pub(crate) const SHARDS: [&str; 2] = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];

/// What is said of a canonical checkpoint after this has been done to it.
pub(crate) fn refused(what: &dyn Fn(&Path)) -> String {
    let root = folder();
    let [source, target] = ["canonical", "slots"].map(|name| root.path().join(name));
    write(&source, Style::Qwen, 16);
    what(&source);
    let error = refusal(rewrite(&job(Direction::Apply, &source, &target)), root.path());
    let left: Vec<_> = fs::read_dir(root.path()).expect("a folder").collect();
    assert_eq!(left.len(), 1, "{error}: only the source is there");
    error
}

/// A shard of one tensor with this header.
fn shard(path: &Path, header: &str, data: &[u8]) {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    fs::write(path, bytes).expect("written");
}

#[test]
fn an_index_that_names_what_is_not_there() {
    let said = refused(&|folder| {
        let path = folder.join("model.safetensors.index.json");
        let text = fs::read_to_string(&path).expect("an index");
        let more = "\"weight_map\":{\"lm_head.weight\":\"model-00003-of-00003.safetensors\",";
        fs::write(path, text.replacen("\"weight_map\":{", more, 1)).expect("written");
    });
    assert_eq!(
        said,
        "canonical/model.safetensors.index.json: model-00003-of-00003.safetensors is not there, 2 of 3 shards are; \
         copy all files of the checkpoint"
    );
    let said = refused(&|folder| {
        let path = folder.join("model.safetensors.index.json");
        let text = fs::read_to_string(&path).expect("an index");
        let more = format!("\"weight_map\":{{\"lm_head.weight\":\"{}\",", SHARDS[0]);
        fs::write(path, text.replacen("\"weight_map\":{", &more, 1)).expect("written");
    });
    assert_eq!(
        said,
        "canonical/model.safetensors.index.json: lm_head.weight: said to be in \"model-00001-of-00002.safetensors\", \
         which has no such tensor or is not there"
    );
}

#[test]
fn headers_that_lie() {
    let name = "model.layers.9.w";
    let entry = |dtype: &str, shape: &str, offsets: &str| {
        format!("\"{name}\":{{\"dtype\":\"{dtype}\",\"shape\":{shape},\"data_offsets\":{offsets}}}")
    };
    for (header, data) in [
        // A shape that needs other bytes than it has.
        (format!("{{{}}}", entry("F32", "[2]", "[0,4]")), 4),
        // The same name twice, a hole, an end before its start, more than any memory has.
        (format!("{{{},{}}}", entry("U8", "[2]", "[0,2]"), entry("U8", "[2]", "[2,4]")), 4),
        (format!("{{{}}}", entry("U8", "[2]", "[2,4]")), 4),
        (format!("{{{}}}", entry("U8", "[2]", "[4,2]")), 4),
        (format!("{{{}}}", entry("U8", "[18446744073709551615,2]", "[0,4]")), 4),
    ] {
        let said = refused(&|folder| shard(&folder.join("x.safetensors"), &header, &vec![0; data]));
        assert!(said.starts_with("canonical/x.safetensors: "), "{header}: {said}");
    }
}

#[test]
fn shards_of_two_checkpoints_are_not_mixed() {
    let root = folder();
    let [canonical, slots, back] = ["canonical", "slots", "back"].map(|name| root.path().join(name));
    // Stacked experts have the same names in slots, so names do not tell.
    write(&canonical, Style::Stacked, 16);
    rewrite(&job(Direction::Apply, &canonical, &slots)).expect("rewritten");
    // One shard is copied back by hand; checksums are gone too.
    fs::copy(canonical.join(SHARDS[1]), slots.join(SHARDS[1])).expect("copied");
    fs::remove_file(slots.join("routepack_checksums.json")).expect("deleted");
    let said = refusal(rewrite(&job(Direction::Canonicalise, &slots, &back)), root.path());
    assert!(said.contains("in slots in some shards, in logical order in others"), "{said}");
    assert!(!back.exists());
}

#[test]
fn settings_that_name_an_expert() {
    let said = refused(&|folder| {
        let config =
            r#"{"quantization_config": {"ignore": ["lm_head", "model.layers.1.mlp.experts.3.up_proj"]}}"#;
        fs::write(folder.join("config.json"), config).expect("written");
    });
    let expected = "canonical/config.json: model.layers.1.mlp.experts.3.up_proj: a setting of one expert";
    assert!(said.starts_with(expected), "{said}");
    // Of a layer that does not move, or of no expert: fine.
    let root = folder();
    let [source, target] = ["canonical", "slots"].map(|name| root.path().join(name));
    write(&source, Style::Qwen, 16);
    let config = r#"{"ignore": ["model.layers.1.mlp.gate", "re:.*experts.*"], "num_experts": 4}"#;
    fs::write(source.join("config.json"), config).expect("written");
    rewrite(&job(Direction::Apply, &source, &target)).expect("rewritten");
}

#[test]
fn a_map_of_another_model() {
    let root = folder();
    let [source, target] = ["canonical", "slots"].map(|name| root.path().join(name));
    write(&source, Style::Qwen, 16);
    let with = |log2phys: Vec<Vec<u32>>| {
        let mut job = job(Direction::Apply, &source, &target);
        job.map = Some(CheckpointMap::new(log2phys, None).expect("bijections"));
        refusal(rewrite(&job), root.path())
    };
    assert!(with(vec![vec![1, 0, 2]; 2]).contains("expert 3, the map has 3 experts a layer"));
    assert!(
        with(vec![vec![1, 0, 2, 3, 4]; 2]).contains("expert 4 is missing, the map has 5 experts a layer")
    );
    assert!(with(vec![vec![1, 0, 2, 3]; 3]).contains("experts in 2 layers (1 to 2), the map has 3"));
    assert!(CheckpointMap::new(vec![vec![]], None).is_err() && CheckpointMap::new(vec![], None).is_err());
}

#[test]
fn other_forms_may_hold_experts() {
    for file in ["model.gguf", "pytorch_model.bin", "weights.npz"] {
        let said = refused(&|folder| fs::write(folder.join(file), b"").expect("written"));
        assert!(said.contains(&format!("{file}: may hold experts in a form that is not read")), "{said}");
    }
}

#[test]
fn source_and_target_are_two_folders() {
    let root = folder();
    let source = root.path().join("canonical");
    write(&source, Style::Qwen, 16);
    let to = |target: &Path| refusal(rewrite(&job(Direction::Apply, &source, target)), root.path());
    assert_eq!(to(&source), "canonical: is there already; nothing is overwritten");
    assert!(to(&source.join("inside")).contains("lies inside the source"));
    assert!(to(&root.path().join("none/out")).contains("none: cannot open"));
    assert!(to(&source.join("..")).contains("is there already"));
}

/// A folder that nobody may write in, not even root where the kernel owns it.
#[cfg(target_os = "linux")]
#[test]
fn a_target_that_cannot_be_made_leaves_the_source() {
    use std::os::unix::fs::PermissionsExt as _;
    let root = folder();
    let [source, locked] = ["canonical", "locked"].map(|name| root.path().join(name));
    write(&source, Style::Qwen, 16);
    let before = read(&source);
    fs::create_dir(&locked).expect("made");
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o555)).expect("locked");
    let mut parents = vec![Path::new("/sys").to_owned()];
    // Root may write there all the same.
    if fs::create_dir(locked.join("probe")).is_err() {
        parents.push(locked);
    }
    for parent in parents.into_iter().filter(|parent| parent.is_dir()) {
        let target = parent.join("slots");
        let error = refusal(rewrite(&job(Direction::Apply, &source, &target)), root.path());
        assert!(error.contains("slots.unfinished: cannot make"), "{error}");
        assert!(!target.exists() && read(&source) == before);
    }
}

/// Tied embeddings: one tensor stands for two, by its absence or by a copy under the other's name.
#[test]
fn tied_weights_stay_as_they_are() {
    for copy in [false, true] {
        let root = folder();
        let [source, slots, back] = ["canonical", "slots", "back"].map(|name| root.path().join(name));
        write(&source, Style::Qwen, 16);
        let settings = r#"{"tie_word_embeddings": true, "vocab_size": 3}"#;
        fs::write(source.join("config.json"), settings).expect("written");
        let names = [Some("model.embed_tokens.weight"), copy.then_some("lm_head.weight")];
        let embedding = Bytes(vec![3, 5], (0..15).collect());
        let file = "embedding.safetensors";
        let tied = names.iter().flatten().map(|name| (*name, &embedding));
        safetensors::serialize_to_file(tied, None, &source.join(file)).expect("written");
        let index = source.join("model.safetensors.index.json");
        let more = names
            .iter()
            .flatten()
            .fold(String::from("\"weight_map\":{"), |text, name| format!("{text}\"{name}\":\"{file}\","));
        let text = fs::read_to_string(&index).expect("an index").replace("\"weight_map\":{", &more);
        fs::write(index, text).expect("written");
        rewrite(&job(Direction::Apply, &source, &slots)).expect("rewritten");
        rewrite(&job(Direction::Canonicalise, &slots, &back)).expect("rewritten");
        for folder in [&slots, &back] {
            let tensors = read(folder);
            for name in names.iter().flatten() {
                assert_eq!(tensors[*name], embedding.1, "{name}");
            }
            assert_eq!(tensors.contains_key("lm_head.weight"), copy);
            assert_eq!(fs::read_to_string(folder.join("config.json")).expect("settings"), settings);
        }
        assert_eq!(read(&back), read(&source));
    }
}

#[cfg(unix)]
#[test]
fn links_are_read_through_and_never_written_through() {
    use std::os::unix::fs::symlink;
    let root = folder();
    let [blobs, linked, target] = ["blobs", "linked", "slots"].map(|name| root.path().join(name));
    write(&blobs, Style::Qwen, 16);
    // Files of the hub's cache are links.
    fs::create_dir(&linked).expect("made");
    for entry in fs::read_dir(&blobs).expect("a folder") {
        let path = entry.expect("an entry").path();
        symlink(&path, linked.join(path.file_name().expect("a name"))).expect("linked");
    }
    let to = |target: &Path, again| {
        let mut job = job(Direction::Apply, &linked, target);
        job.again = again;
        rewrite(&job)
    };
    to(&target, false).expect("rewritten");
    assert!(fs::symlink_metadata(target.join(SHARDS[0])).expect("there").is_file());
    // A target that is a link to nowhere, and an unfinished folder that is a link to something precious.
    let dangling = root.path().join("dangling");
    symlink(root.path().join("nowhere"), &dangling).expect("linked");
    assert!(refusal(to(&dangling, false), root.path()).contains("is there already"));
    let precious = root.path().join("precious");
    fs::create_dir(&precious).expect("made");
    fs::write(precious.join("file"), b"kept").expect("written");
    symlink(&precious, root.path().join("out.unfinished")).expect("linked");
    assert!(refusal(to(&root.path().join("out"), false), root.path()).contains("a run did not finish"));
    to(&root.path().join("out"), true).expect("the link is gone, not what it leads to");
    assert_eq!(fs::read(precious.join("file")).expect("kept"), b"kept");
}

/// Remains of a run that was killed are no source, and nothing that is one is deleted with them.
#[test]
fn what_is_not_finished_is_no_source_and_no_source_is_deleted_with_it() {
    let root = folder();
    let place = |name: &str| root.path().join(name);
    let [remains, inside, link] = ["out.unfinished", "other.unfinished/step", "link"].map(place);
    write(&remains, Style::Qwen, 16);
    fs::create_dir(place("other.unfinished")).expect("made");
    write(&inside, Style::Qwen, 16);
    std::os::unix::fs::symlink(&remains, &link).expect("linked");
    let to = |source: &Path, target: &str| {
        let mut job = job(Direction::Apply, source, &place(target));
        job.again = true;
        refusal(rewrite(&job), root.path())
    };
    for source in [&remains, &link] {
        assert!(to(source, "out").contains("what a run that did not finish left, which is not whole"));
    }
    assert!(
        to(&inside, "other")
            .contains("other.unfinished: holds the source, which --again would delete with it")
    );
    assert!(to(&inside, "new.unfinished").contains("new.unfinished: a name for what is not whole yet"));
    assert!(remains.join(SHARDS[0]).exists() && inside.join(SHARDS[0]).exists());
}

/// Experts of one family need not be alike: an expert in another type or shape keeps it.
#[test]
fn experts_of_other_types_and_shapes_keep_them() {
    let root = folder();
    let [source, target, back] = ["canonical", "slots", "back"].map(|name| root.path().join(name));
    fs::create_dir(&source).expect("made");
    let tensors: Vec<(String, Bytes)> = (0..4)
        .map(|expert| {
            let name = format!("model.layers.0.mlp.experts.{expert}.up_proj.weight");
            (name, Bytes(vec![expert + 1], vec![expert as u8; expert + 1]))
        })
        .collect();
    let views = tensors.iter().map(|(name, bytes)| (name, bytes));
    safetensors::serialize_to_file(views, None, &source.join("m.safetensors")).expect("written");
    let mut there = job(Direction::Apply, &source, &target);
    there.map = Some(CheckpointMap::new(vec![vec![2, 0, 3, 1]], None).expect("a bijection"));
    rewrite(&there).expect("rewritten");
    let bytes = fs::read(target.join("m.safetensors")).expect("read");
    let moved = SafeTensors::deserialize(&bytes).expect("safetensors");
    let third = moved.tensor("model.layers.0.mlp.experts.3.up_proj.weight").expect("a slot");
    assert_eq!((third.shape(), third.data()), (&[3][..], &[2, 2, 2][..]));
    rewrite(&job(Direction::Canonicalise, &target, &back)).expect("rewritten");
    let bytes = fs::read(back.join("m.safetensors")).expect("read");
    let again = SafeTensors::deserialize(&bytes).expect("safetensors");
    for (name, Bytes(shape, data)) in &tensors {
        let found = again.tensor(name).expect("back");
        assert_eq!((found.shape(), found.data()), (&shape[..], &data[..]));
    }
}

#[test]
fn a_map_file_that_is_none() {
    let root = folder();
    let [canonical, slots, back] = ["canonical", "slots", "back"].map(|name| root.path().join(name));
    write(&canonical, Style::Qwen, 16);
    rewrite(&job(Direction::Apply, &canonical, &slots)).expect("rewritten");
    let before = read(&slots);
    for text in ["", "[]", "{\"format\": \"routepack-map 2\", \"sha256\": \"\", \"log2phys\": [[0]]}"] {
        fs::write(slots.join(MAP_FILE), text).expect("written");
        let said = refusal(rewrite(&job(Direction::Canonicalise, &slots, &back)), root.path());
        assert!(said.starts_with("slots/routepack_map.json: "), "{said}");
    }
    assert!(read(&slots) == before && !back.exists());
    assert_eq!(map().log2phys.len(), 2);
}
