//! Neighbours: for every unit, others whose demand is most like its own.
//!
//! Problem: at low temperature a swap of two random units is almost never accepted, since it throws every layer of both
//! blocks and both cells off balance; a swap of two units that are nearly alike changes little and is a fine tool.
//! Method: the deviation of unit i is δ_i\[l,p\] = Γ_l·(q_i\[l,p\] − mean over p), by part, and its attention φ_i by kind,
//! times a weight: how a unit's length shifts the mean load of a block does not matter for balance, but its attention
//! must fit its cell. Distance is Euclidean. All pairs are measured where there are few units; else, as | |δ_i| − |δ_j| | bounds the distance from below, only pairs that
//! are near each other in the order of |δ|. Sums are taken in a fixed order in 32-bit floats, the same on every machine.
//! Without layers, units are neighbours in the order of their attention.
//! Complexity: O(U·W·parts·L·P) with W = min(U, 256) pairs measured a unit; memory U·parts·L·P floats while it runs.

use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use crate::units::Units;

/// Pairs measured per unit at most.
const WINDOW: usize = 256;
/// Units whose pairs are measured between two looks at `stop`.
const BATCH: usize = 64;
/// How much a difference of attention counts beside deviations of demand that cost as much.
const ATTENTION_WEIGHT: f32 = 3.0;
/// Floats summed side by side.
const LANES: usize = 16;

/// The nearest units of every unit, nearest first, `[units, per_unit]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Neighbours {
    per_unit: usize,
    nearest: Vec<u32>,
}

impl Neighbours {
    /// The `per_unit` nearest of every unit, fewer if there are not as many; `None` if stopped.
    pub(crate) fn new(units: &Units, per_unit: usize, stop: &(dyn Fn() -> bool + Sync)) -> Option<Self> {
        let count = units.num_units();
        let per_unit = per_unit.min(count - 1);
        let deviations = deviations(units, stop)?;
        let width = deviations.len() / count;
        let norms: Vec<f32> = deviations.chunks_exact(width).map(|unit| distance(unit, None)).collect();
        let mut order: Vec<u32> = (0..count as u32).collect();
        order.sort_by(|&a, &b| norms[a as usize].total_cmp(&norms[b as usize]).then(a.cmp(&b)));
        let mut rank = vec![0; count];
        for (place, &unit) in order.iter().enumerate() {
            rank[unit as usize] = place;
        }
        let of = |unit: u32| &deviations[unit as usize * width..(unit as usize + 1) * width];
        let window = WINDOW.max(per_unit).min(count - 1);
        let stopped = AtomicBool::new(false);
        let mut nearest = vec![0; count * per_unit];
        nearest.par_chunks_mut((BATCH * per_unit).max(1)).enumerate().for_each(|(batch, nearest)| {
            if stopped.load(Ordering::Relaxed) || stop() {
                stopped.store(true, Ordering::Relaxed);
                return;
            }
            let mut measured = Vec::with_capacity(window);
            for (offset, nearest) in nearest.chunks_exact_mut(per_unit.max(1)).enumerate() {
                let unit = (batch * BATCH + offset) as u32;
                let first = rank[unit as usize].saturating_sub(window / 2).min(count - 1 - window);
                measured.clear();
                measured.extend(
                    order[first..=first + window]
                        .iter()
                        .filter(|&&other| other != unit)
                        .map(|&other| (distance(of(unit), Some(of(other))), other)),
                );
                measured.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
                for (nearest, &(_, other)) in nearest.iter_mut().zip(&measured) {
                    *nearest = other;
                }
            }
        });
        (!stopped.into_inner()).then_some(Self { per_unit, nearest })
    }

    /// The neighbours of a unit, nearest first; none if it is the only unit.
    #[inline]
    pub(crate) fn of(&self, unit: usize) -> &[u32] {
        &self.nearest[unit * self.per_unit..(unit + 1) * self.per_unit]
    }
}

/// δ of every unit, each padded to whole lanes, in units of the largest Γ.
fn deviations(units: &Units, stop: &(dyn Fn() -> bool + Sync)) -> Option<Vec<f32>> {
    let demand = &units.demand;
    let (parts, layers, ranks) = (demand.num_parts(), demand.num_layers(), demand.num_ranks());
    let count = units.num_units();
    if layers == 0 {
        let mut values = vec![0.0; count * LANES];
        for (unit, values) in values.chunks_exact_mut(LANES).enumerate() {
            values[0] = units.attention(unit).iter().sum::<u64>() as f32;
        }
        return Some(values);
    }
    let heaviest = (0..layers).map(|layer| demand.weight(layer)).max().unwrap_or(0).max(1) as f32;
    // A unit's deviations from balance raise peaks by about √(L/P)·|δ|: attention is brought to that measure.
    let attention_scale = ATTENTION_WEIGHT / heaviest / (layers as f32 / ranks as f32).sqrt();
    let width = (parts * layers * ranks + units.kinds).next_multiple_of(LANES);
    let mut values = vec![0.0; count * width];
    let stopped = AtomicBool::new(false);
    values.par_chunks_mut(BATCH * width).enumerate().for_each(|(batch, values)| {
        if stopped.load(Ordering::Relaxed) || stop() {
            stopped.store(true, Ordering::Relaxed);
            return;
        }
        for (offset, values) in values.chunks_exact_mut(width).enumerate() {
            let unit = batch * BATCH + offset;
            let mut values = values.iter_mut();
            for (kind, value) in values.by_ref().take(units.kinds).enumerate() {
                *value = units.attention(unit)[kind] as f32 * attention_scale;
            }
            for part in 0..parts {
                for layer in 0..layers {
                    let rows = |rank| demand.of(unit, part, layer, rank) as f32;
                    let mean = (0..ranks).map(rows).sum::<f32>() / ranks as f32;
                    let scale = demand.weight(layer) as f32 / heaviest;
                    for (rank, value) in values.by_ref().take(ranks).enumerate() {
                        *value = (rows(rank) - mean) * scale;
                    }
                }
            }
        }
    });
    (!stopped.into_inner()).then_some(values)
}

/// Squared distance of two vectors of whole lanes, or the squared length of one.
fn distance(a: &[f32], b: Option<&[f32]>) -> f32 {
    let mut sums = [0.0f32; LANES];
    let a = a.as_chunks::<LANES>().0;
    match b {
        Some(b) => {
            for (a, b) in a.iter().zip(b.as_chunks::<LANES>().0) {
                for lane in 0..LANES {
                    let difference = a[lane] - b[lane];
                    sums[lane] += difference * difference;
                }
            }
        }
        None => {
            for a in a {
                for lane in 0..LANES {
                    sums[lane] += a[lane] * a[lane];
                }
            }
        }
    }
    sums.iter().sum()
}
