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
        // Without routes nothing is known of experts: no figure, least of all a perfect one.
        let routed = window.contains("expert_counts");
        assert_ne!(said.contains("no routes recorded: attention alone is charged"), routed, "{said}");
        assert_ne!(page.contains("<dt>Routes</dt><dd>none recorded"), routed, "{window}");
        assert_eq!(page.contains(">experts</text>"), routed, "a legend of what is not known: {window}");
        let says = answer(folder.path(), "plan w.json --job job.toml -q -o again.json");
        assert_eq!(says.contains("to the bound of this placement"), routed, "{says}");
        assert_eq!(page.contains("under this placement"), routed, "{window}");
        let json = answer(folder.path(), "report plan.json --window w.json --json");
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        for arm in json["arms"].as_array().expect("arms") {
            for name in ["cv", "peak_sum", "worst_peak", "balance_efficiency", "busiest_rank_rows", "expert"]
            {
                assert_eq!(arm[name].is_number(), routed, "{name} = {}", arm[name]);
                assert_eq!(arm[name].is_null(), !routed, "{name} = {}", arm[name]);
            }
            assert_eq!(arm["tokens"]["routed"].is_null(), !routed, "{}", arm["tokens"]);
            assert!(arm["joint_score"].is_number() && arm["tokens"]["raw"].is_number(), "{arm}");
        }
        for figure in [
            "CV of rank",
            "gap to its placement",
            "peak sum, ",
            "worst peak, ",
            "balance ",
            "all-layer peak, routed rows",
        ] {
            let line = said.lines().find(|line| line.starts_with(figure)).expect("a figure");
            assert_ne!(line.ends_with('–'), routed, "{line}");
        }
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
    assert!(page.contains("config.json on H20, 8 a node. Least with "), "the machine is named");
    // So small a window is solved without annealing: a table without lines, and no picture.
    assert!(trace.starts_with("step,search,rung,temperature,") && trace.lines().count() == 1, "{trace}");
    let output = run(folder.path(), "report plan.json --window w.json --html - --trace trace.csv");
    assert!(String::from_utf8_lossy(&output.stderr).contains("trace.csv: nothing was annealed"));
    assert!(output.status.success() && !String::from_utf8_lossy(&output.stdout).contains("annealing-energy"));
}

/// Tables of another plan, window, placement or machine are refused, however like they are.
#[test]
fn tables_of_another_plan_are_refused() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = |name: &str| folder.path().join(name);
    for seed in [1, 2] {
        let generate = format!(
            "generate window --preset mixed --set prompts=12 --set routing.layers=2 --seed {seed} -o w{seed}.json --job-output job.toml"
        );
        answer(folder.path(), &generate);
        fs::write(
            path("config.json"),
            CONFIG
                .replace("\"num_hidden_layers\": 1", "\"num_hidden_layers\": 2")
                .replace("\"num_experts\": 4", "\"num_experts\": 128")
                .replace("\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 8"),
        )
        .expect("written");
        let plan = format!(
            "plan w{seed}.json --job job.toml -q -o p{seed}.json --trace t{seed}.csv --deadline-ms 2000"
        );
        answer(folder.path(), &plan);
        answer(folder.path(), &format!("place w{seed}.json --ep 8 --curve m{seed}.csv"));
        let simulate =
            format!("simulate p{seed}.json --window w{seed}.json --model config.json --cluster h20");
        answer(folder.path(), &format!("{simulate} --extra-rows 1 --rows-curve r{seed}.csv"));
    }
    answer(folder.path(), "place w1.json --ep 4 --curve m4.csv");
    let change = |from: &str, to: &str, of: &dyn Fn(&str) -> String| {
        let text = fs::read_to_string(path(from)).expect("there");
        let changed = of(&text);
        assert_ne!(changed, text, "{from}");
        fs::write(path(to), changed).expect("written");
    };
    let without = |text: &str, start: &str| {
        text.lines().filter(|line| !line.starts_with(start)).collect::<Vec<_>>().join("\n") + "\n"
    };
    change("m1.csv", "m-less.csv", &|text| without(text, "1,"));
    change("m1.csv", "m-more.csv", &|text| text.to_owned() + "2,greedy,0,5,5\n");
    change("t1.csv", "t-step.csv", &|text| text.replace("\n0,", "\n7,"));
    change("r1.csv", "r-two.csv", &|text| text.replacen("H20", "H21", 1));
    let rows = fs::read_to_string(path("r1.csv")).expect("there");
    let own = rows.lines().nth(1).and_then(|line| line.split(',').next()).expect("rows").to_owned();
    change("r1.csv", "r-less.csv", &|text| without(text, &format!("{own},")));
    let score = rows.lines().nth(1).and_then(|line| line.split(',').nth(4)).expect("a score").to_owned();
    change("r1.csv", "r-score.csv", &|text| text.replace(&score, "1.5"));
    let seconds = rows.lines().nth(1).and_then(|line| line.split(',').nth(1)).expect("seconds").to_owned();
    change("r1.csv", "r-time.csv", &|text| text.replace(&seconds, "1.25"));
    // The line after the header again, or with another value in a column.
    let first = |text: &str| text.lines().nth(1).expect("a line").to_owned();
    let with_at = |text: &str, at: usize, column: usize, value: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut fields: Vec<&str> = lines[at].split(',').collect();
        fields[column] = value;
        lines[at] = fields.join(",");
        lines.join("\n") + "\n"
    };
    let with = |text: &str, column: usize, value: &str| with_at(text, 1, column, value);
    change("r1.csv", "r-twice.csv", &|text| format!("{text}{}\n", first(text)));
    change("r1.csv", "r-bubble.csv", &|text| with(text, 3, "1e9"));
    change("m1.csv", "m-low.csv", &|text| with(text, 3, "1"));
    change("m1.csv", "m-high.csv", &|text| with(text, 3, "99999999"));
    let trace = fs::read_to_string(path("t1.csv")).expect("there");
    let families =
        trace.lines().next().and_then(|titles| titles.split(',').position(|title| title == "families"));
    let families = families.expect("a column");
    change("t1.csv", "t-hot.csv", &|text| with(text, 3, "inf"));
    change("t1.csv", "t-rung.csv", &|text| with(text, 2, "1"));
    change("t1.csv", "t-families.csv", &|text| with(text, families, "5000"));
    change("t1.csv", "t-none.csv", &|text| with(text, families, "0"));
    let first_families = trace.lines().nth(1).and_then(|line| line.split(',').nth(families));
    let first_families = first_families.expect("a field");
    change("t1.csv", "t-grow.csv", &|text| with_at(text, 2, families, "4096"));
    change("t1.csv", "t-abc.csv", &|text| with(text, 3, "abc"));
    change("r1.csv", "r-abc.csv", &|text| with(text, 1, "abc"));
    change("r1.csv", "r-rows.csv", &|text| with(text, 0, "-3"));
    // Of another layer count than the window has: judged beside a verified plan alone.
    change("m1.csv", "m-other.csv", &|text| with(text, 0, "9"));
    let report =
        |rest: &str| run(folder.path(), &format!("report p1.json --window w1.json --html page.html {rest}"));
    let good = report("--trace t1.csv --curve m1.csv --rows-curve r1.csv");
    assert!(good.status.success(), "{}", String::from_utf8_lossy(&good.stderr));
    fs::remove_file(path("page.html")).expect("written");
    for (rest, message) in [
        ("--trace t2.csv", "t2.csv: line 2: of another plan: plan_sha256 = "),
        ("--trace t-step.csv", "t-step.csv: line 2: step = 7: expected one of the plan's, [0]"),
        ("--rows-curve r2.csv", "r2.csv: line 2: of another plan: plan_sha256 = "),
        ("--rows-curve r-two.csv", "r-two.csv: line 3: of two machines: machine = "),
        ("--rows-curve r-less.csv", "r-less.csv: no line of the plan's "),
        ("--rows-curve r-score.csv", "r-score.csv: line 2: joint_score = 1.5: expected "),
        ("--rows-curve r-time.csv", "r-time.csv: line 2: seconds = 1.25, tokens_per_second = "),
        ("--trace t-abc.csv", "t-abc.csv: line 2: temperature = \"abc\": expected a number"),
        ("--rows-curve r-abc.csv", "r-abc.csv: line 2: seconds = \"abc\": expected a number"),
        (
            "--rows-curve r-rows.csv",
            "r-rows.csv: line 2: rows = \"-3\": expected a whole number of at least 0",
        ),
        ("--trace t-hot.csv", "t-hot.csv: line 2: temperature = inf: expected 0"),
        ("--trace t-rung.csv", "t-rung.csv: line 3: rung = 1: expected more than 1, that of the line before"),
        ("--trace t-families.csv", "t-families.csv: line 2: families = 5000: expected 1 to 4096"),
        ("--trace t-none.csv", "t-none.csv: line 2: families = 0: expected 1 to 4096"),
        (
            "--trace t-grow.csv",
            &format!(
                "t-grow.csv: line 3: families = 4096: expected at most {first_families}, those of the line before"
            ),
        ),
        ("--rows-curve r-bubble.csv", "r-bubble.csv: line 2: bubble = 1000000000: expected 0 to "),
        (
            "--rows-curve r-twice.csv",
            &format!("r-twice.csv: line 4: rows = {own}: expected once, line 2 has them"),
        ),
        ("--curve m-low.csv", "m-low.csv: line 2: peak = 1: expected at least bound = "),
        ("--curve m-high.csv", "m-high.csv: line 2: peak = 99999999: expected at most "),
        ("--curve m2.csv", "m2.csv: line 2: of another window, placement or number of ranks: peak = "),
        ("--curve m4.csv", "m4.csv: line 2: of another window, placement or number of ranks: peak = "),
        ("--curve m-other.csv", "m-other.csv: line 2: of another window: layer = 9: expected 0 to 1"),
        ("--curve m-less.csv", "m-less.csv: layer 1, method greedy: no line without moves"),
        ("--curve m-more.csv", ": of another window: layer = 2: expected 0 to 1"),
    ] {
        let output = report(rest);
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(3), "{rest}: {said}");
        assert!(said.contains(message), "{rest}: {said}");
        assert!(output.stdout.is_empty() && !path("page.html").exists(), "{rest}");
    }
    // Nothing is said about a table before the plan is known to be of the window.
    for table in ["m-high.csv", "m-low.csv", "m-other.csv"] {
        let line = format!("report p1.json --window w2.json --html page.html --curve {table}");
        let output = run(folder.path(), &line);
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(1), "{table}: {said}");
        assert!(said.contains("p1.json: window_sha256 = "), "{table}: {said}");
        assert!(said.contains(": of another window, that of w2.json is "), "{table}: {said}");
    }
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
        (
            "nan.csv",
            "rows,seconds,tokens_per_second,bubble,joint_score,machine,plan_sha256\r\n1,2,3,0,1,m,p\r\n2,NaN,3,0,1,m,p\r\n",
        ),
        (
            "late.csv",
            "rows,seconds,tokens_per_second,bubble,joint_score,machine,plan_sha256\n1,-2,3,0,1,m,p\n",
        ),
        (
            "far.csv",
            "step,search,rung,temperature,energy_0,energy_50,energy_100,energy_sd,families,plan_sha256\n1,1,0,inf,1,2,1e308,1,4,p\n",
        ),
        ("none.csv", "rows,seconds,tokens_per_second,bubble,joint_score\n"),
        ("w.npz", "PK\x03\x04"),
    ] {
        fs::write(folder.path().join(name), text).expect("written");
    }
    let names = || fs::read_dir(folder.path()).expect("a folder").count();
    let before = names();
    for (rest, code, message) in [
        ("--window other.json --html p.html", 1, "window_sha256"),
        (
            "--window w.json --html p.html --curve bad.csv",
            3,
            "bad.csv: line 2: peak = \"x\": expected a whole number",
        ),
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
        (
            "--window w.json --html p.html --trace headless.csv",
            3,
            "headless.csv: no column `step`: found a, b",
        ),
        ("--window w.json --html p.html --rows-curve none.csv", 3, "none.csv: a table without lines"),
        ("--window w.json --html p.html --trace no.csv", 4, "no.csv"),
        ("--window w.json --trace bad.csv", 2, "--html"),
        ("--window w.json --html no/p.html", 4, "no/p.html: cannot write: the folder no is not there\n"),
        ("--window w.json --html w.json/p.html", 4, "w.json/p.html: cannot write: w.json is no folder\n"),
        (
            "--window w.json --html no/p.html --svg pictures",
            4,
            "no/p.html: cannot write: the folder no is not",
        ),
        (
            "--window w.json --html a.html --svg a.html",
            3,
            "--svg a.html: the same path as --html a.html; nothing",
        ),
        (
            "--window w.json --html a.html --svg ./a.html/b",
            3,
            "--svg ./a.html/b: lies in --html a.html; nothing",
        ),
        ("--window w.json --svg w.json", 4, "--svg w.json: it is a file, expected a folder\n"),
        (
            "--window w.json --svg w.json/pictures",
            4,
            "--svg w.json/pictures: cannot make the folder: w.json is a file\n",
        ),
    ] {
        let output = run(folder.path(), &format!("report plan.json {rest}"));
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(code), "{rest}: {said}");
        assert!(said.contains(message), "{rest}: {said}");
        assert!(output.stdout.is_empty(), "{rest}");
        assert_eq!(names(), before, "{rest} left a file behind");
    }
    for (line, code, message) in [
        ("report w.json --window w.json", 3, "w.json:1: column 10: unknown field `lengths`, expected one of"),
        ("report w.npz --window w.json", 3, "w.npz: no JSON object; expected a plan (JSON)"),
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
