//! What the presets are like: `cargo run --release -p routepack-generate --example presets [SEED]`.
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;
use std::time::Instant;

use routepack_generate::{Preset, describe, describe_ranks, window};
use routepack_problem::prepare;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seed = std::env::args().nth(1).map_or(Ok(0), |text| text.parse())?;
    println!(
        "preset        samples  tokens  mean   max  at max  rows  experts max cv  ranks max cv   seconds"
    );
    for preset in Preset::ALL {
        let start = Instant::now();
        let made = window(&preset.recipe(), seed)?;
        let seconds = start.elapsed().as_secs_f64();
        let batch = Arc::new(made.batch);
        let lengths = describe(&batch);
        let ranks = describe_ranks(&batch, made.setting.topology.ep as usize);
        let (mut rows, mut cells) = (0.0, 0.0);
        for instance in prepare(Arc::clone(&batch), &made.setting)?.instances {
            let padded: u64 = (0..instance.num_samples()).map(|i| u64::from(instance.padded_length(i))).sum();
            rows += padded as f64 / f64::from(instance.cell_capacity());
            cells += instance.topology().num_slots() as f64;
        }
        let spread = |loads: Option<routepack_generate::LoadStatistics>| {
            loads.map_or_else(String::new, |loads| format!("{:6.2} {:5.3}", loads.max_over_mean, loads.cv))
        };
        println!(
            "{:<13} {:7} {:7} {:5.0} {:5}  {:6}  {:4.2}    {}  {}   {seconds:.3}",
            preset.name(),
            lengths.samples,
            lengths.tokens,
            lengths.mean_length,
            lengths.max_length,
            lengths.at_max,
            rows / cells,
            spread(lengths.experts),
            spread(ranks),
        );
    }
    Ok(())
}
