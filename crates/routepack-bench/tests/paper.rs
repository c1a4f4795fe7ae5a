//! The paper's table: gains are those of the lines, and lines of another machine do not count.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::AtomicBool;

use routepack::simulation::{SimulateOptions, presets};
use routepack_bench::{PAPER_ARMS, PAPER_CASES, PaperBench, PaperRecord, Table, bench_paper};

fn bench(windows: u64) -> PaperBench {
    PaperBench {
        windows,
        cases: vec![&PAPER_CASES[0]],
        cluster: presets::cluster("h20").unwrap(),
        options: SimulateOptions::default(),
    }
}

/// The setup of this bench: what its lines are told from others' by.
fn setup() -> String {
    bench(1).setup(&PAPER_CASES[0]).unwrap()
}

fn line(seed: u64, arm: &str, setup: &str, seconds: f64) -> PaperRecord {
    PaperRecord {
        preset: "tiny".to_owned(),
        seed,
        arm: arm.to_owned(),
        machine: "H20, 8 a node".to_owned(),
        rows: 7,
        attention_cost: 1.0,
        peak_sum: 1,
        worst_peak: 1,
        joint_score: seconds,
        tokens: 1000,
        seconds,
        attention: seconds / 4.0,
        dense: 0.0,
        expert: 3.0 * seconds / 4.0,
        all_to_all: 0.0,
        bubble: 0.0,
        gradients: 0.0,
        optimizer: 0.0,
        planning: 0.0,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        setup_sha256: setup.to_owned(),
    }
}

#[test]
fn gains_are_those_of_whole_windows_on_this_machine() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("paper.csv");
    let mut table = Table::open(&path).unwrap();
    let setup = &setup();
    for (seed, seconds) in [(1, [10.0, 8.0, 5.0, 4.0]), (2, [10.0, 5.0, 5.0, 2.0])] {
        for (arm, seconds) in PAPER_ARMS.into_iter().zip(seconds) {
            table.add(line(seed, arm, setup, seconds)).unwrap();
            table.add(line(seed, arm, "another", 1.0)).unwrap();
        }
    }
    table.add(line(3, "baseline", setup, 1e3)).unwrap();
    let read: Table<PaperRecord> = Table::open(&path).unwrap();
    assert_eq!(read.records(), table.records(), "a line is read as it was written");
    let arms = bench(3).arms(&PAPER_CASES[0], read.records()).unwrap();
    let gains: Vec<(usize, f64)> = arms.iter().map(|arm| (arm.gain.count, arm.gain.mean)).collect();
    // 10/8 and 10/5 of the speed; 10/5 twice; 10/4 and 10/2.
    assert_eq!(gains, [(2, 0.0), (2, 62.5), (2, 100.0), (2, 275.0)]);
    assert!(arms[2].gain.sd.is_some_and(|sd| sd.abs() < 1e-12));
    assert_eq!(arms.iter().map(|arm| arm.stated).collect::<Vec<_>>(), [None, Some(3.8), Some(8.85), None]);
    // Half of ten seconds saved: a quarter of that on attention.
    assert_eq!(arms[2].saved[..3], [("attention", 12.5), ("dense", 0.0), ("experts", 37.5)]);
}

/// Means over such a line were no numbers, without a word.
#[test]
fn lines_that_no_run_writes_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("paper.csv");
    let usual = || line(1, "reorder", "a", 1.0);
    for (edited, message) in [
        (PaperRecord { seconds: f64::NAN, ..usual() }, "seconds = NaN: expected 10^-9 to 10^12"),
        (PaperRecord { seconds: 0.0, ..usual() }, "seconds = 0: expected 10^-9 to 10^12"),
        (PaperRecord { bubble: -1.0, ..usual() }, "bubble = -1: expected 0 to 10^12"),
        (PaperRecord { seconds: 1.001, ..usual() }, "seconds = 1.001: expected 1, the sum of its terms"),
        (PaperRecord { tokens: 0, ..usual() }, "tokens = 0: expected at least 1"),
        (
            PaperRecord { tokens: 999, ..usual() },
            "tokens = 999: expected 1000, as line 2 has for this window",
        ),
        (line(1, "baseline", "a", 1.0), "arm = baseline: expected once, line 2 has it for this window"),
    ] {
        let mut table = Table::open(&path).unwrap();
        table.add(line(1, "baseline", "a", 1.0)).unwrap();
        table.add(edited).unwrap();
        let refused = Table::<PaperRecord>::open(&path).unwrap_err().to_string();
        assert!(refused.contains(&format!("paper.csv: line 3: {message}")), "{refused}");
        std::fs::remove_file(&path).unwrap();
    }
}

/// Lines of a cluster of the same name, of other options and of another version passed for this one's.
#[test]
fn lines_of_another_setup_are_not_reused() {
    let usual = bench(1);
    let mut faster = bench(1);
    faster.cluster.peak_tflops *= 2.0;
    let mut moved = bench(1);
    moved.options.move_bytes = 6.0;
    let case = &PAPER_CASES[0];
    for other in [&faster, &moved] {
        assert_eq!(other.machine(), usual.machine(), "the name does not tell");
        assert_ne!(other.setup(case).unwrap(), usual.setup(case).unwrap());
    }
    // Called otherwise, with other sources, it is the same.
    let mut renamed = bench(1);
    renamed.cluster.name = "mine".to_owned();
    renamed.cluster.sources = vec!["measured at home".to_owned()];
    assert_eq!(renamed.setup(case).unwrap(), usual.setup(case).unwrap());
    assert_ne!(usual.setup(&PAPER_CASES[1]).unwrap(), usual.setup(case).unwrap(), "other windows and model");
    let of_version = |version: &str| -> Vec<PaperRecord> {
        let version = version.to_owned();
        PAPER_ARMS.map(|arm| PaperRecord { version: version.clone(), ..line(1, arm, &setup(), 1.0) }).to_vec()
    };
    let lines = of_version(env!("CARGO_PKG_VERSION"));
    assert_eq!(usual.arms(case, &lines).unwrap().len(), 4);
    assert!(faster.arms(case, &lines).unwrap().is_empty());
    assert!(usual.arms(case, &of_version("0.0.1")).unwrap().is_empty());
}

/// Windows of a recipe that has changed since have other tokens: their lines stay and do not count.
#[test]
fn a_table_holds_windows_of_several_recipes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("paper.csv");
    let mut table = Table::open(&path).unwrap();
    table.add(line(1, "baseline", "a", 1.0)).unwrap();
    table.add(PaperRecord { tokens: 999, ..line(1, "baseline", "b", 1.0) }).unwrap();
    assert_eq!(Table::<PaperRecord>::open(&path).unwrap().records().len(), 2);
}

#[test]
fn a_field_that_is_no_number_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("paper.csv");
    Table::open(&path).unwrap().add(line(1, "baseline", "a", 2.5)).unwrap();
    let good = std::fs::read_to_string(&path).unwrap();
    for (was, is, message) in [
        (",1000,2.5,", ",1000,abc,", "line 2: seconds = \"abc\": expected a number"),
        (",1000,2.5,", ",1e3,2.5,", "line 2: tokens = \"1e3\": expected a whole number"),
        (",1000,2.5,", ",-1,2.5,", "line 2: tokens = \"-1\": expected a whole number of at least 0"),
    ] {
        assert!(good.contains(was), "{good}");
        std::fs::write(&path, good.replace(was, is)).unwrap();
        let refused = Table::<PaperRecord>::open(&path).unwrap_err().to_string();
        assert!(refused.ends_with(&format!("paper.csv: {message}")), "{refused}");
    }
}

/// The shipped table is what `bench paper --cluster h20` goes on from, and shows.
#[test]
fn the_shipped_table_has_fifty_windows_of_each_kind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("paper.csv");
    std::fs::copy(concat!(env!("CARGO_MANIFEST_DIR"), "/paper.csv"), &path).unwrap();
    let table: Table<PaperRecord> = Table::open(&path).unwrap();
    for case in &PAPER_CASES {
        let arms = bench(50).arms(case, table.records()).unwrap();
        let windows: Vec<usize> = arms.iter().map(|arm| arm.gain.count).collect();
        assert_eq!(windows, [50; 4], "{}: setup_sha256 is {}", case.preset, bench(50).setup(case).unwrap());
    }
}

#[test]
fn what_is_there_is_not_run_again_and_stopping_adds_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("paper.csv");
    let mut table = Table::open(&path).unwrap();
    for arm in PAPER_ARMS {
        table.add(line(1, arm, &setup(), 1.0)).unwrap();
    }
    let mut never = |line: &PaperRecord| panic!("{line:?}");
    bench_paper(&bench(1), &mut table, &AtomicBool::new(false), &mut never).unwrap();
    bench_paper(&bench(2), &mut table, &AtomicBool::new(true), &mut never).unwrap();
    assert_eq!(table.records().len(), 4);
}
