//! Routing demand: expert counts of samples with the spread and the correlations of real `MoE` routing.
//!
//! Problem: counts a[i,l,e], 0 ≤ a ≤ ρ and of sum k·ρ over the experts, whose popularity varies over experts, layers,
//! domains, prompts and samples, and drifts from step to step. Symbols: k experts a token, ρ routed rows, x
//! log-popularity.
//! Method, per sample and layer: x = base + block + domain + prompt + sample; inclusion probabilities p = min(1, c·eˣ)
//! with c such that Σp = k (water filling); y = ρp plus a normal error of variance v·ρp(1−p), clipped to [0, ρ] and
//! moved towards ρ or 0 in proportion to the room until Σy = kρ; y to whole counts by systematic rounding in fixed
//! point, which keeps the sum and every bound exactly. Complexity: O(experts) a sample and layer.
//! References: calibration on the released routing of OLMoE-1B-7B (N. Muennighoff et al., Open mixture-of-experts language
//! models, arXiv 2409.02060); systematic rounding after W. G. Madow, Ann. Math. Stat. 20(3), 1949,
//! doi 10.1214/aoms/1177729988. Deviations: popularity is normal and independent over layers, real popularity is
//! skewed to the left in deep layers, and neighbouring layers depend on each other.

use rayon::prelude::*;
use routepack_anneal::elementary::exp;
use routepack_anneal::stream::Stream;

use crate::RoutingRecipe;

/// Bits after the point in which counts are rounded.
const FRACTION_BITS: u32 = 24;

/// Log-popularity of experts over all text and in each domain, at one optimizer step.
#[derive(Clone, Debug)]
pub(crate) struct Popularity<'a> {
    recipe: &'a RoutingRecipe,
    /// `[layers, experts]`.
    base: Vec<f64>,
    /// `[domains, layers, experts]`.
    domains: Vec<f64>,
}

/// Samples of one prompt, for [`Popularity::count`].
pub(crate) struct Routed<'a> {
    /// Domain of the prompt.
    pub(crate) domain: usize,
    /// Routed rows of its samples.
    pub(crate) rows: &'a [u32],
}

impl<'a> Popularity<'a> {
    /// The popularity at the first step.
    pub(crate) fn draw(recipe: &'a RoutingRecipe, num_domains: usize, stream: &Stream) -> Self {
        let (layers, experts) = (recipe.layers as usize, recipe.experts as usize);
        let field = |sd: [f64; 2], mut stream: Stream| {
            let mut values = Vec::with_capacity(layers * experts);
            for layer in 0..layers {
                let sd = between(sd, layer, layers);
                values.extend((0..experts).map(|_| sd * stream.normal()));
            }
            values
        };
        let mut base = field(recipe.sd_base, stream.child(0));
        if recipe.block > 0 && recipe.sd_block > 0.0 {
            let mut stream = stream.child(1);
            for block in base.chunks_mut(experts).flat_map(|layer| layer.chunks_mut(recipe.block as usize)) {
                let common = recipe.sd_block * stream.normal();
                for x in block {
                    *x += common;
                }
            }
        }
        let domains = (0..num_domains as u64)
            .flat_map(|domain| field(recipe.sd_domain, stream.child(2).child(domain)))
            .collect();
        Self { recipe, base, domains }
    }

    /// Moves to the next optimizer step.
    pub(crate) fn drift(&mut self, mut stream: Stream) {
        for x in self.base.iter_mut().chain(&mut self.domains) {
            *x += self.recipe.sd_step * stream.normal();
        }
    }

    /// Writes the counts `[samples, layers, experts]` of the samples of all prompts, at most `group` samples a prompt.
    ///
    /// The stream of a prompt is a child of `stream` by its index: the threads that work on it do not matter.
    pub(crate) fn count(
        &self,
        prompts: &[Routed<'_>],
        group: usize,
        top_k: u32,
        stream: &Stream,
        counts: &mut [u32],
    ) {
        let sample = self.base.len();
        counts.par_chunks_mut(group * sample).zip(prompts).enumerate().for_each(
            |(index, (counts, prompt))| {
                self.count_prompt(prompt, top_k, &stream.child(index as u64), counts);
            },
        );
    }

    fn count_prompt(&self, prompt: &Routed<'_>, top_k: u32, stream: &Stream, counts: &mut [u32]) {
        let experts = self.recipe.experts as usize;
        let size = self.base.len();
        let domain = &self.domains[prompt.domain * size..(prompt.domain + 1) * size];
        let mut shared_stream = stream.child(0);
        let mut streams: Vec<Stream> =
            (1..=prompt.rows.len() as u64).map(|sample| stream.child(sample)).collect();
        let (mut shared, mut weights) = (vec![0.0; experts], vec![0.0; experts]);
        for start in (0..size).step_by(experts) {
            for (e, x) in shared.iter_mut().enumerate() {
                *x =
                    self.base[start + e] + domain[start + e] + self.recipe.sd_prompt * shared_stream.normal();
            }
            for (sample, (&rows, stream)) in prompt.rows.iter().zip(&mut streams).enumerate() {
                for (weight, x) in weights.iter_mut().zip(&shared) {
                    *weight = exp(x + self.recipe.sd_sample * stream.normal());
                }
                fill_to_sum(&mut weights, top_k);
                let place = sample * size + start;
                spread_rows(
                    &mut weights,
                    rows,
                    top_k,
                    self.recipe.dispersion,
                    stream,
                    &mut counts[place..place + experts],
                );
            }
        }
    }
}

/// The value at a layer of a line from the first layer to the last.
fn between([first, last]: [f64; 2], layer: usize, layers: usize) -> f64 {
    let way = if layers > 1 { layer as f64 / (layers - 1) as f64 } else { 0.0 };
    first + (last - first) * way
}

/// Turns positive weights into inclusion probabilities: min(1, c·weight) with c such that they sum to `top_k`.
fn fill_to_sum(weights: &mut [f64], top_k: u32) {
    let mut full = 0;
    let mut free: f64 = weights.iter().sum();
    loop {
        let factor = f64::from(top_k.saturating_sub(full)) / free.max(f64::MIN_POSITIVE);
        let mut filled = 0;
        free = 0.0;
        for weight in weights.iter_mut() {
            if *weight < 1.0 || full == 0 {
                *weight = (*weight * factor).min(1.0);
            }
            if *weight < 1.0 {
                free += *weight;
            } else {
                filled += 1;
            }
        }
        if filled == full {
            return;
        }
        full = filled;
    }
}

/// Draws whole counts of `rows` tokens around their means `rows · probability`; leaves the unrounded ones behind.
fn spread_rows(
    probabilities: &mut [f64],
    rows: u32,
    top_k: u32,
    dispersion: f64,
    stream: &mut Stream,
    counts: &mut [u32],
) {
    let (most, wanted) = (f64::from(rows), f64::from(rows) * f64::from(top_k));
    let mut sum = 0.0;
    for y in probabilities.iter_mut() {
        let (p, mean) = (*y, *y * most);
        let error = (dispersion * mean * (1.0 - p)).max(0.0).sqrt() * stream.normal();
        *y = (mean + error).clamp(0.0, most);
        sum += *y;
    }
    // One step closes the gap: the room is never smaller than the gap.
    let gap = wanted - sum;
    let room = if gap > 0.0 { probabilities.len() as f64 * most - sum } else { sum };
    let part = gap / room.max(f64::MIN_POSITIVE);
    for y in probabilities.iter_mut() {
        *y += part * if gap > 0.0 { most - *y } else { *y };
    }
    round_to_sum(probabilities, rows, top_k, stream.below(1 << FRACTION_BITS), counts);
}

/// Rounds values in [0, rows] whose sum is `top_k · rows`, but for float errors, to whole counts with exactly that sum:
/// count e is what the running sum plus `offset` gains in whole units at e, so each value goes to a neighbour of its own.
fn round_to_sum(values: &[f64], rows: u32, top_k: u32, offset: u64, counts: &mut [u32]) {
    let one = 1u64 << FRACTION_BITS;
    let (most, wanted) = (u64::from(rows) * one, u64::from(rows) * u64::from(top_k) * one);
    let fixed = |value: f64| ((value * one as f64).max(0.0) as u64).min(most);
    let sum: u64 = values.iter().map(|&value| fixed(value)).sum();
    let (mut missing, mut surplus) = (wanted.saturating_sub(sum), sum.saturating_sub(wanted));
    let mut running = offset;
    for (count, &value) in counts.iter_mut().zip(values) {
        let mut value = fixed(value);
        let up = missing.min(most - value);
        let down = surplus.min(value);
        value = value + up - down;
        (missing, surplus) = (missing - up, surplus - down);
        let next = running + value;
        *count = ((next >> FRACTION_BITS) - (running >> FRACTION_BITS)) as u32;
        running = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn water_filling_reaches_the_sum_and_keeps_proportions() {
        let mut weights = vec![1000.0, 1.0, 2.0, 3.0, 400.0, 6.0];
        fill_to_sum(&mut weights, 3);
        // 1000 and 400 are full; the other 12 share what is left of 3.
        for (p, expected) in weights.iter().zip([1.0, 1.0 / 12.0, 2.0 / 12.0, 3.0 / 12.0, 1.0, 6.0 / 12.0]) {
            assert!((p - expected).abs() < 1e-12, "{weights:?}");
        }
        let mut all = vec![5.0, 1.0, 0.1];
        fill_to_sum(&mut all, 3);
        assert!(all.iter().all(|p| (p - 1.0).abs() < 1e-12), "{all:?}");
        let mut stream = Stream::new(3);
        for _ in 0..200 {
            let mut weights: Vec<f64> = (0..32).map(|_| exp(3.0 * stream.normal())).collect();
            let before = weights.clone();
            let top_k = 1 + stream.below(16) as u32;
            fill_to_sum(&mut weights, top_k);
            assert!((weights.iter().sum::<f64>() - f64::from(top_k)).abs() < 1e-9);
            let factor = weights
                .iter()
                .zip(&before)
                .filter(|(p, _)| **p < 1.0)
                .map(|(p, w)| p / w)
                .fold((f64::MAX, 0.0f64), |(low, high), f| (low.min(f), high.max(f)));
            assert!(factor.1 / factor.0 < 1.0 + 1e-9, "{factor:?}");
            // No full one would have stayed below 1 at that factor.
            assert!(weights.iter().zip(&before).all(|(p, w)| *p < 1.0 || w * factor.1 >= 1.0 - 1e-9));
        }
    }

    #[test]
    fn rounding_keeps_the_sum_and_the_bounds() {
        let mut stream = Stream::new(4);
        for case in 0..2000 {
            let (rows, experts) = (1 + stream.below(50) as u32, 1 + stream.index(24));
            let top_k = 1 + stream.below(experts as u64) as u32;
            let mut weights: Vec<f64> = (0..experts).map(|_| exp(2.0 * stream.normal())).collect();
            fill_to_sum(&mut weights, top_k);
            let mut counts = vec![0; experts];
            spread_rows(&mut weights, rows, top_k, f64::from(case % 7), &mut stream, &mut counts);
            assert_eq!(counts.iter().sum::<u32>(), rows * top_k);
            for (count, y) in counts.iter().zip(&weights) {
                assert!(*count <= rows);
                assert!((f64::from(*count) - y).abs() < 1.0 + 1e-5, "{count} for {y}");
            }
        }
    }

    /// Without popularity, counts are spread as asked: the variance is `dispersion` times that of independent tokens.
    #[test]
    fn dispersion_is_what_it_says() {
        let (rows, experts, top_k, draws) = (1000, 64, 8, 400);
        for dispersion in [0.5, 4.0] {
            let mut stream = Stream::new(5);
            let (mut sum, mut squares) = (0.0, 0.0);
            for _ in 0..draws {
                let mut p = vec![0.125; experts];
                let mut counts = vec![0; experts];
                spread_rows(&mut p, rows, top_k, dispersion, &mut stream, &mut counts);
                sum += f64::from(counts[7]);
                squares += f64::from(counts[7]) * f64::from(counts[7]);
            }
            let mean = sum / f64::from(draws);
            let variance = squares / f64::from(draws) - mean * mean;
            let independent = 1000.0 * 0.125 * 0.875;
            assert!((mean - 125.0).abs() < 5.0);
            assert!((variance / (dispersion * independent) - 1.0).abs() < 0.35, "{variance} {dispersion}");
        }
    }
}
