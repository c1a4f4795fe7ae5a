//! `routepack plan`: a window and a job to a verified plan.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use clap::ValueEnum;
use routepack::formats;
use routepack::problem::{counted, four_places};
use routepack::verification::PlanStep;
use routepack::{Aim, Control, Job, Plan, PlanError, TRAIN};

use super::outputs::{Named, check_json, check_outputs, given, speaks};
use super::resident::read_resident;
use super::search_trace::SearchTrace;
use super::{blamed, ends_with, in_pool, is_stdout, read_window};
use crate::exit::Failure;
use crate::interrupt;
use crate::output::{print, print_json};
use crate::progress::Bar;

/// Arguments of `routepack plan`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  routepack plan window.npz --job job.toml -o plan.json
  routepack plan window.npz --job job.toml --deadline-ms 200 -o plan.json
  routepack plan window.npz --job job.toml --json | jq .steps[0].rows
  routepack plan window.npz --job job.toml -o indices.npz     # index arrays for a trainer
  routepack plan window.npz --job job.toml --resident last.plan.json -o plan.json
  zcat window.json.gz | routepack plan - --job job.toml -o plan.json

A job that is enough to begin with (`routepack schema job` describes every field):
  [topology]
  dp = 8
  ep = 8
  [routing]
  top_k = 8
  [packing]
  capacity = 8192

With pipelines more rows than the fewest can be faster. These lines of a job try up to 8 more, take those with the
least simulated step time, and let `verify` and `report` recompute it:
  [packing]
  rows = { extra_rows = 8 }
  [machine]
  model = \"qwen3-30b-a3b\"   # a preset, or a table of its shapes
  cluster = \"h20\"

Ctrl-C once: the best plan so far. Twice: the end.

Exit codes: 0 done, also where a gap is stated; 2 wrong usage; 3 bad or infeasible input; 4 a file.")]
pub(crate) struct Arguments {
    /// Window: .npz or .json (`-` for standard input).
    window: PathBuf,
    /// Job file (TOML): topology, capacity, cost, options.
    #[arg(long)]
    job: PathBuf,
    /// Plan file to write (`-` for standard output); .npz gives the index arrays alone.
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Seed of every random stream; the job's by default.
    #[arg(long)]
    seed: Option<u64>,
    /// Stop with the best plan so far after this many milliseconds; the job's by default.
    #[arg(long)]
    deadline_ms: Option<u64>,
    /// What the placement is aimed at: the peaks that the layout is charged with, the load of the whole window before
    /// there is a layout, or nothing (experts stay where they are). The job's `refine.placement` by default.
    #[arg(long, value_enum)]
    placement: Option<Placement>,
    /// Where the weights are: a plan, or a file of `routepack place -o`. What may move from there is in the job's `[moves]`.
    #[arg(long, value_name = "FILE")]
    resident: Option<PathBuf>,
    /// Table to write of the layout search (CSV): temperatures of every step's first search, for `routepack report --trace`.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Threads; all processors by default. The plan does not depend on it.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// No progress bar.
    #[arg(short, long)]
    quiet: bool,
    /// Print the plan as JSON instead of a summary.
    #[arg(long)]
    json: bool,
}

/// As [`Aim`].
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Placement {
    RowPeaks,
    Aggregate,
    Fixed,
}

impl From<Placement> for Aim {
    fn from(placement: Placement) -> Self {
        match placement {
            Placement::RowPeaks => Self::RowPeaks,
            Placement::Aggregate => Self::Aggregate,
            Placement::Fixed => Self::Fixed,
        }
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut job: Job = formats::read_toml(&arguments.job)?;
    job.seed = arguments.seed.unwrap_or(job.seed);
    job.deadline_ms = arguments.deadline_ms.or(job.deadline_ms);
    job.refine.placement = arguments.placement.map_or(job.refine.placement, Aim::from);
    check(arguments, &job)?;
    job.place.resident = arguments.resident.as_deref().map(read_resident).transpose()?;
    let mut control = Control::new();
    if let Some(limit) = job.deadline_ms {
        control = control.within(Duration::from_millis(limit));
    }
    let batch = read_window(&arguments.window)?;
    control = control.cancelled_by(interrupt::flag());
    let bar = Bar::new(arguments.quiet);
    let trace = Mutex::new(SearchTrace::default());
    let mut control = control.observed_by(|progress| {
        bar.show(progress);
        if arguments.trace.is_some() {
            trace.lock().unwrap_or_else(PoisonError::into_inner).observe(progress);
        }
    });
    let plans = in_pool(arguments.threads, || routepack::plan_passes(&batch, &job, &mut control))?.map_err(
        |error| {
            if matches!(error, PlanError::NotFound { .. }) {
                return Failure::NotFound(format!("{}: {error}", arguments.window.display()));
            }
            let file = blamed(&error, &arguments.window, &arguments.job, arguments.resident.as_deref());
            Failure::input(file.display(), error)
        },
    )?;
    drop(control);
    drop(bar);
    let to_stdout = arguments.output.as_deref().is_some_and(is_stdout);
    for (pass, plan) in &plans {
        match &arguments.output {
            // Standard output takes one plan, the one for training.
            Some(_) if to_stdout && pass != TRAIN => {}
            Some(output) => write_pass(output, pass, plan)?,
            None => {}
        }
    }
    // After the plan, which it must not lose.
    if let Some(path) = &arguments.trace {
        let trace = trace.into_inner().unwrap_or_else(PoisonError::into_inner);
        formats::write_atomically(path, trace.table(&plans[0].1).as_bytes())?;
    }
    let (_, plan) = &plans[0];
    let outputs = outputs(arguments);
    match arguments.json {
        _ if !speaks(&outputs) => Ok(()),
        true => print_json(plan),
        false => {
            let mut lines = summary(plan);
            for (pass, plan) in &plans[1..] {
                lines.push(format!("pass {pass}:"));
                lines.extend(summary(plan).into_iter().map(|line| format!("  {line}")));
            }
            print(&lines.join("\n"))
        }
    }
}

/// No output replaces an input or another output.
fn check(arguments: &Arguments, job: &Job) -> Result<(), Failure> {
    job.check_passes().map_err(|error| Failure::input(arguments.job.display(), error))?;
    let passes: Vec<PathBuf> = match arguments.output.as_deref() {
        Some(output) if !is_stdout(output) => job.passes.keys().map(|pass| pass_path(output, pass)).collect(),
        _ => Vec::new(),
    };
    let mut inputs = vec![("WINDOW", arguments.window.as_path()), ("--job", &arguments.job)];
    inputs.extend(given(&[("--resident", &arguments.resident)]));
    check_json(arguments.json, &given(&[("--trace", &arguments.trace)]))?;
    let mut outputs = outputs(arguments);
    outputs.extend(passes.iter().map(|path| ("the plan of a pass", path.as_path())));
    check_outputs(&inputs, &outputs)
}

fn outputs(arguments: &Arguments) -> Vec<Named<'_>> {
    given(&[("--output", &arguments.output), ("--trace", &arguments.trace)])
}

/// Where the plan of a pass goes; those beside training into files beside the plan's: `plan.log-prob.json`.
fn pass_path(output: &Path, pass: &str) -> PathBuf {
    if pass == TRAIN {
        return output.to_owned();
    }
    let mut ending = std::ffi::OsString::from(pass);
    if let Some(of_plan) = output.extension() {
        ending.push(".");
        ending.push(of_plan);
    }
    output.with_extension(ending)
}

/// Writes the plan of a pass.
fn write_pass(output: &Path, pass: &str, plan: &Plan) -> Result<(), Failure> {
    let path = pass_path(output, pass);
    if ends_with(output, "npz") {
        formats::write_plan_npz(&path, plan)?;
    } else {
        formats::write_plan(&path, plan)?;
    }
    Ok(())
}

/// Why the step has its rows, where the simulated step time decided.
fn step_time(plan: &Plan, step: &PlanStep) -> Option<String> {
    let machine = plan.machine.as_ref()?;
    let fewest = step.rows_tried.first()?;
    let used = step.rows_tried.iter().find(|tried| tried.rows == step.rows)?;
    let beside = if fewest.rows == used.rows {
        let most = step.rows_tried.last()?;
        format!("the least up to {}", counted(most.rows, "row"))
    } else {
        format!("with {} {} s", counted(fewest.rows, "row"), four_places(fewest.seconds))
    };
    Some(format!("  {} s a step, {beside} ({}, simulated)", four_places(used.seconds), machine.in_words()))
}

fn summary(plan: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    let unit = (u64::from(plan.setting.packing.capacity) << plan.scale_bits) as f64;
    for step in &plan.steps {
        let claim = if step.rows_proved {
            let are = if step.rows_found == 1 { "is" } else { "are" };
            format!("{} {are} the fewest, proved", counted(step.rows_found, "row"))
        } else {
            format!("at least {}, {} found", counted(step.rows_bound, "row"), step.rows_found)
        };
        lines.push(format!(
            "step {}: {}, {} ({claim})",
            step.step,
            counted(step.totals.samples, "sample"),
            counted(step.rows, "row")
        ));
        lines.extend(step_time(plan, step));
        let (own, free) = (100.0 * step.gap_to_placement, 100.0 * step.gap_to_free);
        let gaps = match plan.placement {
            Some(_) => {
                format!("{own:.3} % to the bound of this placement, {free:.3} % to that of any placement")
            }
            None => format!("{free:.3} % to the bound"),
        };
        lines.push(format!("  joint score {:.4}; gap {gaps}", step.score.worst_shard as f64 / unit));
    }
    if let Some(resident) = plan.placement.as_ref().and_then(|placement| placement.resident.as_ref()) {
        let moved: u64 = resident.moved.iter().map(|&moved| u64::from(moved)).sum();
        let most = resident.moved.iter().max().unwrap_or(&0);
        let moves = if moved == 1 { "moves" } else { "move" };
        lines.push(format!("{} {moves}, {most} of a layer at most", counted(moved, "expert")));
    }
    if !plan.dropped.is_empty() {
        lines.push(format!("{} left out: longer than a cell", counted(plan.dropped.len() as u64, "sample")));
    }
    if !plan.finished {
        lines.push("stopped early: the best plan so far".to_owned());
    }
    lines.push(format!("plan sha256 {}", plan.sha256));
    lines
}
