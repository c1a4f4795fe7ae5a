//! How the search scales: `cargo run --release -p routepack-arrange --no-default-features --example scaling -- table` prints
//! the CPU seconds until a layout within 1 % of the best known is at hand, as samples, layers, EP ranks and DP slots double;
//! `-- large [CPU seconds of the reference] [CPU seconds]` searches 4096 samples, 48 layers, 128 experts, EP 16, D 64 at
//! length and then as long as given, from two settings.
//!
//! The best known is that of a run with four times the proposals; progress is looked at where a round or stage ends.

mod windows;

use std::io::Write;
use std::time::Instant;

use routepack_arrange::{ArrangeOptions, arrange, spread_bins};
use routepack_bounds::{given_placement, layout_bound};
use routepack_generate::{Preset, WindowRecipe};
use serde_json::json;
use windows::{Window, cpu_seconds};

/// Cost of the slowest shard at the end, and when what was at hand: (CPU seconds, cost).
type Run = (u64, Vec<(f64, u64)>);

fn search(
    window: &Window,
    options: &ArrangeOptions,
    seed: u64,
    seconds: f64,
) -> Result<Run, Box<dyn std::error::Error>> {
    let first = spread_bins(&window.instance, &window.bins, window.rows)?;
    let start = Instant::now();
    let before = cpu_seconds(start);
    let stop = || cpu_seconds(start) - before > seconds;
    let mut met = Vec::new();
    let mut observe = |progress: &routepack_arrange::ArrangeProgress| {
        met.push((cpu_seconds(start) - before, progress.score.worst_shard));
    };
    let arranged = arrange(&window.instance, &window.placement, &first, options, seed, &stop, &mut observe)?;
    met.push((cpu_seconds(start) - before, arranged.score.worst_shard));
    Ok((arranged.score.worst_shard, met))
}

fn table() -> Result<(), Box<dyn std::error::Error>> {
    let mixed = Preset::Mixed.recipe();
    let staged = json!({"setting": {"topology": {"pp": 4}, "cost": {"pace": "slowest-stage"}}});
    let changes = [
        ("512 samples, 24 layers, EP 8, D 16", json!({})),
        ("1024 samples", json!({"prompts": 128})),
        ("2048 samples", json!({"prompts": 256})),
        ("48 layers", json!({"routing": {"layers": 48}})),
        ("EP 16", json!({"setting": {"topology": {"ep": 16}}})),
        ("D 32", json!({"setting": {"topology": {"dp": 32}}})),
        ("pp 4, the slowest stage paces", staged),
    ];
    let mut out = std::io::stdout();
    writeln!(out, "{:<38} best known's gap %  gap %  CPU s to 1 %  CPU s", "window")?;
    let mut recipes = Vec::new();
    for (name, change) in changes {
        recipes.push((name, mixed.amended(&change)?));
    }
    recipes.push(("64 samples, D 1, EP 32 (long-context)", Preset::LongContext.recipe()));
    for (name, recipe) in recipes {
        let window = Window::new(&recipe, 1)?;
        let bound = layout_bound(
            &window.instance,
            &given_placement(&window.instance, &window.placement),
            window.rows,
        );
        let gap = |cost: u64| 100.0 * (1.0 - bound.worst_shard as f64 / cost as f64);
        let options = ArrangeOptions::default();
        let longer = ArrangeOptions {
            proposals_per_unit: 4 * options.proposals_per_unit,
            rounds: 1,
            ..options.clone()
        };
        let (found, met) = search(&window, &options, 1, f64::INFINITY)?;
        let best = found.min(search(&window, &longer, 2, f64::INFINITY)?.0);
        let near = met.iter().find(|(_, cost)| *cost as f64 <= 1.01 * best as f64);
        let took = |run: Option<&(f64, u64)>| run.map_or(f64::NAN, |run| run.0);
        let (near, whole) = (took(near), took(met.last()));
        writeln!(out, "{name:<38} {:>18.2}  {:>5.2}  {near:>12.1}  {whole:>5.1}", gap(best), gap(found))?;
    }
    Ok(())
}

fn large_recipe() -> Result<WindowRecipe, Box<dyn std::error::Error>> {
    let setting = json!({"topology": {"dp": 64, "ep": 16}});
    Ok(Preset::Mixed
        .recipe()
        .amended(&json!({"prompts": 512, "routing": {"layers": 48}, "setting": setting}))?)
}

/// Memory of the process in MiB, where the system tells it (Linux): `VmRSS` now, `VmHWM` at most since it was forgotten.
fn memory(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    kib.map_or(f64::NAN, |kib| kib / 1024.0)
}

/// Lets `VmHWM` begin again from the memory of now; where that can't be done it stays the most ever.
fn forget_most_memory() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// What a search can't do without, in MiB: the demands, and the loads of every replica's blocks.
fn demands_and_loads(window: &Window, options: &ArrangeOptions) -> [f64; 2] {
    let (instance, topology) = (&window.instance, window.instance.topology());
    // Layers are padded to 16; demands are below 65,536 rows, loads are not.
    let values = topology.num_parts() * instance.num_layers().next_multiple_of(16) * topology.num_ranks();
    let blocks = window.rows * topology.num_groups() * options.population as usize;
    [instance.num_units() * 2, blocks * 4].map(|bytes| (bytes * values) as f64 / f64::from(1 << 20))
}

fn large(reference: f64, seconds: f64) -> Result<(), Box<dyn std::error::Error>> {
    let window = Window::new(&large_recipe()?, 1)?;
    let bound =
        layout_bound(&window.instance, &given_placement(&window.instance, &window.placement), window.rows);
    let gap = |cost: u64| 100.0 * (1.0 - bound.worst_shard as f64 / cost as f64);
    // About 93 CPU seconds per 50,000 proposals a unit on a Xeon (family 6 model 207), 80 on an AMD EPYC.
    let fitting = |seconds: f64| ArrangeOptions {
        proposals_per_unit: (seconds * 600.0) as u32,
        rounds: 1,
        ..ArrangeOptions::default()
    };
    let mut out = std::io::stdout();
    let mut best = u64::MAX;
    for (name, options, seed, limit) in [
        ("reference", fitting(reference), 1, 1.5 * reference),
        ("default", ArrangeOptions::default(), 2, seconds),
        ("fitting", fitting(seconds), 2, seconds),
    ] {
        forget_most_memory();
        let before = memory("VmRSS");
        let (found, met) = search(&window, &options, seed, limit)?;
        best = best.min(found);
        let [demands, loads] = demands_and_loads(&window, &options);
        writeln!(
            out,
            "{name:<10} gap {:.3} %, {:+.3} % of the best, {:.1} CPU s, at most {:.1} MiB, {:.1} more than before (demands {demands:.1}, loads of the population {loads:.1})",
            gap(found),
            100.0 * (found as f64 / best as f64 - 1.0),
            met.last().map_or(f64::NAN, |run| run.0),
            memory("VmHWM"),
            memory("VmHWM") - before,
        )?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("large") => {
            let mut seconds = |default: f64| arguments.next().map_or(Ok(default), |text| text.parse::<f64>());
            large(seconds(900.0)?, seconds(20.0)?)
        }
        Some("table") | None => table(),
        Some(other) => Err(format!("expected table or large, found {other}").into()),
    }
}
