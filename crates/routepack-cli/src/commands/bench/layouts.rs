//! `routepack bench layouts`: trainers' packing rules beside ours.

use std::path::{Path, PathBuf};

use routepack::baselines::PEERS;
use routepack::simulation::presets;
use routepack::{Job, formats};
use routepack_bench::{
    ArmFigures, BenchError, LayoutArm, LayoutWindow, LayoutsBench, WindowArms, bench_layouts,
};

use serde_json::{Map, Value};

use super::super::machine::{ClusterArguments, model_file, read_model};
use super::super::outputs::{check_json, check_outputs, given, speaks};
use super::super::{in_pool, read_window};
use crate::chart::{Dots, draw_dots};
use crate::exit::Failure;
use crate::interrupt;
use crate::output::{print, print_json, say};
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
    /// Print JSON: an element an arm, with the names and figures of the table.
    #[arg(long)]
    json: bool,
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
    let mut inputs: Vec<_> = arguments.windows.iter().map(|path| ("WINDOWS", path.as_path())).collect();
    // One job for all is read for each.
    let beside: Vec<PathBuf> = match &arguments.job {
        Some(job) => vec![job.clone()],
        None => arguments.windows.iter().map(|path| path.with_extension("toml")).collect(),
    };
    inputs.extend(beside.iter().map(|path| ("the job", path.as_path())));
    inputs
        .extend(arguments.models.iter().filter_map(|name| model_file(name)).chain(arguments.cluster.file()));
    let outputs = given(&[("--output", &arguments.output), ("--plot", &arguments.plot)]);
    check_outputs(&inputs, &outputs)?;
    check_json(arguments.json, &outputs)?;
    let names = names(&arguments.windows)?;
    let models: Vec<&str> = if arguments.models.is_empty() {
        presets::model_names().collect()
    } else {
        arguments.models.iter().map(String::as_str).collect()
    };
    let bench = LayoutsBench {
        models: models.into_iter().map(read_model).collect::<Result<_, _>>()?,
        cluster: arguments.cluster.read()?,
        options: arguments.cluster.options()?,
        overlap_seconds: arguments.overlap_seconds,
        windows: read(arguments, names)?,
    };
    let stop = interrupt::flag();
    let mut observe = |window: &WindowArms| {
        if !arguments.quiet {
            say(&format!("{}: {} arms", window.window, window.arms.len()));
        }
    };
    let windows = in_pool(arguments.threads, || bench_layouts(&bench, stop, &mut observe))?;
    let windows = windows.map_err(|error| match error {
        BenchError::Window { window, of_job, why } => {
            let at = bench.windows.iter().position(|known| known.name == window);
            let at = at.expect("a window of the bench");
            // One job for all, or one each.
            let job = beside.get(at).unwrap_or(&beside[0]);
            Failure::input(if of_job { job } else { &arguments.windows[at] }.display(), why)
        }
        other => other.into(),
    })?;
    if windows.is_empty() {
        return Err(Failure::NotFound("stopped before the first window was done".to_owned()));
    }
    if let Some(path) = &arguments.output {
        let lines: Vec<Vec<String>> =
            of_arms(&windows, |window, arm| line(window, arm).map(|(_, value)| text(value)).to_vec());
        write_csv(path, &HEADER, &lines)?;
    }
    if let Some(path) = &arguments.plot {
        plot(path, &windows)?;
    }
    match arguments.json {
        _ if !speaks(&outputs) => Ok(()),
        true => print_json(&of_arms(&windows, |window, arm| {
            line(window, arm).into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>()
        })),
        false => print(&windows.iter().map(in_words).collect::<Vec<_>>().join("\n\n")),
    }
}

fn of_arms<T>(windows: &[WindowArms], of: fn(&WindowArms, &LayoutArm) -> T) -> Vec<T> {
    windows.iter().flat_map(|window| window.arms.iter().map(move |arm| of(window, arm))).collect()
}

/// Names of the windows in tables: of their files; with the folder where two files are called the same.
fn names(windows: &[PathBuf]) -> Result<Vec<String>, Failure> {
    let stem =
        |path: &Path| path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let namesakes = |path: &Path| windows.iter().filter(|other| stem(other) == stem(path)).count();
    let name = |path: &PathBuf| match namesakes(path) {
        1 => stem(path),
        _ => path.display().to_string(),
    };
    let names: Vec<String> = windows.iter().map(name).collect();
    match names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
        Some((_, twice)) => Err(Failure::Input(format!("WINDOWS {twice}: given twice"))),
        None => Ok(names),
    }
}

fn read(arguments: &Arguments, names: Vec<String>) -> Result<Vec<LayoutWindow>, Failure> {
    let shared: Option<Job> = arguments.job.as_deref().map(formats::read_toml).transpose()?;
    let one = |(path, name): (&PathBuf, String)| {
        // The window first: it is what was named.
        let batch = read_window(path)?;
        let job = match &shared {
            Some(job) => job.clone(),
            None => formats::read_toml(&path.with_extension("toml"))?,
        };
        Ok(LayoutWindow { name, job, batch })
    };
    arguments.windows.iter().zip(names).map(one).collect()
}

const HEADER: [&str; 16] = [
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

/// An arm's line of the table: names and values, null where there is none.
fn line(window: &WindowArms, arm: &LayoutArm) -> [(&'static str, Value); 16] {
    let figures = arm.figures.as_ref().ok();
    let count = |of: fn(&ArmFigures) -> u64| figures.map_or(Value::Null, |figures| of(figures).into());
    // Nothing is known of experts without recorded routes.
    let routed = |of: fn(&ArmFigures) -> Option<u64>| figures.and_then(of).map_or(Value::Null, Value::from);
    let cost = |of: fn(&ArmFigures) -> f64| figures.map_or(Value::Null, |figures| of(figures).into());
    let values = [
        window.window.as_str().into(),
        window.model.clone().into(),
        window.tokens.into(),
        arm.name.into(),
        count(|figures| figures.rows),
        count(|figures| figures.cells),
        count(|figures| figures.over_cap),
        count(|figures| figures.largest_cell),
        cost(|figures| figures.attention_cost),
        routed(|figures| figures.peak_sum),
        routed(|figures| figures.worst_peak),
        cost(|figures| figures.joint_score),
        arm.step_seconds.into(),
        microseconds(arm.planning_seconds).into(),
        microseconds(arm.net_planning_seconds).into(),
        arm.figures.as_ref().err().cloned().into(),
    ];
    let mut names = HEADER.into_iter();
    values.map(|value| (names.next().expect("a name each"), value))
}

/// A value as a table has it.
fn text(value: Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// Seconds by the clock, to what the clock is good for.
fn microseconds(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e6
}

fn in_words(window: &WindowArms) -> String {
    let header = ["", "rows", "over cap", "attention", "peak sum", "worst", "joint", "step s", "plan s"];
    let known = |count: Option<u64>| count.map_or_else(|| "–".to_owned(), |count| count.to_string());
    let packed = window.arms.iter().filter_map(|arm| Some((arm, arm.figures.as_ref().ok()?)));
    let rows: Vec<Vec<String>> = packed
        .clone()
        .map(|(arm, figures)| {
            vec![
                arm.name.to_owned(),
                figures.rows.to_string(),
                figures.over_cap.to_string(),
                format!("{:.3}", figures.attention_cost),
                known(figures.peak_sum),
                known(figures.worst_peak),
                format!("{:.3}", figures.joint_score),
                arm.step_seconds.map_or_else(|| "–".to_owned(), |seconds| format!("{seconds:.3}")),
                format!("{:.3}", arm.net_planning_seconds),
            ]
        })
        .collect();
    let routed = packed.clone().all(|(_, figures)| figures.peak_sum.is_some());
    let model = match &window.model {
        Some(model) => model.as_str(),
        None if routed => "no model fits: not simulated",
        None => "no routes recorded: not simulated, no peaks",
    };
    let mut lines =
        vec![format!("{}: {} tokens, {model}", window.window, window.tokens), render(&header, &rows)];
    lines.extend(
        window
            .arms
            .iter()
            .filter_map(|arm| Some(format!("{}: no layout ({})", arm.name, arm.figures.as_ref().err()?))),
    );
    let better: Vec<_> = ["routepack", "routepack+"].map(|ours| (ours, window.better_peers(ours))).into();
    let by_quantity = better.iter().flat_map(|(name, better)| {
        better.chunk_by(|one, other| one.0 == other.0).map(move |those| (name, those))
    });
    for (ours_is, quantity) in by_quantity {
        let over = |name: &str| {
            let arm = window.arms.iter().find(|arm| arm.name == name);
            arm.is_some_and(|arm| arm.figures.as_ref().is_ok_and(|figures| figures.over_cap > 0))
        };
        let ours = quantity[0].3;
        let digits = digits(quantity.iter().map(|(.., theirs, _)| *theirs), ours);
        let better = format!("better than {ours_is} in {} ({ours:.digits$}):", quantity[0].0);
        if quantity.len() + 2 == rows.len() {
            lines.push(format!("{better} every rule"));
            continue;
        }
        lines.push(better);
        lines.extend(quantity.iter().map(|(_, name, theirs, _)| {
            format!("  {name} {theirs:.digits$}{}", if over(name) { " (over cap)" } else { "" })
        }));
    }
    lines.join("\n")
}

/// Places after the point that tell every value from `ours`: none for whole numbers, else three or more.
fn digits(values: impl Iterator<Item = f64> + Clone, ours: f64) -> usize {
    if values.clone().all(|value| value.fract() == 0.0) && ours.fract() == 0.0 {
        return 0;
    }
    let alike = |digits: &usize| {
        values.clone().any(|value| format!("{value:.digits$}") == format!("{ours:.digits$}"))
    };
    (3..12).find(|digits| !alike(digits)).unwrap_or(12)
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
