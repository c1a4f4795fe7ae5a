//! `routepack place`: experts onto EP ranks.

use std::path::PathBuf;

use routepack::formats;
use routepack::place::{PlaceOptions, place};
use routepack::{Batch, ExpertCounts};
use schemars::JsonSchema;
use serde::Serialize;

use super::{in_pool, is_stdout, read_window};
use crate::exit::Failure;
use crate::interrupt::Deadline;
use crate::output::{print, print_json};

/// Arguments of `routepack place`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  routepack place window.npz --ep 8
  routepack place window.npz --ep 16 --top-k 8 --deadline-ms 100 -o placement.json
  routepack place window.npz --ep 8 --json | jq '.layers[0] | .peak, .bound'

Exit codes: 0 done, also where least is not proved; 2 wrong usage; 3 bad or infeasible input; 4 a file.")]
pub(crate) struct Arguments {
    /// Window with expert counts: .npz or .json (`-` for standard input).
    window: PathBuf,
    /// EP ranks P.
    #[arg(long)]
    ep: u32,
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
    /// Whether the peak is proved least.
    optimal: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let deadline = Deadline::after(arguments.deadline_ms);
    let shown = arguments.window.display();
    let batch = read_window(&arguments.window)?;
    let Some(counts) = &batch.expert_counts else {
        return Err(Failure::input(shown, "no expert_counts: nothing to place"));
    };
    let top_k = arguments.top_k.unwrap_or_else(|| least_top_k(&batch, counts));
    batch.check(top_k).map_err(|error| Failure::input(&shown, error))?;
    let [samples, parts, layers, experts] = counts.shape();
    let mut loads = vec![vec![0u64; experts]; layers];
    for sample in 0..samples {
        for part in 0..parts {
            for (layer, loads) in loads.iter_mut().enumerate() {
                for (load, &count) in loads.iter_mut().zip(counts.of(sample, part, layer)) {
                    *load += u64::from(count);
                }
            }
        }
    }
    let stop = deadline.stop();
    let ranks = arguments.ep as usize;
    let placed = in_pool(arguments.threads, || place(&loads, ranks, &PlaceOptions::default(), &stop))?
        .map_err(|error| Failure::input(&shown, error))?;
    let width = experts / ranks;
    let answer = Answer {
        ep: arguments.ep,
        experts,
        layers: placed
            .layers
            .iter()
            .zip(&loads)
            .map(|(layer, loads)| LayerAnswer {
                peak: layer.peak,
                bound: layer.bounds.best(),
                identity_peak: loads.chunks(width).map(|rank| rank.iter().sum()).max().unwrap_or(0),
                optimal: layer.proved_optimal,
            })
            .collect(),
        log2phys: (0..layers).map(|layer| placed.placement.slots(layer).to_vec()).collect(),
        finished: placed.finished,
    };
    if let Some(output) = &arguments.output {
        let text = serde_json::to_string(&answer).expect("plain data") + "\n";
        formats::write_atomically(output, text.as_bytes())?;
    }
    let to_stdout = arguments.output.as_deref().is_some_and(is_stdout);
    match (to_stdout, arguments.json) {
        (true, _) => Ok(()),
        (false, true) => print_json(&answer),
        (false, false) => print(&layer_table(&answer)),
    }
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
                found.identity_peak.to_string(),
                found.peak.to_string(),
                found.bound.to_string(),
                if found.optimal { "optimal".into() } else { format!("{:.4} %", gap_percent(found)) },
            ]
        })
        .collect();
    crate::table::render(&["layer", "identity", "peak", "bound", "gap"], &rows)
}

fn gap_percent(layer: &LayerAnswer) -> f64 {
    100.0 * (layer.peak - layer.bound) as f64 / layer.peak.max(1) as f64
}
