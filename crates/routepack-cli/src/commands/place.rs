//! `routepack place`: experts onto EP ranks.

use std::path::PathBuf;

use routepack::formats;
use routepack::place::{
    MoveGoal, PlaceOptions, PlacedLayer, TradeOff, check_resident, place, place_incrementally, trade_off,
};
use routepack::{Batch, ExpertCounts, MovePoint, Placement, PlanError, trade_off_curve};
use schemars::JsonSchema;
use serde::Serialize;

use super::outputs::{check_json, check_outputs, given, speaks};
use super::resident::read_resident;
use super::{blamed, in_pool, read_window};
use crate::exit::Failure;
use crate::interrupt::Deadline;
use crate::output::{print, print_json};
use crate::table::write_csv;

/// Arguments of `routepack place`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  routepack place window.npz --ep 8
  routepack place window.npz --ep 16 --top-k 8 --deadline-ms 100 -o placement.json
  routepack place window.npz --ep 8 --resident last.plan.json --within 1 -o placement.json
  routepack place window.npz --ep 8 --resident last.plan.json --moves-per-layer 8 --curve moves.csv --plot moves.svg
  routepack place window.npz --ep 8 --json | jq '.layers[0] | .peak, .bound'

Exit codes: 0 done, also where least is not proved; 2 wrong usage; 3 bad or infeasible input; 4 a file.")]
pub(crate) struct Arguments {
    /// Window with expert counts: .npz or .json (`-` for standard input).
    window: PathBuf,
    /// EP ranks P.
    #[arg(long)]
    ep: u32,
    /// Where the weights are: a plan, or a file of this command; else expert e is in slot e.
    #[arg(long, value_name = "FILE")]
    resident: Option<PathBuf>,
    /// Fewest moves for peaks so many percent above the bound.
    #[arg(long, value_name = "PERCENT", value_parser = parts_per_million, group = "goal")]
    within: Option<u32>,
    /// At most so many experts of all layers move.
    #[arg(long, value_name = "EXPERTS", group = "goal")]
    moves: Option<u32>,
    /// At most so many experts of a layer move.
    #[arg(long, value_name = "EXPERTS", group = "goal")]
    moves_per_layer: Option<u32>,
    /// Table to write of what moves buy: layer, method, moved, peak, bound; greedy best swaps beside ours.
    #[arg(long, value_name = "FILE")]
    curve: Option<PathBuf>,
    /// Plot to write (SVG): moves to come within so many percent of the bound.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Placement file to write (JSON, `-` for standard output): slot of every expert, `[layers][experts]`.
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Experts chosen per token; when absent, the least that agrees with the counts.
    #[arg(long)]
    top_k: Option<u32>,
    /// Stop with the best placement so far after this many milliseconds.
    #[arg(long)]
    deadline_ms: Option<u64>,
    /// Threads; all processors by default. The answer does not depend on it.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What `routepack place --json` prints.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Answer {
    /// EP ranks P.
    ep: u32,
    /// Experts per layer.
    experts: usize,
    /// One element a layer.
    layers: Vec<LayerAnswer>,
    /// Slot of every expert, `[layers][experts]`.
    log2phys: Vec<Vec<u32>>,
    /// Whether the search ended by itself, not by a deadline or Ctrl-C.
    finished: bool,
}

#[derive(Serialize, JsonSchema)]
struct LayerAnswer {
    /// Load of the busiest rank, routed rows.
    peak: u64,
    /// No placement has a smaller peak than this.
    bound: u64,
    /// Load of the busiest rank when expert e is in slot e.
    identity_peak: u64,
    /// Load of the busiest rank where the experts are now.
    resident_peak: u64,
    /// Experts that leave their slot.
    moved: usize,
    /// Whether the peak is proved least.
    optimal: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let deadline = Deadline::after(arguments.deadline_ms);
    let shown = arguments.window.display();
    let mut inputs = vec![("WINDOW", arguments.window.as_path())];
    inputs.extend(given(&[("--resident", &arguments.resident)]));
    let outputs =
        [("--output", &arguments.output), ("--curve", &arguments.curve), ("--plot", &arguments.plot)];
    let outputs = given(&outputs);
    check_outputs(&inputs, &outputs)?;
    check_json(arguments.json, &given(&[("--curve", &arguments.curve), ("--plot", &arguments.plot)]))?;
    let batch = read_window(&arguments.window)?;
    let Some(counts) = &batch.expert_counts else {
        return Err(Failure::input(shown, "no expert_counts: nothing to place"));
    };
    let top_k = arguments.top_k.unwrap_or_else(|| least_top_k(&batch, counts));
    batch.check(top_k).map_err(|error| Failure::input(&shown, error))?;
    let (layers, experts, loads) = (counts.layers(), counts.experts(), counts.loads());
    let ranks = arguments.ep as usize;
    if ranks == 0 || !experts.is_multiple_of(ranks) {
        let message = format!("experts not divisible by ranks: {experts} experts a layer in {shown}");
        return Err(Failure::input(format!("--ep {ranks}"), message));
    }
    let given = arguments.resident.as_deref().map(read_resident).transpose()?;
    // All input is read: from now on Ctrl-C asks for the best answer so far.
    let stop = deadline.stop();
    let found =
        in_pool(arguments.threads, || find(&loads, ranks, given, arguments, &stop))?.map_err(|error| {
            let (window, resident) = (&arguments.window, arguments.resident.as_deref());
            Failure::input(blamed(&error, window, window, resident).display(), error)
        })?;
    let width = experts / ranks;
    let answer = Answer {
        ep: arguments.ep,
        experts,
        layers: loads
            .iter()
            .zip(&found.bounds)
            .enumerate()
            .map(|(layer, (loads, &bound))| {
                let (now, then) = (found.resident.slots(layer), found.placement.slots(layer));
                let peak = found.placement.peak(layer, loads);
                LayerAnswer {
                    peak,
                    bound,
                    identity_peak: loads.chunks(width).map(|rank| rank.iter().sum()).max().unwrap_or(0),
                    resident_peak: found.resident.peak(layer, loads),
                    moved: now.iter().zip(then).filter(|(now, then)| now != then).count(),
                    optimal: peak == bound,
                }
            })
            .collect(),
        log2phys: (0..layers).map(|layer| found.placement.slots(layer).to_vec()).collect(),
        finished: found.finished,
    };
    if let Some(path) = &arguments.curve {
        let lines: Vec<Vec<String>> = move_points(&found.curves).iter().map(curve_line).collect();
        write_csv(path, &["layer", "method", "moved", "peak", "bound"], &lines)?;
    }
    if let Some(path) = &arguments.plot {
        let drawn = trade_off_curve(&move_points(&found.curves)).svg();
        formats::write_atomically(path, drawn.as_bytes())?;
    }
    if let Some(output) = &arguments.output {
        let text = serde_json::to_string(&answer).expect("plain data") + "\n";
        formats::write_atomically(output, text.as_bytes())?;
    }
    match arguments.json {
        _ if !speaks(&outputs) => Ok(()),
        true => print_json(&answer),
        false => print(&layer_table(&answer)),
    }
}

/// A placement, where it came from, and what else moves would buy.
struct Found {
    resident: Placement,
    placement: Placement,
    /// Lower bound on the peak, `[layers]`.
    bounds: Vec<u64>,
    curves: Vec<TradeOff>,
    finished: bool,
}

fn find(
    loads: &[Vec<u64>],
    ranks: usize,
    given: Option<Placement>,
    arguments: &Arguments,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Found, PlanError> {
    let options = PlaceOptions { resident: given.clone(), ..PlaceOptions::default() };
    let goal = match (arguments.within, arguments.moves, arguments.moves_per_layer) {
        (Some(tolerance_ppm), ..) => Some(MoveGoal::Within { tolerance_ppm }),
        (_, None, None) => None,
        (_, total, per_layer) => Some(MoveGoal::Budget { per_layer, total }),
    };
    let resident = match given {
        Some(resident) => resident,
        None => Placement::identity(loads.len(), loads.first().map_or(0, Vec::len), ranks)?,
    };
    check_resident(&resident, loads.len(), loads.first().map_or(0, Vec::len), ranks)?;
    let (placement, bounds, finished) = if let Some(goal) = goal {
        let moved = place_incrementally(loads, &resident, goal, &options, stop)?;
        (moved.placement, moved.layers.iter().map(|layer| layer.bounds.best()).collect(), moved.finished)
    } else {
        let placed = place(loads, ranks, &options, stop)?;
        let bounds = placed.layers.iter().map(PlacedLayer::bound).collect();
        (placed.placement, bounds, placed.finished)
    };
    let asks_for_curves = arguments.curve.is_some() || arguments.plot.is_some();
    let curves = if asks_for_curves { trade_off(loads, &resident, &options, stop)? } else { Vec::new() };
    Ok(Found { resident, placement, bounds, curves, finished })
}

/// A percentage of at most 100 in parts per million.
fn parts_per_million(text: &str) -> Result<u32, String> {
    let percent: f64 = text.parse().map_err(|_| "no number".to_owned())?;
    if (0.0..=100.0).contains(&percent) {
        Ok((percent * 1e4).round() as u32)
    } else {
        Err("expected 0 to 100".to_owned())
    }
}

/// What every method reaches with its moves, layer by layer.
fn move_points(curves: &[TradeOff]) -> Vec<MovePoint> {
    let of_curve = |(layer, curve): (usize, &TradeOff)| {
        let methods = [("routepack", &curve.points), ("greedy", &curve.greedy)].into_iter();
        let bound = curve.bound;
        let of_method = move |(method, points): (&str, &Vec<(u32, u64)>)| {
            let point = |&(moved, peak)| MovePoint {
                layer: layer as u32,
                method: method.to_owned(),
                moved,
                peak,
                bound,
            };
            points.iter().map(point).collect::<Vec<_>>()
        };
        methods.flat_map(of_method).collect::<Vec<_>>()
    };
    curves.iter().enumerate().flat_map(of_curve).collect()
}

fn curve_line(point: &MovePoint) -> Vec<String> {
    let MovePoint { layer, method, moved, peak, bound } = point;
    vec![layer.to_string(), method.clone(), moved.to_string(), peak.to_string(), bound.to_string()]
}

/// The least number of experts a token with which the first layer's counts are whole tokens, at most a sample's: if the
/// counts are wrong for this one they are wrong for all.
fn least_top_k(batch: &Batch, counts: &ExpertCounts) -> u32 {
    let [samples, parts, _, experts] = counts.shape();
    let sums = (0..samples).map(|sample| {
        (0..parts).flat_map(|part| counts.of(sample, part, 0)).map(|&count| u64::from(count)).sum::<u64>()
    });
    let tokens = batch.routed_rows.as_ref().unwrap_or(&batch.lengths);
    let fits = |top_k: u64| {
        sums.clone().zip(tokens).all(|(sum, &tokens)| {
            sum.is_multiple_of(top_k)
                && match batch.routed_rows {
                    Some(_) => sum / top_k == u64::from(tokens),
                    None => sum / top_k <= u64::from(tokens),
                }
        })
    };
    (1..=experts as u64).find(|&top_k| fits(top_k)).unwrap_or(1) as u32
}

fn layer_table(answer: &Answer) -> String {
    let rows: Vec<Vec<String>> = answer
        .layers
        .iter()
        .enumerate()
        .map(|(layer, found)| {
            vec![
                layer.to_string(),
                found.resident_peak.to_string(),
                found.moved.to_string(),
                found.peak.to_string(),
                found.bound.to_string(),
                if found.optimal { "optimal".into() } else { format!("{:.4} %", gap_percent(found)) },
            ]
        })
        .collect();
    crate::table::render(&["layer", "now", "moved", "peak", "bound", "gap"], &rows)
}

fn gap_percent(layer: &LayerAnswer) -> f64 {
    100.0 * (layer.peak - layer.bound) as f64 / layer.peak.max(1) as f64
}
