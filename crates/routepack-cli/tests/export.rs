//! `routepack export`: every shape holds the plan's micro-batches, whatever way they are turned.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

fn answer(folder: &Path, line: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_routepack"));
    let output =
        command.current_dir(folder).args(line.split_whitespace()).output().expect("the command starts");
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn exported(folder: &Path, framework: &str) -> Value {
    serde_json::from_str(&answer(folder, &format!("export plan.json --to {framework}"))).expect("JSON")
}

fn lists(value: &Value) -> Vec<Vec<Vec<u64>>> {
    serde_json::from_value(value.clone()).expect("lists")
}

/// A window of two steps, and its plan.
fn planned(folder: &Path) {
    let lengths: Vec<u32> = (0..24).map(|sample| 3 + sample * 7 % 11).collect();
    let step: Vec<u32> = (0..24).map(|sample| sample % 2).collect();
    let counts: Vec<Value> =
        lengths.iter().map(|length| serde_json::json!([[*length, *length, 0, 0]])).collect();
    let window = serde_json::json!({"lengths": lengths, "step": step, "expert_counts": counts});
    fs::write(folder.join("w.json"), window.to_string()).expect("written");
    let job = "[topology]\ndp = 2\nep = 2\n[routing]\ntop_k = 2\n[packing]\ncapacity = 40\n";
    fs::write(folder.join("job.toml"), job).expect("written");
    answer(folder, "plan w.json --job job.toml -o plan.json");
}

#[test]
fn a_plan_that_was_changed_is_not_handed_on() {
    let folder = tempfile::tempdir().expect("a directory");
    let folder = folder.path();
    planned(folder);
    let text = fs::read_to_string(folder.join("plan.json")).expect("read");
    let mut plan: Value = serde_json::from_str(&text).expect("JSON");
    let cells = &mut plan["steps"][0]["cells"];
    cells[0][0] = cells[0][1].clone();
    fs::write(folder.join("plan.json"), plan.to_string()).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_routepack"));
    let line = "export plan.json --to verl -o verl.json";
    let output =
        command.current_dir(folder).args(line.split_whitespace()).output().expect("the command starts");
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("plan.json: sha256: the plan claims "), "{said}");
    assert!(!folder.join("verl.json").exists());
}

#[test]
fn every_shape_holds_the_plan() {
    let folder = tempfile::tempdir().expect("a directory");
    let folder = folder.path();
    planned(folder);
    let plan: Value =
        serde_json::from_slice(&fs::read(folder.join("plan.json")).expect("read")).expect("JSON");
    let cells: Vec<_> = (0..2).map(|step| lists(&plan["steps"][step]["cells"])).collect();
    let log2phys = &plan["placement"]["log2phys"][0];

    for framework in ["verl", "areal", "nemo-rl", "megatron", "slime"] {
        let file = exported(folder, framework);
        assert_eq!(file["sha256"], plan["sha256"]);
        for (expert, slot) in log2phys.as_array().expect("slots").iter().enumerate() {
            assert_eq!(file["phys2log"][0][slot.as_u64().expect("a slot") as usize], expert);
        }
    }
    for (step, cells) in cells.iter().enumerate() {
        let (verl, areal) = (exported(folder, "verl"), exported(folder, "areal"));
        let by_rank = lists(&verl["steps"][step]["micro_batches"]);
        assert_eq!(by_rank, lists(&areal["steps"][step]["groups"]));
        let bins: Vec<Vec<u64>> =
            serde_json::from_value(exported(folder, "nemo-rl")["steps"][step]["bins"].clone()).expect("bins");
        assert_eq!(lists(&exported(folder, "megatron")["steps"][step]["micro_batches"]), *cells);
        for (row, row_cells) in cells.iter().enumerate() {
            for (rank, cell) in row_cells.iter().enumerate() {
                assert_eq!((&by_rank[rank][row], &bins[2 * row + rank]), (cell, cell));
            }
        }
    }
    let slime = exported(folder, "slime");
    let partitions: Vec<Vec<u64>> = serde_json::from_value(slime["partitions"].clone()).expect("lists");
    let micro_batches = lists(&slime["micro_batch_indices"]);
    assert_eq!(slime["global_batch_sizes"], serde_json::json!([12, 12]));
    let rows: Vec<usize> = cells.iter().map(Vec::len).collect();
    assert_eq!(slime["num_microbatches"], serde_json::json!(rows));
    for rank in 0..2 {
        let wanted: Vec<Vec<u64>> = cells.iter().flatten().map(|row| row[rank].clone()).collect();
        let found: Vec<Vec<u64>> = micro_batches[rank]
            .iter()
            .map(|cell| cell.iter().map(|&position| partitions[rank][position as usize]).collect())
            .collect();
        assert_eq!(found, wanted);
    }
    answer(folder, "export plan.json --to verl -o verl.json");
    let file: Value =
        serde_json::from_slice(&fs::read(folder.join("verl.json")).expect("read")).expect("JSON");
    assert_eq!(file, exported(folder, "verl"));
}
