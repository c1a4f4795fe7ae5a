//! Prints what column generation over rank patterns closes of the gaps that formulas and re-splits leave, where a rank has
//! few slots. Bounds are proved again from their weights, peaks added up again. CPU seconds are those of the process, on
//! one thread ("–" where there is no `/proc`).
//!
//! `cargo run --release -p routepack-place --example pattern_table [SEED [COUNTS]]`, as `gap_table`.
#![allow(clippy::print_stdout, reason = "a table for people")]

mod processor;
mod sources;

use processor::cpu_seconds;
use routepack_bounds::{Patterns, peak_bounds};
use routepack_place::{PatternOptions, PatternPlaced, PlaceOptions, place, place_by_patterns};

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let seed = arguments.first().map_or(Ok(1), |text| text.parse()).map_err(|_| "SEED is no number")?;
    let tables = sources::all(seed, arguments.get(1).map(String::as_str))?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a pool");
    println!(
        "| loads | layers × experts | ranks | slots | open | bounds raised | peaks lowered | open after | mean gap % | \
         after | worst gap % | after | programs | CPU s |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for (source, loads) in &tables {
        let experts = loads[0].len();
        // One slot a rank leaves nothing to choose, for two the formulas are exact.
        for slots in (3..=8).rev().filter(|slots| experts.is_multiple_of(*slots)) {
            let ranks = experts / slots;
            let placed = place(loads, ranks, &PlaceOptions::default(), &|| false).expect("valid loads");
            let before: Vec<[u64; 2]> =
                placed.layers.iter().map(|layer| [layer.peak, layer.bound()]).collect();
            if before.iter().all(|[peak, bound]| peak == bound) || Patterns::new(&loads[0], ranks).is_none() {
                continue;
            }
            let start = cpu_seconds();
            let (patterns, options) = (PatternOptions::default(), PlaceOptions::default());
            let by_patterns = || place_by_patterns(loads, &placed.placement, &patterns, &options, &|| false);
            let found = pool.install(by_patterns);
            let found = found.expect("valid loads");
            let seconds = start.zip(cpu_seconds()).map(|(start, end)| end - start);
            check(loads, ranks, &found);
            let after: Vec<[u64; 2]> = found.layers.iter().map(|layer| [layer.peak, layer.bound]).collect();
            let open = |layers: &[[u64; 2]]| layers.iter().filter(|[peak, bound]| peak > bound).count();
            let better = |side: usize| before.iter().zip(&after).filter(|(a, b)| a[side] != b[side]).count();
            let ([mean, worst], [mean_after, worst_after]) = (gaps(&before), gaps(&after));
            println!(
                "| {source} | {} × {experts} | {ranks} | {slots} | {} | {} | {} | {} | {mean:.4} | {mean_after:.4} | \
                 {worst:.4} | {worst_after:.4} | {} | {} |",
                loads.len(),
                open(&before),
                better(1),
                better(0),
                open(&after),
                found.layers.iter().map(|layer| layer.solves).sum::<u32>(),
                seconds.map_or("–".to_owned(), |seconds| format!("{seconds:.1}")),
            );
        }
    }
    Ok(())
}

/// Mean and worst of peak/bound − 1, in percent.
fn gaps(layers: &[[u64; 2]]) -> [f64; 2] {
    let gap = |&[peak, bound]: &[u64; 2]| 100.0 * (peak as f64 / bound.max(1) as f64 - 1.0);
    let gaps: Vec<f64> = layers.iter().map(gap).collect();
    [gaps.iter().sum::<f64>() / gaps.len() as f64, gaps.iter().copied().fold(0.0, f64::max)]
}

/// Peaks from the placement, bounds from the formulas or the weights that prove them.
fn check(loads: &[Vec<u64>], ranks: usize, found: &PatternPlaced) {
    for (layer, (loads, outcome)) in loads.iter().zip(&found.layers).enumerate() {
        let mut sums = vec![0u64; ranks];
        for (expert, &load) in loads.iter().enumerate() {
            sums[found.placement.rank_of(layer, expert)] += load;
        }
        assert_eq!(sums.into_iter().max(), Some(outcome.peak), "layer {layer}: the peak");
        match &outcome.proof {
            None => assert_eq!(outcome.bound, peak_bounds(loads, ranks).best(), "layer {layer}: the bound"),
            Some(weights) => {
                let patterns = Patterns::new(loads, ranks).expect("the search had them");
                assert!(patterns.proves(weights, outcome.bound - 1), "layer {layer}: the proof");
            }
        }
    }
}
