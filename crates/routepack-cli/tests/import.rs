//! `routepack import` as a shell sees it: from rollouts to a plan.

use std::fs;
use std::path::Path;

mod shell;

use shell::run;

fn answer(folder: &Path, line: &str) -> String {
    let output = run(folder, line);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Responses of four generated tokens behind a prompt of two, one layer, top-2 of 4 experts.
fn rollouts() -> String {
    let line = |index: usize| {
        let (a, b) = (index % 4, (index + 1) % 4);
        format!(
            r#"{{"id":"c{index}","usage":{{"prompt_tokens":2,"completion_tokens":4}},"prompt_routed_experts":[[[{a},{b}]],[[{a},{b}]]],"choices":[{{"routed_experts":[[[{b},{a}]],[[{a},{b}]],[[{a},{b}]]]}}]}}"#
        ) + "\n"
    };
    (0..8).map(line).collect()
}

#[test]
fn rollouts_become_a_window_and_a_plan() {
    let folder = tempfile::tempdir().expect("a directory");
    let folder = folder.path();
    fs::write(folder.join("r.jsonl"), rollouts()).expect("written");
    assert_eq!(
        answer(folder, "import --from vllm --experts 4 r.jsonl -o w.npz"),
        "w.npz: 8 samples, 48 tokens, 1 MoE layer, 4 experts, top_k 2\n40 rows counted; 0 samples with T rows, 8 with T - 1\n"
    );
    let summary: serde_json::Value =
        serde_json::from_str(&answer(folder, "import --from vllm --experts 4 r.jsonl -o w.json --json"))
            .expect("JSON");
    assert_eq!((&summary["samples"], &summary["rows_counted"]), (&8.into(), &40.into()));
    fs::write(
        folder.join("job.toml"),
        "[topology]\ndp = 2\nep = 2\n[routing]\ntop_k = 2\n[packing]\ncapacity = 12\n",
    )
    .expect("written");
    answer(folder, "plan w.npz --job job.toml -o plan.json");
    answer(folder, "verify plan.json --window w.json");
}

#[test]
fn refusals_name_the_place_and_leave_no_file() {
    let folder = tempfile::tempdir().expect("a directory");
    let folder = folder.path();
    fs::write(folder.join("r.jsonl"), rollouts()).expect("written");
    fs::write(folder.join("r.pkl"), b"\x80\x04K\x01.").expect("written");
    fs::write(folder.join("map.json"), "[[0,1,2,2]]").expect("written");
    fs::write(folder.join("nine.txt"), "6\n".repeat(9)).expect("written");
    for (line, code, part) in [
        ("--from vllm --experts 4 --lengths nine.txt r.jsonl", 3, "lengths = 9: the file has 8 samples"),
        ("--from vllm --experts 3 r.jsonl", 3, "sample 2 (c2), row 0, layer 0: expert 3: expected 0 to 2"),
        ("--from vllm --experts 4 r.pkl", 3, "r.pkl: a pickle is refused"),
        ("--from vllm --experts 4 none.jsonl", 4, "none.jsonl: cannot open"),
        ("--from vllm --experts 4 --phys2log map.json r.jsonl", 3, "no slot holds expert 3"),
        ("--from vllm --experts 4 --layers 3-1 r.jsonl", 2, "expected `moe`, or layers such as"),
        ("--from vllm --experts 4 --layers 0-9,0-9 r.jsonl", 2, "expected `moe`, or layers such as"),
        ("--from nobody --experts 4 r.jsonl", 2, "possible values: vllm, vllm-npy"),
    ] {
        let output = run(folder, &format!("import {line} -o w.npz"));
        let message = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(code), "{line}: {message}");
        assert!(message.contains(part), "{line}: {message}");
        assert!(!folder.join("w.npz").exists(), "{line}");
    }
}
