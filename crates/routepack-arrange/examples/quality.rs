//! Gap to the bound for the placement, on generated windows: `cargo run --release -p routepack-arrange --no-default-features
//! --example quality -- [seeds] [CPU seconds]`.
//!
//! The limit is of processor time, all threads together, where the system tells it (Linux), as other work on the machine
//! does not change that; else of time on as many threads. `reorder` is the attention of our layout against that of the
//! first-fit bins in their order, in percent: the arm of that name.

use std::io::Write;
use std::time::Instant;

use routepack_arrange::{ArrangeOptions, arrange, spread_bins};
use routepack_bounds::{given_placement, layout_bound};
use routepack_generate::{Preset, WindowRecipe, window};
use routepack_place::{PlaceOptions, place};
use routepack_problem::{Instance, Layout, evaluate};
use serde_json::json;

/// First-fit decreasing.
fn pack(instance: &Instance) -> Vec<Vec<u32>> {
    let mut order: Vec<usize> = (0..instance.num_units()).collect();
    order.sort_by_key(|&unit| (std::cmp::Reverse(instance.unit_tokens(unit)), unit));
    let mut bins: Vec<(u64, Vec<u32>)> = Vec::new();
    for unit in order {
        let tokens = instance.unit_tokens(unit);
        match bins.iter_mut().find(|(filled, _)| filled + tokens <= u64::from(instance.cell_capacity())) {
            Some((filled, bin)) => {
                *filled += tokens;
                bin.push(unit as u32);
            }
            None => bins.push((tokens, vec![unit as u32])),
        }
    }
    bins.into_iter().map(|(_, bin)| bin).collect()
}

/// Bin b in row ⌊b/D⌋ and slot b mod D, the bin with most tokens split by alternating units until there are R·D.
fn in_order(instance: &Instance, mut bins: Vec<Vec<u32>>, rows: usize) -> Layout {
    let slots = instance.topology().num_slots();
    let tokens =
        |bin: &Vec<u32>| -> u64 { bin.iter().map(|&unit| instance.unit_tokens(unit as usize)).sum() };
    while bins.len() < rows * slots {
        let fullest =
            (0..bins.len()).filter(|&bin| bins[bin].len() > 1).max_by_key(|&bin| tokens(&bins[bin]));
        let whole = std::mem::take(&mut bins[fullest.expect("more units than cells")]);
        let half = |parity| whole.iter().copied().skip(parity).step_by(2).collect::<Vec<u32>>();
        bins[fullest.unwrap_or(0)] = half(0);
        bins.push(half(1));
    }
    let mut cell_of = vec![0; instance.num_samples()];
    for (cell, bin) in bins.iter().enumerate() {
        for &sample in bin.iter().flat_map(|&unit| instance.unit(unit as usize)) {
            cell_of[sample as usize] = cell as u32;
        }
    }
    Layout::new(rows, slots, cell_of)
}

/// Processor time so far, all threads; or time times threads.
fn cpu_seconds(start: Instant) -> f64 {
    let ticks = std::fs::read_to_string("/proc/self/stat").ok().and_then(|stat| {
        let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
        // User and system time in hundredths of a second.
        let [user, system] = [fields.get(11)?, fields.get(12)?].map(|field| field.parse::<u64>());
        Some((user.ok()? + system.ok()?) as f64 / 100.0)
    });
    ticks.unwrap_or_else(|| start.elapsed().as_secs_f64() * rayon::current_num_threads() as f64)
}

fn recipes() -> Result<Vec<(&'static str, WindowRecipe)>, Box<dyn std::error::Error>> {
    let mixed = Preset::Mixed.recipe();
    let coarse = json!({"lengths": {"max_total": 4096}, "setting": {"packing": {"capacity": 4096}}});
    Ok(vec![
        ("tiny", Preset::Tiny.recipe()),
        ("flash", Preset::Flash.recipe()),
        ("mixed", mixed.clone()),
        ("mixed-coarse", mixed.amended(&coarse)?),
        ("mixed-2048", mixed.amended(&json!({"prompts": 256}))?),
        ("long-context", Preset::LongContext.recipe()),
    ])
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let seeds: u64 = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let seconds: f64 = arguments.next().map_or(Ok(4.0), |text| text.parse())?;
    let mut out = std::io::stdout();
    writeln!(
        out,
        "window        seed  rows  a cell  first gap %  gap %  attention %  expert %  reorder %  seconds  finished"
    )?;
    for (name, recipe) in recipes()? {
        let mut gaps = Vec::new();
        for seed in 1..=seeds {
            let generated = window(&recipe, seed)?;
            let instance = Instance::single(generated.batch, &generated.setting)?;
            let topology = instance.topology();
            let placed =
                place(instance.expert_loads(), topology.num_ranks(), &PlaceOptions::default(), &|| false)?;
            let bins = pack(&instance);
            let rows = bins.len().div_ceil(topology.num_slots());
            let first = spread_bins(&instance, &bins, rows)?;
            let bound = layout_bound(&instance, &given_placement(&instance, &placed.placement), rows);
            let start = Instant::now();
            let before = cpu_seconds(start);
            let stop = || cpu_seconds(start) - before > seconds;
            let options = ArrangeOptions::default();
            let arranged = arrange(&instance, &placed.placement, &first, &options, seed, &stop, &mut |_| {})?;
            let took = cpu_seconds(start) - before;
            let gap = |cost: u64| 100.0 * (1.0 - bound.worst_shard as f64 / cost as f64);
            let at_first = evaluate(&instance, &placed.placement, &first).score;
            let evaluation = evaluate(&instance, &placed.placement, &arranged.layout);
            let [attention, expert] =
                [&evaluation.attention, &evaluation.expert].map(|sums| sums.iter().sum::<u64>());
            // Both parts of the gap, as fractions of the total.
            let part = |cost: u64, bound: u64| 100.0 * (cost - bound) as f64 / arranged.score.total as f64;
            let reorder = evaluate(&instance, &placed.placement, &in_order(&instance, bins, rows));
            let reordered: u64 = reorder.attention.iter().sum();
            let found = gap(arranged.score.worst_shard);
            writeln!(
                out,
                "{name:<13} {seed:>4}  {rows:>4}  {:>6.1}  {:>11.3}  {found:>5.3}  {:>11.3}  {:>8.3}  {:>9.1}  {took:>7.2}  {}",
                instance.num_units() as f64 / (rows * topology.num_slots()) as f64,
                gap(at_first.worst_shard),
                part(attention, bound.attention),
                part(expert, bound.expert),
                100.0 * (attention as f64 / reordered as f64 - 1.0),
                arranged.finished,
            )?;
            gaps.push(found);
        }
        gaps.sort_by(f64::total_cmp);
        writeln!(out, "{name:<13} median gap {:.3} %", gaps[gaps.len() / 2])?;
    }
    Ok(())
}
