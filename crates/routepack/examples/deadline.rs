//! Starts planning again and again under deadlines and says how far each overran; every plan is verified.
//!
//! `cargo run --release -p routepack --example deadline -- [STARTS [PROMPTS [LAYERS]]]`: windows of 8·PROMPTS samples
//! with LAYERS layers of 128 experts, deadlines of 20 to 500 ms in turn.

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use routepack::generate::{Preset, window};
use routepack::{Control, Job, Stage, plan, verify};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<u32> = std::env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let argument = |index: usize, default| arguments.get(index).copied().unwrap_or(default);
    let mut recipe = Preset::Tiny.recipe();
    recipe.prompts = argument(1, 128);
    if let Some(routing) = &mut recipe.routing {
        routing.layers = argument(2, 48);
    }
    let generated = window(&recipe, 1)?;
    let (batch, job) = (Arc::new(generated.batch), Job::new(generated.setting));
    let deadlines = [20, 50, 100, 200, 500].map(Duration::from_millis);
    let mut overruns = [(); 5].map(|()| Vec::new());
    for start in 0..argument(0, 50) as usize {
        let deadline = deadlines[start % 5];
        let mut stages: Vec<(Stage, Duration)> = Vec::new();
        let clock = Instant::now();
        let mut control = Control::new().within(deadline).observed_by(|progress| {
            if stages.last().is_none_or(|(stage, _)| *stage != progress.stage) {
                stages.push((progress.stage, clock.elapsed()));
            }
        });
        let plan = plan(&batch, &job, &mut control)?;
        let took = clock.elapsed();
        drop(control);
        verify(&plan, &batch)?;
        overruns[start % 5].push(took.saturating_sub(deadline));
        if start < 5 {
            let begun: Vec<String> =
                stages.iter().map(|(stage, at)| format!("{} at {:.1}", stage.name(), ms(*at))).collect();
            println!("{} ms: took {:.1} ms ({})", deadline.as_millis(), ms(took), begun.join(", "));
        }
    }
    for (deadline, mut overruns) in deadlines.into_iter().zip(overruns) {
        overruns.sort_unstable();
        let (Some(worst), middle) = (overruns.last(), overruns.get(overruns.len() / 2)) else { continue };
        println!(
            "deadline {} ms: {} starts, overrun median {:.1} ms, worst {:.1} ms",
            deadline.as_millis(),
            overruns.len(),
            ms(*middle.unwrap_or(worst)),
            ms(*worst)
        );
    }
    Ok(())
}

fn ms(duration: Duration) -> f64 {
    1e3 * duration.as_secs_f64()
}
