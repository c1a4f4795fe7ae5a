//! `routepack bench layouts`: trainers' packing rules beside ours.

use std::path::{Path, PathBuf};

use routepack::baselines::PEERS;
use routepack::formats;
use routepack::simulation::presets;
use routepack_bench::{ArmFigures, LayoutArm, LayoutWindow, LayoutsBench, WindowArms, bench_layouts};

use super::super::machine::{ClusterArguments, model_file, read_model};
use super::super::outputs::{check_outputs, given};
use super::super::{in_pool, read_window};
use crate::chart::{Dots, draw_dots};
use crate::exit::Failure;
use crate::interrupt;
use crate::output::{print, say};
use crate::table::{render, write_csv};

/// Arguments of `routepack bench layouts`.
#[derive(clap::Args)]
#[command(after_help = after_help())]
pub(super) struct Arguments {
    /// Windows (.npz or .json), each with its job beside it: WINDOW.toml.
    #[arg(required = true)]
    windows: Vec<PathBuf>,
    /// The job of every window, instead of the one beside it.
    #[arg(long)]
    job: Option<PathBuf>,
    /// Models: a window is simulated on the first that has its layers, experts and top-k; all presets by default.
    #[arg(long = "model", value_name = "NAME|FILE")]
    models: Vec<String>,
    #[command(flatten)]
    cluster: ClusterArguments,
    /// Seconds between rollouts and step that other work fills: planning up to them costs nothing.
    #[arg(long, default_value_t = 0.0, value_parser = seconds)]
    overlap_seconds: f64,
    /// Table to write (CSV): a line an arm.
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Plot to write (SVG): joint score and step time of every arm against ours.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Threads; all processors by default. Only the seconds of planning depend on it.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// No line a window on standard error.
    #[arg(short, long)]
    quiet: bool,
}

fn after_help() -> String {
    let peers = PEERS.map(|peer| format!("  {:<14} {}", peer.name, peer.trainers));
    format!(
        "Arms, all under the placement made for the window's load:\n{}\n  routepack      the layout search\n  \
         routepack+     placement and layout in turns: the one arm with a placement of its own\n\n\
         Examples:\n  routepack bench layouts instances/windows/tiny.npz --cluster h20 -o layouts.csv --plot layouts.svg\n  \
         routepack bench layouts window.npz --job job.toml --cluster h200 --overlap-seconds 3\n\n\
         Ctrl-C: the windows that are done, in all files and with exit code 0. A second one ends the command at once.\n\n\
         Exit codes: 0 done; 2 wrong usage; 3 bad input; 4 a file; 5 stopped before a window was done.",
        peers.join("\n")
    )
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().map_err(|_| "no number".to_owned())?;
    if (0.0..=1e6).contains(&seconds) { Ok(seconds) } else { Err("expected 0 to 10^6".to_owned()) }
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let beside: Vec<PathBuf> = arguments.windows.iter().map(|path| job_of(path, arguments)).collect();
    let mut inputs: Vec<_> = arguments.windows.iter().map(|path| ("WINDOWS", path.as_path())).collect();
    inputs.extend(beside.iter().map(|path| ("the job", path.as_path())));
    inputs
        .extend(arguments.models.iter().filter_map(|name| model_file(name)).chain(arguments.cluster.file()));
    check_outputs(&inputs, &given(&[("--output", &arguments.output), ("--plot", &arguments.plot)]))?;
    let models: Vec<&str> = if arguments.models.is_empty() {
        presets::model_names().collect()
    } else {
        arguments.models.iter().map(String::as_str).collect()
    };
    let bench = LayoutsBench {
        models: models.into_iter().map(read_model).collect::<Result<_, _>>()?,
        cluster: arguments.cluster.read()?,
        options: arguments.cluster.options(0.0),
        overlap_seconds: arguments.overlap_seconds,
        windows: arguments.windows.iter().map(|path| read(path, arguments)).collect::<Result<_, _>>()?,
    };
    bench.options.check().map_err(|error| Failure::Input(error.to_string()))?;
    let stop = interrupt::flag();
    let mut observe = |window: &WindowArms| {
        if !arguments.quiet {
            say(&format!("{}: {} arms", window.window, window.arms.len()));
        }
    };
    let windows = in_pool(arguments.threads, || bench_layouts(&bench, stop, &mut observe))??;
    if windows.is_empty() {
        return Err(Failure::NotFound("stopped before the first window was done".to_owned()));
    }
    if let Some(path) = &arguments.output {
        let lines: Vec<Vec<String>> =
            windows.iter().flat_map(|window| window.arms.iter().map(|arm| csv_line(window, arm))).collect();
        write_csv(path, &CSV_HEADER, &lines)?;
    }
    if let Some(path) = &arguments.plot {
        plot(path, &windows)?;
    }
    print(&windows.iter().map(in_words).collect::<Vec<_>>().join("\n\n"))
}

/// The job of a window: the one given for all, or the one beside it.
fn job_of(window: &Path, arguments: &Arguments) -> PathBuf {
    arguments.job.clone().unwrap_or_else(|| window.with_extension("toml"))
}

fn read(path: &Path, arguments: &Arguments) -> Result<LayoutWindow, Failure> {
    let job = job_of(path, arguments);
    let name = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    Ok(LayoutWindow { name, job: formats::read_toml(&job)?, batch: read_window(path)? })
}

const CSV_HEADER: [&str; 16] = [
    "window",
    "model",
    "tokens",
    "arm",
    "rows",
    "cells",
    "cells_over_cap",
    "largest_cell",
    "attention_cost",
    "peak_sum",
    "worst_peak",
    "joint_score",
    "step_seconds",
    "planning_seconds",
    "net_planning_seconds",
    "no_layout",
];

fn csv_line(window: &WindowArms, arm: &LayoutArm) -> Vec<String> {
    let model = window.model.clone().unwrap_or_default();
    let mut line = vec![window.window.clone(), model, window.tokens.to_string(), arm.name.to_owned()];
    match &arm.figures {
        Ok(figures) => {
            let ArmFigures { rows, cells, over_cap, largest_cell, peak_sum, worst_peak, .. } = figures;
            line.extend([rows, cells, over_cap, largest_cell].map(u64::to_string));
            line.push(figures.attention_cost.to_string());
            line.extend([peak_sum, worst_peak].map(u64::to_string));
            line.push(figures.joint_score.to_string());
        }
        Err(_) => line.extend(std::iter::repeat_n(String::new(), 8)),
    }
    line.push(arm.step_seconds.map_or_else(String::new, |seconds| seconds.to_string()));
    line.extend([arm.planning_seconds, arm.net_planning_seconds].map(|seconds| format!("{seconds:.6}")));
    line.push(arm.figures.as_ref().err().cloned().unwrap_or_default());
    line
}

fn in_words(window: &WindowArms) -> String {
    let header = ["", "rows", "over cap", "attention", "peak sum", "worst", "joint", "step s", "plan s"];
    let packed = window.arms.iter().filter_map(|arm| Some((arm, arm.figures.as_ref().ok()?)));
    let rows: Vec<Vec<String>> = packed
        .map(|(arm, figures)| {
            vec![
                arm.name.to_owned(),
                figures.rows.to_string(),
                figures.over_cap.to_string(),
                format!("{:.3}", figures.attention_cost),
                figures.peak_sum.to_string(),
                figures.worst_peak.to_string(),
                format!("{:.3}", figures.joint_score),
                arm.step_seconds.map_or_else(|| "–".to_owned(), |seconds| format!("{seconds:.3}")),
                format!("{:.3}", arm.net_planning_seconds),
            ]
        })
        .collect();
    let model = window.model.as_deref().unwrap_or("no model fits: not simulated");
    let mut lines =
        vec![format!("{}: {} tokens, {model}", window.window, window.tokens), render(&header, &rows)];
    lines.extend(
        window
            .arms
            .iter()
            .filter_map(|arm| Some(format!("{}: no layout ({})", arm.name, arm.figures.as_ref().err()?))),
    );
    let better = window.better_peers();
    for quantity in better.chunk_by(|one, other| one.0 == other.0) {
        let over = |name: &str| {
            let arm = window.arms.iter().find(|arm| arm.name == name);
            arm.is_some_and(|arm| arm.figures.as_ref().is_ok_and(|figures| figures.over_cap > 0))
        };
        let ours = format!("less {} than routepack ({}):", quantity[0].0, short(quantity[0].3));
        if quantity.len() + 2 == rows.len() {
            lines.push(format!("{ours} every rule"));
            continue;
        }
        lines.push(ours);
        lines.extend(quantity.iter().map(|(_, name, theirs, _)| {
            format!("  {name} {}{}", short(*theirs), if over(name) { " (over cap)" } else { "" })
        }));
    }
    lines.join("\n")
}

fn short(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.3}") }
}

/// Joint score, and step time where it was simulated, of every arm over that of ours under the same placement.
fn plot(path: &Path, windows: &[WindowArms]) -> Result<(), Failure> {
    let names: Vec<&str> = windows[0].arms.iter().map(|arm| arm.name).collect();
    let dots = |value: fn(&LayoutArm) -> Option<f64>| -> Vec<Dots> {
        let of_window = |window: &WindowArms| {
            let ours = window.arms.iter().find(|arm| arm.name == "routepack").and_then(value);
            let values = window.arms.iter().map(|arm| Some(100.0 * (value(arm)? / ours? - 1.0)));
            Dots { name: window.window.clone(), values: values.collect() }
        };
        windows.iter().map(of_window).collect()
    };
    let joint = dots(|arm| Some(arm.figures.as_ref().ok()?.joint_score));
    let time = dots(|arm| arm.step_seconds);
    let mut panels = vec![("joint score against routepack, %", &joint[..])];
    if time.iter().any(|dots| dots.values.iter().any(Option::is_some)) {
        panels.push(("simulated step time against routepack, %", &time[..]));
    }
    draw_dots(path, &names, &panels)
}
