//! Sequential value correction: bins filled one after another by value, values corrected by what they led to.
//!
//! Problem: pack n items of m types into few bins of capacity C. A bin takes the pattern of largest value among the items
//! left, as often as they allow. Then the value of each type i in it moves towards w_i^p · C/load: items that only go into
//! wasteful bins become dear and are packed earlier in the next round. With g_i = Ω·(d_i + what is left of d_i), Ω random
//! in [1/1.5, 1.5], the new value is (g_i·y_i + a_i·w_i^p·C/load) / (g_i + a_i).
//! Complexity: O(rounds · bins · pricing table).
//! Reference: G. Belov, G. Scheithauer, E. A. Mukhacheva, J. Operational Research Society 59 (2008), 823–832. Deviation: best
//! patterns come from the table of [`crate::pricing_table`].

use routepack_anneal::Stream;

use crate::pattern_space::PatternSpace;
use crate::pricing_table::{Collect, Prices, PricingTable};
use crate::types::{Pattern, Types};

/// Exponent of sizes: large items first.
const POWER: f64 = 1.02;
/// Ω lies between 1 / SPREAD and SPREAD.
const SPREAD: f64 = 1.5;
/// Scaled values of one bin lie below this.
const LARGEST: f64 = (1u64 << 40) as f64;
/// Steps to find the pattern of a value that the table promises.
const STEPS: u64 = 1_000_000;

/// The best packing of so many rounds, the first with at most `wanted` bins, or `stop`, ending them; `None` if the table
/// takes more than `table_bytes` or no round came to its end.
pub fn sequential_value_correction(
    types: &Types,
    rounds: u32,
    wanted: u64,
    table_bytes: u64,
    stream: &Stream,
    stop: &(dyn Fn() -> bool + Sync),
) -> Option<Vec<Pattern>> {
    let mut values: Vec<f64> = types.sizes.iter().map(|&size| power(size)).collect();
    let mut best: Option<Vec<Pattern>> = None;
    let mut memory = Vec::new();
    for round in 0..rounds {
        if best.as_ref().is_some_and(|best| best.len() as u64 <= wanted) {
            break;
        }
        let fewer = best.as_ref().map_or(u64::MAX, |best| best.len() as u64);
        let mut draws = stream.child(round.into());
        let (mut left, mut bins) = (types.clone(), Vec::new());
        while left.num_items() > 0 {
            let Some(pattern) = dearest(&left, &values, table_bytes, &mut memory, stop) else { return best };
            let times = copies(&pattern).map(|(kind, copies)| left.demands[kind] / copies).min().unwrap_or(0);
            correct(&mut values, &pattern, times, types, &left, &mut draws);
            copies(&pattern).for_each(|(kind, copies)| left.demands[kind] -= times * copies);
            bins.extend(std::iter::repeat_n(pattern, times as usize));
            let needed = bins.len() as u128 + left.total().div_ceil(left.capacity.into());
            if needed >= fewer.into() {
                break;
            }
        }
        if left.num_items() == 0 && (bins.len() as u64) < fewer {
            best = Some(bins);
        }
    }
    best
}

fn power(size: u64) -> f64 {
    (size as f64).powf(POWER)
}

/// The types of a pattern with their copies.
fn copies(pattern: &[u32]) -> impl Iterator<Item = (usize, u32)> {
    pattern.chunk_by(|a, b| a == b).map(|same| (same[0] as usize, same.len() as u32))
}

/// A pattern of largest value among the items left.
fn dearest(
    left: &Types,
    values: &[f64],
    table_bytes: u64,
    memory: &mut Vec<i64>,
    stop: &(dyn Fn() -> bool + Sync),
) -> Option<Pattern> {
    let space = PatternSpace::of_types(left);
    let most = values.iter().zip(&left.sizes).map(|(value, &size)| value / size as f64).fold(0.0, f64::max);
    let scale = LARGEST / (most * left.capacity as f64);
    let weights: Vec<i64> = values.iter().map(|value| (value * scale) as i64 + 1).collect();
    let prices = Prices { weights: &weights, cuts: &[] };
    let mut table = PricingTable::new(&space, table_bytes, memory)?;
    let top = table.build(&prices, stop);
    let found = top.map(|top| {
        table.collect(&prices, Collect { threshold: top - 1, usage: None, max_steps: STEPS }, stop)
    });
    *memory = table.into_memory();
    found?.patterns.into_iter().next().map(|(pattern, _)| pattern)
}

/// Moves the values of the types of a pattern taken so many times towards what it shows them to be worth.
fn correct(values: &mut [f64], pattern: &[u32], times: u32, types: &Types, left: &Types, draws: &mut Stream) {
    let fullness = types.capacity as f64 / types.load(pattern) as f64;
    for (kind, copies) in copies(pattern) {
        let omega = SPREAD.powf(2.0 * draws.unit() - 1.0);
        let inertia = omega * f64::from(types.demands[kind] + left.demands[kind]);
        let taken = f64::from(copies * times);
        values[kind] =
            (inertia * values[kind] + taken * power(types.sizes[kind]) * fullness) / (inertia + taken);
    }
}
