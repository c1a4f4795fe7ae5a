//! `routepack report`: the plan beside its reference arms.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use routepack::{
    Arm, Beside, BesideTable, HtmlReportError, MovePoint, Plan, Report, RowsLine, TracePoint,
    arrange::ArrangeOptions, formats, html_report, percent_more,
};

use super::outputs::{
    Named, check_distinct, check_folder, check_json, check_outputs, given, make_folder, speaks,
};
use super::rows_table::rows_table;
use super::{is_stdout, read_window, refused};
use crate::exit::Failure;
use crate::output::{print, print_json, say};
use crate::sparkline::sparkline;
use crate::table::{self, read_csv, read_csv_lines};

/// Arguments of `routepack report`.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("drawn").multiple(true)))]
#[command(after_help = "\
Examples:
  routepack report plan.json --window window.npz
  routepack report plan.json --window window.npz --html plan.html --svg pictures
  routepack report plan.json --window window.npz --html plan.html --trace trace.csv --curve moves.csv
  routepack report plan.json --window window.npz --json | jq '.arms[] | [.name, .joint_score, .worst_peak, .cv, .gap]'

Arms: baseline (identity placement, first-fit decreasing), reorder (first-fit decreasing), dp-local-ffd (LPT over slots and
first-fit decreasing in each), routepack (the plan). Reorder and dp-local-ffd each have the plan's placement or the one made
for the window's load, whichever gives them the better joint score: a plan's is made for its own layout. Where the plan has
more rows than the fewest, they take the better number of both. The table says which.

The tables of --trace, --curve and --rows-curve must be of this plan.

Exit codes: 0 done; 1 the plan does not verify; 2 wrong usage; 3 bad input; 4 a file.")]
pub(crate) struct Arguments {
    /// Plan file (`-` for standard input).
    plan: PathBuf,
    /// The window it was made from.
    #[arg(long)]
    window: PathBuf,
    /// Write a page with pictures: one HTML file that needs no network (`-`: to standard output, and no table).
    #[arg(long, value_name = "FILE", group = "drawn")]
    html: Option<PathBuf>,
    /// Write every picture as an SVG file into this folder, made if it is not there.
    #[arg(long, value_name = "FOLDER", group = "drawn")]
    svg: Option<PathBuf>,
    /// Show the layout search in the page: the table of `routepack plan --trace`.
    #[arg(long, value_name = "FILE", requires = "drawn")]
    trace: Option<PathBuf>,
    /// Show what moves of experts buy in the page: the table of `routepack place --curve`.
    #[arg(long, value_name = "FILE", requires = "drawn")]
    curve: Option<PathBuf>,
    /// Show step time by rows in the page: the table of `routepack simulate --rows-curve`.
    #[arg(long, value_name = "FILE", requires = "drawn")]
    rows_curve: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let html = given(&[("--html", &arguments.html)]);
    arguments.svg.as_deref().map_or(Ok(()), |folder| check_folder("--svg", folder))?;
    check_apart(arguments)?;
    // The folder of the pictures is made later, and may be that of the page.
    let check = if page_waits_for_folder(arguments) { check_distinct } else { check_outputs };
    check(&inputs(arguments), &html)?;
    check_json(arguments.json, &html)?;
    let plan = formats::read_plan(&arguments.plan)?;
    let batch = read_window(&arguments.window)?;
    let draws = arguments.html.is_some() || arguments.svg.is_some();
    let (trace, trace_lines) = read_trace(arguments.trace.as_deref())?;
    let (moves, move_lines) = read_moves(arguments.curve.as_deref())?;
    let (rows, row_lines) = read_rows(arguments.rows_curve.as_deref())?;
    let beside = Beside { trace, moves, rows };
    let made = if draws {
        html_report(&plan, &batch, &beside).map(|drawn| (drawn.report, Some((drawn.html, drawn.svgs))))
    } else {
        routepack::report(&plan, &batch).map(|report| (report, None)).map_err(HtmlReportError::from)
    };
    let (report, drawn) = match made {
        Ok(made) => made,
        Err(HtmlReportError::Verify(error)) => {
            return refused(&arguments.plan, &arguments.window, &error, arguments.json);
        }
        Err(HtmlReportError::Beside { table, line, why }) => {
            let (file, lines) = match table {
                BesideTable::Trace => (&arguments.trace, &trace_lines),
                BesideTable::Moves => (&arguments.curve, &move_lines),
                BesideTable::Rows => (&arguments.rows_curve, &row_lines),
            };
            let file = file.as_deref().expect("a table that is refused was read").display();
            return Err(match line.map(|line| lines[line]) {
                Some(line) => Failure::input(format!("{file}: line {line}"), why),
                None => Failure::input(file, why),
            });
        }
    };
    if let Some((page, svgs)) = drawn {
        write_drawn(arguments, &page, &svgs)?;
    }
    match arguments.json {
        _ if !speaks(&html) => Ok(()),
        true => print_json(&report),
        false => print(&in_words(&report, &plan)),
    }
}

/// Refuses pictures in a folder that the page is to be a file of.
fn check_apart(arguments: &Arguments) -> Result<(), Failure> {
    let (Some(page), Some(folder)) = (&arguments.html, &arguments.svg) else { return Ok(()) };
    let apart = match whole(folder).strip_prefix(whole(page)) {
        _ if is_stdout(page) => return Ok(()),
        Err(_) => return Ok(()),
        Ok(rest) if rest.as_os_str().is_empty() => "the same path as",
        Ok(_) => "lies in",
    };
    let (page, folder) = (page.display(), folder.display());
    Err(Failure::Input(format!("--svg {folder}: {apart} --html {page}; nothing was written")))
}

/// A path from the root, without `.`.
fn whole(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Whether the page goes where only the folder of the pictures will lead.
fn page_waits_for_folder(arguments: &Arguments) -> bool {
    let (Some(page), Some(folder)) = (&arguments.html, &arguments.svg) else { return false };
    let (page, folder) = (whole(page), whole(folder));
    page.parent().is_some_and(|home| !home.exists() && folder.starts_with(home))
}

fn inputs(arguments: &Arguments) -> Vec<Named<'_>> {
    let mut inputs = vec![("PLAN", arguments.plan.as_path()), ("--window", &arguments.window)];
    inputs.extend(given(&[
        ("--trace", &arguments.trace),
        ("--curve", &arguments.curve),
        ("--rows-curve", &arguments.rows_curve),
    ]));
    inputs
}

/// Lines of a table, and their numbers in its file.
type Lines<T> = (Vec<T>, Vec<u64>);

/// A trace may be without lines: what is solved outright is not annealed.
fn read_trace(path: Option<&Path>) -> Result<Lines<TracePoint>, Failure> {
    let Some(path) = path else { return Ok(Lines::default()) };
    let mut before: Option<TracePoint> = None;
    let trace = read_csv_lines(path, |point: &TracePoint, _| {
        point.check(ArrangeOptions::MAX_POPULATION)?;
        before.replace(point.clone()).map_or(Ok(()), |before| point.check_after(&before))
    })?;
    if trace.0.is_empty() {
        say(&format!("{}: nothing was annealed: no picture of the search", path.display()));
    }
    Ok(trace)
}

/// What its lines say is judged beside a plan that verifies, and no sooner.
fn read_moves(path: Option<&Path>) -> Result<Lines<MovePoint>, Failure> {
    path.map_or(Ok(Lines::default()), |path| read_csv(path, |_, _| Ok(())))
}

fn read_rows(path: Option<&Path>) -> Result<Lines<RowsLine>, Failure> {
    let Some(path) = path else { return Ok(Lines::default()) };
    let mut lines = HashMap::new();
    read_csv(path, |row: &RowsLine, line| {
        row.point().check()?;
        match lines.insert(row.rows, line) {
            Some(first) => Err(format!("rows = {}: expected once, line {first} has them", row.rows)),
            None => Ok(()),
        }
    })
}

/// Writes the page and the pictures that were asked for.
fn write_drawn(arguments: &Arguments, html: &str, svgs: &[(String, String)]) -> Result<(), Failure> {
    if let Some(folder) = &arguments.svg {
        make_folder("--svg", folder)?;
        let file = |name: &String| folder.join(name).with_extension("svg");
        let files: Vec<PathBuf> = svgs.iter().map(|(name, _)| file(name)).collect();
        let mut outputs = given(&[("--html", &arguments.html)]);
        outputs.extend(files.iter().map(|path| ("--svg", path.as_path())));
        check_outputs(&inputs(arguments), &outputs)?;
        for ((_, svg), path) in svgs.iter().zip(&files) {
            formats::write_atomically(path, svg.as_bytes())?;
        }
    }
    if let Some(path) = &arguments.html {
        formats::write_atomically(path, html.as_bytes())?;
    }
    Ok(())
}

fn in_words(report: &Report, plan: &Plan) -> String {
    let proved = report.rows_proved.iter().all(|&proved| proved);
    let proved = if proved { "proved" } else { "not proved" };
    let fewest = if report.rows == report.rows_found {
        format!("the fewest, {proved}")
    } else {
        format!("{:?} are the fewest, {proved}", report.rows_found)
    };
    let mut lines =
        vec![format!("plan {}", report.plan_sha256), format!("rows per step {:?}, {fewest}", report.rows)];
    if report.estimate {
        lines
            .push("expert figures are estimates: routes were divided evenly over parts of a slot".to_owned());
    }
    if !report.has_routes() {
        lines.push("no routes recorded: attention alone is charged, nothing is known of experts".to_owned());
    }
    let simulated = plan.machine.as_ref().filter(|_| report.is_simulated());
    lines.extend(simulated.map(|machine| format!("tokens/s: {}", machine.in_words())));
    let (titles, figures) = report.table();
    let titles: Vec<&str> = std::iter::once("").chain(titles[1..].iter().map(String::as_str)).collect();
    let arms = table::render(&titles, &figures);
    let (ours, others) = report.arms.split_last().expect("the plan is always an arm");
    lines.extend([
        String::new(),
        arms,
        String::new(),
        "routepack against, in percent:".to_owned(),
        table::render(&titles[..=others.len()], &difference_rows(ours, others)),
    ]);
    for (points, step) in report.rows_tried.iter().zip(&plan.steps) {
        lines.extend([String::new(), format!("step {}: step time by rows, simulated:", step.step)]);
        lines.push(rows_table(points, step.rows));
    }
    lines.push(String::new());
    lines.extend(pictures(ours, plan));
    let more = report.arms.iter().filter(|arm| arm.own_rows);
    lines.extend(more.map(|arm| format!("{} needs more rows than the plan", arm.name)));
    lines.extend(report.without.iter().map(|(name, why)| format!("{name}: no layout ({why})")));
    lines.join("\n")
}

/// What the plan looks like, a line each: cells, shards, layers.
fn pictures(ours: &Arm, plan: &Plan) -> Vec<String> {
    let line = |name: &str, values: &[f64], low: f64, digits: usize| {
        let (least, most) = values
            .iter()
            .fold((f64::INFINITY, 0.0f64), |(least, most), &value| (least.min(value), most.max(value)));
        let bars = sparkline(values, low);
        format!("{name:<20} {bars}\n{:<20} {least:.digits$} to {most:.digits$}", "")
    };
    let rows = plan.steps.iter().flat_map(|step| &step.tokens.padded);
    let fullest: Vec<f64> = rows.map(|cells| cells.iter().copied().max().unwrap_or(0) as f64).collect();
    let unit = ours.figures.unit as f64;
    let shards: Vec<f64> = ours.figures.shard_cost.iter().map(|&cost| cost as f64 / unit).collect();
    let over_mean = |ranks: &Vec<u64>| {
        let (most, sum) = (ranks.iter().copied().max().unwrap_or(0), ranks.iter().sum::<u64>());
        if sum == 0 { 1.0 } else { most as f64 * ranks.len() as f64 / sum as f64 }
    };
    let layers: Vec<f64> = ours.figures.rank_loads.iter().map(over_mean).collect();
    let mut lines =
        vec![line("fullest cell, tokens", &fullest, 0.0, 0), line("cost of shards", &shards, 0.0, 4)];
    if !layers.is_empty() {
        lines.push(line("layers, peak/mean", &layers, 1.0, 4));
    }
    lines
}

type Quantity = (&'static str, fn(&Arm) -> Option<f64>);

/// How much more the plan has of every quantity, in percent; nothing is known where the other has none of it.
fn difference_rows(ours: &Arm, others: &[Arm]) -> Vec<Vec<String>> {
    let quantities: [Quantity; 5] = [
        ("peak sum", |arm| Some(arm.figures.peak_sum as f64)),
        ("worst peak", |arm| Some(arm.figures.worst_peak as f64)),
        ("attention cost (all shards)", |arm| Some(arm.figures.attention_cost)),
        ("joint score", |arm| Some(arm.figures.joint_score)),
        ("tokens/s, simulated", |arm| arm.tokens_per_second),
    ];
    let row = |(name, quantity): &Quantity| {
        let ours = quantity(ours)?;
        let differences = others.iter().map(|other| percent_more(Some(ours), quantity(other).unwrap_or(0.0)));
        Some(std::iter::once((*name).to_owned()).chain(differences).collect())
    };
    quantities.iter().filter_map(row).collect()
}
