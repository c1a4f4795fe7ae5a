//! Rank demand q: per-sample counts seen through a placement.

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

/// The rank demand of every sample of an instance under a placement; no layers when nothing was recorded.
pub fn project(instance: &Instance, placement: &Placement) -> RankDemand {
    let (samples, parts) = (instance.num_samples(), instance.topology().num_parts());
    let (layers, ranks) = (instance.num_layers(), instance.topology().num_ranks());
    let mut values = vec![0u32; samples * parts * layers * ranks];
    let rank_of: Vec<Vec<usize>> = (0..layers)
        .map(|layer| (0..placement.num_experts()).map(|expert| placement.rank_of(layer, expert)).collect())
        .collect();
    let mut blocks = values.chunks_exact_mut(ranks.max(1));
    for sample in 0..samples {
        for part in 0..parts {
            for (layer, rank_of) in rank_of.iter().enumerate() {
                let demand = blocks.next().expect("one block per sample, part and layer");
                instance
                    .for_each_count(sample, part, layer, |expert, count| demand[rank_of[expert]] += count);
            }
        }
    }
    RankDemand { parts, layers, ranks, values }
}
