//! Prints the gap table: mean and worst distance to the bound for the LPT rule of EPLB and for ours, all layers on one
//! core (the least time of five runs).
//!
//! `cargo run --release -p routepack-place --example gap_table [seed]`
#![allow(clippy::print_stdout, reason = "a table for people")]

use std::time::Instant;

use routepack_anneal::stream::Stream;
use routepack_place::{PlaceOptions, Start, place};

const LAYERS: usize = 48;
const EXPERTS: usize = 128;
const PICKS: f64 = 1e6;
/// The least time of so many runs is printed: others may be using the machine.
const REPEATS: usize = 5;

fn lognormal(sigma: f64) -> impl Fn(&mut Stream) -> Vec<f64> {
    move |stream| (0..EXPERTS).map(|_| (sigma * stream.normal()).exp()).collect()
}

fn zipf(exponent: f64) -> impl Fn(&mut Stream) -> Vec<f64> {
    move |stream| {
        let mut weights: Vec<f64> = (1..=EXPERTS).map(|rank| (rank as f64).powf(-exponent)).collect();
        stream.shuffle(&mut weights);
        weights
    }
}

/// Independent Gamma(1/2) weights: Dirichlet(1/2) when divided by their sum.
fn dirichlet_half(stream: &mut Stream) -> Vec<f64> {
    (0..EXPERTS).map(|_| stream.normal().powi(2)).collect()
}

/// Draws the expected load of every expert.
type Weights = dyn Fn(&mut Stream) -> Vec<f64>;

fn layers(seed: u64, weights: &Weights) -> Vec<Vec<u64>> {
    (0..LAYERS as u64)
        .map(|layer| {
            let mut stream = Stream::new(seed).child(layer);
            let weights = weights(&mut stream);
            let total: f64 = weights.iter().sum();
            weights.iter().map(|weight| (PICKS * weight / total).round() as u64).collect()
        })
        .collect()
}

fn main() {
    let seed = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1);
    let off = PlaceOptions {
        max_swaps: 0,
        max_resplits: 0,
        max_triples: 0,
        second_start: false,
        ..PlaceOptions::default()
    };
    let arms = [
        ("lpt", PlaceOptions { start: Start::Lpt, ..off.clone() }),
        ("lpt + swap", PlaceOptions { start: Start::Lpt, max_swaps: 1000, ..off.clone() }),
        ("lpt + all", PlaceOptions { start: Start::Lpt, ..PlaceOptions::default() }),
        ("swap", PlaceOptions { max_swaps: 1000, ..off.clone() }),
        ("swap + pairs", PlaceOptions { max_triples: 0, second_start: false, ..PlaceOptions::default() }),
        ("default", PlaceOptions::default()),
    ];
    let sources: [(&str, &Weights); 4] = [
        ("log-normal 0.5", &lognormal(0.5)),
        ("log-normal 1.0", &lognormal(1.0)),
        ("zipf 0.5", &zipf(0.5)),
        ("Dirichlet 0.5", &dirichlet_half),
    ];
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a pool");
    println!(
        "| loads | ranks | method | mean gap % | worst gap % | proved of {LAYERS} | moved of {EXPERTS} | ms |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for (source, weights) in sources {
        for ranks in [4, 8, 16, 32] {
            let loads = layers(seed, weights);
            for (arm, options) in &arms {
                let mut milliseconds = f64::INFINITY;
                let mut outcome = None;
                for _ in 0..REPEATS {
                    let start = Instant::now();
                    outcome = pool.install(|| place(&loads, ranks, options, &|| false)).ok();
                    milliseconds = milliseconds.min(start.elapsed().as_secs_f64() * 1e3);
                }
                let placed = outcome.expect("valid loads");
                let gaps: Vec<f64> = placed
                    .layers
                    .iter()
                    .map(|layer| layer.peak as f64 / layer.bounds.best() as f64 - 1.0)
                    .collect();
                let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
                let worst = gaps.iter().copied().fold(0.0, f64::max);
                let proved = placed.layers.iter().filter(|layer| layer.proved_optimal).count();
                let moved: usize = (0..LAYERS)
                    .map(|layer| {
                        (0..EXPERTS).filter(|&e| placed.placement.slots(layer)[e] != e as u32).count()
                    })
                    .sum();
                println!(
                    "| {source} | {ranks} | {arm} | {:.4} | {:.4} | {proved} | {:.1} | {milliseconds:.1} |",
                    100.0 * mean,
                    100.0 * worst,
                    moved as f64 / LAYERS as f64,
                );
            }
        }
    }
}
