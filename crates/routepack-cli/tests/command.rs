//! The command as a shell sees it: answers, messages, exit codes, and nothing half-written.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

mod shell;

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

    /// Runs a command with a standard input.
    fn pipe(&self, line: &str, input: &[u8]) -> Output {
        let mut command = self.command(line);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("started");
        // A command that refuses its arguments reads nothing.
        let _ = std::io::Write::write_all(&mut child.stdin.take().expect("piped"), input);
        child.wait_with_output().expect("ended")
    }

    /// Runs a command with a standard input that answers in JSON.
    fn pipe_json(&self, line: &str, input: &[u8]) -> serde_json::Value {
        let output = self.pipe(line, input);
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{line}: {error}: {}", String::from_utf8_lossy(&output.stderr)))
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

fn one_a_line(lengths: impl Iterator<Item = u64>) -> String {
    let mut lines = lengths.map(|length| length.to_string()).collect::<Vec<_>>().join("\n");
    lines.push('\n');
    lines
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
    assert!(said.contains("4 samples, 1 row (1 row is the fewest, proved)"), "{said}");
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
    assert_eq!(shell.pipe_json("rows - --capacity 10 --dp 2 --json", b"9\n2\n2\n")["rows"], 1);
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
    for format in ["job", "window", "plan", "report", "rows", "place"] {
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
        ("few", r#"{"lengths": [6]}"#, &["fewer samples than cells", "1 unit (", "2 cells"]),
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

/// Options of stages that come late were once looked at late: after the search, or not at all where it was stopped.
#[test]
fn options_out_of_range_are_refused_before_any_search() {
    let shell = small();
    for (table, option, value) in [
        ("refine", "refine.turns", "4294967295"),
        ("refine", "refine.turns", "1073741823"),
        ("refine", "refine.expert_percent", "[101]"),
        ("refine", "refine.hottest", "nan"),
        ("refine", "refine.hottest", "0"),
        ("refine", "refine.hottest", "1e308"),
        ("refine", "refine.cooling", "0.5"),
        ("refine.row_peaks", "row_peaks.hottest", "inf"),
        ("refine.row_peaks", "row_peaks.cooling", "0.5"),
        ("arrange", "hottest", "1e308"),
        ("arrange", "shard_tolerance", "1e-320"),
        ("place", "place.max_subsets", "65537"),
    ] {
        let key = option.rsplit('.').next().expect("a key");
        shell.write("bad.toml", &format!("{JOB}[{table}]\n{key} = {value}\n"));
        let line = "plan window.json --job bad.toml --deadline-ms 0 -o plan.json";
        shell.refuses(line, 3, &["bad.toml", option]);
    }
}

/// Nothing to pay was once no temperature to start from: where experts are charged alone, a start without them had none.
#[test]
fn costs_of_zero_are_planned() {
    let shell = small();
    let free = r#""cost": [0, 0, 0, 0], "lengths""#;
    shell.write("experts.json", &WINDOW.replacen("\"lengths\"", free, 1));
    shell.write("nothing.json", &format!("{{{free}: [6, 6, 6, 6]}}"));
    for window in ["experts.json", "nothing.json"] {
        for capacity in [6, 12] {
            shell.write("job.toml", &JOB.replace("12", &capacity.to_string()));
            shell.answer(&format!("plan {window} --job job.toml -o plan.json"));
            shell.answer(&format!("verify plan.json --window {window}"));
            shell.answer(&format!("report plan.json --window {window}"));
        }
    }
}

/// Without routes there is nothing to refine, so the layout search once had a part of its budget and the rest of none.
#[test]
fn a_window_without_routes_has_the_whole_budget() {
    let shell = small();
    let lengths: Vec<u64> = (0..60).map(|i| 100 + i * 7919 % 701).collect();
    shell.write("lengths.json", &format!("{{\"lengths\": {lengths:?}}}"));
    shell.write("long.toml", &format!("{JOB}[arrange]\nproposals_per_unit = 400\n").replace("12", "2000"));
    let steps = |placement: &str| {
        let line = format!("plan lengths.json --job long.toml --json --placement {placement}");
        shell.json(&line)["steps"].take()
    };
    assert_eq!(steps("row-peaks"), steps("fixed"));
}

#[test]
fn totals_past_2_62_are_refused() {
    let shell = Shell::new();
    shell.write("job.toml", "[topology]\ndp = 1\nep = 1\n[packing]\ncapacity = 1000000000\n[cost]\nkinds = [{ name = \"full\", alpha = \"4000000000.5\" }]\n");
    shell.write("window.json", r#"{"lengths": [1000000000, 1000000000]}"#);
    shell.refuses("plan window.json --job job.toml -o plan.json", 3, &["2^62"]);
}

/// Few moves from where the weights are, and the curve of what more would buy.
#[test]
fn placing_from_where_the_weights_are() {
    let shell = Shell::new();
    shell.answer("generate window --preset single --seed 1 -o w.npz");
    shell.answer("place w.npz --ep 4 -o from.json");
    shell.answer("generate window --preset single --seed 2 -o w.npz");
    let moved = |options: &str| -> Vec<u64> {
        let answer = shell.json(&format!("place w.npz --ep 4 --resident from.json --json {options}"));
        let layers = answer["layers"].as_array().expect("layers").clone();
        layers.iter().map(|layer| layer["moved"].as_u64().expect("moved")).collect()
    };
    assert_eq!(moved("--moves-per-layer 0"), [0, 0]);
    assert!(moved("--moves-per-layer 4").iter().all(|&moved| moved <= 4 && moved > 0));
    assert!(moved("--moves 3").iter().sum::<u64>() <= 3);
    let within = moved("--within 2.5 --curve curve.csv --plot curve.svg");
    let curve = fs::read_to_string(shell.path("curve.csv")).expect("a table");
    let lines: Vec<Vec<&str>> = curve.lines().skip(1).map(|line| line.split(',').collect()).collect();
    for (layer, &moved) in within.iter().enumerate() {
        let of = |method: &str| {
            let ours = lines.iter().filter(|line| line[0] == layer.to_string() && line[1] == method);
            let number = |text: &str| text.parse::<u64>().expect("a number");
            ours.map(|line| (number(line[2]), number(line[3]), number(line[4])))
                .find(|(_, peak, bound)| 1000 * peak <= 1025 * bound)
                .map(|point| point.0)
        };
        let greedy = of("greedy").unwrap_or(u64::MAX);
        assert!(of("routepack").is_some_and(|ours| ours <= greedy && moved <= ours), "layer {layer}");
    }
    assert!(
        fs::read_to_string(shell.path("curve.svg")).expect("a plot").contains("What moves of experts buy")
    );
    shell.refuses(
        "place w.npz --ep 2 --resident from.json",
        3,
        &["from.json: ", "resident placement has 2 layers, 16 experts, 4 ranks", "2 ranks"],
    );
    assert_eq!(shell.run("place w.npz --ep 4 --within 2 --moves 3").status.code(), Some(2));
    assert_eq!(shell.run("place w.npz --ep 4 --within 200").status.code(), Some(2));
}

/// Windows in a row: plans that verify one after another, tables and plots that agree, where the weights are by file.
#[test]
fn sequences_carry_the_placement_over() {
    let shell = Shell::new();
    shell.answer("generate window --preset single --set steps=3 --set routing.sd_step=0.3 --seed 1 -o w.npz --job-output job.toml");
    let line = "sequence w.npz --each-step --job job.toml -q";
    let answer = shell.json(&format!("{line} --json -o plans --csv moves.csv --svg moves.svg"));
    assert_eq!(names(&shell.path("plans")), ["0001.plan.json", "0002.plan.json", "0003.plan.json"]);
    assert_eq!(answer["windows"].as_array().map(Vec::len), Some(3));
    let arms = |value: &serde_json::Value| -> Vec<String> {
        let arms = value.as_array().expect("arms");
        arms.iter().map(|arm| arm["name"].as_str().expect("a name").to_owned()).collect()
    };
    for window in answer["windows"].as_array().expect("windows") {
        assert_eq!(arms(&window["arms"]), ["routepack", "identity", "scratch", "oracle"]);
    }
    let sum: u64 = answer["windows"]
        .as_array()
        .expect("windows")
        .iter()
        .map(|w| w["arms"][0]["moved"].as_u64().expect("moved"))
        .sum();
    assert_eq!(answer["totals"][0]["moved"], sum);
    let csv = fs::read_to_string(shell.path("moves.csv")).expect("a table");
    assert_eq!(csv.lines().count(), 1 + 3 * 4);
    let svg = fs::read_to_string(shell.path("moves.svg")).expect("a plot");
    assert!(svg.contains("scratch") && svg.matches("<polyline").count() >= 7, "{svg}");
    // Again from the last plan, all steps under one placement, and alone.
    let last = "--resident plans/0003.plan.json";
    let again = shell.json(&format!("sequence w.npz --job job.toml -q --alone --json {last} -o more"));
    assert_eq!(arms(&again["totals"]), ["routepack"]);
    assert_eq!(again["windows"][0]["steps"], serde_json::json!([0, 1, 2]));
    assert!(shell.answer("verify more/0001.plan.json --window w.npz").contains("moves: "));
    // A plan from where the weights are, and files that are no placement.
    shell.answer("place w.npz --ep 4 -o place.json");
    let summary = shell.answer("plan w.npz --job job.toml -q --resident place.json -o plan.json");
    assert!(summary.contains("experts move"), "{summary}");
    let plan = |file: &str| format!("plan w.npz --job job.toml -q --resident {file} -o other.json");
    shell.refuses(&plan("absent.json"), 4, &["absent.json"]);
    shell.write("text.json", "here");
    let taken = "sequence w.npz --job job.toml -q --alone -o text.json";
    shell.refuses(taken, 4, &["--output text.json: it is a file, expected a folder"]);
    shell.refuses(&format!("{taken}/plans"), 4, &["cannot make the folder: text.json is a file"]);
    shell.refuses(&plan("text.json"), 3, &["text.json"]);
    shell.write("window.json", r#"{"lengths": [1]}"#);
    shell.refuses(&plan("window.json"), 3, &["window.json", "neither a plan"]);
    shell.write("twice.json", r#"{"ep": 4, "log2phys": [[0, 0, 1, 2]]}"#);
    shell.refuses(&plan("twice.json"), 3, &["twice.json", "layer 0, expert 1", "bijection"]);
    shell.write("small.json", r#"{"ep": 4, "log2phys": [[0, 1, 2, 3]]}"#);
    shell.refuses(&plan("small.json"), 3, &["resident placement has 1 layers"]);
}

#[test]
fn outputs_that_cannot_be_written_are_named() {
    let shell = small();
    shell.refuses("plan window.json --job job.toml -o absent/plan.json", 4, &["absent/plan.json"]);
    shell.refuses("rows window.json --capacity 12 -o absent/rows.cert", 4, &["absent/rows.cert"]);
    shell.refuses("generate window --preset single -o absent/w.npz", 4, &["absent/w.npz"]);
    shell.refuses("place window.json --ep 2 -o absent/p.json", 4, &["absent/p.json: cannot write"]);
    // Before any work: the plan is not there to be read.
    shell.refuses("report none.json --window window.json --html absent/p.html", 4, &["absent/p.html"]);
    shell.refuses("export none.json --to verl -o absent/e.json", 4, &["absent/e.json"]);
}

#[test]
fn an_output_replaces_no_input_and_no_other_output() {
    let shell = small();
    shell.answer("plan window.json --job job.toml -o plan.json");
    fs::create_dir(shell.path("folder")).expect("a folder");
    shell.write("lengths.txt", "5\n6\n");
    shell.write("0001.plan.json", &fs::read_to_string(shell.path("plan.json")).expect("read"));
    let cases = [
        ("plan window.json --job job.toml -o window.json", "--output window.json", "WINDOW window.json"),
        ("plan window.json --job job.toml -o folder/../job.toml", "--output", "--job job.toml"),
        ("plan window.json --job job.toml --resident plan.json -o plan.json", "--output", "--resident"),
        ("plan window.json --job job.toml -o p.json --trace ./p.json", "--trace ./p.json", "--output p.json"),
        ("rows lengths.txt -C 12 -o lengths.txt", "--output", "LENGTHS"),
        ("rows lengths.txt -C 12 -o c.cert --lengths-output lengths.txt", "--lengths-output", "LENGTHS"),
        ("rows lengths.txt -C 12 -o c.cert --lengths-output c.cert", "--lengths-output", "--output"),
        ("place window.json --ep 2 -o window.json", "--output", "WINDOW"),
        ("place window.json --ep 2 --curve m --plot m", "--plot m", "--curve m"),
        ("report plan.json --window window.json --html plan.json", "--html", "PLAN"),
        (
            "simulate plan.json --window window.json --model qwen3-30b-a3b --cluster h20 --extra-rows 1 --rows-curve plan.json",
            "--rows-curve",
            "PLAN",
        ),
        (
            "simulate plan.json --window window.json --model m.toml --cluster h20 --extra-rows 1 --rows-curve m.toml",
            "--rows-curve",
            "--model",
        ),
        ("sequence window.json --job job.toml --csv window.json", "--csv", "WINDOWS"),
        (
            "sequence window.json --job job.toml --resident 0001.plan.json -o . --alone",
            "--output",
            "--resident",
        ),
        ("export plan.json --to verl -o plan.json", "--output", "PLAN"),
        ("import --from vllm --experts 4 window.json -o window.json", "--output", "ROUTES"),
        ("generate window --preset single -o w.npz --job-output w.npz", "--job-output", "--output"),
        ("generate window --recipe job.toml -o job.toml", "--output", "--recipe"),
        (
            "generate cut --routes r.npz --experts 4 --lengths lengths.txt -o lengths.txt",
            "--output",
            "--lengths",
        ),
        (
            "bench layouts window.json --job job.toml --cluster h20 -o job.toml",
            "--output",
            "the job job.toml",
        ),
        ("bench layouts window.json --job job.toml --cluster h20 -o a --plot a", "--plot", "--output"),
    ];
    let texts = || {
        let files = ["window.json", "job.toml", "plan.json", "lengths.txt", "0001.plan.json"];
        files.map(|file| fs::read(shell.path(file)).expect("read"))
    };
    let before = texts();
    for (line, one, other) in cases {
        shell.refuses(line, 3, &[one, other, "the same file as"]);
        assert_eq!(texts(), before, "{line}");
    }
    // Another name of the same file is no other file.
    #[cfg(unix)]
    {
        fs::hard_link(shell.path("window.json"), shell.path("other.json")).expect("linked");
        let line = "plan window.json --job job.toml -o other.json";
        shell.refuses(line, 3, &["--output other.json", "the same file as WINDOW window.json"]);
    }
    // Certificates and tables of a bench.
    fs::create_dir(shell.path("bins")).expect("made");
    let six = "3\n10\n5\n5\n5\n";
    for name in ["bins/six.txt", "bins/six.txt.cert"] {
        shell.write(name, six);
    }
    let line = "bench bins bins/six.txt bins/six.txt.cert --certificates . -o b.csv";
    shell.refuses(
        line,
        3,
        &["--certificates ./bins/six.txt.cert", "the same file as INSTANCES bins/six.txt.cert"],
    );
    shell.refuses("bench bins bins/six.txt -o bins/six.txt", 3, &["the same file as INSTANCES bins/six.txt"]);
    shell.refuses("bench bins bins/six.txt --certificates bins/six.txt -o b.csv", 4, &["bins/six.txt"]);
    fs::create_dir_all(shell.path("more/bins")).expect("made");
    shell.write("more/bins/six.txt", six);
    let line = "bench bins bins/six.txt more/bins/six.txt -o b.csv";
    shell.refuses(
        line,
        3,
        &["bins/six.txt and more/bins/six.txt: instances of the same folder and file name"],
    );
    assert_eq!(fs::read_to_string(shell.path("bins/six.txt.cert")).expect("there"), six);
    for line in ["bench bins bins/six.txt -o -", "bench paper --cluster h20 -o -"] {
        shell.refuses(line, 3, &["--output -", "name one"]);
    }
}

#[test]
fn the_standard_streams_are_used_once() {
    let shell = small();
    shell.write("lengths.txt", "5\n6\n");
    shell.answer("plan window.json --job job.toml -o plan.json");
    for (line, parts) in [
        ("plan window.json --job job.toml -o - --trace -", ["--trace -", "already takes --output"]),
        ("plan window.json --job job.toml --trace - --json", ["--json", "already takes --trace"]),
        ("rows lengths.txt -C 12 -o - --lengths-output -", ["--lengths-output -", "already takes --output"]),
        ("rows lengths.txt -C 12 --lengths-output - --json", ["--json", "already takes --lengths-output"]),
        ("place window.json --ep 2 --curve - --plot -", ["--plot -", "already takes --curve"]),
        ("place window.json --ep 2 --curve - --json", ["--json", "already takes --curve"]),
        ("report plan.json --window window.json --html - --json", ["--json", "already takes --html"]),
        ("sequence window.json --job job.toml --csv - --svg -", ["--svg -", "already takes --csv"]),
        ("generate window --preset single -o - --job-output -", ["--job-output -", "already takes --output"]),
        ("verify - --window -", ["--window -", "already gives PLAN"]),
        ("report - --window -", ["--window -", "already gives PLAN"]),
        ("sequence - - --job job.toml", ["WINDOWS -", "already gives WINDOWS"]),
    ] {
        shell.refuses(line, 3, &parts);
    }
    // An output there is all there is.
    for (line, first) in [
        ("place window.json --ep 2 --curve -", "layer,method,moved,peak,bound"),
        ("plan window.json --job job.toml -q -o other.json --trace -", "step,search,rung,"),
        ("rows lengths.txt -C 12 --lengths-output -", "5"),
        ("sequence window.json --job job.toml -q --alone --csv -", "window,first_step,"),
    ] {
        let said = shell.answer(line);
        assert!(said.starts_with(first), "{said}");
        assert!(
            !said.contains("sha256 ") && !said.contains("optimal") && !said.contains("necessary"),
            "{said}"
        );
    }
}

#[test]
fn the_plan_of_a_pass_replaces_nothing() {
    let shell = small();
    shell.write("job.toml", &format!("{JOB}[passes.twice]\ncapacity = 24\n"));
    let line = "plan window.json --job job.toml -o plan.json --trace plan.twice.json";
    shell.refuses(line, 3, &["the plan of a pass plan.twice.json", "--trace"]);
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
    for command in [
        "plan",
        "rows",
        "place",
        "verify",
        "report",
        "generate window",
        "generate cut",
        "generate bins",
        "schema",
        "simulate",
        "calibrate",
        "sequence",
    ] {
        let help = shell.answer(&format!("{command} --help"));
        assert!(help.contains(&format!("  routepack {command}")), "{command} has no example");
        assert!(help.contains("Exit codes: 0 ") && help.contains("--json"), "{command}");
    }
    assert_eq!(shell.run("plan").status.code(), Some(2));
}

/// Plain lists whose first number happens to count the rest were once read as bin-packing instances.
#[test]
fn lengths_are_read_in_the_form_that_is_said() {
    let shell = Shell::new();
    let many = "510\n".repeat(512);
    for (options, input, cells, samples) in [
        ("-C 1024", &*many, 256, 512),
        ("-C 3", "2\n2\n2\n2\n", 4, 4),
        ("-C 3 --form lines", "2\n2\n2\n2\n", 4, 4),
        ("--form bins", "2\n2\n2\n2\n", 2, 2),
        ("", "2\n2\n2\n2\n", 2, 2),
        ("-C 2 --form bins", "1\n2\n2 3\n", 3, 3),
        ("-C 9 --column a+b", "a\tb\n4\t5\n1\t1\n", 2, 2),
        ("-C 9 --form table --column b", "a\tb\n4\t5\n1\t1\n", 1, 2),
        ("-C 9", r#"{"lengths": [5, 5]}"#, 2, 2),
        ("-C 9 --form window", r#" {"lengths": [5, 5]}"#, 2, 2),
    ] {
        let answer = shell.pipe_json(&format!("rows - {options} --cells --json"), input.as_bytes());
        assert_eq!((&answer["cells"], &answer["samples"]), (&cells.into(), &samples.into()), "{options}");
    }
    shell.write("zero.txt", "0\n5\n");
    shell.refuses("rows zero.txt -C 9", 3, &["zero.txt:1", "length 0"]);
    shell.write("plain.txt", "5\n3\n");
    shell.refuses("rows plain.txt", 3, &["plain.txt", "--capacity is missing", "--form"]);
    shell.write("pairs.txt", "1\n9\n3 2\n");
    shell.refuses("rows pairs.txt -C 9", 3, &["pairs.txt:3", "3 2", "the form bins"]);
    shell.refuses("rows pairs.txt -C 8 --form bins", 3, &["pairs.txt", "capacity 9", "--capacity is 8"]);
    shell.refuses("rows plain.txt -C 9 --form table", 3, &["--column is missing"]);
    shell.refuses("rows plain.txt -C 9 --form bins --column a", 3, &["--column a", "only a table"]);
    shell.refuses("rows plain.txt -C 9 --form window", 3, &["plain.txt", "neither an .npz"]);
}

/// A file needs no ending to be known for what it is, from the standard input as from a path.
#[test]
fn windows_are_told_by_their_first_bytes() {
    let shell = Shell::new();
    shell.answer("generate window --preset single --seed 1 -o w.npz");
    fs::copy(shell.path("w.npz"), shell.path("w")).expect("copied");
    let npz = fs::read(shell.path("w")).expect("bytes");
    let expected = shell.json("rows w.npz -C 4096 --json --lengths-output lengths.txt");
    assert_eq!(shell.json("rows w -C 4096 --json"), expected);
    assert_eq!(shell.json("rows lengths.txt -C 4096 --json"), expected);
    assert_eq!(shell.pipe_json("rows - -C 4096 --json", &npz), expected);
    assert_eq!(shell.pipe_json("place - --ep 4 --json", &npz), shell.json("place w --ep 4 --json"));
}

#[test]
fn products_of_large_numbers_are_refused() {
    let shell = Shell::new();
    shell.write("lengths.txt", "5\n18446744073709551615\n");
    let huge = [u64::MAX, 1 << 63, 1 << 32];
    for dp in huge {
        for multiple in huge {
            shell.refuses(
                &format!("rows lengths.txt -C {} --dp {dp} --rows-multiple {multiple}", u64::MAX),
                3,
                &["fewer samples than cells", &(u128::from(dp) * u128::from(multiple)).to_string()],
            );
        }
    }
    for (line, part) in [
        ("--dp 9223372036854775808 --rows-multiple 2", "fewer samples than cells"),
        ("--dp 2 --rows-multiple 9223372036854775808", "fewer samples than cells"),
        ("--pad-multiple 18446744073709551615 --dp 3", "fewer samples than cells"),
        ("--pad-multiple 2", "sample 1 has 18446744073709551615 tokens"),
        ("--dp 0", "--dp 0: expected at least 1"),
        ("--rows-multiple 0", "--rows-multiple 0: expected at least 1"),
        ("--pad-multiple 0", "--pad-multiple 0: expected at least 1"),
        ("--max-samples 0", "--max-samples 0: expected at least 1"),
    ] {
        shell.refuses(&format!("rows lengths.txt -C {} {line}", u64::MAX), 3, &[part]);
    }
    assert_eq!(shell.json(&format!("rows lengths.txt -C {} --json", u64::MAX))["rows"], 2);
    shell.refuses("generate window --set routing.layers=4294967295 -o w.npz", 3, &["routing.layers", "4096"]);
    let deep = vec!["a"; 50_000].join(".");
    shell.refuses(&format!("generate window --set {deep}=1 -o w.npz"), 3, &["--set a.a"]);
}

#[test]
fn rows_stop_at_a_deadline() {
    let shell = Shell::new();
    shell.write("lengths.txt", &one_a_line((0..20_000).map(|i| 1000 + i * 7919 % 7001)));
    let clock = std::time::Instant::now();
    let answer = shell.json("rows lengths.txt -C 8191 --dp 8 --cells --deadline-ms 1 --json -o rows.cert");
    assert!(clock.elapsed() < std::time::Duration::from_secs(20), "{:?}", clock.elapsed());
    let of = |field: &str| answer[field].as_u64().expect("a number");
    assert!(of("rows_bound") <= of("rows") && of("cells_bound") <= of("cells"));
    assert!(answer["gap"].as_f64().expect("a number") < 1.0);
    assert!(shell.path("rows.cert").is_file());
}

#[test]
fn every_output_has_one_document() {
    let shell = small();
    shell.write("lengths.txt", "9\n9\n2\n");
    let rows = shell.json("rows lengths.txt -C 10 -o - --json");
    assert_eq!(rows["rows"], 3);
    assert!(rows["certificate"].as_str().expect("text").starts_with("routepack-certificate 1\n"));
    assert!(shell.answer("rows lengths.txt -C 10 -o -").starts_with("routepack-certificate 1\n"));
    let bins = shell.json("generate bins --family scholl-1 -o - --json");
    assert_eq!((bins["sizes"].as_array().map(Vec::len), &bins["items"]), (Some(50), &50.into()));
    assert!(shell.json("generate window --preset single -o - --json")["lengths"].is_array());
    assert!(shell.json("place window.json --ep 2 -o - --json")["log2phys"].is_array());
    shell.answer("plan window.json --job job.toml -o plan.json");
    let page = shell.answer("report plan.json --window window.json --html - --svg pictures");
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"), "{page}");
    assert!(names(&shell.path("pictures")).iter().any(|name| name == "step-0-cells.svg"));
    shell.answer("plan window.json --job job.toml -o plan.json");
    let plan = fs::read_to_string(shell.path("plan.json")).expect("a plan");
    assert_eq!(shell.answer("plan window.json --job job.toml -o - --json"), plan);
    shell.write("changed.json", &plan.replacen("\"rows_bound\": 1", "\"rows_bound\": 2", 1));
    for command in ["verify", "report"] {
        let output = shell.run(&format!("{command} changed.json --window window.json --json"));
        assert_eq!(output.status.code(), Some(1), "{command}");
        let refusal: serde_json::Value = serde_json::from_slice(&output.stdout).expect(command);
        assert_eq!(refusal["verified"], false, "{command}");
        assert!(refusal["error"].as_str().expect("text").contains("changed.json"), "{command}");
    }
}

#[test]
fn errors_blame_the_file_that_is_wrong() {
    let shell = small();
    for (name, job, parts) in [
        ("stage.toml", JOB.replace("ep = 2", "ep = 2\npp = 2\nlayer_stage = [0, 1]"), ["layer_stage", "[1]"]),
        ("gamma.toml", format!("{JOB}[cost]\ngamma = [1, 1]\n"), ["cost.gamma", "[1]"]),
        ("top_k.toml", JOB.replace("top_k = 2", "top_k = 9"), ["routing.top_k", "9"]),
    ] {
        shell.write(name, &job);
        let parts: Vec<&str> = parts.into_iter().chain([name]).collect();
        shell.refuses(&format!("plan window.json --job {name} -o plan.json"), 3, &parts);
    }
    for name in ["a/b", "../../x", "", "train", "a.b"] {
        shell.write("pass.toml", &format!("{JOB}[passes.\"{name}\"]\ncapacity = 12\n"));
        shell.refuses(
            "plan window.json --job pass.toml -o plan.json",
            3,
            &["pass.toml: passes.* = \"", name],
        );
    }
    shell.write("one.toml", &JOB.replace("top_k = 2", "top_k = 1"));
    shell.refuses(
        "plan window.json --job one.toml -o plan.json",
        3,
        &["window.json", "expert_counts", "top_k"],
    );
    shell.write("steps.json", r#"{"lengths": [6, 6, 6], "step": [3, 3, 4]}"#);
    shell.refuses("plan steps.json --job job.toml -o plan.json", 3, &["step 4", "fewer samples than cells"]);
    let drop = JOB.replace("capacity = 12", "capacity = 12\nsample_multiple = 8\noversize = \"drop\"");
    shell.write("drop.toml", &drop.replace("capacity = 12", "capacity = 16"));
    shell.write("long.json", r#"{"lengths": [6, 4294967295, 6, 6, 6]}"#);
    assert!(shell.answer("plan long.json --job drop.toml").contains("1 sample left out"));
    shell.write("all.json", r#"{"lengths": [4294967295, 17]}"#);
    shell.refuses("plan all.json --job drop.toml", 3, &["no samples are left", "each of 2", "16"]);
    // What `plan` refuses, `place` refuses.
    shell.write("odd.json", &WINDOW.replacen("[6, 0, 6, 0]", "[6, 0, 5, 0]", 1));
    shell.refuses("place odd.json --ep 2", 3, &["odd.json", "expert_counts"]);
    shell.write("above.json", &WINDOW.replacen("[6, 0, 6, 0]", "[9, 0, 3, 0]", 1));
    shell.refuses("place above.json --ep 2", 3, &["above.json", "expert_counts", "9"]);
    shell.refuses("place window.json --ep 2 --top-k 3", 3, &["window.json", "expert_counts"]);
    assert_eq!(shell.run("generate cut --experts 4 --lengths window.json -o w.npz").status.code(), Some(2));
}

#[test]
fn a_resident_placement_of_another_shape_is_blamed_itself() {
    let shell = small();
    // The window has 1 layer of 4 experts, the job 2 ranks.
    for (name, text, found) in [
        (
            "layers.json",
            r#"{"ep": 2, "log2phys": [[0, 1, 2, 3], [0, 1, 2, 3]]}"#,
            "2 layers, 4 experts, 2 ranks",
        ),
        ("experts.json", r#"{"ep": 2, "log2phys": [[0, 1]]}"#, "1 layers, 2 experts, 2 ranks"),
        ("ranks.json", r#"{"ep": 4, "log2phys": [[0, 1, 2, 3]]}"#, "1 layers, 4 experts, 4 ranks"),
    ] {
        shell.write(name, text);
        for line in [
            "place window.json --ep 2",
            "place window.json --ep 2 --within 1",
            "plan window.json --job job.toml",
            "plan window.json --job job.toml --placement fixed",
            "sequence window.json --job job.toml -q",
        ] {
            let blame = format!("routepack: {name}: ");
            let parts = [&blame, "resident placement", found, "1 layers, 4 experts, 2 ranks"];
            shell.refuses(&format!("{line} --resident {name}"), 3, &parts);
        }
    }
    let grouped = format!("{JOB}[place]\nnode_groups = {{ groups = 2, nodes = 2 }}\n");
    shell.write("grouped.toml", &grouped);
    shell.write("split.json", r#"{"ep": 2, "log2phys": [[0, 2, 1, 3]]}"#);
    let line = "plan window.json --job grouped.toml --resident split.json";
    shell.refuses(line, 3, &["routepack: split.json: ", "group 0 of layer 0"]);
    shell.refuses("place window.json --ep 3", 3, &["--ep 3: ", "4 experts"]);
    shell.refuses("place window.json --ep 0", 3, &["--ep 0: ", "4 experts"]);
}

/// Windows that are no windows, or of another model than the first, are refused before any is planned, and no file is written.
#[test]
fn a_sequence_is_of_one_model_and_refused_as_a_whole() {
    let shell = small();
    let counts = |layer: &str| format!(r#"{{"lengths": [6, 6], "expert_counts": [[{layer}], [{layer}]]}}"#);
    shell.write("layers.json", &counts("[6, 0, 6, 0], [6, 0, 6, 0]"));
    shell.write("experts.json", &counts("[6, 0, 6, 0, 0, 0]"));
    shell.write("odd.json", &counts("[6, 0, 5, 0]"));
    shell.write("empty.json", r#"{"lengths": []}"#);
    shell.write("plain.json", r#"{"lengths": [6, 6, 6, 6]}"#);
    for (name, parts) in [
        ("layers.json", ["2 layers, 4 experts", "1 layers, 4 experts"]),
        ("experts.json", ["1 layers, 6 experts", "1 layers, 4 experts"]),
        ("odd.json", ["expert_counts", "routed rows"]),
        ("empty.json", ["no samples", ""]),
    ] {
        // A window without routes between changes nothing.
        let line =
            format!("sequence window.json plain.json {name} --job job.toml -q --alone -o plans --csv t.csv");
        let blame = format!("routepack: {name}: ");
        shell.refuses(&line, 3, &[&blame, parts[0], parts[1]]);
        assert!(!shell.path("plans").exists() && !shell.path("t.csv").exists(), "{name}");
    }
    let said = shell.answer("sequence window.json plain.json window.json --job job.toml -q -o plans");
    assert_eq!(names(&shell.path("plans")).len(), 3);
    let peak_above = |line: &str| line.split_whitespace().nth(3).map(str::to_owned);
    let plain: Vec<_> = said.lines().filter(|line| line.starts_with("2 ")).filter_map(peak_above).collect();
    assert_eq!(plain, ["–"; 4], "no experts, no peak: {said}");
}

/// A folder never holds plans of two runs: what this one makes anew is removed first, what it does not make is named.
#[test]
fn plans_of_an_earlier_sequence_are_not_mixed_with_others() {
    let shell = small();
    let line = |windows: &str| format!("sequence {windows} --job job.toml -q --alone -o plans");
    shell.answer(&line("window.json window.json window.json"));
    shell.refuses(&line("window.json window.json"), 3, &["0003.plan.json", "this one has 2", "remove it"]);
    assert_eq!(names(&shell.path("plans")).len(), 3, "nothing is removed before all is checked");
    // Also where one between is gone; of several the first is named.
    fs::remove_file(shell.path("plans/0002.plan.json")).expect("deleted");
    fs::write(shell.path("plans/10000.plan.json"), "{}").expect("written");
    fs::write(shell.path("plans/99999999999999999999.plan.json"), "{}").expect("written");
    shell.refuses(&line("window.json"), 3, &["0003.plan.json", "this one has 1", "remove it"]);
    fs::remove_file(shell.path("plans/0003.plan.json")).expect("deleted");
    shell.refuses(&line("window.json"), 3, &["/10000.plan.json", "this one has 1"]);
    fs::remove_file(shell.path("plans/10000.plan.json")).expect("deleted");
    shell.refuses(&line("window.json"), 3, &["/99999999999999999999.plan.json", "this one has 1"]);
    fs::remove_file(shell.path("plans/99999999999999999999.plan.json")).expect("deleted");
    // Others are not of a sequence.
    for other in ["my.plan.json", "1.plan.json", "0007.plan.json.bak"] {
        fs::write(shell.path("plans").join(other), "{}").expect("written");
    }
    shell.answer(&line("window.json"));
    for other in ["my.plan.json", "1.plan.json", "0007.plan.json.bak"] {
        fs::remove_file(shell.path("plans").join(other)).expect("deleted");
    }
    shell.answer(&line("window.json window.json window.json"));
    // Refused when it comes to the second window: the first is new, no other is left from before.
    shell.write("few.json", r#"{"lengths": [6]}"#);
    let refused = format!("{} --csv moves.csv", line("window.json few.json window.json"));
    assert_eq!(shell.run(&refused).status.code(), Some(3));
    assert_eq!(names(&shell.path("plans")), ["0001.plan.json"]);
    let csv = fs::read_to_string(shell.path("moves.csv")).expect("a table of what was planned");
    assert_eq!(csv.lines().count(), 2, "{csv}");
    shell.answer(&line("window.json"));
    // Why a window was refused is the better news than a table that cannot be written.
    #[cfg(target_os = "linux")]
    shell.refuses(&format!("{} --csv /dev/full", line("window.json few.json")), 3, &["few.json"]);
}

#[cfg(unix)]
mod unix {
    #[cfg(target_os = "linux")]
    use super::shell::interrupt;
    use super::*;

    fn signal(signal: &str, child: &std::process::Child) {
        // It may have ended by itself.
        let _ = Command::new("kill").args([signal, &child.id().to_string()]).status();
    }

    /// A sequence of many windows in the background, its first plan written.
    fn begun(shell: &Shell) -> std::process::Child {
        shell.answer("generate window --preset single --seed 1 -o w.npz --job-output job.toml");
        let windows = "w.npz ".repeat(200);
        let line = format!("sequence {windows} --job job.toml -q --json -o plans --csv moves.csv");
        let mut command = shell.command(&line);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
        while !shell.path("plans/0001.plan.json").exists() {
            assert!(child.try_wait().expect("a child").is_none(), "it ended without a plan");
            std::thread::yield_now();
        }
        child
    }

    fn plans(shell: &Shell) -> Vec<std::ffi::OsString> {
        let mut plans = names(&shell.path("plans"));
        plans.retain(|name| name.to_string_lossy().ends_with(".plan.json"));
        plans
    }

    #[test]
    fn ctrl_c_ends_a_sequence_with_the_plans_so_far() {
        let shell = Shell::new();
        let child = begun(&shell);
        signal("-INT", &child);
        let output = child.wait_with_output().expect("ended");
        assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let windows = answer["windows"].as_array().expect("windows");
        assert!(!windows.is_empty() && windows.len() < 200 && answer["finished"] == false);
        assert_eq!(plans(&shell).len(), windows.len());
        for (index, window) in windows.iter().enumerate() {
            let plan = format!("plans/{:04}.plan.json", index + 1);
            let text = fs::read_to_string(shell.path(&plan)).expect("a plan");
            assert!(text.contains(window["plan_sha256"].as_str().expect("a digest")));
            shell.answer(&format!("verify {plan} --window w.npz"));
        }
        let csv = fs::read_to_string(shell.path("moves.csv")).expect("a table");
        assert_eq!(csv.lines().count(), 1 + 4 * windows.len());
    }

    #[test]
    fn a_killed_sequence_leaves_whole_plans() {
        let shell = Shell::new();
        let mut child = begun(&shell);
        child.kill().expect("killed");
        child.wait().expect("ended");
        for plan in plans(&shell) {
            shell.answer(&format!("verify plans/{} --window w.npz", plan.to_string_lossy()));
        }
        assert!(!shell.path("moves.csv").exists());
        let over = plans(&shell).len();
        let again = format!("sequence {} --job job.toml -q --alone -o plans", "w.npz ".repeat(over + 1));
        shell.answer(&again);
        assert_eq!(plans(&shell).len(), over + 1);
    }

    /// Until all input is there, no answer can be given: the resident placement is input, too.
    #[test]
    fn ctrl_c_ends_placing_that_waits_for_the_resident_placement() {
        let shell = small();
        assert!(Command::new("mkfifo").arg(shell.path("pipe")).status().expect("mkfifo").success());
        for line in [
            "place window.json --ep 2 --resident pipe -o placement.json",
            "sequence window.json --job job.toml -q --resident pipe -o plans",
        ] {
            let mut child = shell.command(line).stdout(Stdio::null()).spawn().expect("started");
            // Opens when the command does.
            let pipe = fs::OpenOptions::new().write(true).open(shell.path("pipe")).expect("a reader");
            signal("-INT", &child);
            drop(pipe);
            let status = child.wait().expect("ended");
            assert_eq!(status.code(), None, "{line}: {status}");
        }
        assert!(!shell.path("placement.json").exists() && !shell.path("plans").exists());
    }

    /// From when the handler is there, the answer is the best so far, whole, however early Ctrl-C comes.
    #[cfg(target_os = "linux")]
    #[test]
    fn ctrl_c_gives_the_best_placement_so_far() {
        let shell = Shell::new();
        shell
            .answer("generate window --preset mixed --set prompts=8 --seed 1 -o w.npz --job-output job.toml");
        let line = "place w.npz --ep 32 --within 0 --json -o placement.json --threads 1";
        let mut child =
            shell.command(line).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("started");
        interrupt(&mut child);
        let output = child.wait_with_output().expect("ended");
        assert!(output.status.success(), "{}", output.status);
        let file: serde_json::Value =
            serde_json::from_slice(&fs::read(shell.path("placement.json")).expect("a file")).expect("JSON");
        for layer in file["log2phys"].as_array().expect("layers") {
            let mut slots: Vec<u64> =
                layer.as_array().expect("slots").iter().map(|slot| slot.as_u64().expect("a slot")).collect();
            slots.sort_unstable();
            assert!(slots.iter().copied().eq(0..slots.len() as u64), "a bijection");
        }
    }

    fn shell_line(shell: &Shell, line: &str) -> Output {
        let line = line.replace("routepack", env!("CARGO_BIN_EXE_routepack"));
        Command::new("bash").current_dir(shell.0.path()).args(["-c", &line]).output().expect("bash")
    }

    #[test]
    fn a_closed_or_full_standard_error_is_no_panic() {
        let shell = Shell::new();
        for redirect in ["2>&-", "2>/dev/full"] {
            let output = shell_line(&shell, &format!("routepack rows absent.txt -C 5 {redirect}"));
            assert_eq!(output.status.code(), Some(4), "{redirect}");
            let output = shell_line(&shell, &format!("routepack nonsense {redirect}"));
            assert_eq!(output.status.code(), Some(2), "{redirect}");
        }
        let output = shell_line(&shell, "echo 5 | routepack rows - -C 5 >/dev/full");
        assert_eq!(output.status.code(), Some(4));
    }

    #[test]
    fn a_reader_that_has_gone_away_is_no_failure() {
        let shell = Shell::new();
        for what in ["bins --family rl", "window --preset mixed"] {
            let line = format!("routepack generate {what} -o - | true; exit ${{PIPESTATUS[0]}}");
            let output = shell_line(&shell, &line);
            assert_eq!(output.status.code(), Some(0), "{what}");
            assert!(output.stderr.is_empty(), "{what}");
        }
    }

    #[test]
    fn a_link_to_an_input_is_the_input() {
        let shell = Shell::new();
        shell.write("lengths.txt", "5\n");
        std::os::unix::fs::symlink("lengths.txt", shell.path("link.cert")).expect("a link");
        shell.refuses(
            "rows lengths.txt -C 5 -o link.cert",
            3,
            &["--output link.cert", "LENGTHS lengths.txt"],
        );
        std::os::unix::fs::symlink("new.cert", shell.path("dangling.cert")).expect("a link");
        let line = "rows lengths.txt -C 5 -o dangling.cert --lengths-output new.cert";
        shell.refuses(line, 3, &["--lengths-output new.cert", "--output dangling.cert"]);
    }

    #[test]
    fn a_trace_that_fails_late_leaves_the_plan() {
        let shell = small();
        // So small a window as the others would be solved without annealing, and no table written.
        shell.answer("generate window --preset mixed --set prompts=12 --set routing.layers=2 -o window.json --job-output job.toml");
        let output = shell.run("plan window.json --job job.toml -o plan.json --trace /dev/full");
        assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(shell.answer("verify plan.json --window window.json").contains("every claim"));
    }

    #[test]
    fn links_are_written_through() {
        let shell = Shell::new();
        shell.write("lengths.txt", "5\n");
        fs::create_dir(shell.path("folder")).expect("a folder");
        std::os::unix::fs::symlink("folder/new.cert", shell.path("dangling.cert")).expect("a link");
        for _ in 0..2 {
            shell.answer("rows lengths.txt -C 5 -o dangling.cert");
            assert!(shell.path("dangling.cert").is_symlink());
            assert!(shell.path("folder/new.cert").is_file());
        }
        std::os::unix::fs::symlink("loop", shell.path("loop")).expect("a link");
        shell.refuses("rows lengths.txt -C 5 -o loop", 4, &["loop: cannot write"]);
        assert_eq!(names(&shell.path("folder")), ["new.cert"]);
    }

    #[test]
    fn ctrl_c_ends_a_command_that_waits_for_its_input() {
        let shell = small();
        for line in [
            "plan - --job job.toml",
            "rows - -C 5",
            "place - --ep 2",
            "report - --window window.json --html page.html",
            "simulate - --window window.json --model qwen3-30b-a3b --cluster h20",
            "calibrate - -C 5",
            "sequence - --job job.toml",
        ] {
            let mut command = shell.command(line);
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("started");
            std::thread::sleep(std::time::Duration::from_millis(300));
            let id = child.id().to_string();
            assert!(Command::new("kill").args(["-INT", &id]).status().expect("kill").success());
            let status = child.wait().expect("ended");
            assert_eq!(status.code(), None, "{line}: {status}");
        }
    }

    #[test]
    fn ctrl_c_gives_the_best_answer_so_far() {
        let shell = Shell::new();
        shell.write("lengths.txt", &one_a_line((0..200_000).map(|i| 1000 + i * 7919 % 70_001)));
        let mut command = shell.command("rows lengths.txt -C 99991 --cells --json -o rows.cert");
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
        std::thread::sleep(std::time::Duration::from_millis(700));
        // It may have ended by itself.
        let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        let output = child.wait_with_output().expect("ended");
        assert!(output.status.success(), "{}", output.status);
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert!(answer["cells"].as_u64() >= answer["cells_bound"].as_u64());
    }
}
