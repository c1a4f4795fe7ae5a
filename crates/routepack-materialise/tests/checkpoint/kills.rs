//! A process killed at any moment, or ended by Ctrl-C: the source is whole, the target is whole or not there, a rerun says what to do.
//!
//! `ROUTEPACK_KILLS=100 cargo test --release -p routepack-materialise --test checkpoint kill` for more kills.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use routepack_materialise::checkpoint::{Direction, rewrite};

use crate::folders::{Style, job, read, write};

const FOLDER: &str = "ROUTEPACK_KILL_FOLDER";

/// What the process does that is killed; nothing where it is run as a test.
#[test]
fn child_of_the_kill_test() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        let folder = Path::new(&folder);
        let mut job = job(Direction::Apply, &folder.join("canonical"), &folder.join("slots"));
        job.again = true;
        rewrite(&job).expect("rewritten");
    }
}

fn child(folder: &Path) -> std::process::Child {
    Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "kills::child_of_the_kill_test"])
        .env(FOLDER, folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the test starts")
}

#[test]
#[allow(clippy::print_stdout, reason = "how many kills hit the work")]
fn killed_at_any_moment_nothing_is_lost_or_mixed() {
    let kills: u64 = std::env::var("ROUTEPACK_KILLS").map_or(10, |kills| kills.parse().expect("a number"));
    let root = tempfile::tempdir().expect("a folder");
    let [canonical, slots, back] = ["canonical", "slots", "back"].map(|name| root.path().join(name));
    write(&canonical, Style::Qwen, 150_000);
    let before = read(&canonical);
    let begun = Instant::now();
    assert!(child(root.path()).wait().expect("ended").success());
    let (whole, moved) = (begun.elapsed(), read(&slots));
    fs::remove_dir_all(&slots).expect("deleted");

    let (mut unfinished, mut finished) = (0, 0);
    let mut state = 1u64;
    for _ in 0..kills {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut child = child(root.path());
        // Later than any run ends, at times: the folder then has its name.
        std::thread::sleep(Duration::from_nanos(
            (whole.as_nanos() as f64 * 1.1 * (state >> 40) as f64 / 16_777_216.0) as u64,
        ));
        if state >> 32 & 1 == 0 {
            child.kill().expect("killed");
        } else {
            // Ctrl-C: it may have ended by itself.
            let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).output().expect("a kill");
        }
        child.wait().expect("ended");
        assert!(read(&canonical) == before, "the source is whole");
        if slots.exists() {
            finished += 1;
            assert!(read(&slots) == moved, "what has its name is whole");
            fs::remove_dir_all(&slots).expect("deleted");
        } else if root.path().join("slots.unfinished").exists() {
            unfinished += 1;
            let rerun = rewrite(&job(Direction::Apply, &canonical, &slots)).expect_err("refused").to_string();
            assert!(rerun.contains("a run did not finish") && rerun.contains("--again"), "{rerun}");
        }
    }
    assert!(
        kills < 10 || unfinished > 0,
        "some kills hit the work: {unfinished} unfinished, {finished} finished"
    );
    let mut last = job(Direction::Apply, &canonical, &slots);
    last.again = true;
    rewrite(&last).expect("rewritten");
    rewrite(&job(Direction::Canonicalise, &slots, &back)).expect("rewritten");
    assert!(read(&back) == before);
    println!("{kills} kills: {unfinished} left work unfinished, {finished} came after the end");
}

/// Runs with `--again` once deleted each other's folder while it was filled, and all failed.
#[test]
fn of_several_runs_at_once_one_makes_the_target_and_the_others_are_told() {
    let root = tempfile::tempdir().expect("a folder");
    let [canonical, slots, held] =
        ["canonical", "slots", "slots.unfinished"].map(|name| root.path().join(name));
    write(&canonical, Style::Qwen, 20_000);
    let before = read(&canonical);
    let run = |again: bool| {
        let mut job = job(Direction::Apply, &canonical, &slots);
        job.again = again;
        rewrite(&job).map_err(|error| error.to_string())
    };
    let moved = {
        run(false).expect("rewritten");
        read(&slots)
    };
    for round in 0..20 {
        fs::remove_dir_all(&slots).expect("deleted");
        if round % 2 == 0 {
            // What a run left that was killed.
            fs::create_dir(&held).expect("made");
        }
        let ended: Vec<_> = std::thread::scope(|scope| {
            let runs: Vec<_> =
                (0..4).map(|number| scope.spawn(move || run(round % 2 == 0 || number > 0))).collect();
            runs.into_iter().map(|run| run.join().expect("ended")).collect()
        });
        let well = ended.iter().filter(|one| one.is_ok()).count();
        assert_eq!(well, 1, "{ended:?}");
        for said in ended.into_iter().filter_map(Result::err) {
            let told = [
                "another run is making this target",
                "is there already",
                "a run did not finish, or is going on",
            ];
            assert!(told.iter().any(|told| said.contains(told)), "{said}");
        }
        assert!(read(&slots) == moved && read(&canonical) == before && !held.exists());
    }
    // Nothing is deleted while a run is at it.
    fs::remove_dir_all(&slots).expect("deleted");
    fs::create_dir(&held).expect("made");
    let going_on = fs::File::open(&held).expect("open");
    going_on.lock().expect("locked");
    assert!(run(false).expect_err("refused").contains("a run did not finish, or is going on"));
    assert!(run(true).expect_err("refused").contains("another run is making this target"));
    assert!(held.exists());
    drop(going_on);
    run(true).expect("rewritten");
}
