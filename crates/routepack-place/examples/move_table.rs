//! Prints how many of 128 experts move to come within 5, 2 and 1 % of the bound: greedy best swaps, ours, the bound on
//! moves, and the placement from scratch with its groups relabelled.
//!
//! `cargo run --release -p routepack-place --example move_table [seed]`
#![allow(clippy::print_stdout, reason = "a table for people")]

use std::time::Instant;

use routepack_anneal::stream::Stream;
use routepack_bounds::peak_bounds;
use routepack_place::{MoveGoal, PlaceOptions, Start, place, place_incrementally};
use routepack_problem::Placement;

const LAYERS: usize = 48;
const EXPERTS: usize = 128;

/// `[layers][experts]` loads with log-normal weights, about a million picks a layer; as in `gap_table`.
fn layers(seed: u64, sigma: f64) -> Vec<Vec<u64>> {
    (0..LAYERS as u64)
        .map(|layer| {
            let mut stream = Stream::new(seed).child(layer);
            let weights: Vec<f64> = (0..EXPERTS).map(|_| (sigma * stream.normal()).exp()).collect();
            let total: f64 = weights.iter().sum();
            weights.iter().map(|weight| (1e6 * weight / total).round() as u64).collect()
        })
        .collect()
}

/// Experts off their identity rank, all layers.
fn moved(placement: &Placement) -> usize {
    (0..placement.num_layers())
        .flat_map(|layer| (0..EXPERTS).map(move |expert| (layer, expert)))
        .filter(|&(layer, expert)| placement.rank_of(layer, expert) != expert / placement.slots_per_rank())
        .count()
}

/// Moves of plain best swaps against the heaviest rank until the peak is within the tolerance, all layers.
fn greedy(loads: &[Vec<u64>], ranks: usize, tolerance_ppm: u64) -> usize {
    loads.iter().map(|loads| greedy_layer(loads, ranks, tolerance_ppm)).sum()
}

fn greedy_layer(loads: &[u64], ranks: usize, tolerance_ppm: u64) -> usize {
    let bound = peak_bounds(loads, ranks).best();
    let home = |expert: usize| expert / (EXPERTS / ranks);
    let mut rank_of: Vec<usize> = (0..EXPERTS).map(home).collect();
    loop {
        let mut sums = vec![0; ranks];
        for (expert, &rank) in rank_of.iter().enumerate() {
            sums[rank] += loads[expert];
        }
        let heaviest = (0..ranks).max_by_key(|&rank| sums[rank]).expect("a rank");
        let peak = sums[heaviest];
        let best = (0..EXPERTS)
            .filter(|&x| rank_of[x] == heaviest)
            .flat_map(|x| (0..EXPERTS).map(move |y| (x, y)))
            .filter(|&(x, y)| rank_of[y] != heaviest && loads[x] > loads[y])
            .map(|(x, y)| {
                let moved = loads[x] - loads[y];
                ((peak - moved).max(sums[rank_of[y]] + moved), x, y)
            })
            .min()
            .filter(|&(after, ..)| after < peak);
        match best {
            Some((_, x, y)) if peak * 1_000_000 > bound * (1_000_000 + tolerance_ppm) => rank_of.swap(x, y),
            _ => return (0..EXPERTS).filter(|&expert| rank_of[expert] != home(expert)).count(),
        }
    }
}

fn main() {
    let seed = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1);
    println!("| loads | ranks | within % | greedy | ours | at least | from scratch | ms |");
    println!("|---|---|---|---|---|---|---|---|");
    for sigma in [0.5, 1.0] {
        let loads = layers(seed, sigma);
        for ranks in [8, 16, 32] {
            let identity = Placement::identity(LAYERS, EXPERTS, ranks).expect("divisible");
            let lpt = PlaceOptions { start: Start::Lpt, ..PlaceOptions::default() };
            let scratch = place(&loads, ranks, &lpt, &|| false).expect("valid");
            for tolerance_ppm in [50_000, 20_000, 10_000] {
                let goal = MoveGoal::Within { tolerance_ppm };
                let start = Instant::now();
                let placed =
                    place_incrementally(&loads, &identity, goal, &PlaceOptions::default(), &|| false)
                        .expect("valid");
                let milliseconds = start.elapsed().as_secs_f64() * 1e3;
                let per_layer = |sum: usize| sum as f64 / LAYERS as f64;
                println!(
                    "| log-normal {sigma:.1} | {ranks} | {} | {:.1} | {:.1} | {:.1} | {:.1} | {milliseconds:.0} |",
                    tolerance_ppm / 10_000,
                    per_layer(greedy(&loads, ranks, u64::from(tolerance_ppm))),
                    per_layer(placed.transfers.len()),
                    per_layer(placed.layers.iter().map(|layer| layer.moved_bound as usize).sum()),
                    per_layer(moved(&scratch.placement)),
                );
            }
        }
    }
}
