//! The overload of a layer's ranks, and what every swap of one expert would change it by.
//!
//! Problem: with U = W − mean over the ranks and weights c_b = 1/mean_b, the overload is Σ_b c_b·Σ_p max(0, U\[p,b\])²: a smooth
//! stand-in for Σ_b max_p W that searches may walk on. Ranks below the mean cost nothing, as in the sum of the peaks; were
//! they charged like those above (the variance), searches of the same length would end up to a fifth further from level peaks.
//! For the expert i at a place of rank p and the experts j at all places of other ranks q, find the change of the overload if
//! the two were exchanged.
//! Method: with v the experts' loads and rests u_i = U_p − v_i, what its rank holds without an expert, the two ranks are at
//! u_i + v_j and u_j + v_i then. Loads and rests are kept by block, in the order of the places, so that all partners of an
//! expert are vectors; sums are of 32-bit floats in a fixed order, the same on every machine.
//! Complexity: O(E·B) for the changes of one place, O(s·B) a swap of ranks of s slots; memory 2·E·B floats.

use std::ops::Range;

use multiversion::multiversion;

use crate::RowLoads;

/// Partners looked at together.
const LANES: usize = 16;

/// Experts of one layer in places `[ranks · slots]`.
#[derive(Clone, Debug)]
pub(crate) struct Overload {
    slots: usize,
    /// v of the expert at every place, less that of an even expert, times √c, `[blocks][places]`.
    loads: Vec<f32>,
    /// u of the same, `[blocks][places]`.
    rests: Vec<f32>,
    /// U, `[ranks][blocks]`: with twice the digits, or rounding would add up.
    excess: Vec<f64>,
    /// Overload of every rank.
    of_rank: Vec<f32>,
    /// Changes last asked for, `[places]`.
    changes: Vec<f32>,
}

impl Overload {
    /// The overload of a layer whose places hold these experts.
    pub(crate) fn new(loads: &RowLoads, layer: usize, num_ranks: usize, members: &[u32]) -> Self {
        let (experts, blocks) = (members.len(), loads.num_blocks());
        let mut kept = Self {
            slots: experts / num_ranks,
            loads: vec![0.0; blocks * experts],
            rests: vec![0.0; blocks * experts],
            excess: vec![0.0; num_ranks * blocks],
            of_rank: vec![0.0; num_ranks],
            changes: vec![0.0; experts],
        };
        for (block, of_block) in kept.loads.chunks_exact_mut(experts.max(1)).enumerate() {
            let load = |expert: u32| loads.of(layer, expert as usize)[block];
            let even = members.iter().map(|&expert| f64::from(load(expert))).sum::<f64>() / experts as f64;
            let weight = if even == 0.0 { 0.0 } else { (even * kept.slots as f64).sqrt().recip() };
            for (place, (kept_load, &expert)) in of_block.iter_mut().zip(members).enumerate() {
                *kept_load = ((f64::from(load(expert)) - even) * weight) as f32;
                kept.excess[place / kept.slots * blocks + block] += f64::from(*kept_load);
            }
        }
        (0..num_ranks).for_each(|rank| kept.renew(rank));
        kept
    }

    /// Rests and overload of a rank, from its experts' loads and its excess.
    fn renew(&mut self, rank: usize) {
        let (experts, blocks) = (self.changes.len(), self.excess.len() / self.of_rank.len());
        let places = rank * self.slots..(rank + 1) * self.slots;
        let mut overload = 0.0;
        for (block, &excess) in self.excess[rank * blocks..][..blocks].iter().enumerate() {
            let excess = excess as f32;
            overload += squared(excess);
            let row = block * experts;
            let of_block = row + places.start..row + places.end;
            for (rest, load) in self.rests[of_block.clone()].iter_mut().zip(&self.loads[of_block]) {
                *rest = excess - load;
            }
        }
        self.of_rank[rank] = overload;
    }

    /// What exchanging the expert at place `a` for that at every place of these ranks would change the overload by,
    /// `[ranks · slots]`; infinite for its own rank.
    pub(crate) fn changes(&mut self, a: usize, ranks: Range<usize>) -> &[f32] {
        let (slots, own) = (self.slots, a / self.slots);
        let changes = &mut self.changes[..ranks.len() * slots];
        for (rank, changes) in ranks.clone().zip(changes.chunks_exact_mut(slots)) {
            changes.fill(-self.of_rank[own] - self.of_rank[rank]);
        }
        let experts = self.of_rank.len() * slots;
        add_exchanges(changes, [&self.loads, &self.rests], [experts, ranks.start * slots, a]);
        if ranks.contains(&own) {
            changes[(own - ranks.start) * slots..][..slots].fill(f32::INFINITY);
        }
        changes
    }

    /// Exchanges the experts at two places of different ranks.
    pub(crate) fn swap(&mut self, a: usize, b: usize) {
        let blocks = self.excess.len() / self.of_rank.len();
        let [p, q] = [a, b].map(|place| place / self.slots);
        for (block, loads) in self.loads.chunks_exact_mut(self.changes.len()).enumerate() {
            let shift = f64::from(loads[b]) - f64::from(loads[a]);
            self.excess[p * blocks + block] += shift;
            self.excess[q * blocks + block] -= shift;
            loads.swap(a, b);
        }
        self.renew(p);
        self.renew(q);
    }
}

#[inline]
fn squared(excess: f32) -> f32 {
    let over = excess.max(0.0);
    over * over
}

/// Adds up what both ranks would be over after every exchange of the expert at place `a` for one at places from `first` on;
/// loads and rests are `[blocks][experts]`.
#[multiversion(targets("x86_64+avx2+bmi2", "aarch64+neon"))]
fn add_exchanges(changes: &mut [f32], [loads, rests]: [&[f32]; 2], [experts, first, a]: [usize; 3]) {
    let blocks = || loads.chunks_exact(experts).zip(rests.chunks_exact(experts));
    let mut first = first;
    let mut vectors = changes.chunks_exact_mut(LANES);
    for changes in &mut vectors {
        let mut sums = [0.0f32; LANES];
        sums.copy_from_slice(changes);
        for (loads, rests) in blocks() {
            let (load, rest) = (loads[a], rests[a]);
            let (loads, rests) = (&loads[first..first + LANES], &rests[first..first + LANES]);
            for lane in 0..LANES {
                sums[lane] += squared(rest + loads[lane]) + squared(load + rests[lane]);
            }
        }
        changes.copy_from_slice(&sums);
        first += LANES;
    }
    for (place, change) in (first..).zip(vectors.into_remainder()) {
        for (loads, rests) in blocks() {
            *change += squared(rests[a] + loads[place]) + squared(loads[a] + rests[place]);
        }
    }
}

#[cfg(test)]
mod tests {
    use routepack_anneal::Stream;

    use super::*;

    /// Σ_b Σ_p max(0, W − mean)²/mean.
    fn overload(loads: &RowLoads, members: &[u32], ranks: usize) -> f64 {
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
                sums.iter().map(|sum| (sum - mean).max(0.0).powi(2)).sum::<f64>() / mean
            }
        };
        (0..loads.num_blocks()).map(of_block).sum()
    }

    /// After every one of many swaps, all changes of a place are what from-scratch overloads differ by.
    #[test]
    fn changes_are_what_a_new_start_finds() {
        for seed in 0..30 {
            let mut stream = Stream::new(seed);
            let (ranks, slots, blocks) = (2 + stream.index(4), 1 + stream.index(20), 1 + stream.index(18));
            let experts = ranks * slots;
            let most = [2, 1000][stream.index(2)];
            let loads = (0..experts * blocks).map(|_| stream.below(most) as u32).collect();
            let loads = RowLoads::new(experts, blocks, vec![loads]).expect("small");
            let mut members: Vec<u32> = (0..experts as u32).collect();
            stream.shuffle(&mut members);
            let mut kept = Overload::new(&loads, 0, ranks, &members);
            // In one case so many that rounding would add up.
            for step in 0..if seed == 0 { 20_000 } else { 40 } {
                let a = stream.index(experts);
                let first = stream.index(ranks);
                let asked = first..first + 1 + stream.index(ranks - first);
                let changes = kept.changes(a, asked.clone()).to_vec();
                assert_eq!(changes.len(), asked.len() * slots);
                let before = overload(&loads, &members, ranks);
                for (b, change) in (asked.start * slots..).zip(changes).filter(|_| step % 541 < 40) {
                    if a / slots == b / slots {
                        assert!(change.is_infinite() && change > 0.0);
                        continue;
                    }
                    members.swap(a, b);
                    let expected = overload(&loads, &members, ranks) - before;
                    members.swap(a, b);
                    let error = (f64::from(change) - expected).abs();
                    assert!(error <= 1e-4 * (1.0 + expected.abs()), "{change} for {expected}");
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
