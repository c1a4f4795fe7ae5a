//! The spread of a layer's loads, and what every swap of one expert would change it by.
//!
//! Problem: with U = W − mean over the ranks and weights c_b = 1/mean_b, the spread is ½·Σ_b c_b·Σ_p U\[p,b\]², a smooth
//! stand-in for Σ_b max_p W that searches may walk on. For the expert at a place of rank p and all places j of other ranks
//! q, find the change of the spread if the two experts were exchanged.
//! Method: let x·y = Σ_b c_b·x_b·y_b. With distances δ\[i,j\] = |v_i − v_j|² of the experts' loads and dots d\[p,j\] = U_p·v_j
//! at hand, the change is d\[p,j\] − d\[q,j\] − d\[p,i\] + d\[q,i\] + δ\[i,j\]: three vectors are read, however many blocks there
//! are. A swap shifts two rows of d, by ½·(|v_j|² − |v_i|² − δ\[j\] + δ\[i\]).
//! Everything is in the order of the places, so that the experts of a rank lie side by side. Sums are of 32-bit floats in
//! a fixed order, the same on every machine; dots are taken anew after [`SWAPS`] swaps, before rounding adds up.
//! Complexity: O(E) for the changes of one place, O(E) a swap, O(E²·B) to set up; memory E² + P·E floats.

use std::ops::Range;

use multiversion::multiversion;

use crate::RowLoads;

/// Blocks are padded to a multiple of this many, with zeros.
const LANES: usize = 8;
/// Swaps until dots are taken anew.
const SWAPS: u32 = 2048;

type Lanes = [f32; LANES];

/// Experts of one layer in places `[ranks · slots]`.
#[derive(Clone, Debug)]
pub(crate) struct Spread {
    slots: usize,
    /// Vectors of `LANES` blocks.
    width: usize,
    /// Loads of the experts times √c, `[experts][width]`.
    loads: Vec<Lanes>,
    /// Expert at every place.
    members: Vec<u32>,
    /// |v|² of the expert at every place.
    norms: Vec<f32>,
    /// δ, `[places][places]`.
    distances: Vec<f32>,
    /// d, `[ranks][places]`.
    dots: Vec<f32>,
    /// Changes last asked for, `[places]`.
    changes: Vec<f32>,
    /// Swaps since dots were taken.
    swaps: u32,
}

impl Spread {
    /// The spread of a layer whose places hold these experts.
    pub(crate) fn new(loads: &RowLoads, layer: usize, num_ranks: usize, members: &[u32]) -> Self {
        let (experts, blocks) = (members.len(), loads.num_blocks());
        let width = blocks.div_ceil(LANES).max(1);
        let mut scaled = vec![[0.0; LANES]; experts * width];
        for block in 0..blocks {
            let total: u64 = (0..experts).map(|expert| u64::from(loads.of(layer, expert)[block])).sum();
            let weight = if total == 0 { 0.0 } else { (num_ranks as f64 / total as f64).sqrt() };
            for (expert, lanes) in scaled.chunks_exact_mut(width).enumerate() {
                let load = f64::from(loads.of(layer, expert)[block]);
                lanes.as_flattened_mut()[block] = (load * weight) as f32;
            }
        }
        let mut spread = Self {
            slots: experts / num_ranks,
            width,
            loads: scaled,
            members: members.to_vec(),
            norms: vec![0.0; experts],
            distances: vec![0.0; experts * experts],
            dots: vec![0.0; num_ranks * experts],
            changes: vec![0.0; experts],
            swaps: 0,
        };
        for (place, distances) in spread.distances.chunks_exact_mut(experts).enumerate() {
            let of = |place: usize| &spread.loads[members[place] as usize * width..][..width];
            spread.norms[place] = product(of(place), of(place));
            for (other, distance) in distances.iter_mut().enumerate() {
                *distance = distance_of(of(place), of(other));
            }
        }
        spread.take_dots();
        spread
    }

    fn take_dots(&mut self) {
        let (experts, width) = (self.members.len(), self.width);
        let ranks = experts / self.slots;
        let of = |place: usize| &self.loads[self.members[place] as usize * width..][..width];
        let mut excess = vec![[0.0f32; LANES]; ranks * width];
        let mut means = vec![[0.0f32; LANES]; width];
        for place in 0..experts {
            let sums = &mut excess[place / self.slots * width..][..width];
            for (sum, load) in sums.as_flattened_mut().iter_mut().zip(of(place).as_flattened()) {
                *sum += load;
            }
        }
        for loads in excess.chunks_exact(width) {
            for (mean, load) in means.as_flattened_mut().iter_mut().zip(loads.as_flattened()) {
                *mean += load / ranks as f32;
            }
        }
        for (loads, dots) in excess.chunks_exact_mut(width).zip(self.dots.chunks_exact_mut(experts)) {
            for (load, mean) in loads.as_flattened_mut().iter_mut().zip(means.as_flattened()) {
                *load -= mean;
            }
            for (place, dot) in dots.iter_mut().enumerate() {
                *dot = product(loads, of(place));
            }
        }
        self.swaps = 0;
    }

    /// What exchanging the expert at place `a` for that at every place of these ranks would change the spread by,
    /// `[ranks · slots]`; infinite for its own rank.
    pub(crate) fn changes(&mut self, a: usize, ranks: Range<usize>) -> &[f32] {
        let (experts, slots) = (self.members.len(), self.slots);
        let own = a / slots;
        let changes = &mut self.changes[..ranks.len() * slots];
        for (rank, changes) in ranks.zip(changes.chunks_exact_mut(slots)) {
            if rank == own {
                changes.fill(f32::INFINITY);
                continue;
            }
            let rows = [own * experts, rank * experts].map(|row| &self.dots[row + rank * slots..][..slots]);
            let distances = &self.distances[a * experts + rank * slots..][..slots];
            add_up(changes, rows, distances, self.dots[rank * experts + a] - self.dots[own * experts + a]);
        }
        changes
    }

    /// Exchanges the experts at two places of different ranks.
    pub(crate) fn swap(&mut self, a: usize, b: usize) {
        let experts = self.members.len();
        let shift = self.norms[b] - self.norms[a];
        let rows = [a, b].map(|place| &self.distances[place * experts..][..experts]);
        let rises = self.dots.chunks_exact_mut(experts);
        let [p, q] = [a, b].map(|place| place / self.slots);
        for (rank, dots) in rises.enumerate().filter(|&(rank, _)| rank == p || rank == q) {
            shift_dots(dots, rows, shift, if rank == p { 0.5 } else { -0.5 });
        }
        self.members.swap(a, b);
        self.norms.swap(a, b);
        for values in self.dots.chunks_exact_mut(experts).chain(self.distances.chunks_exact_mut(experts)) {
            values.swap(a, b);
        }
        let [first, second] = [a.min(b) * experts, a.max(b) * experts];
        let (low, high) = self.distances.split_at_mut(second);
        low[first..first + experts].swap_with_slice(&mut high[..experts]);
        self.swaps += 1;
        if self.swaps == SWAPS {
            self.take_dots();
        }
    }
}

#[multiversion(targets("x86_64+avx2+bmi2", "aarch64+neon"))]
fn add_up(changes: &mut [f32], [own, other]: [&[f32]; 2], distances: &[f32], constant: f32) {
    for (((change, own), other), distance) in changes.iter_mut().zip(own).zip(other).zip(distances) {
        *change = own - other + distance + constant;
    }
}

#[multiversion(targets("x86_64+avx2+bmi2", "aarch64+neon"))]
fn shift_dots(dots: &mut [f32], [of_a, of_b]: [&[f32]; 2], shift: f32, half: f32) {
    for ((dot, of_a), of_b) in dots.iter_mut().zip(of_a).zip(of_b) {
        *dot += half * (shift - of_b + of_a);
    }
}

/// Σ x·y, lane by lane.
fn product(x: &[Lanes], y: &[Lanes]) -> f32 {
    let mut sums = [0.0f32; LANES];
    for (x, y) in x.iter().zip(y) {
        for lane in 0..LANES {
            sums[lane] += x[lane] * y[lane];
        }
    }
    sums.iter().sum()
}

/// Σ (x − y)², lane by lane.
fn distance_of(x: &[Lanes], y: &[Lanes]) -> f32 {
    let mut sums = [0.0f32; LANES];
    for (x, y) in x.iter().zip(y) {
        for lane in 0..LANES {
            let difference = x[lane] - y[lane];
            sums[lane] += difference * difference;
        }
    }
    sums.iter().sum()
}

#[cfg(test)]
mod tests {
    use routepack_anneal::Stream;

    use super::*;

    /// ½·Σ_b Σ_p (W − mean)²/mean.
    fn spread(loads: &RowLoads, members: &[u32], ranks: usize) -> f64 {
        let slots = members.len() / ranks;
        let of_block = |block: usize| {
            let sums: Vec<f64> = members
                .chunks(slots)
                .map(|rank| rank.iter().map(|&expert| f64::from(loads.of(0, expert as usize)[block])).sum())
                .collect();
            let mean = sums.iter().sum::<f64>() / ranks as f64;
            if mean == 0.0 {
                0.0
            } else {
                sums.iter().map(|sum| (sum - mean).powi(2)).sum::<f64>() / mean / 2.0
            }
        };
        (0..loads.num_blocks()).map(of_block).sum()
    }

    /// After every one of many swaps, all changes of a place are what from-scratch spreads differ by.
    #[test]
    fn changes_are_what_a_new_start_finds() {
        for seed in 0..30 {
            let mut stream = Stream::new(seed);
            let (ranks, slots, blocks) = (2 + stream.index(4), 1 + stream.index(4), 1 + stream.index(18));
            let experts = ranks * slots;
            let most = [2, 1000][stream.index(2)];
            let loads = (0..experts * blocks).map(|_| stream.below(most) as u32).collect();
            let loads = RowLoads::new(experts, blocks, vec![loads]).expect("small");
            let mut members: Vec<u32> = (0..experts as u32).collect();
            stream.shuffle(&mut members);
            let mut kept = Spread::new(&loads, 0, ranks, &members);
            // Past the swaps after which dots are taken anew, in one case.
            for step in 0..if seed == 0 { 2 * SWAPS } else { 40 } {
                let a = stream.index(experts);
                let first = stream.index(ranks);
                let asked = first..first + 1 + stream.index(ranks - first);
                let changes = kept.changes(a, asked.clone()).to_vec();
                assert_eq!(changes.len(), asked.len() * slots);
                let before = spread(&loads, &members, ranks);
                for (b, change) in (asked.start * slots..).zip(changes).filter(|_| step % 41 < 40) {
                    if a / slots == b / slots {
                        assert!(change.is_infinite() && change > 0.0);
                        continue;
                    }
                    members.swap(a, b);
                    let expected = spread(&loads, &members, ranks) - before;
                    members.swap(a, b);
                    let error = (f64::from(change) - expected).abs();
                    assert!(error <= 1e-3 * (1.0 + expected.abs()), "{change} for {expected}");
                }
                let b = stream.index(experts);
                if a / slots != b / slots {
                    kept.swap(a, b);
                    members.swap(a, b);
                }
            }
        }
    }
}
