//! Time of one row on one EDP shard: what its slots and EP ranks compute between their exchanges.
//!
//! Symbols: slots j of the shard with t tokens and Σ t²; n[l,e] rows of expert e at MoE layer l. Layer by layer every
//! slot runs attention and what its tokens meet in common (dense block or shared experts); a MoE layer then waits for
//! the slowest slot, dispatches, computes the experts of the slowest EP rank, and combines. Backward, linear products
//! count twice and attention 2.5 times (with the scores recomputed); under full recomputation all of forward comes again.
//!
//! Bytes: a token goes once to every EP rank that owns one of its experts. Counts do not say how often two of a token's
//! experts share a rank, so the tokens of sample i that reach rank p are taken as ρ·(1 − (1 − q/(k·ρ))^k), q rows of ρ
//! tokens at top-k: k independent draws. The exchange lasts as long as the busiest GPU sends or receives, inside the node
//! or beyond it. O(L·(E + slots·P)) a row.

use std::ops::{Add, AddAssign};

use routepack_problem::{Instance, Placement};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::grouped_product::expert_seconds;
use crate::{Cluster, Model, SimulateOptions};

/// Backward work of attention over its forward work: five products for two.
const ATTENTION_BACKWARD: f64 = 2.5;
/// Bytes of a BF16 number.
const BF16: f64 = 2.0;

/// Seconds by what they are spent on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Work {
    /// Attention: projections and token pairs.
    pub attention: f64,
    /// Dense blocks, shared experts, routers, output layer.
    pub dense: f64,
    /// Routed experts of the slowest EP rank.
    pub expert: f64,
    /// Dispatch and combine.
    pub all_to_all: f64,
}

impl Work {
    /// The sum.
    pub fn seconds(self) -> f64 {
        self.attention + self.dense + self.expert + self.all_to_all
    }
}

impl Add for Work {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            attention: self.attention + other.attention,
            dense: self.dense + other.dense,
            expert: self.expert + other.expert,
            all_to_all: self.all_to_all + other.all_to_all,
        }
    }
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// Forward and backward work of one row on one shard and one chunk of layers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ChunkTime {
    pub(crate) forward: Work,
    pub(crate) backward: Work,
}

/// Everything that stays the same from row to row.
pub(crate) struct Running<'a> {
    pub(crate) instance: &'a Instance,
    pub(crate) placement: &'a Placement,
    pub(crate) model: &'a Model,
    pub(crate) cluster: &'a Cluster,
    pub(crate) options: &'a SimulateOptions,
    /// Layers of the model of every chunk, `[chunks]`.
    pub(crate) chunks: &'a [Vec<usize>],
}

/// Time of a row on a shard, chunk by chunk: `cells` are the samples of the shard's slots.
pub(crate) fn row_time(running: &Running<'_>, shard: usize, cells: &[&[u32]]) -> Vec<ChunkTime> {
    let slots: Vec<SlotTokens> = cells.iter().map(|cell| SlotTokens::of(running.instance, cell)).collect();
    let last = running.chunks.len() - 1;
    let of_chunk = |(chunk, layers): (usize, &Vec<usize>)| {
        let mut time = ChunkTime::default();
        let mut waiting = vec![ChunkTime::default(); slots.len()];
        for &layer in layers {
            for (time, slot) in waiting.iter_mut().zip(&slots) {
                add(time, common_time(running, layer, slot));
            }
            if running.model.has_experts(layer) {
                add(&mut time, slowest(&mut waiting));
                let moe_layer = layer - running.model.dense_layers as usize;
                add(&mut time, expert_time(running, shard, moe_layer, cells));
            }
        }
        if chunk == last {
            for (time, slot) in waiting.iter_mut().zip(&slots) {
                let words = running.model.embedding_parameters() as f64;
                let dense = dense_seconds(running, 2.0 * words * slot.tokens);
                time.forward.dense += dense;
                time.backward.dense += 2.0 * dense;
            }
        }
        add(&mut time, slowest(&mut waiting));
        if running.options.recompute {
            time.backward += time.forward;
        }
        time
    };
    running.chunks.iter().enumerate().map(of_chunk).collect()
}

/// Tokens a slot runs in one row, padding included.
struct SlotTokens {
    tokens: f64,
    squares: f64,
}

impl SlotTokens {
    fn of(instance: &Instance, cell: &[u32]) -> Self {
        let lengths = cell.iter().map(|&sample| instance.padded_length(sample as usize));
        let tokens: u64 = lengths.clone().map(u64::from).sum();
        let squares = lengths.map(|length| f64::from(length).powi(2)).sum();
        Self { tokens: (tokens + instance.cell_padding(tokens)) as f64, squares }
    }
}

/// What a slot's tokens meet in a layer before any expert.
fn common_time(running: &Running<'_>, layer: usize, slot: &SlotTokens) -> ChunkTime {
    let Running { model, cluster, .. } = running;
    let attention = model.attention_of(layer);
    let projections = 2.0 * attention.parameters(model.hidden) as f64 * slot.tokens;
    let block = 2.0 * model.common_parameters(layer) as f64 * slot.tokens - projections;
    let (projections, block) = (dense_seconds(running, projections), dense_seconds(running, block));
    let squares = attention.square_flops() as f64 * slot.squares;
    let squares = squares / ranks_of_slot(running) / (cluster.peak_tflops * 1e12);
    ChunkTime {
        forward: Work {
            attention: projections + squares / cluster.attention_efficiency,
            dense: block,
            ..Work::default()
        },
        backward: Work {
            attention: 2.0 * projections
                + ATTENTION_BACKWARD * squares / cluster.attention_backward_efficiency,
            dense: 2.0 * block,
            ..Work::default()
        },
    }
}

/// Dispatch, experts of the slowest rank, combine.
fn expert_time(running: &Running<'_>, shard: usize, layer: usize, cells: &[&[u32]]) -> ChunkTime {
    let Running { instance, placement, model, cluster, options, .. } = running;
    let (topology, ranks) = (instance.topology(), placement.num_ranks());
    let (_, part) = topology.shard_group_and_part(shard);
    let mut rows = vec![0u64; model.experts as usize];
    let mut reached = vec![vec![0.0; ranks]; cells.len()];
    let mut on_rank = vec![0u64; ranks];
    for (cell, reached) in cells.iter().zip(&mut reached) {
        for &sample in *cell {
            on_rank.fill(0);
            instance.for_each_count(sample as usize, part, layer, |expert, count| {
                rows[expert] += u64::from(count);
                on_rank[placement.rank_of(layer, expert)] += u64::from(count);
            });
            let chosen: u64 = on_rank.iter().sum();
            let tokens = chosen as f64 / f64::from(model.top_k);
            for (reached, &rows) in reached.iter_mut().zip(&on_rank) {
                let missed = 1.0 - rows as f64 / chosen.max(1) as f64;
                *reached += tokens * (1.0 - missed.powi(model.top_k as i32));
            }
        }
    }
    let flops = 2.0 * model.expert_parameters() as f64 / f64::from(instance.setting().topology.etp());
    let experts = placement.experts(layer);
    let (mut forward, mut backward) = (0.0f64, 0.0f64);
    for rank in experts.chunks(placement.slots_per_rank()) {
        let seconds = expert_seconds(cluster, flops, rank.iter().map(|&expert| rows[expert as usize]));
        forward = forward.max(seconds.forward);
        backward = backward.max(seconds.backward);
    }
    let bytes = |per_value: f64| f64::from(model.hidden) * per_value;
    let dispatch = exchange_seconds(running, shard, &reached, bytes(options.dispatch_bytes));
    let combine = exchange_seconds(running, shard, &reached, bytes(BF16));
    ChunkTime {
        forward: Work { expert: forward, all_to_all: dispatch + combine, ..Work::default() },
        backward: Work { expert: backward, all_to_all: 2.0 * combine, ..Work::default() },
    }
}

/// Seconds to send every slot's tokens, `reached[slots][ranks]`, to their EP ranks (or back: the sizes are the same).
///
/// A slot's tokens lie evenly on its GPUs; the GPUs of one expert-tensor rank exchange among themselves.
fn exchange_seconds(running: &Running<'_>, shard: usize, reached: &[Vec<f64>], token_bytes: f64) -> f64 {
    let (cluster, ranks) = (running.cluster, running.placement.num_ranks());
    let etp = running.instance.setting().topology.etp() as usize;
    let node = |rank: usize| (shard * ranks + rank) * etp / cluster.gpus_per_node as usize;
    // Sent and received by each rank, inside its node and beyond.
    let mut traffic = vec![[0.0f64; 4]; ranks];
    for from in 0..ranks {
        let slot = &reached[from * reached.len() / ranks];
        let share = reached.len() as f64 / ranks as f64;
        for to in (0..ranks).filter(|&to| to != from) {
            let bytes = slot[to] * share * token_bytes / etp as f64;
            let beyond = usize::from(node(from) != node(to));
            traffic[from][beyond] += bytes;
            traffic[to][2 + beyond] += bytes;
        }
    }
    let mut slowest = 0.0f64;
    for [sent, sent_beyond, received, received_beyond] in traffic {
        slowest = slowest.max(cluster.node.seconds(sent.max(received)));
        slowest = slowest.max(cluster.network.seconds(sent_beyond.max(received_beyond)));
    }
    if ranks == 1 { 0.0 } else { slowest + cluster.link_of(ranks * etp).latency() }
}

/// Seconds of dense products, cut over the slot's GPUs.
fn dense_seconds(running: &Running<'_>, flops: f64) -> f64 {
    running.cluster.dense_seconds(flops / ranks_of_slot(running))
}

/// GPUs that share a slot's tokens or heads: TP·CP.
fn ranks_of_slot(running: &Running<'_>) -> f64 {
    let topology = &running.instance.setting().topology;
    f64::from(topology.tp) * f64::from(topology.cp)
}

fn add(time: &mut ChunkTime, more: ChunkTime) {
    time.forward += more.forward;
    time.backward += more.backward;
}

/// The slowest slot, forward and backward each; all slots start the next layer together.
fn slowest(waiting: &mut [ChunkTime]) -> ChunkTime {
    let by = |of: fn(&ChunkTime) -> Work| {
        let works = waiting.iter().map(of);
        works.max_by(|a, b| a.seconds().total_cmp(&b.seconds())).unwrap_or_default()
    };
    let slowest = ChunkTime { forward: by(|time| time.forward), backward: by(|time| time.backward) };
    waiting.fill(ChunkTime::default());
    slowest
}
