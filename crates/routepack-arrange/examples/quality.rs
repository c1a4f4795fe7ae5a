//! Gap to the bound for the placement, on generated windows, and what the layout gains over the arm `reorder`:
//! `cargo run --release -p routepack-arrange --no-default-features --example quality -- [seeds] [CPU seconds] [windows]
//! [proposals per unit]`, windows being names with commas between, or `all`.
//!
//! The limit is of processor time, all threads together, where the system tells it (Linux), as other work on the machine
//! does not change that; else of time on as many threads. `reorder` is the same placement with the first-fit bins in their
//! order; `estimate` is what counting says of the least expert excess (no bound). Differences are in percent of `reorder`, and in brackets is the most that the bounds leave possible.

mod windows;

use std::io::Write;
use std::time::Instant;

use routepack_arrange::{ArrangeOptions, arrange, spread_bins};
use routepack_bounds::{ExpertPeaks, LayoutBound, given_placement, layout_bound};
use routepack_problem::{Evaluation, Instance, Placement, evaluate, project};
use windows::{Window, cpu_seconds, in_order, median, recipes};

/// Peak sum, worst peak, attention and joint score of an evaluated layout.
fn paper_figures(evaluation: &Evaluation) -> [u64; 4] {
    [
        evaluation.peaks.iter().sum(),
        evaluation.peaks.iter().copied().max().unwrap_or(0),
        evaluation.attention.iter().sum(),
        evaluation.score.worst_shard,
    ]
}

/// What the same figures are at least.
fn least_figures(peaks: &ExpertPeaks, bound: &LayoutBound, blocks: usize) -> [u64; 4] {
    let layers =
        || (0..peaks.num_parts()).flat_map(|part| (0..peaks.num_layers()).map(move |layer| (part, layer)));
    let sums = || layers().map(|(part, layer)| peaks.best(part, layer));
    [
        sums().sum(),
        sums().map(|sum| sum.div_ceil(blocks as u64)).max().unwrap_or(0),
        bound.attention,
        bound.worst_shard,
    ]
}

/// An estimate, no bound, of what expert peaks of the best layout exceed even ones by, scaled, by counting (first moment):
/// of the B^N assignments of units to blocks (which cell of its block a unit is in does not matter to experts), a fraction
/// of about Π (ε·√(2/π)) over the (B − 1)·L·(P − 1) loads that are free has every load within ε standard deviations of even,
/// so that none is expected below ε = √(π/2)·exp(−N·ln B/((B − 1)·L·(P − 1))). A peak of P loads spread over ±ε is about
/// ε·(P − 1)/(P + 1) above. Capacity and attention leave fewer assignments.
fn estimated_excess(instance: &Instance, placement: &Placement, rows: usize) -> f64 {
    let topology = instance.topology();
    let (layers, ranks) = (instance.num_layers() as f64, topology.num_ranks() as f64);
    let blocks = (rows * topology.num_groups()) as f64;
    let demand = project(instance, placement);
    let entropy = instance.num_units() as f64 * blocks.ln() / ((blocks - 1.0) * layers * (ranks - 1.0));
    let epsilon = (std::f64::consts::FRAC_PI_2.sqrt() * (-entropy).exp()).min(1.0);
    let of_layer = |layer: usize| {
        let squares = (0..instance.num_samples()).map(|sample| {
            let rows = demand.of(sample, 0, layer);
            let mean = rows.iter().map(|&rows| f64::from(rows)).sum::<f64>() / ranks;
            rows.iter().map(|&rows| (f64::from(rows) - mean).powi(2)).sum::<f64>()
        });
        let deviation = (squares.sum::<f64>() / ranks / blocks).sqrt();
        instance.charges().expert()[layer] as f64 * blocks * deviation
    };
    (0..instance.num_layers()).map(of_layer).sum::<f64>() * epsilon * (ranks - 1.0) / (ranks + 1.0)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let seeds: u64 = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let seconds: f64 = arguments.next().map_or(Ok(4.0), |text| text.parse())?;
    let chosen = arguments.next().filter(|windows| windows != "all");
    let mut options = ArrangeOptions::default();
    if let Some(text) = arguments.next() {
        options.proposals_per_unit = text.parse()?;
    }
    let mut out = std::io::stdout();
    writeln!(
        out,
        "window        seed  rows  a cell  first gap %  gap %  attention %  expert %  estimate %  CPU s  finished"
    )?;
    for (name, recipe) in recipes()? {
        if chosen.as_ref().is_some_and(|chosen| chosen.split(',').all(|window| window != name)) {
            continue;
        }
        let (mut gaps, mut times) = (Vec::new(), Vec::new());
        let mut differences = [const { Vec::new() }; 4];
        for seed in 1..=seeds {
            let Window { instance, placement, bins, rows } = Window::new(&recipe, seed)?;
            let topology = instance.topology();
            let first = spread_bins(&instance, &bins, rows)?;
            let peaks = given_placement(&instance, &placement);
            let bound = layout_bound(&instance, &peaks, rows);
            let start = Instant::now();
            let before = cpu_seconds(start);
            let stop = || cpu_seconds(start) - before > seconds;
            let arranged = arrange(&instance, &placement, &first, &options, seed, &stop, &mut |_| {})?;
            let took = cpu_seconds(start) - before;
            let gap = |cost: u64| 100.0 * (1.0 - bound.worst_shard as f64 / cost as f64);
            let at_first = evaluate(&instance, &placement, &first).score;
            let evaluation = evaluate(&instance, &placement, &arranged.layout);
            let [attention, expert] =
                [&evaluation.attention, &evaluation.expert].map(|sums| sums.iter().sum::<u64>());
            // Both parts of the gap, as fractions of the total.
            let part = |cost: u64, bound: u64| 100.0 * (cost - bound) as f64 / (attention + expert) as f64;
            let found = gap(arranged.score.worst_shard);
            writeln!(
                out,
                "{name:<13} {seed:>4}  {rows:>4}  {:>6.1}  {:>11.3}  {found:>5.3}  {:>11.3}  {:>8.3}  {:>10.2}  {took:>5.2}  {}",
                instance.num_units() as f64 / (rows * topology.num_slots()) as f64,
                gap(at_first.worst_shard),
                part(attention, bound.attention),
                part(expert, bound.expert),
                100.0 * estimated_excess(&instance, &placement, rows) / (attention + expert) as f64,
                arranged.finished,
            )?;
            gaps.push(found);
            times.push(took);
            let reorder = paper_figures(&evaluate(&instance, &placement, &in_order(&instance, bins, rows)));
            let least = least_figures(&peaks, &bound, rows * topology.num_groups());
            let ours = paper_figures(&evaluation);
            for (which, difference) in differences.iter_mut().enumerate() {
                let against = |value: u64| 100.0 * (value as f64 / reorder[which].max(1) as f64 - 1.0);
                difference.push((against(ours[which]), against(least[which])));
            }
        }
        writeln!(out, "{name:<13} median gap {:.3} %, {:.2} CPU s", median(&mut gaps), median(&mut times))?;
        let names = ["peak sum", "worst peak", "attention", "joint"];
        let of_names = names.iter().zip(differences).map(|(name, difference)| {
            let (mut ours, mut least): (Vec<f64>, Vec<f64>) = difference.into_iter().unzip();
            format!("{name} {:+.2} [{:+.2}] %", median(&mut ours), median(&mut least))
        });
        let of_names: Vec<String> = of_names.collect();
        writeln!(out, "{name:<13} against reorder: {}", of_names.join(", "))?;
    }
    Ok(())
}
