//! Windows of the examples, and their clock.

#[path = "../../../routepack-place/examples/processor/mod.rs"]
mod processor;

use std::time::Instant;

use routepack_generate::{Preset, WindowRecipe, window};
use routepack_place::{PlaceOptions, place};
use routepack_problem::{Instance, Layout, Placement};
use serde_json::json;

/// A generated window with its experts placed and packed first-fit decreasing.
pub(crate) struct Window {
    pub(crate) instance: Instance,
    pub(crate) placement: Placement,
    pub(crate) bins: Vec<Vec<u32>>,
    pub(crate) rows: usize,
}

impl Window {
    pub(crate) fn new(recipe: &WindowRecipe, seed: u64) -> Result<Self, Box<dyn std::error::Error>> {
        let generated = window(recipe, seed)?;
        let instance = Instance::single(generated.batch, &generated.setting)?;
        let ranks = instance.topology().num_ranks();
        let placed = place(instance.expert_loads(), ranks, &PlaceOptions::default(), &|| false)?;
        let bins = pack(&instance);
        let rows = bins.len().div_ceil(instance.topology().num_slots());
        Ok(Self { instance, placement: placed.placement, bins, rows })
    }
}

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
#[allow(dead_code, reason = "not every example compares")]
pub(crate) fn in_order(instance: &Instance, mut bins: Vec<Vec<u32>>, rows: usize) -> Layout {
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
pub(crate) fn cpu_seconds(start: Instant) -> f64 {
    processor::cpu_seconds()
        .unwrap_or_else(|| start.elapsed().as_secs_f64() * rayon::current_num_threads() as f64)
}

/// The upper median.
#[allow(dead_code, reason = "not every example has seeds")]
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The windows of the table.
#[allow(dead_code, reason = "not every example has the table")]
pub(crate) fn recipes() -> Result<Vec<(&'static str, WindowRecipe)>, Box<dyn std::error::Error>> {
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
