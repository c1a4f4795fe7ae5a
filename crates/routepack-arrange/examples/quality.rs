//! Gap to the bound for the placement, on generated windows: `cargo run --release -p routepack-arrange --no-default-features
//! --example quality -- [seeds] [seconds]`.

use std::io::Write;
use std::time::{Duration, Instant};

use routepack_arrange::{ArrangeOptions, arrange, spread_bins};
use routepack_bounds::{given_placement, layout_bound};
use routepack_generate::{Preset, window};
use routepack_place::{PlaceOptions, place};
use routepack_problem::{Instance, evaluate};

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

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let seeds: u64 = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let seconds: f64 = arguments.next().map_or(Ok(2.0), |text| text.parse())?;
    let mut out = std::io::stdout();
    writeln!(out, "window        seed  rows  first gap %  gap %  attention %  expert %  seconds  finished")?;
    for preset in [Preset::Tiny, Preset::Flash, Preset::Mixed, Preset::LongContext] {
        let mut gaps = Vec::new();
        for seed in 1..=seeds {
            let generated = window(&preset.recipe(), seed)?;
            let instance = Instance::single(generated.batch, &generated.setting)?;
            let ranks = instance.topology().num_ranks();
            let placed = place(instance.expert_loads(), ranks, &PlaceOptions::default(), &|| false)?;
            let bins = pack(&instance);
            let rows = bins.len().div_ceil(instance.topology().num_slots());
            let first = spread_bins(&instance, &bins, rows)?;
            let bound = layout_bound(&instance, &given_placement(&instance, &placed.placement), rows);
            let start = Instant::now();
            let stop = || start.elapsed() > Duration::from_secs_f64(seconds);
            let options = ArrangeOptions::default();
            let arranged = arrange(&instance, &placed.placement, &first, &options, seed, &stop, &mut |_| {})?;
            let took = start.elapsed().as_secs_f64();
            let excess = |cost: u64, bound: u64| 100.0 * (cost as f64 / bound as f64 - 1.0);
            let gap = |cost: u64| 100.0 * (1.0 - bound.worst_shard as f64 / cost as f64);
            let at_first = evaluate(&instance, &placed.placement, &first).score;
            let evaluation = evaluate(&instance, &placed.placement, &arranged.layout);
            let found = gap(arranged.score.worst_shard);
            writeln!(
                out,
                "{:<13} {seed:>4}  {rows:>4}  {:>11.3}  {found:>5.3}  {:>11.3}  {:>8.3}  {took:>7.2}  {}",
                preset.name(),
                gap(at_first.worst_shard),
                excess(evaluation.attention.iter().sum(), bound.attention),
                excess(evaluation.expert.iter().sum(), bound.expert),
                arranged.finished,
            )?;
            gaps.push(found);
        }
        gaps.sort_by(f64::total_cmp);
        writeln!(out, "{:<13} median gap {:.3} %", preset.name(), gaps[gaps.len() / 2])?;
    }
    Ok(())
}
