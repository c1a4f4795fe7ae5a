//! `routepack checkpoint`: there and back, and what it says when it refuses.

use std::fs;
use std::path::Path;
use std::process::Command;

mod shell;

use shell::run;

/// One shard: 4 experts of one byte each.
fn write(folder: &Path) {
    fs::create_dir(folder).expect("made");
    let tensors = (0..4).map(|expert| {
        let (name, end) = (format!("model.layers.0.mlp.experts.{expert}.up_proj.weight"), expert + 1);
        (name, serde_json::json!({"dtype": "U8", "shape": [1], "data_offsets": [expert, end]}))
    });
    let header = serde_json::Value::Object(tensors.collect()).to_string();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend([10, 11, 12, 13]);
    fs::write(folder.join("model.safetensors"), bytes).expect("written");
}

#[test]
fn there_and_back() {
    let folder = tempfile::tempdir().expect("a directory");
    let folder = folder.path();
    write(&folder.join("hf"));
    fs::write(folder.join("place.json"), r#"{"ep": 2, "log2phys": [[2, 1, 0, 3]]}"#).expect("written");
    let refuse = |line: &str, code: i32, words: &str| {
        let output = run(folder, line);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{line}: {said}");
        assert!(said.contains(words) && said.lines().count() == 1, "{line}: {said}");
    };
    let done = |line: &str| {
        let output = run(folder, line);
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    };
    refuse("checkpoint canonicalise hf -o out", 3, "nobody knows which expert is in which slot");
    refuse("checkpoint apply hf --map place.json --layers 3-1 -o out", 3, "--layers 3-1: expected ascending");
    refuse("checkpoint apply hf --map place.json --layers 1 -o out", 3, "no experts in layer 1");
    refuse("checkpoint apply none --map place.json -o out", 4, "none: cannot read");
    fs::write(
        folder.join("twice.json"),
        r#"{"log2phys": [[0, 1, 2, 3]], "ep": 2, "log2phys": [[2, 1, 0, 3]]}"#,
    )
    .expect("written");
    refuse(
        "checkpoint apply hf --map twice.json -o out",
        3,
        "twice.json: no map: duplicate field `log2phys`",
    );
    // Nobody writes to it: a command that opens it waits for ever.
    #[cfg(unix)]
    {
        assert!(Command::new("mkfifo").arg(folder.join("pipe.json")).status().expect("mkfifo").success());
        for given in ["--map pipe.json", "--plan pipe.json", "--map place.json --names pipe.json"] {
            let line = format!("checkpoint apply hf {given} -o out");
            refuse(&line, 4, "pipe.json: cannot read: no regular file");
        }
    }
    let output = run(folder, "checkpoint apply hf -o out");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains("<--plan <PLAN>|--map <MAP>>"), "{said}");
    assert_eq!(
        run(folder, "checkpoint apply hf -o out --plan place.json --map place.json").status.code(),
        Some(2)
    );
    done("checkpoint apply hf --map place.json -o slots");
    refuse("checkpoint apply hf --map place.json -o slots", 3, "slots: is there already");
    done("checkpoint canonicalise slots -o back --json");
    let data = |name: &str| {
        let bytes = fs::read(folder.join(name).join("model.safetensors")).expect("read");
        String::from_utf8_lossy(&bytes[8..bytes.len() - 4]).trim_end().to_owned()
    };
    assert_eq!(data("back"), data("hf"));
    assert!(data("slots").contains("routepack_map_sha256"));
}

/// A full disk: a limit on the size of files is the nearest that needs no rights.
#[cfg(unix)]
#[test]
fn a_full_disk_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a directory");
    let folder = folder.path();
    write(&folder.join("hf"));
    fs::write(folder.join("hf/tokenizer.json"), vec![b' '; 100_000]).expect("written");
    fs::write(folder.join("place.json"), r#"{"ep": 2, "log2phys": [[2, 1, 0, 3]]}"#).expect("written");
    let line = format!(
        "trap '' XFSZ; ulimit -f 20; exec {} checkpoint apply hf --map place.json -o slots",
        env!("CARGO_BIN_EXE_routepack")
    );
    let output = Command::new("sh").current_dir(folder).args(["-c", &line]).output().expect("a shell");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("hf/tokenizer.json: cannot copy") && said.lines().count() == 1, "{said}");
    let left = |name: &str| folder.join(name).exists();
    assert!(!left("slots") && !left("slots.unfinished"), "nothing half written");
    assert!(run(folder, "checkpoint apply hf --map place.json -o slots").status.success());
}
