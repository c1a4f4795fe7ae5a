//! Bounds on the charged expert peaks of every part and layer, for a placement or for any.
//!
//! Problem: for one part and layer, Σ over rows and slot groups of the charged peak max_p W (DESIGN §1.3).
//! Bounds: *aggregate*: Σ_b max_p W_b ≥ max_p Σ_b W_b, the window's rank load; without a placement, the least rank peak
//! any placement can have ([`peak_bounds`]). *Levelled* (given a placement): see `levelling.rs`. *Heaviest unit* (given a
//! placement): the row-shard that has a unit costs at least its attention and, in every layer, the peak of its own rows; it
//! tells where a cell has little more than one unit.
//! Padding: only what every layout has is added. Certain are the padding tokens of samples, T in all, not those of
//! cells. One part of N row-groups gets Σ_b ⌊(T_b + part)/parts⌋ ≥ ⌈(T − N·(parts − 1 − part))/parts⌉ of them, and
//! N ≤ units. Spread: every rank gets Σ_b ⌈tokens_b·top_k/P⌉ ≥ ⌈tokens·top_k/P⌉. To fixed experts: their loads grow by
//! those tokens.
//! Complexity: O(n·parts·L·P) given a placement's demand; for any placement O(parts·L·E²) at worst, after one pass over
//! all counts where a DP slot has several parts. Layers share the threads of the current rayon pool.

use rayon::prelude::*;
use routepack_problem::{Instance, PadRoutes, Placement, RankDemand, project};

use crate::attention_bound::conflicting_units;
use crate::levelling::unlevelled;
use crate::peak_bounds;
use crate::peak_bounds::saturate;

/// Lower bounds on Σ over rows and slot groups of the charged peak, in routed rows, `[parts][layers]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpertPeaks {
    /// From the loads of the whole window.
    pub aggregate: Vec<Vec<u64>>,
    /// From units that cannot be levelled; 0 where no placement is given.
    pub levelled: Vec<Vec<u64>>,
    /// On `max_{r,g} J`, scaled, from single units; 0 where no placement is given.
    pub heaviest_unit: u64,
}

impl ExpertPeaks {
    /// The better bound of one part and layer.
    pub fn best(&self, part: usize, layer: usize) -> u64 {
        self.aggregate[part][layer].max(self.levelled[part][layer])
    }

    /// Parts.
    pub fn num_parts(&self) -> usize {
        self.aggregate.len()
    }

    /// Layers L.
    pub fn num_layers(&self) -> usize {
        self.aggregate.first().map_or(0, Vec::len)
    }
}

/// Padding that every layout charges to one part and layer.
struct CertainPadding {
    /// Rows on every rank.
    every_rank: u64,
    /// Rows on each of the pad experts.
    per_expert: u64,
}

fn certain_padding(instance: &Instance, part: usize) -> CertainPadding {
    let parts = instance.topology().num_parts() as u64;
    let total: u64 = (0..instance.num_samples()).map(|sample| u64::from(instance.pad_tokens(sample))).sum();
    let lost = instance.num_units() as u64 * (parts - 1 - part as u64);
    let tokens = total.saturating_sub(lost).div_ceil(parts);
    let routing = &instance.setting().routing;
    match routing.pad_routes {
        PadRoutes::None => CertainPadding { every_rank: 0, per_expert: 0 },
        PadRoutes::Spread => CertainPadding {
            every_rank: (tokens * u64::from(routing.top_k)).div_ceil(instance.topology().num_ranks() as u64),
            per_expert: 0,
        },
        PadRoutes::Arange | PadRoutes::Fixed(_) => CertainPadding { every_rank: 0, per_expert: tokens },
    }
}

/// Loads `[experts]` of one part and layer over the window, certain padding of pad experts included.
fn window_loads(instance: &Instance, part: usize, layer: usize, per_expert: u64) -> Vec<u64> {
    let mut loads = if instance.topology().num_parts() == 1 {
        instance.expert_loads()[layer].clone()
    } else {
        let mut loads = vec![0u64; instance.num_experts()];
        for sample in 0..instance.num_samples() {
            instance.for_each_count(sample, part, layer, |expert, count| loads[expert] += u64::from(count));
        }
        loads
    };
    for &expert in instance.pad_experts().unwrap_or_default() {
        loads[expert as usize] += per_expert;
    }
    loads
}

/// Bounds that hold for every layout under `placement`.
///
/// # Panics
/// The placement has other dimensions than the instance.
pub fn given_placement(instance: &Instance, placement: &Placement) -> ExpertPeaks {
    given_demand(instance, placement, &project(instance, placement))
}

/// [`given_placement`] with the rank demand under `placement` at hand.
///
/// # Panics
/// As [`given_placement`].
pub fn given_demand(instance: &Instance, placement: &Placement, demand: &RankDemand) -> ExpertPeaks {
    let ranks = instance.topology().num_ranks();
    let alone = conflicting_units(instance);
    let peaks = of_every_part_and_layer(instance, |part, layer, padding| {
        let mut rank_loads = vec![0u64; ranks];
        for sample in 0..instance.num_samples() {
            for (load, &rows) in rank_loads.iter_mut().zip(demand.of(sample, part, layer)) {
                *load += u64::from(rows);
            }
        }
        for &expert in instance.pad_experts().unwrap_or_default() {
            rank_loads[placement.rank_of(layer, expert as usize)] += padding.per_expert;
        }
        let total: u128 = rank_loads.iter().map(|&load| u128::from(load)).sum();
        let excess = unlevelled(instance, demand, &alone, part, layer);
        let levelled = if excess == 0 { 0 } else { saturate((total + excess).div_ceil(ranks as u128)) };
        (rank_loads.into_iter().max().unwrap_or(0), levelled)
    });
    ExpertPeaks { heaviest_unit: heaviest_unit(instance, demand), ..peaks }
}

/// The most that one unit costs alone, of the worst part and, where the slowest stage paces, of its worst stage.
fn heaviest_unit(instance: &Instance, demand: &RankDemand) -> u64 {
    let (charges, ranks, stages) =
        (instance.charges(), instance.topology().num_ranks(), instance.paced_stages());
    let cost = |unit: usize| {
        let samples = || instance.unit(unit).iter().map(|&sample| sample as usize);
        let attention: u128 =
            samples().flat_map(|sample| charges.attention(sample)).map(|&phi| u128::from(phi)).sum();
        let of_part = |part: usize| {
            let mut expert = vec![0u128; stages];
            for (layer, &gamma) in charges.expert().iter().enumerate() {
                let load = |rank: usize| {
                    samples().map(|sample| u64::from(demand.of(sample, part, layer)[rank])).sum()
                };
                let peak: u64 = (0..ranks).map(load).max().unwrap_or(0);
                expert[instance.paced_stage(layer)] += u128::from(gamma) * u128::from(peak);
            }
            expert.into_iter().max().unwrap_or(0)
        };
        let expert = (0..instance.topology().num_parts()).map(of_part).max().unwrap_or(0);
        attention / stages as u128 + expert
    };
    saturate((0..instance.num_units()).into_par_iter().map(cost).max().unwrap_or(0))
}

/// Bounds that hold for every layout under every placement.
pub fn placement_free(instance: &Instance) -> ExpertPeaks {
    let ranks = instance.topology().num_ranks();
    of_every_part_and_layer(instance, |part, layer, padding| {
        (peak_bounds(&window_loads(instance, part, layer, padding.per_expert), ranks).best(), 0)
    })
}

fn of_every_part_and_layer(
    instance: &Instance,
    bound: impl Fn(usize, usize, &CertainPadding) -> (u64, u64) + Sync,
) -> ExpertPeaks {
    let (mut aggregate, mut levelled) = (Vec::new(), Vec::new());
    for part in 0..instance.topology().num_parts() {
        let padding = certain_padding(instance, part);
        let (a, l) = (0..instance.num_layers())
            .into_par_iter()
            .map(|layer| {
                let (aggregate, levelled) = bound(part, layer, &padding);
                (aggregate + padding.every_rank, levelled + padding.every_rank)
            })
            .unzip();
        aggregate.push(a);
        levelled.push(l);
    }
    ExpertPeaks { aggregate, levelled, heaviest_unit: 0 }
}
