//! Real policy drift: windows whose experts are chosen as OLMoE chose them after supervised fine-tuning, then after preference
//! optimisation, planned one after another; moves and scores beside those from scratch.
//!
//! `cargo run --release -p routepack --example drift -- COUNTS [SEED]`, COUNTS a table of real counts (tab-separated: model,
//! domain, layer, expert, count). Lengths and the spread of samples around the counts are drawn.
#![allow(clippy::print_stdout, reason = "an example prints")]

#[path = "../../routepack-place/examples/sources/mod.rs"]
mod sources;

use std::sync::Arc;

use routepack::{Batch, Control, ExpertCounts, Job, Sequence, Setting, verify};
use routepack_anneal::Stream;

const TOP_K: u32 = 8;
const SAMPLES: usize = 512;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let path = arguments.first().ok_or("COUNTS is missing")?;
    let seed = arguments.get(1).map_or(Ok(1), |text| text.parse())?;
    let real = sources::read_counts(path)?;
    let job = Job::new(Setting::new(8, 8, 8192));
    let mut sequence = Sequence::new(&job, true);
    println!("| window | arm | joint score | peak above bound % | moved of 192 |");
    println!("|---|---|---|---|---|");
    for (index, policy) in ["olmoe-sft", "olmoe-sft", "olmoe-dpo", "olmoe-dpo"].into_iter().enumerate() {
        let name = (policy.to_owned(), "tulu".to_owned());
        let loads = real.get(&name).ok_or_else(|| format!("{path}: no counts of {policy} on tulu"))?;
        let batch = Arc::new(draw(loads, &Stream::new(seed).child(index as u64))?);
        let planned = sequence.plan_next(&batch, &Control::new)?;
        verify(&planned.plan, &batch)?;
        for arm in &planned.arms {
            println!(
                "| {policy} {} | {} | {:.4} | {:.3} | {} |",
                index % 2 + 1,
                arm.name,
                arm.joint_score,
                100.0 * (arm.peak as f64 / arm.peak_bound as f64 - 1.0),
                arm.moved,
            );
        }
    }
    Ok(())
}

/// A window of samples that choose experts in the proportions of `loads` `[layers][experts]`, each with its own taste.
fn draw(loads: &[Vec<u64>], stream: &Stream) -> Result<Batch, Box<dyn std::error::Error>> {
    let mut lengths_stream = stream.child(0);
    let lengths: Vec<u32> = (0..SAMPLES)
        .map(|_| (700.0 * (0.8 * lengths_stream.normal()).exp()).clamp(16.0, 8192.0) as u32)
        .collect();
    let mut values = Vec::new();
    for (sample, &rows) in lengths.iter().enumerate() {
        let mut stream = stream.child(1 + sample as u64);
        for loads in loads {
            let weights: Vec<f64> =
                loads.iter().map(|&load| (load as f64 + 1.0) * (0.3 * stream.normal()).exp()).collect();
            values.extend(share(&weights, rows));
        }
    }
    let counts = ExpertCounts::new([SAMPLES, 1, loads.len(), loads[0].len()], values)?;
    Ok(Batch {
        expert_counts: Some(counts),
        routed_rows: Some(lengths.clone()),
        ..Batch::from_lengths(lengths)
    })
}

/// Whole counts near the weights' proportions, none above `rows`, that sum to `rows` times the experts a token.
fn share(weights: &[f64], rows: u32) -> Vec<u32> {
    let total: f64 = weights.iter().sum();
    let wanted = u64::from(rows) * u64::from(TOP_K);
    let mut counts: Vec<u32> =
        weights.iter().map(|weight| ((wanted as f64 * weight / total) as u32).min(rows)).collect();
    let mut missing = wanted - counts.iter().map(|&count| u64::from(count)).sum::<u64>();
    // What the caps and the rounding left goes to the largest with room, evenly.
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]));
    while missing > 0 {
        let open: Vec<usize> = order.iter().copied().filter(|&expert| counts[expert] < rows).collect();
        let each = (missing / open.len() as u64).max(1) as u32;
        for expert in open {
            let more = each.min(rows - counts[expert]).min(missing.try_into().unwrap_or(u32::MAX));
            counts[expert] += more;
            missing -= u64::from(more);
        }
    }
    counts
}
