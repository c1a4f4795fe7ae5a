//! Rank demand q: per-sample counts seen through a placement.

use rayon::prelude::*;

use crate::{Instance, Placement};

/// q`[samples, parts, layers, ranks]` in routed rows: Σ of the counts of the experts on each rank (DESIGN §1.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankDemand {
    parts: usize,
    layers: usize,
    ranks: usize,
    values: Vec<u32>,
}

impl RankDemand {
    /// Demand `[ranks]` of one sample, part and layer.
    pub fn of(&self, sample: usize, part: usize, layer: usize) -> &[u32] {
        let start = ((sample * self.parts + part) * self.layers + layer) * self.ranks;
        &self.values[start..start + self.ranks]
    }

    /// Layers L.
    pub fn layers(&self) -> usize {
        self.layers
    }

    /// Parts.
    pub fn parts(&self) -> usize {
        self.parts
    }

    /// EP ranks P.
    pub fn ranks(&self) -> usize {
        self.ranks
    }
}

/// The rank demand of every sample of an instance under a placement, on the threads of the current rayon pool; no layers
/// when nothing was recorded.
pub fn project(instance: &Instance, placement: &Placement) -> RankDemand {
    let (samples, parts) = (instance.num_samples(), instance.topology().num_parts());
    let (layers, ranks) = (instance.num_layers(), instance.topology().num_ranks());
    let per_sample = parts * layers * ranks;
    let mut values = vec![0u32; samples * per_sample];
    // Every rank gathers its experts: sums in registers, nothing scattered.
    let experts: Vec<Vec<u32>> = (0..layers).map(|layer| placement.experts(layer)).collect();
    let width = placement.slots_per_rank();
    if per_sample > 0 {
        values.par_chunks_exact_mut(per_sample).with_min_len(16).enumerate().for_each(|(sample, demand)| {
            for (block, demand) in demand.chunks_exact_mut(ranks).enumerate() {
                let (part, layer) = (block / layers, block % layers);
                let counts = instance.counts(sample, part, layer);
                if counts.is_empty() {
                    continue;
                }
                for (rows, experts) in demand.iter_mut().zip(experts[layer].chunks_exact(width)) {
                    *rows = experts.iter().map(|&expert| counts[expert as usize]).sum();
                }
            }
        });
    }
    RankDemand { parts, layers, ranks, values }
}
