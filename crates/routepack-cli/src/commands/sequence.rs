//! `routepack sequence`: windows planned one after another, each from where the plan before left the weights.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use routepack::formats;
use routepack::{Batch, Control, Job, PlanError, Sequence, SequenceArm, Sequenced, verify};
use schemars::JsonSchema;
use serde::Serialize;

use super::outputs::{check_distinct, check_folder, check_json, check_outputs, given, make_folder, speaks};
use super::resident::read_resident;
use super::{blamed, in_pool, read_window};
use crate::chart::{Line, draw};
use crate::exit::Failure;
use crate::interrupt;
use crate::output::{print, print_json};
use crate::progress::Bar;
use crate::table::{render, write_csv};

/// Arguments of `routepack sequence`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  routepack sequence step1.npz step2.npz step3.npz --job job.toml -o plans
  routepack sequence steps.npz --each-step --job job.toml --csv moves.csv --svg moves.svg
  routepack sequence steps.npz --each-step --job job.toml --resident last.plan.json --alone

How many experts may move is in the job (without a goal: the fewest for aggregate peaks within 1 % of the bound, and up to
an eighth of a layer's experts for the peaks of the layout):
  [moves]
  goal = { budget = { per_layer = 8 } }  # or { within = { tolerance_ppm = 10000 } }, { cost = { move_cost = 900, steps = 4 } }
  bytes_per_expert = 113246208           # of one layer: weights, master copy, moments
  link_bytes_per_second = 50000000000

Arms: identity = expert e in slot e; scratch = placed anew each time, ranks renamed so that most experts stay; oracle =
the best score met for the window with moves free.

With --each-step a plan is of one step as a window of its own: `verify` and `report` take that window, not the one with
all steps.

Exit codes: 0 done, also where a gap is stated; 2 wrong usage; 3 bad or infeasible input; 4 a file.")]
pub(crate) struct Arguments {
    /// Windows in order: .npz or .json; one placement for each, whatever steps it has.
    #[arg(required = true)]
    windows: Vec<PathBuf>,
    /// Job file (TOML): topology, capacity, cost, options, moves.
    #[arg(long)]
    job: PathBuf,
    /// One placement for every optimizer step of a window.
    #[arg(long)]
    each_step: bool,
    /// Where the weights are at first: a plan, or a file of `routepack place -o`; else expert e is in slot e.
    #[arg(long, value_name = "FILE")]
    resident: Option<PathBuf>,
    /// Folder for the plans, 0001.plan.json and so on: those of an earlier run are removed, and one above the last of this run
    /// is refused.
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Table to write, a line a window and arm.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Plot to write: moves so far, and score above the oracle's.
    #[arg(long, value_name = "FILE", conflicts_with = "alone")]
    svg: Option<PathBuf>,
    /// No comparison with other ways to place, which takes three more plans a window.
    #[arg(long)]
    alone: bool,
    /// Threads; all processors by default. The plans do not depend on it.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// No progress bar.
    #[arg(short, long)]
    quiet: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What `routepack sequence --json` prints.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Answer {
    /// One element a placement.
    windows: Vec<WindowAnswer>,
    /// Sums over the windows, one an arm.
    totals: Vec<SequenceArm>,
    /// Whether all were planned: false after Ctrl-C.
    finished: bool,
}

#[derive(Serialize, JsonSchema)]
struct WindowAnswer {
    /// Window file.
    window: String,
    /// Optimizer steps that share the placement.
    steps: Vec<i64>,
    /// SHA-256 of the plan.
    plan_sha256: String,
    /// `routepack`, then what it is compared with.
    arms: Vec<SequenceArm>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut job: Job = formats::read_toml(&arguments.job)?;
    job.place.resident = arguments.resident.as_deref().map(read_resident).transpose()?;
    let tables = given(&[("--csv", &arguments.csv), ("--svg", &arguments.svg)]);
    check_json(arguments.json, &tables)?;
    let folder = arguments.output.as_deref();
    folder.map_or(Ok(()), |folder| check_folder("--output", folder))?;
    let mut inputs = vec![("--job", arguments.job.as_path())];
    inputs.extend(given(&[("--resident", &arguments.resident)]));
    inputs.extend(arguments.windows.iter().map(|path| ("WINDOWS", path.as_path())));
    check_distinct(&inputs, &tables)?;
    let (files, batches) = read_batches(arguments)?;
    let plans: Vec<PathBuf> = folder.map_or_else(Vec::new, |folder| {
        (1..=batches.len()).map(|number| folder.join(format!("{number:04}.plan.json"))).collect()
    });
    let mut outputs = tables.clone();
    outputs.extend(plans.iter().map(|path| ("--output", path.as_path())));
    check_distinct(&inputs, &outputs)?;
    let mut sequence = Sequence::new(&job, !arguments.alone);
    let resident = arguments.resident.as_deref();
    let refused = |window: &Path, error: PlanError| {
        Failure::input(blamed(&error, window, &arguments.job, resident).display(), error)
    };
    for (file, batch) in files.iter().zip(&batches) {
        sequence.check(batch).map_err(|error| refused(file, error))?;
    }
    if let Some(folder) = folder {
        make_folder("--output", folder)?;
    }
    check_outputs(&inputs, &outputs)?;
    forget_earlier(folder, &plans)?;
    let flag = interrupt::flag();
    let bar = Bar::new(arguments.quiet);
    let control = || {
        let control = Control::new().cancelled_by(flag).observed_by(|progress| bar.show(progress));
        match job.deadline_ms {
            Some(limit) => control.within(Duration::from_millis(limit)),
            None => control,
        }
    };
    let mut windows: Vec<WindowAnswer> = Vec::new();
    let mut ended = Ok(());
    for (index, (path, batch)) in files.iter().zip(&batches).enumerate() {
        if index > 0 && flag.load(Ordering::Relaxed) {
            break;
        }
        let planned = in_pool(arguments.threads, || sequence.plan_next(batch, &control))?
            .map_err(|error| refused(path, error))
            .and_then(|planned| keep(planned, batch, path, plans.get(index)));
        match planned {
            Ok(window) => windows.push(window),
            Err(failure) => ended = Err(failure),
        }
        if ended.is_err() {
            break;
        }
    }
    drop(bar);
    let finished = windows.len() == batches.len() && !flag.load(Ordering::Relaxed);
    let answer = Answer { totals: totals(&windows), windows, finished };
    let written = if answer.windows.is_empty() { Ok(()) } else { write_tables(arguments, &answer) };
    // Why a window was refused is told first, whatever became of the tables.
    ended.and(written)?;
    match arguments.json {
        _ if !speaks(&tables) => Ok(()),
        true => print_json(&answer),
        false => print(&text(&answer)),
    }
}

/// Verifies a plan and writes it, if there is a file for it.
fn keep(
    planned: Sequenced,
    batch: &Arc<Batch>,
    window: &Path,
    file: Option<&PathBuf>,
) -> Result<WindowAnswer, Failure> {
    let plan = planned.plan;
    verify(&plan, batch).map_err(|error| Failure::Refused(format!("{}: {error}", window.display())))?;
    if let Some(file) = file {
        formats::write_plan(file, &plan)?;
    }
    Ok(WindowAnswer {
        window: window.display().to_string(),
        steps: plan.steps.iter().map(|step| step.step).collect(),
        plan_sha256: plan.sha256,
        arms: planned.arms,
    })
}

/// Table and plot of the windows planned, also where a later one was refused.
fn write_tables(arguments: &Arguments, answer: &Answer) -> Result<(), Failure> {
    if let Some(path) = &arguments.csv {
        write_csv(path, &HEADER, &csv_lines(answer))?;
    }
    match &arguments.svg {
        Some(path) => draw_sequence(path, answer),
        None => Ok(()),
    }
}

/// Every batch that gets a placement of its own, with its file.
fn read_batches(arguments: &Arguments) -> Result<(Vec<PathBuf>, Vec<Arc<Batch>>), Failure> {
    let (mut files, mut batches) = (Vec::new(), Vec::new());
    for path in &arguments.windows {
        let batch = read_window(path)?;
        if arguments.each_step {
            let steps = batch.by_step().map_err(|error| Failure::input(path.display(), error))?;
            batches.extend(steps.into_iter().map(Arc::new));
        } else {
            batches.push(batch);
        }
        files.resize(batches.len(), path.clone());
    }
    Ok((files, batches))
}

/// Removes the plans of an earlier run that this one makes anew, so that no folder has plans of two runs: one that ends
/// early leaves its own alone.
///
/// # Errors
/// A plan that this run does not make, or one that cannot be removed.
fn forget_earlier(folder: Option<&Path>, plans: &[PathBuf]) -> Result<(), Failure> {
    let Some(folder) = folder else { return Ok(()) };
    let failed = |error: std::io::Error| Failure::File(format!("{}: {error}", folder.display()));
    let mut above: Option<(u64, PathBuf)> = None;
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let number = path.file_name().and_then(|name| name.to_str()).and_then(plan_number);
        if let Some(number) = number.filter(|&number| number > plans.len() as u64) {
            if above.as_ref().is_none_or(|(least, _)| number < *least) {
                above = Some((number, path));
            }
        }
    }
    if let Some((_, path)) = above {
        let message = format!("a plan of a longer sequence, this one has {}: remove it", plans.len());
        return Err(Failure::input(path.display(), message));
    }
    // Links are written through.
    let is_file = |plan: &&PathBuf| plan.symlink_metadata().is_ok_and(|metadata| metadata.is_file());
    for plan in plans.iter().filter(is_file) {
        std::fs::remove_file(plan).map_err(|error| Failure::File(format!("{}: {error}", plan.display())))?;
    }
    Ok(())
}

/// The number of `0003.plan.json`; more than a number can say counts as most.
fn plan_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".plan.json")?;
    let is_number = digits.len() >= 4 && digits.bytes().all(|letter| letter.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(u64::MAX))
}

/// Sums over the windows; floats are of the sums.
fn totals(windows: &[WindowAnswer]) -> Vec<SequenceArm> {
    let Some(first) = windows.first() else { return Vec::new() };
    let mut totals = first.arms.clone();
    for window in &windows[1..] {
        for (total, arm) in totals.iter_mut().zip(&window.arms) {
            total.worst_shard += arm.worst_shard;
            total.joint_score += arm.joint_score;
            total.peak += arm.peak;
            total.peak_bound += arm.peak_bound;
            total.moved += arm.moved;
            total.bytes += arm.bytes;
            total.link_ms = total.link_ms.zip(arm.link_ms).map(|(sum, more)| sum + more);
        }
    }
    totals
}

const HEADER: [&str; 11] = [
    "window",
    "first_step",
    "steps",
    "arm",
    "worst_shard",
    "joint_score",
    "peak",
    "peak_bound",
    "moved",
    "bytes",
    "link_ms",
];

fn csv_lines(answer: &Answer) -> Vec<Vec<String>> {
    let line = |window: &WindowAnswer, arm: &SequenceArm| {
        vec![
            window.window.clone(),
            window.steps.first().map_or_else(String::new, i64::to_string),
            window.steps.len().to_string(),
            arm.name.clone(),
            arm.worst_shard.to_string(),
            arm.joint_score.to_string(),
            arm.peak.to_string(),
            arm.peak_bound.to_string(),
            arm.moved.to_string(),
            arm.bytes.to_string(),
            arm.link_ms.map_or_else(String::new, |ms| format!("{ms:.3}")),
        ]
    };
    answer.windows.iter().flat_map(|window| window.arms.iter().map(|arm| line(window, arm))).collect()
}

fn text(answer: &Answer) -> String {
    let above = |arm: &SequenceArm| match arm.peak_bound {
        0 => "–".to_owned(),
        bound => format!("{:.3}", 100.0 * (arm.peak as f64 / bound as f64 - 1.0)),
    };
    let line = |name: String, arm: &SequenceArm| {
        vec![
            name,
            arm.name.clone(),
            format!("{:.4}", arm.joint_score),
            above(arm),
            arm.moved.to_string(),
            format!("{:.1}", arm.bytes as f64 / 1e6),
            arm.link_ms.map_or("–".to_owned(), |ms| format!("{ms:.1}")),
        ]
    };
    let mut rows = Vec::new();
    for (index, window) in answer.windows.iter().enumerate() {
        rows.extend(window.arms.iter().map(|arm| line((index + 1).to_string(), arm)));
    }
    rows.extend(answer.totals.iter().map(|arm| line("all".to_owned(), arm)));
    let header = ["window", "arm", "joint score", "peak above %", "moved", "MB", "link ms"];
    let mut text = render(&header, &rows);
    if !answer.finished {
        text.push_str("\nstopped early: the best plans so far");
        if answer.totals.len() > 1 {
            text.push_str("; of the last window some arms had less time");
        }
    }
    text
}

/// Moves so far, and score above the oracle's in percent.
fn draw_sequence(path: &Path, answer: &Answer) -> Result<(), Failure> {
    let arms = answer.totals.len();
    let (mut moves, mut scores) = (Vec::new(), Vec::new());
    for arm in 0..arms {
        let name = &answer.totals[arm].name;
        let mut sum = 0;
        let so_far = answer.windows.iter().enumerate().map(|(index, window)| {
            sum += window.arms[arm].moved;
            ((index + 1) as f64, sum as f64)
        });
        moves.push(Line { name: name.clone(), points: so_far.collect() });
        let above = answer.windows.iter().enumerate().map(|(index, window)| {
            let oracle = window.arms.last().map_or(1, |oracle| oracle.worst_shard).max(1);
            ((index + 1) as f64, 100.0 * (window.arms[arm].worst_shard as f64 / oracle as f64 - 1.0))
        });
        scores.push(Line { name: name.clone(), points: above.collect() });
    }
    let moves: Vec<Line> = moves.into_iter().filter(|line| line.name != "oracle").collect();
    draw(path, "window", &[("experts moved so far", &moves), ("score above the oracle, %", &scores)])
}
