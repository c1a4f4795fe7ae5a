//! Scores and gaps of plans with the placement aimed at the window's sum and at the charged peaks, medians over seeds.
//!
//! `cargo run --release -p routepack --example refine -- [SEEDS [WINDOW [PLACEMENT]]]`.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;
use std::time::Instant;

use routepack::generate::{Preset, window};
use routepack::{Aim, Control, Job, plan};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let seeds: u64 = arguments.first().map_or(Ok(3), |text| text.parse())?;
    let is_asked = |at: usize, name: &str| arguments.get(at).is_none_or(|asked| asked == name);
    println!("window        placement   gap to any placement, median   seconds");
    for (name, preset) in [
        ("tiny", Preset::Tiny),
        ("flash", Preset::Flash),
        ("mixed", Preset::Mixed),
        ("long-context", Preset::LongContext),
    ] {
        if !is_asked(1, name) {
            continue;
        }
        let generated = window(&preset.recipe(), 1)?;
        let (batch, mut job) = (Arc::new(generated.batch), Job::new(generated.setting));
        for (aim, about) in [(Aim::Aggregate, "aggregate"), (Aim::RowPeaks, "row-peaks")] {
            if !is_asked(2, about) {
                continue;
            }
            job.refine.placement = aim;
            let mut gaps = Vec::new();
            let clock = Instant::now();
            for seed in 0..seeds {
                job.seed = seed;
                gaps.push(plan(&batch, &job, &mut Control::new())?.steps[0].gap_to_free);
            }
            let seconds = clock.elapsed().as_secs_f64() / seeds as f64;
            gaps.sort_by(f64::total_cmp);
            println!("{name:12}  {about:10}  {:.4} %  {seconds:.2}", 100.0 * gaps[gaps.len() / 2]);
        }
    }
    Ok(())
}
