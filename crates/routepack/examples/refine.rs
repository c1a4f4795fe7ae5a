//! Plans with the placement aimed at the window's sum and at the charged peaks: gaps, what is left of each term, and what
//! they gain over the arm `reorder`; medians over generated windows, seeds 1, 2, ….
//!
//! `cargo run --release -p routepack --example refine -- [SEEDS [WINDOW [PLACEMENT [SECONDS]]]]`: WINDOW and PLACEMENT
//! a name or `all`; WINDOW may also be a file `NAME.npz` with its job in `NAME.toml`, which is planned with seeds 1, 2, …;
//! SECONDS is a deadline for each plan. Time is that of the processor, all threads together, where the
//! system tells it (Linux). *left* is the distance of a term from its bound for any placement, in percent of the joint
//! score's sum; differences are in percent of `reorder`: peak sum, worst peak, attention, joint score.

#![allow(clippy::print_stdout, reason = "an example prints")]

#[path = "../../routepack-place/examples/processor/mod.rs"]
mod processor;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use processor::cpu_seconds;
use routepack::formats::{read_batch, read_toml};
use routepack::generate::{Preset, WindowRecipe, window};
use routepack::{Aim, Arm, Batch, Control, Job, plan, report};
use serde_json::json;

/// Columns of a plan.
const COLUMNS: [&str; 9] =
    ["gap", "own gap", "left: attention", "experts", "CPU s", "peak sum", "worst peak", "attention", "joint"];

type Error = Box<dyn std::error::Error>;

/// Windows by name; those of the table in `routepack-arrange` are the same.
fn recipes() -> Result<Vec<(&'static str, WindowRecipe)>, Error> {
    let mixed = Preset::Mixed.recipe();
    let coarse = json!({"lengths": {"max_total": 4096}, "setting": {"packing": {"capacity": 4096}}});
    let staged = json!({"setting": {"topology": {"pp": 4}, "cost": {"pace": "slowest-stage"}}});
    Ok(vec![
        ("tiny", Preset::Tiny.recipe()),
        ("flash", Preset::Flash.recipe()),
        ("mixed", mixed.clone()),
        ("mixed-coarse", mixed.amended(&coarse)?),
        ("mixed-2048", mixed.amended(&json!({"prompts": 256}))?),
        ("mixed-pp4", mixed.amended(&staged)?),
        ("long-context", Preset::LongContext.recipe()),
    ])
}

/// What to plan with a seed.
type Source = Box<dyn Fn(u64) -> Result<(Batch, Job), Error>>;

/// The windows asked for, by name.
fn sources(asked: Option<&str>) -> Result<Vec<(String, Source)>, Error> {
    if let Some(file) = asked.map(Path::new).filter(|file| file.extension().is_some()) {
        let (batch, job): (Batch, Job) = (read_batch(file)?, read_toml(&file.with_extension("toml"))?);
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        return Ok(vec![(name, Box::new(move |_| Ok((batch.clone(), job.clone()))))]);
    }
    let asked = asked.filter(|&asked| asked != "all");
    let chosen = recipes()?.into_iter().filter(|&(name, _)| asked.is_none_or(|asked| asked == name));
    let source = |recipe: WindowRecipe| -> Source {
        Box::new(move |seed| {
            let generated = window(&recipe, seed)?;
            Ok((generated.batch, Job::new(generated.setting)))
        })
    };
    let sources: Vec<_> = chosen.map(|(name, recipe)| (name.to_owned(), source(recipe))).collect();
    if sources.is_empty() { Err("no window of that name".into()) } else { Ok(sources) }
}

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let seeds: u64 = arguments.first().map_or(Ok(3), |text| text.parse())?;
    let deadline: Option<f64> = arguments.get(3).map(|text| text.parse()).transpose()?;
    println!("| window | placement | {} |", COLUMNS.join(" | "));
    println!("|{}", "---|".repeat(2 + COLUMNS.len()));
    for (name, source) in sources(arguments.get(1).map(String::as_str))? {
        for (aim, about) in [(Aim::Aggregate, "aggregate"), (Aim::RowPeaks, "row-peaks")] {
            if arguments.get(2).is_some_and(|asked| asked != about && asked != "all") {
                continue;
            }
            let mut columns = COLUMNS.map(|_| Vec::new());
            for seed in 1..=seeds {
                let (batch, mut job) = source(seed)?;
                let batch = Arc::new(batch);
                (job.seed, job.refine.placement) = (seed, aim);
                let mut control = Control::new();
                if let Some(seconds) = deadline {
                    control = control.within(Duration::from_secs_f64(seconds));
                }
                let clock = Instant::now();
                let now = || cpu_seconds().unwrap_or_else(|| clock.elapsed().as_secs_f64());
                let before = now();
                let plan = plan(&batch, &job, &mut control)?;
                let seconds = now() - before;
                let (step, report) = (&plan.steps[0], report(&plan, &batch)?);
                let arm = |name: &str| report.arms.iter().find(|arm| arm.name == name).ok_or("no such arm");
                let (ours, reorder) = (arm("routepack")?, arm("reorder")?);
                let sum = (ours.figures.attention + ours.figures.expert) as f64;
                let free = &step.bounds.placement_free;
                let left = |cost: u64, bound: u64| 100.0 * (cost - bound) as f64 / sum;
                let against = |of: fn(&Arm) -> f64| 100.0 * (of(ours) / of(reorder) - 1.0);
                let values = [
                    100.0 * step.gap_to_free,
                    100.0 * step.gap_to_placement,
                    left(ours.figures.attention, free.attention),
                    left(ours.figures.expert, free.expert),
                    seconds,
                    against(|arm| arm.figures.peak_sum as f64),
                    against(|arm| arm.figures.worst_peak as f64),
                    against(|arm| arm.figures.attention_cost),
                    against(|arm| arm.figures.joint_score),
                ];
                columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
            }
            let medians: Vec<String> = columns
                .iter_mut()
                .enumerate()
                .map(|(index, column)| {
                    column.sort_by(f64::total_cmp);
                    let places = [3, 3, 3, 3, 2, 2, 2, 2, 2][index];
                    format!("{:.places$}", column[column.len() / 2])
                })
                .collect();
            println!("| {name} | {about} | {} |", medians.join(" | "));
        }
    }
    Ok(())
}
