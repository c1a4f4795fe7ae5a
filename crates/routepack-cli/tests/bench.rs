//! `routepack bench layouts` and `routepack bench paper` as a shell sees them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

mod shell;

use shell::run;

const JOB: &str = "[topology]\ndp = 2\nep = 2\n[routing]\ntop_k = 2\n[packing]\ncapacity = 12\n";
const WINDOW: &str = r#"{"lengths": [6, 6, 6, 6], "sample_ids": ["<script>alert(1)</script>", "b", "c", "d"], "expert_counts":
    [[[6, 6, 0, 0]], [[0, 0, 6, 6]], [[6, 0, 6, 0]], [[0, 6, 0, 6]]]}"#;

fn command(folder: &Path, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_routepack"));
    command.current_dir(folder).args(line.split_whitespace()).stdin(Stdio::null());
    command
}

/// A folder with a window and its job.
fn with_window(window: &str, job: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a directory");
    fs::write(folder.path().join("w.json"), window).expect("written");
    fs::write(folder.path().join("w.toml"), job).expect("written");
    folder
}

#[test]
fn layouts_write_a_line_an_arm_and_a_plot() {
    let folder = with_window(WINDOW, JOB);
    let output = run(folder.path(), "bench layouts w.json --cluster h20 -q -o l.csv --plot l.svg");
    let said = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    assert!(said.starts_with("w: 24 tokens, no model fits"), "{said}");
    let table = fs::read_to_string(folder.path().join("l.csv")).expect("written");
    let arms: Vec<&str> = table.lines().skip(1).filter_map(|line| line.split(',').nth(3)).collect();
    assert_eq!(arms.len(), 11);
    assert_eq!(arms[..2], ["verl 0.8", "verl 0.9"]);
    assert_eq!(arms[9..], ["routepack", "routepack+"]);
    let fields = table.lines().next().expect("a header").split(',').count();
    assert!(table.lines().all(|line| line.split(',').count() == fields), "{table}");
    // JSON has the names and the figures of the table.
    let json = run(folder.path(), "bench layouts w.json --cluster h20 -q --json").stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    let names: Vec<&str> = table.lines().next().expect("a header").split(',').collect();
    let json = json.as_array().expect("arms");
    assert_eq!(json.len(), arms.len());
    for (line, arm) in table.lines().skip(1).zip(json) {
        for (name, field) in names.iter().zip(line.split(',')).filter(|(name, _)| !name.contains("planning"))
        {
            let value = &arm[name];
            let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            assert_eq!(if value.is_null() { "" } else { &shown }, field, "{name}");
        }
    }
    let plot = fs::read_to_string(folder.path().join("l.svg")).expect("written");
    assert!(plot.contains("joint score against routepack, %") && plot.contains("open-instruct"));
}

#[test]
fn layouts_of_one_slot_and_of_lengths_alone() {
    for (window, job) in [
        (WINDOW, JOB.replace("dp = 2\nep = 2", "dp = 1\nep = 1")),
        (r#"{"lengths": [6, 6, 6, 6]}"#, JOB.replace("ep = 2", "ep = 1")),
        (r#"{"lengths": [5]}"#, JOB.replace("dp = 2\nep = 2", "dp = 1\nep = 1")),
    ] {
        let folder = with_window(window, &job);
        let output = run(folder.path(), "bench layouts w.json --cluster h20 -q -o l.csv");
        assert!(output.status.success(), "{window}: {}", String::from_utf8_lossy(&output.stderr));
        // Peaks of experts that nobody recorded are not 0.
        let routed = window.contains("expert_counts");
        let said = String::from_utf8(output.stdout).expect("text");
        assert_ne!(said.contains("no routes recorded: not simulated, no peaks"), routed, "{said}");
        let table = fs::read_to_string(folder.path().join("l.csv")).expect("written");
        let names: Vec<&str> = table.lines().next().expect("a header").split(',').collect();
        for name in ["peak_sum", "worst_peak"] {
            let column = names.iter().position(|found| *found == name).expect("a column");
            let ours = table.lines().find(|line| line.contains(",routepack,")).expect("an arm");
            assert_ne!(ours.split(',').nth(column).expect("a field").is_empty(), routed, "{table}");
        }
    }
}

#[test]
fn what_layouts_cannot_use_is_named() {
    let folder = with_window(WINDOW, JOB);
    let names = || fs::read_dir(folder.path()).expect("a folder").count();
    fs::create_dir(folder.path().join("folder")).expect("made");
    fs::write(folder.path().join("jobless.json"), WINDOW).expect("written");
    fs::write(folder.path().join("empty.json"), r#"{"lengths": []}"#).expect("written");
    fs::write(folder.path().join("huge.json"), r#"{"lengths": [4294967295, 5]}"#).expect("written");
    fs::write(folder.path().join("few.json"), r#"{"lengths": [5]}"#).expect("written");
    let wide = JOB.replace("ep = 2", "ep = 2\npp = 3\nlayer_stage = [7]");
    fs::write(folder.path().join("wide.toml"), &wide).expect("written");
    fs::create_dir(folder.path().join("deep")).expect("made");
    fs::write(folder.path().join("deep/w.json"), WINDOW).expect("written");
    fs::write(folder.path().join("deep/w.toml"), &wide).expect("written");
    let before = names();
    for (rest, code, message) in [
        ("none.json --cluster h20", 4, "none.json: cannot open"),
        ("jobless.json --cluster h20", 4, "jobless.toml: cannot open"),
        ("folder --cluster h20", 4, "folder: cannot read"),
        ("none.json --job w.toml --cluster h20", 4, "none.json"),
        ("empty.json --job w.toml --cluster h20", 3, "empty"),
        ("huge.json --job w.toml --cluster h20", 3, "huge"),
        ("w.json --cluster h2", 3, "--cluster: no cluster is called `h2`"),
        ("w.json --cluster h20 --model gpt", 3, "--model: no model is called `gpt`"),
        ("w.json --cluster h20 --dispatch-bytes 9", 3, "--dispatch-bytes 9: expected above 0, at most 8"),
        ("w.json --cluster h20 --dispatch-bytes 0", 3, "--dispatch-bytes 0: expected above 0, at most 8"),
        ("w.json few.json --job w.toml --cluster h20", 3, "routepack: few.json: "),
        ("w.json --job wide.toml --cluster h20", 3, "routepack: wide.toml: "),
        ("deep/w.json --cluster h20", 3, "routepack: deep/w.toml: "),
        ("w.json --cluster h20 -o no/l.csv", 4, "no/l.csv"),
        ("w.json --cluster h20 --plot no/l.svg", 4, "no/l.svg"),
        ("w.json --cluster h20 --overlap-seconds=-1", 2, "expected 0 to 10^6"),
        ("w.json", 2, "--cluster"),
        ("w.json w.json --cluster h20", 3, "WINDOWS w.json: given twice"),
        ("w.json --cluster h20 -o - --json", 3, "--json: the standard output already takes --output"),
        ("w.json --cluster h20 -o - --plot -", 3, "--plot -: the standard output already takes --output"),
    ] {
        let output = run(folder.path(), &format!("bench layouts {rest} -q"));
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(code), "{rest}: {said}");
        assert!(said.contains(message), "{rest}: {said}");
        assert!(output.stdout.is_empty(), "{rest}");
        assert_eq!(names(), before, "{rest} left a file behind");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn layouts_stop_with_the_windows_that_are_done() {
    let folder = with_window(WINDOW, JOB);
    let make =
        "generate window --preset mixed --set prompts=256 --seed 1 -o long.json --job-output long.toml";
    assert!(run(folder.path(), make).status.success());
    let job = fs::read_to_string(folder.path().join("long.toml")).expect("written");
    fs::write(folder.path().join("long.toml"), job + "[arrange]\nproposals_per_unit = 1000000\n")
        .expect("written");
    // Stopped in the first window, there is nothing to tell; in the second, the first.
    for (windows, code, lines) in [("long.json", 5, None), ("w.json long.json", 0, Some(12))] {
        let line = format!("bench layouts {windows} --cluster h20 -o l.csv --plot l.svg");
        let mut child = command(folder.path(), &line)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let mut told = BufReader::new(child.stderr.take().expect("piped")).lines();
        if lines.is_some() {
            assert_eq!(told.next().expect("a line").expect("text"), "routepack: w: 11 arms");
        }
        shell::interrupt(&mut child);
        let rest: Vec<String> = told.map_while(Result::ok).collect();
        let output = child.wait_with_output().expect("ended");
        assert_eq!(output.status.code(), Some(code), "{rest:?}");
        let table = fs::read_to_string(folder.path().join("l.csv")).ok();
        assert_eq!(table.map(|table| table.lines().count()), lines, "{rest:?}");
        assert_eq!(folder.path().join("l.svg").exists(), lines.is_some());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn the_papers_table_stops_after_a_window_and_goes_on() {
    let folder = tempfile::tempdir().expect("a directory");
    let line = "bench paper --cluster h20 --only tiny -o paper.csv";
    let mut child = command(folder.path(), line)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    let mut told = BufReader::new(child.stderr.take().expect("piped")).lines();
    let first: Vec<String> = told.by_ref().take(4).map(|line| line.expect("text")).collect();
    assert!(first[0].starts_with("routepack: tiny 1 baseline:"), "{first:?}");
    shell::interrupt(&mut child);
    // Its last words must find a reader.
    let rest: Vec<String> = told.map_while(Result::ok).collect();
    let output = child.wait_with_output().expect("ended");
    assert!(output.status.success(), "{rest:?}");
    let said = String::from_utf8(output.stdout).expect("text");
    assert!(said.starts_with("tiny: 1 window, ling-3.0-tiny-like on H20"), "{said}");
    assert!(!said.contains('±'), "one window varies by nothing that can be said: {said}");
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    let table = fs::read_to_string(folder.path().join("paper.csv")).expect("written");
    assert_eq!(table.lines().count(), 5, "{table}");
    let again = run(folder.path(), &format!("{line} --windows 1"));
    assert_eq!(String::from_utf8(again.stdout).expect("text"), said, "nothing is run twice");
    assert!(again.stderr.is_empty());
}
