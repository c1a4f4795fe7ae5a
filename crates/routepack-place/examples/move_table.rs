//! Prints how many experts of a layer move to come within 5, 2 and 1 % of the bound: greedy best swaps, ours, the bound on
//! moves, and the placement from scratch with its groups relabelled. Drawn loads from the identity; real ones (COUNTS, as for
//! `gap_table`) from where the counts of an earlier policy or another domain put the experts.
//!
//! `cargo run --release -p routepack-place --example move_table [SEED [COUNTS]]`
#![allow(clippy::print_stdout, reason = "a table for people")]

mod sources;

use std::time::Instant;

use routepack_place::{
    MoveGoal, PlaceError, PlaceOptions, Start, TradeOff, match_ranks, place, place_incrementally, trade_off,
    transfers,
};
use routepack_problem::Placement;

/// Moves of greedy best swaps until every peak is within the tolerance, all layers; where swaps end before, all they made.
fn greedy(curves: &[TradeOff], tolerance_ppm: u64) -> u32 {
    let met = |curve: &TradeOff| {
        let limit = curve.bound * (1_000_000 + tolerance_ppm);
        let within = curve.greedy.iter().find(|(_, peak)| peak * 1_000_000 <= limit);
        within.or(curve.greedy.last()).map_or(0, |point| point.0)
    };
    curves.iter().map(met).sum()
}

fn print_rows(name: &str, loads: &[Vec<u64>], resident: &Placement) -> Result<(), PlaceError> {
    let ranks = resident.num_ranks();
    let options = PlaceOptions::default();
    let from_lpt =
        PlaceOptions { start: Start::Lpt, resident: Some(resident.clone()), ..PlaceOptions::default() };
    let scratch = match_ranks(&place(loads, ranks, &from_lpt, &|| false)?.placement, resident);
    let curves = trade_off(loads, resident, &options, &|| false)?;
    let layers = loads.len() as f64;
    let now: f64 = curves.iter().map(|curve| curve.greedy[0].1 as f64 / curve.bound as f64 - 1.0).sum();
    for tolerance_ppm in [50_000, 20_000, 10_000] {
        let goal = MoveGoal::Within { tolerance_ppm };
        let start = Instant::now();
        let placed = place_incrementally(loads, resident, goal, &options, &|| false)?;
        let milliseconds = start.elapsed().as_secs_f64() * 1e3;
        println!(
            "| {name} | {ranks} | {:.1} | {} | {:.1} | {:.1} | {:.1} | {:.1} | {milliseconds:.0} |",
            100.0 * now / layers,
            tolerance_ppm / 10_000,
            f64::from(greedy(&curves, u64::from(tolerance_ppm))) / layers,
            placed.transfers.len() as f64 / layers,
            placed.layers.iter().map(|layer| f64::from(layer.moved_bound)).sum::<f64>() / layers,
            transfers(resident, &scratch).len() as f64 / layers,
        );
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let seed = arguments.first().map_or(Ok(1), |text| text.parse())?;
    println!("| loads | ranks | above now % | within % | greedy | ours | at least | from scratch | ms |");
    println!("|---|---|---|---|---|---|---|---|---|");
    for sigma in [0.5, 1.0] {
        let loads = sources::lognormal(seed, sigma);
        for ranks in [8, 16, 32] {
            let identity = Placement::identity(loads.len(), loads[0].len(), ranks)?;
            print_rows(&format!("log-normal {sigma:.1}"), &loads, &identity)?;
        }
    }
    let Some(path) = arguments.get(1) else { return Ok(()) };
    let real = sources::read_counts(path)?;
    for ranks in [8, 16] {
        for (before, after) in [
            (("olmoe", "tulu"), ("olmoe-sft", "tulu")),
            (("olmoe-sft", "tulu"), ("olmoe-dpo", "tulu")),
            (("olmoe", "c4"), ("olmoe", "wikipedia")),
            (("olmoe", "github"), ("olmoe", "arxiv")),
        ] {
            let of = |(model, domain): (&str, &str)| {
                let found = real.get(&(model.to_owned(), domain.to_owned()));
                found.ok_or_else(|| format!("{path}: no counts of {model} on {domain}"))
            };
            let resident = place(of(before)?, ranks, &PlaceOptions::default(), &|| false)?.placement;
            let name = format!("{} {} → {} {}", before.0, before.1, after.0, after.1);
            print_rows(&name, of(after)?, &resident)?;
        }
    }
    Ok(())
}
