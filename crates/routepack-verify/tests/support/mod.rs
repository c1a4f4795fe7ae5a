//! Small windows of every kind, plans for them made the plainest way, and a second opinion on a plan.

use std::sync::Arc;

use proptest::prelude::*;
use routepack_certificate::{Certificate, Limits, Proof};
use routepack_problem::{
    Attribution, Batch, Dummies, ExpertCounts, Instance, Layout, Oversize, OversizePolicy, PadRoutes,
    Placement, SampleIds, Setting, prepare,
};
use routepack_verify::{AssembleInputs, Plan, StepDecisions, assemble, statement};

/// What a case is made from.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    pub(crate) seed: u64,
    pub(crate) samples: usize,
    pub(crate) slots: u32,
    pub(crate) ranks: u32,
    pub(crate) layers: usize,
    pub(crate) tp: u32,
    pub(crate) steps: i64,
    pub(crate) groups: bool,
    pub(crate) max_samples: Option<u32>,
    pub(crate) rows_multiple: u32,
    pub(crate) ids: u8,
    pub(crate) loss: bool,
    pub(crate) pads: u8,
    pub(crate) multiples: (u32, u32),
    pub(crate) oversize: bool,
}

/// Recipes that reach every optional part of a plan.
pub(crate) fn recipes() -> impl Strategy<Value = Recipe> {
    let shape = (
        any::<u64>(),
        2usize..16,
        prop_oneof![Just(1u32), Just(2), Just(4)],
        prop_oneof![Just(1u32), Just(2)],
    );
    let parts = (0usize..3, prop_oneof![3 => Just(1u32), 1 => Just(2)], 1i64..3, any::<bool>());
    let packing = (prop::option::of(2u32..5), 1u32..3, 0u8..3, any::<bool>());
    let padding = (0u8..4, prop_oneof![Just((1u32, 1u32)), Just((2, 3)), Just((1, 4))], any::<bool>());
    (shape, parts, packing, padding).prop_map(|(shape, parts, packing, padding)| Recipe {
        seed: shape.0,
        samples: shape.1,
        slots: shape.2,
        ranks: shape.3,
        layers: parts.0,
        tp: parts.1,
        steps: parts.2,
        groups: parts.3,
        max_samples: packing.0,
        rows_multiple: packing.1,
        ids: packing.2,
        loss: packing.3,
        pads: padding.0,
        multiples: padding.1,
        oversize: padding.2,
    })
}

const EXPERTS: usize = 4;
const TOP_K: u32 = 2;
const CAPACITY: u32 = 24;

/// A splitmix64 stream: test data only.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// The batch and setting of a recipe.
pub(crate) fn build(recipe: &Recipe) -> (Arc<Batch>, Setting) {
    let mut numbers = Numbers(recipe.seed);
    let n = recipe.samples;
    let longest = if recipe.groups { 8 } else { 20 };
    let mut lengths: Vec<u32> = (0..n).map(|_| 1 + numbers.below(longest) as u32).collect();
    if recipe.oversize {
        lengths[n / 2] = CAPACITY + 5;
    }
    let rows: Vec<u32> =
        lengths.iter().map(|&length| length - (numbers.below(2) as u32).min(length)).collect();
    let counts = (recipe.layers > 0).then(|| {
        let mut values = Vec::new();
        for &rows in &rows {
            for _ in 0..recipe.layers {
                let mut counts = [0u32; EXPERTS];
                for _ in 0..rows {
                    let first = numbers.below(EXPERTS as u64) as usize;
                    let second = (first + 1 + numbers.below(EXPERTS as u64 - 1) as usize) % EXPERTS;
                    counts[first] += 1;
                    counts[second] += 1;
                }
                values.extend(counts);
            }
        }
        ExpertCounts::new([n, 1, recipe.layers, EXPERTS], values).expect("shape")
    });
    let batch = Batch {
        routed_rows: Some(rows.clone()),
        loss_tokens: recipe.loss.then(|| rows.iter().map(|&rows| rows / 2).collect()),
        expert_counts: counts,
        sample_ids: match recipe.ids {
            0 => None,
            1 => Some(SampleIds::Integers((0..n as i64).map(|i| 1000 - i).collect())),
            _ => Some(SampleIds::Strings((0..n).map(|i| format!("prompt/{i}")).collect())),
        },
        atomic_groups: recipe
            .groups
            .then(|| (0..n).map(|i| if i % 5 < 2 { (i / 5) as i64 } else { -1 }).collect()),
        step: (recipe.steps > 1).then(|| (0..n as i64).map(|i| 7 + i % recipe.steps).collect()),
        lengths,
        ..Batch::default()
    };
    let mut setting = Setting::new(recipe.slots, recipe.ranks, CAPACITY);
    setting.topology.tp = recipe.tp;
    setting.topology.etp = Some(1);
    setting.routing.top_k = TOP_K;
    setting.routing.attribution = Attribution::Spread;
    setting.routing.pad_routes = match recipe.pads {
        0 => PadRoutes::None,
        1 => PadRoutes::Spread,
        2 => PadRoutes::Arange,
        _ => PadRoutes::Fixed(vec![3, 1]),
    };
    (setting.packing.sample_multiple, setting.packing.cell_multiple) = recipe.multiples;
    setting.packing.max_samples = recipe.max_samples;
    setting.packing.rows_multiple = recipe.rows_multiple;
    setting.packing.dummies = Some(Dummies { length: 3 });
    setting.packing.oversize = OversizePolicy::Drop;
    (Arc::new(batch), setting)
}

/// The plainest layout: first fit, bins split or dummies added until no cell is empty.
fn first_fit(instance: &Instance) -> (Instance, Layout, String) {
    let limit = instance.setting().packing.max_samples.map_or(usize::MAX, |limit| limit as usize);
    let mut bins: Vec<(u64, usize, Vec<u32>)> = Vec::new();
    for unit in 0..instance.num_units() {
        let (tokens, samples) = (instance.unit_tokens(unit), instance.unit(unit).len());
        let fits = |bin: &&mut (u64, usize, Vec<u32>)| {
            bin.0 + tokens <= u64::from(instance.cell_capacity()) && bin.1 + samples <= limit
        };
        match bins.iter_mut().find(fits) {
            Some(bin) => {
                bin.0 += tokens;
                bin.1 += samples;
                bin.2.push(unit as u32);
            }
            None => bins.push((tokens, samples, vec![unit as u32])),
        }
    }
    let mut bins: Vec<Vec<u32>> = bins.into_iter().map(|bin| bin.2).collect();
    let question = statement(instance);
    let volume = question.total().div_ceil(u128::from(question.capacity)) as u64;
    let certificate = Certificate {
        witness: Some(bins.clone()),
        cells_at_least: Some(volume),
        proof: Some(Proof::Volume),
        ..Certificate::default()
    };
    let text = certificate.to_text(&question);
    let slots = instance.topology().num_slots();
    let rows = question.rows_for(bins.len() as u64) as usize;
    while bins.len() < rows * slots {
        let Some(bin) = bins.iter_mut().find(|bin| bin.len() > 1) else { break };
        let unit = bin.pop().expect("two units");
        bins.push(vec![unit]);
    }
    let missing = rows * slots - bins.len();
    let with = if missing > 0 { instance.with_dummies(missing).expect("allowed") } else { instance.clone() };
    bins.extend((0..missing).map(|dummy| vec![(instance.num_units() + dummy) as u32]));
    let cells: Vec<Vec<u32>> = bins
        .iter()
        .map(|bin| bin.iter().flat_map(|&unit| with.unit(unit as usize).to_vec()).collect())
        .collect();
    let layout = Layout::from_cells(rows, slots, with.num_samples(), &cells).expect("every sample once");
    (with, layout, text)
}

/// Decisions of a plan, owned.
pub(crate) struct Decisions {
    pub(crate) steps: Vec<(Instance, Layout, String)>,
    pub(crate) dropped: Vec<Oversize>,
    pub(crate) placement: Option<Placement>,
    pub(crate) resident: Option<Placement>,
}

/// The plainest decisions for a batch; `None` where no sample fits.
pub(crate) fn decide(batch: &Arc<Batch>, setting: &Setting) -> Option<Decisions> {
    let prepared = prepare(Arc::clone(batch), setting).ok()?;
    let layers = batch.num_layers();
    let placement = (layers > 0).then(|| {
        Placement::new(setting.topology.ep as usize, vec![vec![2, 0, 3, 1]; layers]).expect("a bijection")
    });
    // Experts 0 and 2 have traded slots since; every third window starts anew.
    let resident = placement.as_ref().filter(|_| !batch.num_samples().is_multiple_of(3)).map(|placement| {
        Placement::new(placement.num_ranks(), vec![vec![3, 0, 2, 1]; layers]).expect("a bijection")
    });
    let steps = prepared.instances.iter().map(first_fit).collect();
    Some(Decisions { steps, dropped: prepared.dropped, placement, resident })
}

/// The plan of these decisions.
pub(crate) fn plan_of(decisions: &Decisions) -> Plan {
    let step = |(instance, layout, certificate): &'_ (Instance, Layout, String)| {
        (instance.clone(), layout.clone(), certificate.clone())
    };
    let steps: Vec<_> = decisions.steps.iter().map(step).collect();
    assemble(AssembleInputs {
        steps: steps
            .iter()
            .map(|(instance, layout, certificate)| StepDecisions {
                instance,
                layout,
                certificate: certificate.clone(),
                other_rows: &[],
            })
            .collect(),
        dropped: &decisions.dropped,
        filtered: &[],
        placement: decisions.placement.as_ref(),
        resident: decisions.resident.as_ref(),
        machine: None,
        window_sha256: None,
        tool: "test 1".into(),
        options: serde_json::json!({"anneal": {"ratio": 0.1, "sweeps": 3}, "names": ["a", "b"]}),
        seed: 5,
        lp_backend: "none".into(),
        fallback: None,
        finished: true,
        limits: Limits::default(),
    })
    .expect("plain decisions are valid")
}

/// A second opinion, written from the definitions with none of the crates' arithmetic: coverage, capacity, tokens,
/// attention, loads and score of every step; the default cost model with α = β = 1 only.
pub(crate) fn agrees(plan: &Plan, batch: &Batch) -> Result<(), String> {
    let packing = &plan.setting.packing;
    let (capacity, multiple) = (u64::from(packing.capacity), u64::from(packing.cell_multiple));
    let scale = 1u128 << plan.scale_bits;
    let pad = |tokens: u64, multiple: u64| tokens.div_ceil(multiple) * multiple;
    let padded = |length: u32| pad(u64::from(length), u64::from(packing.sample_multiple));
    // S·(t + t²/C), halves up.
    let charge = |tokens: u64| {
        let (tokens, capacity) = (u128::from(tokens), u128::from(capacity));
        ((2 * scale * (tokens * capacity + tokens * tokens) + capacity) / (2 * capacity)) as u64
    };
    let topology = &plan.setting.topology;
    let (ranks, slots) = (topology.ep as usize, topology.dp as usize);
    let (wide, dense) = (topology.ep, topology.tp * topology.cp);
    let (width, parts) =
        if wide >= dense { ((wide / dense) as usize, 1) } else { (1, (dense / wide) as usize) };
    let layers = batch.num_layers();
    let gamma: Vec<u64> = plan
        .cost
        .gamma
        .iter()
        .map(|gamma| {
            let (mantissa, exponent) = gamma.fraction();
            let ten = 10i128.pow(exponent);
            ((2 * mantissa * scale as i128 + ten) / (2 * ten)) as u64
        })
        .collect();
    let pad_experts: Vec<usize> = match &plan.setting.routing.pad_routes {
        PadRoutes::None | PadRoutes::Spread => vec![],
        PadRoutes::Arange => (0..TOP_K as usize).collect(),
        PadRoutes::Fixed(ids) => ids.iter().map(|&id| id as usize).collect(),
    };
    let mut seen = vec![0u32; batch.num_samples()];
    plan.dropped.iter().for_each(|dropped| seen[dropped.sample as usize] += 1);
    for step in &plan.steps {
        let groups = slots / width;
        let mut shard_cost = vec![0u64; groups * parts];
        let (mut worst_row, mut raw_total) = (0u64, 0u64);
        for (row, cells) in step.cells.iter().enumerate() {
            let mut attention = vec![0u64; slots];
            let mut pad_tokens = vec![0u64; slots];
            for (slot, cell) in cells.iter().enumerate() {
                let dummies = u64::from(step.dummies[row][slot]);
                let dummy = packing.dummies.map_or(0, |dummies| padded(dummies.length));
                let mut tokens = dummies * dummy;
                attention[slot] = dummies * charge(dummy);
                pad_tokens[slot] = dummies * dummy;
                for &sample in cell {
                    seen[sample as usize] += 1;
                    let length = batch.lengths[sample as usize];
                    tokens += padded(length);
                    attention[slot] += charge(padded(length));
                    pad_tokens[slot] += padded(length) - u64::from(length);
                    raw_total += u64::from(length);
                }
                pad_tokens[slot] += pad(tokens, multiple) - tokens;
                if tokens == 0 || tokens > capacity / multiple * multiple {
                    return Err(format!("cell {row}, {slot} holds {tokens} tokens"));
                }
                if step.tokens.padded[row][slot] != pad(tokens, multiple) {
                    return Err("padded tokens".into());
                }
            }
            for shard in 0..groups * parts {
                let (group, part) = (shard / parts, shard % parts);
                let members = group * width..(group + 1) * width;
                let mut cost = members.clone().map(|slot| attention[slot]).max().unwrap_or(0);
                let pads: u64 = members.clone().map(|slot| pad_tokens[slot]).sum();
                let pads = (pads + part as u64) / parts as u64;
                for layer in 0..layers {
                    let placement = &plan.placement.as_ref().ok_or("no placement")?.log2phys[layer];
                    let rank_of = |expert: usize| placement[expert] as usize / (EXPERTS / ranks);
                    let mut loads = vec![0u64; ranks];
                    if plan.setting.routing.pad_routes == PadRoutes::Spread {
                        loads.fill((pads * u64::from(TOP_K)).div_ceil(ranks as u64));
                    }
                    for &expert in &pad_experts {
                        loads[rank_of(expert)] += pads;
                    }
                    for &sample in members.clone().flat_map(|slot| &cells[slot]) {
                        let counts =
                            batch.expert_counts.as_ref().expect("layers").of(sample as usize, 0, layer);
                        for (expert, &count) in counts.iter().enumerate() {
                            loads[rank_of(expert)] += (u64::from(count) + part as u64) / parts as u64;
                        }
                    }
                    cost += gamma[layer] * loads.iter().max().expect("a rank");
                }
                shard_cost[shard] += cost;
                worst_row = worst_row.max(cost);
            }
        }
        if shard_cost != step.shard_cost {
            return Err(format!("shard cost {shard_cost:?} instead of {:?}", step.shard_cost));
        }
        let score = step.score;
        if (score.worst_shard, score.total, score.worst_row)
            != (*shard_cost.iter().max().expect("a shard"), shard_cost.iter().sum(), worst_row)
        {
            return Err(format!("score {score:?}"));
        }
        if raw_total != step.totals.raw {
            return Err("raw tokens".into());
        }
        for bound in [step.bounds.given_placement, step.bounds.placement_free] {
            if bound.worst_shard > score.worst_shard
                || bound.total > score.total
                || bound.worst_row > worst_row
            {
                return Err(format!("{bound:?} above {score:?}"));
            }
        }
    }
    match seen.iter().position(|&times| times != 1) {
        Some(sample) => Err(format!("sample {sample} occurs {} times", seen[sample])),
        None => Ok(()),
    }
}
