//! The exact objective from scratch (DESIGN §1.3): attention A, expert peaks X, J = A + X, U_g and the score.
//!
//! A pipeline of S stages: stage s of a row-shard costs J\[r,g,s\] = ⌈A\[r,g\]/S⌉ + Σ_{l on s} Γ_l·max_p W, and
//! U\[g,s\] = Σ_r J\[r,g,s\] is what a step asks of it. With `pace = all-layers` S counts as 1. With `slowest-stage`
//! U_g = max_s U\[g,s\], not Σ_r max_s J\[r,g,s\]: at any moment the stages hold different rows, so the stage with most
//! work in all paces the pipeline, and a row that is slow on one stage only waits in its queue. So the slowest shard's
//! U_g is the largest of the stage costs that figures of a plan list.
//!
//! Complexity O(n·parts·L·P + R·G·L·P); no incremental state, so that everything incremental can be compared with it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Instance, Layout, PadRoutes, Placement, RankDemand, project};

/// What is minimised, lexicographically, in scaled integers: divide by S·C for the paper's unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Score {
    /// `max_g U_g`: accumulated cost of the slowest EDP shard.
    pub worst_shard: u64,
    /// `Σ_g U_g`.
    pub total: u64,
    /// `max_{r,g} J[r,g]`, of any paced stage.
    pub worst_row: u64,
}

/// Every charged quantity of a layout under a placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// Rows R.
    pub num_rows: usize,
    /// EDP shards G.
    pub num_shards: usize,
    /// Recorded layers L.
    pub num_layers: usize,
    /// EP ranks P.
    pub num_ranks: usize,
    /// A`[rows, shards]`: Σ over kinds of the slowest slot's φ.
    pub attention: Vec<u64>,
    /// W`[rows, shards, layers, ranks]` in routed rows, padding included.
    pub loads: Vec<u64>,
    /// `max_p W`, `[rows, shards, layers]` in routed rows.
    pub peaks: Vec<u64>,
    /// X`[rows, shards]`: Σ over layers of Γ · peak.
    pub expert: Vec<u64>,
    /// U`[shards, stages]`: Σ over rows of a pipeline stage's J, whatever paces the shard.
    pub stage_cost: Vec<u64>,
    /// U`[shards]`: Σ over rows of J = A + X, or the largest `stage_cost` where the slowest stage paces.
    pub shard_cost: Vec<u64>,
    /// The score.
    pub score: Score,
}

/// Evaluates a layout that passes [`crate::check_layout`].
///
/// # Panics
/// The layout or placement has other dimensions than the instance.
pub fn evaluate(instance: &Instance, placement: &Placement, layout: &Layout) -> Evaluation {
    evaluate_projected(instance, placement, &project(instance, placement), layout)
}

/// [`evaluate`] with the rank demand under `placement` at hand.
///
/// # Panics
/// As [`evaluate`].
pub fn evaluate_projected(
    instance: &Instance,
    placement: &Placement,
    demand: &RankDemand,
    layout: &Layout,
) -> Evaluation {
    let topology = instance.topology();
    let (rows, shards) = (layout.num_rows(), topology.num_shards());
    let (layers, ranks) = (instance.num_layers(), topology.num_ranks());
    let cells = layout.cells();
    let pads = PadLoads::new(instance, placement);

    let mut attention = Vec::with_capacity(rows * shards);
    let mut loads = Vec::with_capacity(rows * shards * layers * ranks);
    for row in 0..rows {
        for shard in 0..shards {
            let (_, part) = topology.shard_group_and_part(shard);
            let shard_cells: Vec<&[u32]> = topology
                .shard_slots(shard)
                .map(|slot| cells[row * layout.num_slots() + slot].as_slice())
                .collect();
            attention.push(attention_cost(instance, &shard_cells));
            loads.extend(shard_loads(instance, demand, &pads, &shard_cells, part));
        }
    }
    let peaks: Vec<u64> = loads.chunks(ranks).map(|ranks| ranks.iter().copied().max().unwrap_or(0)).collect();
    let weights = instance.charges().expert();
    let expert: Vec<u64> = (0..rows * shards)
        .map(|block| {
            peaks[block * layers..(block + 1) * layers]
                .iter()
                .zip(weights)
                .map(|(&peak, &weight)| peak * weight)
                .sum()
        })
        .collect();
    let row_costs = RowCosts { instance, attention: &attention, peaks: &peaks };
    let stage_cost = row_costs.accumulated(shards, topology.num_stages(), topology.layer_stage());
    let paced_stages = instance.paced_stages();
    let paced: Vec<u32> = (0..layers).map(|layer| instance.paced_stage(layer) as u32).collect();
    let shard_cost: Vec<u64> = row_costs
        .accumulated(shards, paced_stages, &paced)
        .chunks(paced_stages)
        .map(|stages| stages.iter().copied().max().unwrap_or(0))
        .collect();
    let worst_row = (0..rows * shards).flat_map(|block| row_costs.of(block, paced_stages, &paced)).max();
    let score = Score {
        worst_shard: shard_cost.iter().copied().max().unwrap_or(0),
        total: shard_cost.iter().sum(),
        worst_row: worst_row.unwrap_or(0),
    };
    Evaluation {
        num_rows: rows,
        num_shards: shards,
        num_layers: layers,
        num_ranks: ranks,
        attention,
        loads,
        peaks,
        expert,
        stage_cost,
        shard_cost,
        score,
    }
}

/// What rows of shards cost, by stage.
struct RowCosts<'a> {
    instance: &'a Instance,
    /// A`[rows, shards]`.
    attention: &'a [u64],
    /// `[rows, shards, layers]`.
    peaks: &'a [u64],
}

impl RowCosts<'_> {
    /// J of one row and shard, `[stages]`, with `stage_of` of every layer.
    fn of(&self, block: usize, stages: usize, stage_of: &[u32]) -> Vec<u64> {
        let layers = self.instance.num_layers();
        let mut costs = vec![self.attention[block].div_ceil(stages as u64); stages];
        let peaks = &self.peaks[block * layers..(block + 1) * layers];
        for ((&peak, &weight), &stage) in peaks.iter().zip(self.instance.charges().expert()).zip(stage_of) {
            costs[stage as usize] += peak * weight;
        }
        costs
    }

    /// Σ over rows, `[shards, stages]`.
    fn accumulated(&self, shards: usize, stages: usize, stage_of: &[u32]) -> Vec<u64> {
        let mut sums = vec![0; shards * stages];
        for block in 0..self.attention.len() {
            let of_shard = &mut sums[block % shards * stages..][..stages];
            of_shard.iter_mut().zip(self.of(block, stages, stage_of)).for_each(|(sum, cost)| *sum += cost);
        }
        sums
    }
}

/// A\[r,g\] = `Σ_s max_d Σ_i φ[s,i]` over the cells of one shard and row.
fn attention_cost(instance: &Instance, cells: &[&[u32]]) -> u64 {
    let charges = instance.charges();
    (0..charges.num_kinds())
        .map(|kind| {
            cells
                .iter()
                .map(|cell| cell.iter().map(|&sample| charges.attention(sample as usize)[kind]).sum::<u64>())
                .max()
                .unwrap_or(0)
        })
        .sum()
}

/// W\[r,g,·,·\] of one shard and row, `[layers, ranks]`.
fn shard_loads(
    instance: &Instance,
    demand: &RankDemand,
    pads: &PadLoads,
    cells: &[&[u32]],
    part: usize,
) -> Vec<u64> {
    let (layers, ranks) = (demand.layers(), demand.ranks());
    let mut loads = vec![0u64; layers * ranks];
    let mut pad_tokens = 0;
    for cell in cells {
        let mut tokens = 0;
        for &sample in *cell {
            let sample = sample as usize;
            tokens += u64::from(instance.padded_length(sample));
            pad_tokens += u64::from(instance.pad_tokens(sample));
            for (layer, loads) in loads.chunks_exact_mut(ranks).enumerate() {
                for (load, &rows) in loads.iter_mut().zip(demand.of(sample, part, layer)) {
                    *load += u64::from(rows);
                }
            }
        }
        pad_tokens += instance.cell_padding(tokens);
    }
    pads.add(&mut loads, pad_tokens, part);
    loads
}

/// Where the trainer's padding tokens go.
struct PadLoads {
    parts: u64,
    ranks: u64,
    /// `top_k` when padding is spread evenly.
    spread: Option<u64>,
    /// Pad experts per layer and rank, `[layers, ranks]`; empty unless padding goes to fixed experts.
    fixed: Vec<u64>,
}

impl PadLoads {
    fn new(instance: &Instance, placement: &Placement) -> Self {
        let (layers, ranks) = (instance.num_layers(), instance.topology().num_ranks());
        let routing = &instance.setting().routing;
        let mut fixed = Vec::new();
        if let (Some(experts), true) = (instance.pad_experts(), layers > 0) {
            fixed = vec![0; layers * ranks];
            for layer in 0..layers {
                for &expert in experts {
                    fixed[layer * ranks + placement.rank_of(layer, expert as usize)] += 1;
                }
            }
        }
        Self {
            parts: instance.topology().num_parts() as u64,
            ranks: ranks as u64,
            spread: (routing.pad_routes == PadRoutes::Spread).then_some(u64::from(routing.top_k)),
            fixed,
        }
    }

    fn add(&self, loads: &mut [u64], pad_tokens: u64, part: usize) {
        let tokens = (pad_tokens + part as u64) / self.parts;
        if let Some(top_k) = self.spread {
            let each = (tokens * top_k).div_ceil(self.ranks);
            loads.iter_mut().for_each(|load| *load += each);
        }
        for (load, &experts) in loads.iter_mut().zip(&self.fixed) {
            *load += tokens * experts;
        }
    }
}
