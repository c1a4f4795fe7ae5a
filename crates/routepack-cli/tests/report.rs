//! `routepack report` as a shell sees it: pages of odd windows, and files beside the plan that are wrong.

use std::fs;
use std::path::Path;

mod shell;

use shell::run;

const JOB: &str = "[topology]\ndp = 2\nep = 2\n[routing]\ntop_k = 2\n[packing]\ncapacity = 12\n";
const WINDOW: &str = r#"{"lengths": [6, 6, 6, 6], "sample_ids": ["<script>alert(1)</script>", "b", "c", "d"], "expert_counts":
    [[[6, 6, 0, 0]], [[0, 0, 6, 6]], [[6, 0, 6, 0]], [[0, 6, 0, 6]]]}"#;
const CONFIG: &str = r#"{"model_type": "qwen3_moe", "hidden_size": 64, "vocab_size": 100, "num_hidden_layers": 1,
    "moe_intermediate_size": 32, "num_experts": 4, "num_experts_per_tok": 2, "num_attention_heads": 4, "head_dim": 16}"#;

fn answer(folder: &Path, line: &str) -> String {
    let output = run(folder, line);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn planned(window: &str, job: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a directory");
    for (name, text) in [("w.json", window), ("job.toml", job), ("config.json", CONFIG)] {
        fs::write(folder.path().join(name), text).expect("written");
    }
    answer(folder.path(), "plan w.json --job job.toml -q -o plan.json --trace trace.csv");
    folder
}

#[test]
fn pages_of_odd_windows_hold_no_script_and_no_missing_number() {
    for (window, job) in [
        (WINDOW, JOB.to_owned()),
        (WINDOW, JOB.replace("dp = 2\nep = 2", "dp = 1\nep = 1")),
        (r#"{"lengths": [6, 6, 6, 6]}"#, JOB.replace("ep = 2", "ep = 1")),
        (
            r#"{"lengths": [5], "sample_ids": [9007199254740993]}"#,
            JOB.replace("dp = 2\nep = 2", "dp = 1\nep = 1"),
        ),
    ] {
        let folder = planned(window, &job);
        let page = answer(folder.path(), "report plan.json --window w.json --html -");
        assert!(page.contains("<figure"), "{window}");
        for wrong in ["<script", "NaN", "inf,", "\"inf"] {
            assert!(!page.contains(wrong), "{wrong} in the page of {window}");
        }
        let said = answer(folder.path(), "report plan.json --window w.json");
        assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
        assert!(said.contains("fullest cell, tokens ") && said.contains('█'), "{said}");
    }
}

#[test]
fn what_other_commands_wrote_is_shown_as_it_stands() {
    let folder = planned(WINDOW, JOB);
    answer(folder.path(), "place w.json --ep 2 --top-k 2 --curve moves.csv");
    let line = "simulate plan.json --window w.json --model config.json --cluster h20 --extra-rows 3 --rows-curve rows.csv";
    let said = answer(folder.path(), line);
    assert!(said.contains("step time by rows, simulated:") && said.contains("best with "), "{said}");
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    let rows = fs::read_to_string(folder.path().join("rows.csv")).expect("written");
    // 4 samples on 2 slots: one row or two, and no more.
    assert_eq!(
        rows.lines().map(|line| line.split(',').next().expect("rows")).collect::<Vec<_>>(),
        ["rows", "1", "2"]
    );
    let trace = fs::read_to_string(folder.path().join("trace.csv")).expect("written");
    let page = answer(
        folder.path(),
        "report plan.json --window w.json --html - --curve moves.csv --rows-curve rows.csv",
    );
    for id in ["trade-off", "rows-curve"] {
        assert_eq!(page.matches(&format!("<figure id=\"{id}\"")).count(), 1, "{id}");
    }
    let seconds = rows.lines().nth(1).and_then(|line| line.split(',').nth(1)).expect("seconds");
    assert!(page.contains(&format!("<td>{seconds}</td>")), "{seconds}");
    // So small a window is solved without annealing: then there is no table to show.
    assert!(trace.is_empty() || trace.starts_with("step,rung,temperature,"), "{trace}");
}

#[test]
fn a_trace_of_a_search_is_shown_temperature_by_temperature() {
    let folder = tempfile::tempdir().expect("a directory");
    let generate = "generate window --preset mixed --set prompts=12 --set routing.layers=2 -o w.json --job-output job.toml";
    answer(folder.path(), generate);
    answer(folder.path(), "plan w.json --job job.toml -q -o plan.json --trace trace.csv");
    let trace = fs::read_to_string(folder.path().join("trace.csv")).expect("written");
    let header: Vec<&str> = trace.lines().next().expect("a header").split(',').collect();
    let families = header.iter().position(|&name| name == "families").expect("a column");
    assert!(trace.lines().all(|line| line.split(',').count() == header.len()), "{trace}");
    assert!(trace.lines().count() > 2, "{trace}");
    let page = answer(folder.path(), "report plan.json --window w.json --html - --trace trace.csv");
    for id in ["annealing-energy", "annealing-temperature", "annealing-families"] {
        assert_eq!(page.matches(&format!("<figure id=\"{id}\"")).count(), 1, "{id}");
    }
    let shown = page.split("<figure id=\"annealing-families\"").nth(1).expect("a figure");
    let shown: Vec<&str> = shown
        .split("<tbody>")
        .nth(1)
        .and_then(|body| body.split("</tbody>").next())
        .expect("numbers")
        .split("<tr>")
        .skip(1)
        .map(|row| row.rsplit("<td>").next().and_then(|cell| cell.split('<').next()).expect("a cell"))
        .collect();
    let written: Vec<&str> =
        trace.lines().skip(1).map(|line| line.split(',').nth(families).expect("a field")).collect();
    assert_eq!(shown, written);
}

#[test]
fn what_is_wrong_is_named_and_nothing_is_written() {
    let folder = planned(WINDOW, JOB);
    let other = WINDOW.replace("[6, 6, 0, 0]", "[6, 0, 6, 0]");
    for (name, text) in [
        ("other.json", other.as_str()),
        ("bad.csv", "layer,method,moved,peak,bound\n0,ours,1,x,3\n"),
        ("headless.csv", "a,b\n1,2\n"),
        ("nan.csv", "rows,seconds,tokens_per_second,bubble,joint_score\r\n1,2,3,0,1\r\n2,NaN,3,0,1\r\n"),
        ("late.csv", "rows,seconds,tokens_per_second,bubble,joint_score\n1,-2,3,0,1\n"),
        (
            "far.csv",
            "step,rung,temperature,energy_0,energy_50,energy_100,energy_sd,families\n1,0,inf,1,2,1e308,1,4\n",
        ),
        ("none.csv", "rows,seconds,tokens_per_second,bubble,joint_score\n"),
    ] {
        fs::write(folder.path().join(name), text).expect("written");
    }
    let names = || fs::read_dir(folder.path()).expect("a folder").count();
    let before = names();
    for (rest, code, message) in [
        ("--window other.json --html p.html", 1, "window_sha256"),
        ("--window w.json --html p.html --curve bad.csv", 3, "bad.csv: line 2: peak = \"x\": invalid digit"),
        // Pictures of these had coordinates that are no numbers, or bars below the axis.
        (
            "--window w.json --html p.html --rows-curve nan.csv",
            3,
            "nan.csv: line 3: seconds = NaN: expected 0",
        ),
        (
            "--window w.json --html p.html --rows-curve late.csv",
            3,
            "late.csv: line 2: seconds = -2: expected 0",
        ),
        ("--window w.json --html p.html --trace far.csv", 3, "far.csv: line 2: energy_100 = 1"),
        ("--window w.json --html p.html --trace headless.csv", 3, "headless.csv: "),
        ("--window w.json --html p.html --rows-curve none.csv", 3, "none.csv: a table without lines"),
        ("--window w.json --html p.html --trace no.csv", 4, "no.csv"),
        ("--window w.json --trace bad.csv", 2, "--html"),
        ("--window w.json --html no/p.html", 4, "no/p.html"),
        ("--window w.json --svg w.json/pictures", 4, "w.json/pictures"),
    ] {
        let output = run(folder.path(), &format!("report plan.json {rest}"));
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(code), "{rest}: {said}");
        assert!(said.contains(message), "{rest}: {said}");
        assert!(output.stdout.is_empty(), "{rest}");
        assert_eq!(names(), before, "{rest} left a file behind");
    }
    for (line, code, message) in [
        ("calibrate none.csv -C 0", 2, "0"),
        ("calibrate none.csv -C 100", 3, "none.csv: no column `lengths`"),
        ("simulate plan.json --window other.json --model config.json --cluster h20", 1, "window_sha256"),
        (
            "simulate plan.json --window w.json --model config.json --cluster h20 --extra-rows 0",
            2,
            "extra-rows",
        ),
        (
            "simulate plan.json --window w.json --model config.json --cluster h20 --extra-rows 1 --rows-curve no/c.csv",
            4,
            "no/c.csv",
        ),
    ] {
        let output = run(folder.path(), line);
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(code), "{line}: {said}");
        assert!(said.contains(message), "{line}: {said}");
        assert!(output.stdout.is_empty(), "{line}");
        assert_eq!(names(), before, "{line} left a file behind");
    }
}
