//! The command as a shell sees it: answers, messages, exit codes, and nothing half-written.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

struct Shell(TempDir);

impl Shell {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("written");
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_routepack"));
        command.current_dir(self.0.path()).args(line.split_whitespace()).stdin(Stdio::null());
        command
    }

    fn run(&self, line: &str) -> Output {
        self.command(line).output().expect("the command starts")
    }

    /// Runs a command that succeeds and gives its standard output.
    fn answer(&self, line: &str) -> String {
        let output = self.run(line);
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    fn json(&self, line: &str) -> serde_json::Value {
        serde_json::from_str(&self.answer(line)).expect("JSON")
    }

    /// Runs a command that fails: one message that holds all of these, this exit code, nothing on standard output.
    fn refuses(&self, line: &str, code: i32, parts: &[&str]) {
        let before = names(self.0.path());
        let output = self.run(line);
        let message = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(code), "{line}: {message}");
        assert!(output.stdout.is_empty(), "{line}");
        assert_eq!(message.trim_end().lines().count(), 1, "{line}: {message}");
        for part in parts {
            assert!(message.contains(part), "{line}: `{part}` is not in: {message}");
        }
        assert_eq!(names(self.0.path()), before, "{line} left a file behind");
    }
}

fn names(folder: &Path) -> Vec<std::ffi::OsString> {
    let mut names: Vec<_> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").file_name()).collect();
    names.sort();
    names
}

const JOB: &str = "[topology]\ndp = 2\nep = 2\n[routing]\ntop_k = 2\n[packing]\ncapacity = 12\n";

/// Four samples of 6 tokens, one layer of four experts, top-2.
const WINDOW: &str = r#"{"lengths": [6, 6, 6, 6], "expert_counts":
    [[[6, 6, 0, 0]], [[0, 0, 6, 6]], [[6, 0, 6, 0]], [[0, 6, 0, 6]]]}"#;

fn small() -> Shell {
    let shell = Shell::new();
    shell.write("job.toml", JOB);
    shell.write("window.json", WINDOW);
    shell
}

#[test]
fn plans_verifies_and_reports() {
    let shell = small();
    let said = shell.answer("plan window.json --job job.toml -o plan.json");
    assert!(said.contains("1 rows are the fewest, proved"), "{said}");
    assert!(shell.answer("verify plan.json --window window.json").contains("every claim of the plan holds"));
    let report = shell.json("report plan.json --window window.json --json");
    let arms = report["arms"].as_array().expect("arms");
    assert_eq!(arms.last().expect("an arm")["name"], "routepack");
    for arm in arms {
        for field in ["joint_score", "worst_peak", "peak_sum", "attention_cost", "cv", "gap"] {
            assert!(arm[field].is_number(), "{field} of {}", arm["name"]);
        }
    }
    assert!(
        shell.answer("report plan.json --window window.json").lines().all(|line| line.chars().count() <= 80)
    );
}

#[test]
fn the_same_plan_for_any_number_of_threads() {
    let shell = small();
    for threads in [1, 2, 4] {
        shell.answer(&format!("plan window.json --job job.toml --threads {threads} -o {threads}.json"));
    }
    let one = fs::read(shell.path("1.json")).expect("a plan");
    assert!(one == fs::read(shell.path("2.json")).expect("a plan"));
    assert!(one == fs::read(shell.path("4.json")).expect("a plan"));
}

#[test]
fn a_changed_plan_is_refused() {
    let shell = small();
    shell.answer("plan window.json --job job.toml -o plan.json");
    let plan = fs::read_to_string(shell.path("plan.json")).expect("a plan");
    shell.write("changed.json", &plan.replacen("\"rows_bound\": 1", "\"rows_bound\": 2", 1));
    shell.refuses("verify changed.json --window window.json", 1, &["changed.json"]);
}

#[test]
fn rows_from_lengths_and_from_a_pipe() {
    let shell = Shell::new();
    shell.write("lengths.txt", "9\n9\n9\n9\n2\n2\n2\n2\n");
    let answer = shell.json("rows lengths.txt --capacity 10 --dp 2 --cells --json -o rows.cert");
    for (field, value) in [("rows", 3), ("rows_bound", 3), ("cells", 5), ("cells_bound", 5)] {
        assert_eq!(answer[field], value, "{field}");
    }
    assert!(
        fs::read_to_string(shell.path("rows.cert"))
            .expect("a certificate")
            .starts_with("routepack-certificate")
    );
    let mut command = shell.command("rows - --capacity 10 --dp 2 --json");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("started");
    std::io::Write::write_all(&mut child.stdin.take().expect("piped"), b"9\n2\n2\n").expect("written");
    let output = child.wait_with_output().expect("ended");
    assert!(String::from_utf8_lossy(&output.stdout).contains("\"rows\": 1"));
}

#[test]
fn places_experts() {
    let shell = small();
    let answer = shell.json("place window.json --ep 2 --json");
    assert_eq!(answer["layers"][0]["peak"], 24);
    assert_eq!(answer["layers"][0]["bound"], 24);
    shell.refuses("place window.json --ep 3", 3, &["window.json", "experts not divisible by ranks"]);
}

#[test]
fn generates_what_it_can_plan() {
    let shell = Shell::new();
    shell.answer("generate window --preset single --seed 1 -o w.npz --job-output w.toml");
    shell.answer("plan w.npz --job w.toml --deadline-ms 50 -o plan.json");
    shell.answer("verify plan.json --window w.npz");
    shell.answer("plan w.npz --job w.toml -o arrays.npz");
    shell.answer("generate bins --family knife-edge --seed 1 -o edge.txt");
    let answer = shell.json("rows edge.txt --dp 8 --json");
    assert_eq!((answer["rows"].as_u64(), answer["rows_proved"].as_bool()), (Some(5), Some(true)));
}

#[test]
fn schemas_are_json() {
    let shell = Shell::new();
    for format in ["job", "window", "plan", "report"] {
        assert!(shell.json(&format!("schema {format}"))["properties"].is_object(), "{format}");
    }
}

#[test]
fn bad_windows_are_named() {
    let shell = small();
    let cases: [(&str, &str, &[&str]); 8] = [
        ("zero", r#"{"lengths": [6, 0]}"#, &["lengths", "1", "0"]),
        ("negative", r#"{"lengths": [6, -3]}"#, &["lengths", "-3"]),
        ("oversize", r#"{"lengths": [6, 13]}"#, &["sample longer than capacity", "sample 1", "13", "12"]),
        ("few", r#"{"lengths": [6]}"#, &["fewer samples than cells", "1 units", "2 cells"]),
        ("empty", r#"{"lengths": []}"#, &["no samples"]),
        ("float", r#"{"lengths": [6.5]}"#, &["lengths", "6.5"]),
        ("unknown", r#"{"lengths": [6], "lenghts": [6]}"#, &["lenghts"]),
        (
            "sums",
            r#"{"lengths": [6, 6], "routed_rows": [6, 6], "expert_counts": [[[6, 6, 0, 0]], [[6, 5, 0, 0]]]}"#,
            &["expert_counts", "sum to 11", "12"],
        ),
    ];
    for (name, window, parts) in cases {
        shell.write(&format!("{name}.json"), window);
        let file = format!("{name}.json");
        let parts: Vec<&str> = parts.iter().copied().chain([file.as_str()]).collect();
        shell.refuses(&format!("plan {file} --job job.toml -o plan.json"), 3, &parts);
    }
    shell.write("cut.npz", "PK\u{3}\u{4} no archive");
    shell.refuses("plan cut.npz --job job.toml -o plan.json", 3, &["cut.npz"]);
    shell.refuses("plan absent.npz --job job.toml -o plan.json", 4, &["absent.npz"]);
}

#[test]
fn bad_jobs_are_named() {
    let shell = small();
    let cases: [(&str, &str, &[&str]); 6] = [
        ("unknown", "[topology]\ndp = 2\nep = 2\n[packing]\ncapacity = 12\ncapactiy = 13\n", &["capactiy"]),
        ("missing", "[topology]\ndp = 2\nep = 2\n", &["packing"]),
        (
            "indivisible",
            "[topology]\ndp = 3\nep = 2\n[routing]\ntop_k = 2\n[packing]\ncapacity = 12\n",
            &["dp"],
        ),
        (
            "order",
            "[topology]\ndp = 2\nep = 2\norder = \"dp-tp\"\n[routing]\ntop_k = 2\n[packing]\ncapacity = 12\n",
            &["dp-tp"],
        ),
        ("zero", "[topology]\ndp = 2\nep = 2\n[packing]\ncapacity = 0\n", &["packing.capacity", "0"]),
        (
            "options",
            "[topology]\ndp = 2\nep = 2\n[routing]\ntop_k = 2\n[packing]\ncapacity = 12\n[arrange]\npopulation = 0\n",
            &["population", "0"],
        ),
    ];
    for (name, job, parts) in cases {
        shell.write(&format!("{name}.toml"), job);
        let file = format!("{name}.toml");
        let parts: Vec<&str> = parts.iter().copied().chain([file.as_str()]).collect();
        shell.refuses(&format!("plan window.json --job {file} -o plan.json"), 3, &parts);
    }
}

#[test]
fn totals_past_2_62_are_refused() {
    let shell = Shell::new();
    shell.write("job.toml", "[topology]\ndp = 1\nep = 1\n[packing]\ncapacity = 1000000000\n[cost]\nkinds = [{ name = \"full\", alpha = \"4000000000.5\" }]\n");
    shell.write("window.json", r#"{"lengths": [1000000000, 1000000000]}"#);
    shell.refuses("plan window.json --job job.toml -o plan.json", 3, &["2^62"]);
}

#[test]
fn outputs_that_cannot_be_written_are_named() {
    let shell = small();
    shell.refuses("plan window.json --job job.toml -o absent/plan.json", 4, &["absent/plan.json"]);
    shell.refuses("rows window.json --capacity 12 -o absent/rows.cert", 4, &["absent/rows.cert"]);
    shell.refuses("generate window --preset single -o absent/w.npz", 4, &["absent/w.npz"]);
}

#[test]
fn bad_lengths_are_named() {
    let shell = Shell::new();
    shell.write("lengths.txt", "5\n11\n");
    shell.refuses(
        "rows lengths.txt --capacity 10",
        3,
        &["sample longer than capacity", "sample 1", "11", "10"],
    );
    shell.write("word.txt", "5\nsix\n");
    shell.refuses("rows word.txt --capacity 10", 3, &["word.txt:2", "six"]);
    shell.refuses("rows lengths.txt", 3, &["--capacity"]);
    shell.refuses(
        "rows lengths.txt --capacity 20 --dp 3",
        3,
        &["fewer samples than cells", "2 samples", "3 cells"],
    );
    shell.refuses("generate window --set nonsense=1 -o w.npz", 3, &["nonsense"]);
}

#[test]
fn usage_explains_itself() {
    let shell = Shell::new();
    let help = shell.answer("--help");
    for word in ["plan", "rows", "place", "verify", "report", "generate", "schema", "Exit codes"] {
        assert!(help.contains(word), "{word}");
    }
    for command in ["plan", "rows", "place", "verify", "report", "generate window", "generate cut", "schema"]
    {
        assert!(shell.answer(&format!("{command} --help")).contains("Example"), "{command}");
    }
    assert_eq!(shell.run("plan").status.code(), Some(2));
}
