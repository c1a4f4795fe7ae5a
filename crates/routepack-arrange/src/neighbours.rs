//! Neighbours: for every unit, others whose demand is most like its own.
//!
//! Problem: at low temperature a swap of two random units is almost never accepted, since it throws every layer of both
//! blocks and both cells off balance; a swap of two units that are nearly alike changes little and is a fine tool.
//! Method: the deviation of unit i is δ_i\[l,p\] = Γ_l·(q_i\[l,p\] − mean over p), by part, and its attention φ_i by kind,
//! times a weight: how a unit's length shifts the mean load of a block does not matter for balance, but its attention
//! must fit its cell. Distance is Euclidean. All pairs are measured where there are few units; else, as | |δ_i| − |δ_j| |
//! bounds the distance from below, only pairs that are near each other in the order of |δ|:
//! a stretch of that order is held in memory and slides along it, shared by all threads. Sums are taken in a fixed order in
//! 32-bit floats, the same on every machine. Without layers, units are neighbours in the order of their attention.
//! Complexity: O(U·W·parts·L·P) with W = min(U, 256) pairs measured a unit; memory (W + 64)·parts·L·P floats while it runs,
//! and 8·parts·L·P a thread.

use std::ops::Range;

use rayon::prelude::*;

use crate::units::Units;

/// Pairs measured per unit at most.
const WINDOW: usize = 256;
/// Units of a batch: so many, neighbours in the order of |δ|, are measured between two slides.
const BATCH: usize = 64;
/// Units whose δ one thread makes between two looks at `stop`.
const BETWEEN_LOOKS: usize = 8;
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
        let deviations = Deviations::new(units);
        let order = deviations.order(stop)?;
        let window = WINDOW.max(per_unit).min(count - 1);
        // The units whose distance from the one at a place of the order is measured begin here.
        let first = |place: usize| place.saturating_sub(window / 2).min(count - 1 - window);
        let mut held = Held::new(&deviations, &order, window + BATCH);
        let mut nearest = vec![0; count * per_unit];
        for begin in (0..count).step_by(BATCH) {
            let places = begin..count.min(begin + BATCH);
            held.slide(first(places.start)..first(places.end - 1) + window + 1, stop)?;
            let nearest_of = |measured: &mut Vec<(f32, u32)>, place: usize| -> Vec<u32> {
                let others = (first(place)..=first(place) + window).filter(|&other| other != place);
                let distance_to = |other| (distance(held.of(place), Some(held.of(other))), order[other]);
                measured.clear();
                measured.extend(others.map(distance_to));
                measured.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
                measured.iter().take(per_unit).map(|&(_, other)| other).collect()
            };
            let of_batch: Vec<Vec<u32>> =
                places.clone().into_par_iter().map_init(Vec::new, nearest_of).collect();
            for (place, of_unit) in places.zip(of_batch) {
                nearest[order[place] as usize * per_unit..][..per_unit].copy_from_slice(&of_unit);
            }
        }
        Some(Self { per_unit, nearest })
    }

    /// The neighbours of a unit, nearest first; none if it is the only unit.
    #[inline]
    pub(crate) fn of(&self, unit: usize) -> &[u32] {
        &self.nearest[unit * self.per_unit..(unit + 1) * self.per_unit]
    }
}

/// What δ of a unit is made of: made for a few units at a time, as those of all would take twice the room of the demands.
struct Deviations<'a> {
    units: &'a Units,
    /// Whole lanes of a unit.
    width: usize,
    /// The largest Γ, the unit of all values.
    heaviest: f32,
    /// Attention times this is in the measure of deviations.
    attention_scale: f32,
}

impl<'a> Deviations<'a> {
    fn new(units: &'a Units) -> Self {
        let demand = &units.demand;
        let (parts, layers, ranks) = (demand.num_parts(), demand.num_layers(), demand.num_ranks());
        let heaviest = (0..layers).map(|layer| demand.weight(layer)).max().unwrap_or(0).max(1) as f32;
        Self {
            units,
            width: if layers == 0 {
                LANES
            } else {
                (parts * layers * ranks + units.kinds).next_multiple_of(LANES)
            },
            heaviest,
            // A unit's deviations from balance raise peaks by about √(L/P)·|δ|: attention is brought to that measure.
            attention_scale: ATTENTION_WEIGHT / heaviest / (layers as f32 / ranks as f32).sqrt(),
        }
    }

    /// All units in the order of |δ|; `None` if stopped.
    fn order(&self, stop: &(dyn Fn() -> bool + Sync)) -> Option<Vec<u32>> {
        let mut order: Vec<u32> = (0..self.units.num_units() as u32).collect();
        let norms: Option<Vec<Vec<f32>>> = order
            .par_chunks(BETWEEN_LOOKS)
            .map(|batch| {
                if stop() {
                    return None;
                }
                let mut values = vec![0.0; batch.len() * self.width];
                self.fill_all(batch, &mut values);
                Some(values.chunks_exact(self.width).map(|unit| distance(unit, None)).collect())
            })
            .collect();
        let norms = norms?.concat();
        order.sort_by(|&a, &b| norms[a as usize].total_cmp(&norms[b as usize]).then(a.cmp(&b)));
        Some(order)
    }

    /// δ of some units, `[units, width]`; what fills up the lanes of a unit is left as it is.
    fn fill_all(&self, units: &[u32], values: &mut [f32]) {
        for (&unit, values) in units.iter().zip(values.chunks_exact_mut(self.width)) {
            self.fill(unit as usize, values);
        }
    }

    /// δ of a unit.
    fn fill(&self, unit: usize, values: &mut [f32]) {
        let (demand, attention) = (&self.units.demand, self.units.attention(unit));
        let (layers, ranks) = (demand.num_layers(), demand.num_ranks());
        if layers == 0 {
            values[0] = attention.iter().sum::<u64>() as f32;
            return;
        }
        let (of_kinds, mut rest) = values.split_at_mut(attention.len());
        for (value, &cost) in of_kinds.iter_mut().zip(attention) {
            *value = cost as f32 * self.attention_scale;
        }
        for part in 0..demand.num_parts() {
            for layer in 0..layers {
                let of_layer = rest.split_off_mut(..ranks).expect("a width of all parts and layers");
                for (rank, value) in of_layer.iter_mut().enumerate() {
                    *value = demand.of(unit, part, layer, rank) as f32;
                }
                let mean = of_layer.iter().sum::<f32>() / ranks as f32;
                let scale = demand.weight(layer) as f32 / self.heaviest;
                of_layer.iter_mut().for_each(|value| *value = (*value - mean) * scale);
            }
        }
    }
}

/// δ of the units of a stretch of the order, which slides along it.
struct Held<'a> {
    deviations: &'a Deviations<'a>,
    /// Units in the order of |δ|.
    order: &'a [u32],
    /// Places in the order.
    around: Range<usize>,
    /// `[places, width]`, those of `around` first.
    values: Vec<f32>,
}

impl<'a> Held<'a> {
    /// Room for stretches of up to so many places.
    fn new(deviations: &'a Deviations<'a>, order: &'a [u32], places: usize) -> Self {
        let values = vec![0.0; places.min(order.len()) * deviations.width];
        Self { deviations, order, around: 0..0, values }
    }

    /// Moves on to a stretch that begins no earlier; `None` if stopped.
    fn slide(&mut self, around: Range<usize>, stop: &(dyn Fn() -> bool + Sync)) -> Option<()> {
        let width = self.deviations.width;
        let kept = self.around.end.saturating_sub(around.start);
        self.values.copy_within((self.around.len() - kept) * width..self.around.len() * width, 0);
        let new = around.start + kept..around.end;
        let filled = self.values[kept * width..][..new.len() * width]
            .par_chunks_mut(width * BETWEEN_LOOKS)
            .zip(self.order[new].par_chunks(BETWEEN_LOOKS))
            .all(|(values, units)| {
                let goes_on = !stop();
                if goes_on {
                    self.deviations.fill_all(units, values);
                }
                goes_on
            });
        self.around = around;
        filled.then_some(())
    }

    fn of(&self, place: usize) -> &[f32] {
        let width = self.deviations.width;
        &self.values[(place - self.around.start) * width..][..width]
    }
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
