//! Prints the gap table: mean and worst distance to the bound for the LPT rule of EPLB, for ours and for the methods
//! between, all layers on one core (the least time of five runs). Peaks are added up again from the placement, bounds
//! computed again, the simple ones from their definitions.
//!
//! `cargo run --release -p routepack-place --example gap_table [SEED [COUNTS]]`, COUNTS a table of real counts
//! (tab-separated: model, domain, layer, expert, count).
#![allow(clippy::print_stdout, reason = "a table for people")]

mod sources;

use std::time::Instant;

use routepack_bounds::peak_bounds;
use routepack_place::{PlaceOptions, Placed, Start, place};

/// The least time of so many runs is printed: others may be using the machine.
const REPEATS: usize = 5;

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let seed = arguments.first().map_or(Ok(1), |text| text.parse()).map_err(|_| "SEED is no number")?;
    let tables = sources::all(seed, arguments.get(1).map(String::as_str))?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a pool");
    println!(
        "| loads | layers × experts | ranks | method | mean gap % | worst gap % | proved | moved | ms |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for (source, loads) in &tables {
        let experts = loads[0].len();
        for ranks in [4, 8, 16, 32].into_iter().filter(|&ranks| experts.is_multiple_of(ranks)) {
            for (arm, options) in arms() {
                let mut milliseconds = f64::INFINITY;
                let mut outcome = None;
                for _ in 0..REPEATS {
                    let start = Instant::now();
                    outcome = pool.install(|| place(loads, ranks, &options, &|| false)).ok();
                    milliseconds = milliseconds.min(start.elapsed().as_secs_f64() * 1e3);
                }
                let placed = outcome.expect("valid loads");
                check(loads, ranks, &placed);
                let line = describe(&placed);
                println!(
                    "| {source} | {} × {experts} | {ranks} | {arm} | {line} | {milliseconds:.1} |",
                    loads.len()
                );
            }
        }
    }
    Ok(())
}

/// The methods one after the other: the rule of EPLB without replicas, and ours in full last.
fn arms() -> [(&'static str, PlaceOptions); 6] {
    let off = PlaceOptions {
        max_swaps: 0,
        max_resplits: 0,
        max_triples: 0,
        second_start: false,
        ..PlaceOptions::default()
    };
    [
        ("lpt", PlaceOptions { start: Start::Lpt, ..off.clone() }),
        ("lpt + swap", PlaceOptions { start: Start::Lpt, max_swaps: 1000, ..off.clone() }),
        ("lpt + all", PlaceOptions { start: Start::Lpt, ..PlaceOptions::default() }),
        ("swap", PlaceOptions { max_swaps: 1000, ..off }),
        ("swap + pairs", PlaceOptions { max_triples: 0, second_start: false, ..PlaceOptions::default() }),
        ("default", PlaceOptions::default()),
    ]
}

/// Gaps, layers proved optimal, and mean experts of a layer that leave their slot in the identity.
fn describe(placed: &Placed) -> String {
    let gaps: Vec<f64> =
        placed.layers.iter().map(|layer| layer.peak as f64 / layer.bounds.best() as f64 - 1.0).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let worst = gaps.iter().copied().fold(0.0, f64::max);
    let proved = placed.layers.iter().filter(|layer| layer.proved_optimal).count();
    let moved: usize = (0..gaps.len())
        .map(|layer| {
            (0u32..).zip(placed.placement.slots(layer)).filter(|(expert, slot)| expert != *slot).count()
        })
        .sum();
    let moved = moved as f64 / gaps.len() as f64;
    format!("{:.4} | {:.4} | {proved} | {moved:.1}", 100.0 * mean, 100.0 * worst)
}

/// Peaks from the placement, bounds once more, the simple ones from their definitions.
fn check(loads: &[Vec<u64>], ranks: usize, placed: &Placed) {
    for (layer, (loads, found)) in loads.iter().zip(&placed.layers).enumerate() {
        let mut sums = vec![0u64; ranks];
        for (expert, &load) in loads.iter().enumerate() {
            sums[placed.placement.rank_of(layer, expert)] += load;
        }
        assert_eq!(sums.into_iter().max(), Some(found.peak), "layer {layer}: the peak");
        let mut sorted = loads.clone();
        sorted.sort_unstable();
        let (experts, slots) = (loads.len(), loads.len() / ranks);
        let smallest = |count: usize| sorted[..count].iter().sum::<u64>();
        // Some rank owns j + 1 of the j·P + 1 largest, and s − j − 1 others.
        let shared = |j: usize| {
            let top = experts - (j * ranks + 1);
            sorted[top..=top + j].iter().sum::<u64>() + smallest(slots - j - 1)
        };
        // The t largest lie on u ranks, whose other experts are no lighter than the lightest.
        let together = |t: usize| {
            let largest: u64 = sorted[experts - t..].iter().sum();
            let on = |u: usize| (largest + smallest(u * slots - t)).div_ceil(u as u64);
            (t.div_ceil(slots)..=t.min(ranks)).map(on).min()
        };
        let bounds = found.bounds;
        assert_eq!(bounds.mean, smallest(experts).div_ceil(ranks as u64), "layer {layer}: the mean");
        assert_eq!(Some(bounds.pigeonhole), (0..slots).map(shared).max(), "layer {layer}: pigeonhole");
        assert_eq!(
            Some(bounds.aggregate),
            (1..=experts).filter_map(together).max(),
            "layer {layer}: aggregate"
        );
        assert_eq!(bounds, peak_bounds(loads, ranks), "layer {layer}: the bounds");
        assert_eq!(found.proved_optimal, found.peak == bounds.best(), "layer {layer}: the claim");
        assert!(bounds.best() <= found.peak, "layer {layer}: the bound");
    }
}
