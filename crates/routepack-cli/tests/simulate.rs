//! `routepack simulate` and `routepack calibrate`: figures that add up, files that are named when they are wrong.

use std::fs;
use std::path::Path;

use serde_json::Value;

mod shell;

use shell::run;

const JOB: &str = "[topology]\ndp = 2\nep = 2\n[routing]\ntop_k = 2\n[packing]\ncapacity = 12\n";
const WINDOW: &str = r#"{"lengths": [6, 6, 6, 6], "expert_counts":
    [[[6, 6, 0, 0]], [[0, 0, 6, 6]], [[6, 0, 6, 0]], [[0, 6, 0, 6]]]}"#;
/// A model of one layer of four experts as it would be published.
const CONFIG: &str = r#"{"model_type": "qwen3_moe", "hidden_size": 64, "vocab_size": 100, "num_hidden_layers": 1,
    "moe_intermediate_size": 32, "num_experts": 4, "num_experts_per_tok": 2, "num_attention_heads": 4, "head_dim": 16}"#;

fn json(folder: &Path, line: &str) -> Value {
    let output = run(folder, line);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn refused(folder: &Path, line: &str) -> (Option<i32>, String) {
    let output = run(folder, line);
    assert!(output.stdout.is_empty(), "{line}");
    (output.status.code(), String::from_utf8(output.stderr).expect("text"))
}

fn planned() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a directory");
    for (name, text) in [("job.toml", JOB), ("window.json", WINDOW), ("config.json", CONFIG)] {
        fs::write(folder.path().join(name), text).expect("written");
    }
    assert!(run(folder.path(), "plan window.json --job job.toml -o plan.json").status.success());
    folder
}

#[test]
fn every_arm_has_a_time_whose_terms_add_up() {
    let folder = planned();
    let line = "simulate plan.json --window window.json --model config.json --cluster h100 --charge-moves";
    let simulated = json(folder.path(), &format!("{line} --json"));
    let arms = simulated["arms"].as_array().expect("arms");
    assert_eq!(arms.last().expect("an arm")["name"], "routepack");
    for arm in arms {
        let term = |name: &str| arm[name].as_f64().unwrap_or_else(|| panic!("{name} of {arm}"));
        let names = [
            "attention",
            "dense",
            "expert",
            "all_to_all",
            "bubble",
            "gradients",
            "optimizer",
            "moves",
            "planning",
        ];
        let sum: f64 = names.iter().map(|name| term(name)).sum();
        assert!((sum / term("seconds") - 1.0).abs() < 1e-9, "{arm}");
        assert!((term("tokens_per_second") * term("seconds") - 24.0).abs() < 1e-6);
    }
    assert_eq!(arms[0]["moves"], 0.0, "the baseline leaves experts where they are");
    let said = run(folder.path(), line).stdout;
    let said = String::from_utf8(said).expect("text");
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    let left_out = simulated["leaves_out"].as_array().expect("a list");
    assert!(!left_out.is_empty() && said.contains("left out:"));
    assert!(left_out.iter().all(|what| said.contains(what.as_str().expect("a text"))), "{said}");
}

#[test]
fn what_cannot_be_simulated_is_named() {
    let folder = planned();
    let simulate =
        |rest: &str| refused(folder.path(), &format!("simulate plan.json --window window.json {rest}"));
    let (code, message) = simulate("--model qwen3-30b-a3b --cluster h20");
    assert_eq!(code, Some(3));
    assert!(
        message.contains("--model qwen3-30b-a3b: model Qwen3-30B-A3B has 48 expert layers: expected 1 expert layer, as window.json has"),
        "{message}"
    );
    let (code, message) = simulate("--model config.json --cluster h2");
    assert_eq!(code, Some(3));
    assert!(message.contains("--cluster: no cluster is called `h2`: known are h20, h100"), "{message}");
    // What looks like a file is one that is missing, not an unknown name.
    for (rest, file) in [
        ("--model no.toml --cluster h20", "no.toml: cannot open"),
        ("--model folder/m --cluster h20", "folder/m: cannot open"),
        ("--model config.json --cluster no.toml", "no.toml: cannot open"),
    ] {
        let (code, message) = simulate(rest);
        assert_eq!(code, Some(4), "{message}");
        assert!(message.contains(file), "{message}");
    }
    let (code, message) = simulate("--cluster h20");
    assert_eq!(code, Some(3));
    assert!(
        message.contains("plan.json: --model is missing, and the plan's job had no [machine]"),
        "{message}"
    );
    let job = fs::read_to_string(folder.path().join("job.toml")).expect("written");
    fs::write(folder.path().join("job.toml"), job.replace("ep = 2", "ep = 2\npp = 4")).expect("written");
    assert!(run(folder.path(), "plan window.json --job job.toml -o deep.json").status.success());
    let line = "simulate deep.json --window window.json --model config.json --cluster h20";
    let (code, message) = refused(folder.path(), line);
    assert_eq!(code, Some(3));
    assert!(
        message.contains("--model config.json: topology.pp = 4, vpp = 1: model config.json has 1 layer"),
        "{message}"
    );
    for (rest, wrong) in [
        ("--exposed-gradients 1.5", "expected 0 to 1"),
        ("--dispatch-bytes -2", "expected above 0, at most 8"),
        ("--dispatch-bytes 0", "expected above 0, at most 8"),
        ("--dispatch-bytes NaN", "expected above 0, at most 8"),
        ("--dispatch-bytes inf", "expected above 0, at most 8"),
        ("--planning-seconds -1", "expected 0 to 10^6"),
        ("--planning-seconds inf", "expected 0 to 10^6"),
    ] {
        let (_, message) = simulate(&format!("--model config.json --cluster h20 {rest}"));
        let wrong = format!("routepack: {rest}: {wrong}");
        assert!(message.starts_with(&wrong), "the window is not at fault: {message}");
    }
    // Half a byte is FP4: half the time of FP8 to dispatch.
    let all_to_all = |bytes: &str| {
        let line = "simulate plan.json --window window.json --model config.json --cluster h20 --json --dispatch-bytes";
        json(folder.path(), &format!("{line} {bytes}"))["arms"][0]["all_to_all"].as_f64().expect("a number")
    };
    let [half, one, two] = ["0.5", "1", "2"].map(all_to_all);
    assert!(half < one && (2.0 * (one - half) / (two - one) - 1.0).abs() < 1e-6, "{half} {one} {two}");
    fs::write(folder.path().join("config.json"), CONFIG.replace("qwen3_moe", "gpt2")).expect("written");
    let (_, message) = simulate("--model config.json --cluster h20");
    assert!(message.contains("config.json: model_type = \"gpt2\""), "{message}");
}

#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_ends_the_curve_with_the_rows_that_are_done() {
    use std::process::{Command, Stdio};
    let folder = tempfile::tempdir().expect("a directory");
    let generate = "generate window --preset mixed --set prompts=128 -o w.npz --job-output job.toml";
    assert!(run(folder.path(), generate).status.success());
    assert!(
        run(folder.path(), "plan w.npz --job job.toml -q --deadline-ms 1000 -o plan.json").status.success()
    );
    let line = "simulate plan.json --window w.npz --model mixed-half-qwen3 --cluster h20 --extra-rows 50 --rows-curve c.csv";
    let mut child = Command::new(env!("CARGO_BIN_EXE_routepack"))
        .current_dir(folder.path())
        .args(line.split_whitespace())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    shell::interrupt(&mut child);
    let output = child.wait_with_output().expect("ended");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let table = fs::read_to_string(folder.path().join("c.csv")).expect("written");
    let lines = table.lines().count();
    assert!((2..52).contains(&lines), "a header, the plan's rows, and not all others: {table}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("best with "));
}

/// `rows = { extra_rows }`: the plan takes the fastest rows, says why, and its claims are recomputed.
#[test]
fn rows_by_step_time_are_planned_verified_and_reported() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = |name: &str| folder.path().join(name);
    let generate = "generate window --preset mixed --set prompts=16 -o w.npz --job-output job.toml";
    assert!(run(folder.path(), generate).status.success());
    let job = fs::read_to_string(path("job.toml")).expect("written");
    for (was, is) in
        [("dp = 16", "dp = 4"), ("ep = 8", "ep = 4"), ("rows = \"min\"", "rows = { extra_rows = 3 }")]
    {
        assert!(job.contains(was), "{was} in {job}");
        fs::write(path("job.toml"), fs::read_to_string(path("job.toml")).expect("there").replace(was, is))
            .expect("written");
    }
    let job = fs::read_to_string(path("job.toml")).expect("there");
    let (code, message) = refused(folder.path(), "plan w.npz --job job.toml -q");
    assert_eq!(code, Some(3));
    assert!(
        message.contains("job.toml: packing.rows = { extra_rows = 3 }: expected a row_cost"),
        "{message}"
    );
    for (pp, more) in [(1, false), (4, true)] {
        let machine = "\n[machine]\nmodel = \"mixed-half-qwen3\"\ncluster = \"h20\"\n";
        let text = job.replace("\npp = 1\n", &format!("\npp = {pp}\n"));
        fs::write(path("job.toml"), text + machine).expect("written");
        let said = run(folder.path(), "plan w.npz --job job.toml -q -o plan.json");
        let said = String::from_utf8(said.stdout).expect("text");
        assert!(said.contains(" s a step, ") && said.contains("on H20, 8 a node, simulated)"), "{said}");
        let plan: Value =
            serde_json::from_slice(&fs::read(path("plan.json")).expect("written")).expect("JSON");
        let step = &plan["steps"][0];
        assert_eq!(step["rows"].as_u64() > step["rows_found"].as_u64(), more, "{pp} stages");
        assert_eq!(step["rows_tried"].as_array().map(Vec::len), Some(4));
        let verified = run(folder.path(), "verify plan.json --window w.npz");
        assert!(String::from_utf8_lossy(&verified.stdout).contains("step time by rows: "), "{verified:?}");
        let report = json(folder.path(), "report plan.json --window w.npz --html page.html --json");
        let shown = report["rows_tried"][0].as_array().expect("points");
        let tried = step["rows_tried"].as_array().expect("numbers of rows");
        let page = fs::read_to_string(path("page.html")).expect("written");
        let figure = page.split("<figure id=\"step-0-rows-tried\"").nth(1).expect("a picture");
        for (shown, tried) in shown.iter().zip(tried) {
            assert_eq!((&shown["rows"], &shown["seconds"]), (&tried["rows"], &tried["seconds"]));
            assert!(figure.contains(&format!("<td>{}</td>", shown["seconds"].as_f64().expect("a number"))));
        }
        let words = run(folder.path(), "report plan.json --window w.npz").stdout;
        let words = String::from_utf8(words).expect("text");
        assert!(words.contains("step 0: step time by rows, simulated:"), "{words}");
        assert!(words.contains(&format!("best with {} rows, the plan's", step["rows"])), "{words}");
        assert!(words.lines().all(|line| line.chars().count() <= 80), "{words}");
        let simulate = "simulate plan.json --window w.npz --model mixed-half-qwen3 --cluster h20 --json";
        let ours = json(folder.path(), simulate)["arms"].as_array().and_then(|arms| arms.last().cloned());
        let used = tried.iter().find(|tried| tried["rows"] == step["rows"]).expect("the rows used");
        assert_eq!(ours.expect("the plan")["seconds"], used["seconds"]);
        // The same without naming the machine: the plan does. Another is said to be another.
        let own = json(folder.path(), "simulate plan.json --window w.npz --json");
        assert_eq!(
            own["arms"].as_array().and_then(|arms| arms.last()).expect("the plan")["seconds"],
            used["seconds"]
        );
        let said = |rest: &str| {
            let output = run(folder.path(), &format!("simulate plan.json --window w.npz {rest}"));
            String::from_utf8(output.stdout).expect("text")
        };
        assert!(!said("").contains("its rows were chosen on another machine"));
        assert!(
            said("--cluster h200")
                .contains("its rows were chosen on another machine: Qwen3-30B-A3B at half its depth on H20")
        );
        assert!(said("--recompute").contains("on H20, 8 a node, with other options"));
    }
}

#[test]
fn weights_are_fitted_to_a_csv() {
    let folder = tempfile::tempdir().expect("a directory");
    let mut text = String::from("lengths,expert_rows,seconds\n");
    for (a, b, rows) in [(10u32, 20, 7u32), (30, 5, 9), (8, 8, 30), (60, 1, 12), (25, 40, 3), (50, 50, 44)] {
        let (sum, squares) = (f64::from(a + b), f64::from(a * a + b * b));
        let seconds = 2e-3 * sum + 1e-3 * squares / 100.0 + 5e-4 * f64::from(rows) + 0.25;
        text = format!("{text}{a} {b},{rows},{seconds}\n");
    }
    fs::write(folder.path().join("measured.csv"), text).expect("written");
    let fitted = json(folder.path(), "calibrate measured.csv -C 100 --json");
    for (name, expected) in
        [("alpha", 2e-3), ("beta", 1e-3), ("gamma", 5e-4), ("overhead", 0.25), ("rank_correlation", 1.0)]
    {
        let found = fitted[name].as_f64().expect(name);
        assert!((found / expected - 1.0).abs() < 1e-6, "{name}: {found}");
    }
    let said = String::from_utf8(run(folder.path(), "calibrate measured.csv -C 100").stdout).expect("text");
    // Relative to alpha = 1: what a job takes.
    assert!(said.contains("gamma = \"0.250000000\"") && said.contains("beta = \"0.500000000\""), "{said}");
    assert!(said.contains("row_cost = \"125.000\""), "{said}");
    // Seconds that do not vary are told by anything: neither figure says that weights are good.
    fs::write(folder.path().join("flat.csv"), "lengths,seconds\n10 4,0.1\n30,0.1\n5 5 7,0.1\n")
        .expect("written");
    let said = String::from_utf8(run(folder.path(), "calibrate flat.csv -C 100").stdout).expect("text");
    assert!(said.contains("told      – of the variance, rank correlation –\n"), "{said}");
    let fitted = json(folder.path(), "calibrate flat.csv -C 100 --json");
    assert!(fitted["r_squared"].is_null() && fitted["rank_correlation"].is_null(), "{fitted}");
    let (code, message) = refused(folder.path(), "calibrate flat.csv -C 29");
    assert_eq!(code, Some(3));
    let expected = "expected samples of at most 29 tokens, which a cell holds, not 30";
    assert!(message.contains(&format!("flat.csv: line 3, lengths = \"30\": {expected}")), "{message}");
    fs::write(folder.path().join("measured.csv"), "lengths,seconds\n3,x\n").expect("written");
    let (code, message) = refused(folder.path(), "calibrate measured.csv -C 100");
    assert_eq!(code, Some(3));
    assert!(message.contains("measured.csv: line 2, seconds = \"x\""), "{message}");
}
