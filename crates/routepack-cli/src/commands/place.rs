//! `routepack place`: experts onto EP ranks.

use std::path::PathBuf;

use routepack::formats;
use routepack::place::{PlaceOptions, place};
use serde::Serialize;

use super::{in_pool, read_window};
use crate::exit::Failure;
use crate::interrupt;
use crate::output::{print, print_json};

/// Arguments of `routepack place`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  routepack place window.npz --ep 8
  routepack place window.npz --ep 16 --json -o placement.json")]
pub(crate) struct Arguments {
    /// Window with expert counts: .npz or .json (`-` for standard input).
    window: PathBuf,
    /// EP ranks P.
    #[arg(long)]
    ep: u32,
    /// Placement file to write (JSON, `-` for standard output): slot of every expert, `[layers][experts]`.
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Threads; all processors by default. The answer does not depend on it.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What is proved, for machines.
#[derive(Serialize)]
struct Answer {
    ep: u32,
    experts: usize,
    layers: Vec<LayerAnswer>,
    /// Slot of every expert, `[layers][experts]`.
    log2phys: Vec<Vec<u32>>,
    finished: bool,
}

#[derive(Serialize)]
struct LayerAnswer {
    /// Load of the busiest rank, routed rows.
    peak: u64,
    /// No placement has a smaller peak than this.
    bound: u64,
    /// Load of the busiest rank when expert e is in slot e.
    identity_peak: u64,
    optimal: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let shown = arguments.window.display();
    let batch = read_window(&arguments.window)?;
    let Some(counts) = &batch.expert_counts else {
        return Err(Failure::input(shown, "no expert_counts: nothing to place"));
    };
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
    let flag = interrupt::flag();
    let stop = || flag.load(std::sync::atomic::Ordering::Relaxed);
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
    let to_stdout = arguments.output.as_ref().is_some_and(|output| output.as_os_str() == "-");
    match (to_stdout, arguments.json) {
        (true, _) => Ok(()),
        (false, true) => print_json(&answer),
        (false, false) => print(&layer_table(&answer)),
    }
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
