//! No bound exceeds the optimum: every layout, and every placement, of tiny instances is enumerated.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use routepack_bounds::{
    ExpertPeaks, LayoutBound, given_placement, layout_bound, peak_bounds, placement_free,
};
use routepack_problem::{
    AttentionKind, Attribution, Batch, CostTable, Dummies, Evaluation, ExactDecimal, ExpertCounts, Gamma,
    Instance, Layout, Pace, PadRoutes, Parallelism, Placement, Setting, check_layout, evaluate,
};

/// A tiny instance and the rows to plan it in.
#[derive(Clone, Debug)]
struct Tiny {
    instance: Instance,
    rows: usize,
}

/// `(dp, ep, tp)` with etp = 1: m and parts from ep/tp; rows.
const GRIDS: [(u32, u32, u32, usize); 12] = [
    (2, 2, 1, 1),
    (2, 2, 1, 2),
    (1, 1, 1, 3),
    (2, 1, 1, 2),
    (4, 2, 1, 1),
    (2, 2, 2, 2),
    (3, 2, 2, 1),
    (2, 2, 4, 1),
    (2, 2, 4, 2),
    (1, 2, 2, 3),
    (1, 1, 2, 3),
    (1, 4, 4, 4),
];

fn decimal(text: &str) -> ExactDecimal {
    text.parse().expect("a decimal")
}

/// Instances that reach several kinds, parts, pads, groups, limits on samples, dummies and cost tables.
fn tiny(max_samples: usize, max_layers: usize) -> impl Strategy<Value = Tiny> {
    let shape = (0..GRIDS.len(), 1..=max_samples, 0..=max_layers, 1u32..=2, any::<bool>());
    let rules = (0u8..5, any::<bool>(), 0u8..4, prop::option::of(1u32..=3), 1u32..=3, 1u32..=3);
    let extras = (any::<bool>(), 0usize..=1, 1u32..=3, any::<u64>());
    (shape, rules, extras).prop_filter_map("a valid instance", |(shape, rules, extras)| {
        let (grid, n, layers, top_k, spread) = shape;
        let (pads, grouped, kinds, max_samples, sample_multiple, cell_multiple) = rules;
        let (table, dummies, stages, seed) = extras;
        let (dp, ep, tp, rows) = GRIDS[grid];
        let mut draw = Draw(seed);
        let capacity = 8 + draw.below(6) as u32;
        let mut setting = Setting::new(dp, ep, capacity);
        setting.topology = Parallelism { tp, etp: Some(1), ..Parallelism::new(dp, ep) };
        if stages > 1 {
            setting.topology.pp = stages;
            setting.cost.pace = Pace::SlowestStage;
        }
        setting.routing.top_k = top_k;
        setting.packing.max_samples = max_samples;
        setting.packing.sample_multiple = sample_multiple;
        setting.packing.cell_multiple = cell_multiple;
        setting.packing.dummies = Some(Dummies { length: 2 });
        let parts = (tp / ep).max(1) as usize;
        let counted_parts = if spread { 1 } else { parts };
        if spread {
            setting.routing.attribution = Attribution::Spread;
        }
        let experts = 4;
        setting.routing.pad_routes = match pads {
            0 | 1 => PadRoutes::None,
            2 => PadRoutes::Spread,
            3 => PadRoutes::Arange,
            _ => PadRoutes::Fixed((2..2 + top_k).collect()),
        };
        let kind = |alpha: &str, beta: &str| AttentionKind {
            name: "k".into(),
            alpha: decimal(alpha),
            beta: decimal(beta),
        };
        let kinds = match kinds {
            0 => vec![kind("1", "1")],
            1 => vec![kind("0.25", "4"), kind("0.75", "0")],
            2 => vec![kind("0", "3"), kind("1", "0.5")],
            _ => vec![kind("1", "0")],
        };
        let num_kinds = kinds.len();
        setting.cost.kinds = Some(kinds);
        let gammas = ["0.3", "1", "0"];
        setting.cost.gamma = Some(Gamma::PerLayer((0..layers).map(|l| decimal(gammas[l % 3])).collect()));
        let lengths: Vec<u32> = (0..n).map(|_| 1 + draw.below(u64::from(capacity)) as u32).collect();
        let mut values = Vec::new();
        for &length in &lengths {
            let mut counts = vec![0u32; counted_parts * layers * experts];
            for layer in 0..layers {
                for _ in 0..length {
                    let part = draw.below(counted_parts as u64) as usize;
                    let first = draw.below(4).min(draw.below(4)) as usize;
                    for k in 0..top_k as usize {
                        counts[(part * layers + layer) * experts + (first + k) % experts] += 1;
                    }
                }
            }
            values.extend(counts);
        }
        let batch = Batch {
            expert_counts: (layers > 0)
                .then(|| ExpertCounts::new([n, counted_parts, layers, experts], values).expect("shape")),
            atomic_groups: grouped.then(|| (0..n).map(|_| draw.below(4) as i64 - 1).collect()),
            cost: table.then(|| CostTable {
                kinds: num_kinds,
                values: (0..n * num_kinds).map(|_| draw.below(30) as u32).collect(),
            }),
            lengths,
            ..Batch::default()
        };
        let mut instance = Instance::single(batch, &setting).ok()?;
        if dummies > 0 {
            instance = instance.with_dummies(dummies).ok()?;
        }
        (instance.num_units() >= rows * dp as usize).then_some(Tiny { instance, rows })
    })
}

/// A frozen little stream for instance values.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Every layout of the instance that passes the check.
fn layouts(tiny: &Tiny) -> Vec<Layout> {
    let slots = tiny.instance.topology().num_slots();
    let (cells, n) = (tiny.rows * slots, tiny.instance.num_samples());
    (0..cells.pow(n as u32))
        .map(|mut code| {
            let cell_of = (0..n)
                .map(|_| {
                    let cell = code % cells;
                    code /= cells;
                    cell as u32
                })
                .collect();
            Layout::new(tiny.rows, slots, cell_of)
        })
        .filter(|layout| check_layout(&tiny.instance, layout).is_ok())
        .collect()
}

/// Every placement with a different split of the experts, all layers independently.
fn placements(instance: &Instance) -> Vec<Placement> {
    let (layers, experts) = (instance.num_layers(), instance.num_experts());
    let ranks = instance.topology().num_ranks();
    let mut all = vec![Vec::new()];
    for _ in 0..layers {
        let mut next = Vec::new();
        for head in &all {
            for split in splits(experts, ranks) {
                let mut placement: Vec<Vec<u32>> = head.clone();
                placement.push(split);
                next.push(placement);
            }
        }
        all = next;
    }
    all.into_iter().map(|slots| Placement::new(ranks, slots).expect("bijections")).collect()
}

/// Slots `[experts]` of every way to deal experts to ranks.
fn splits(experts: usize, ranks: usize) -> Vec<Vec<u32>> {
    let per_rank = (experts / ranks) as u32;
    let mut all = BTreeSet::new();
    for code in 0..ranks.pow(experts as u32) {
        let mut used = vec![0u32; ranks];
        let mut rest = code;
        let slots: Vec<u32> = (0..experts)
            .map(|_| {
                let rank = rest % ranks;
                rest /= ranks;
                used[rank] += 1;
                rank as u32 * per_rank + used[rank] - 1
            })
            .collect();
        if used.iter().all(|&used| used == per_rank) {
            all.insert(slots);
        }
    }
    all.into_iter().collect()
}

/// The least of every component over the evaluated layouts, each on its own.
#[derive(Debug)]
struct Best {
    attention: u64,
    expert: u64,
    total: u64,
    worst_shard: u64,
    worst_row: u64,
    /// Σ over rows and groups of the peaks, `[parts][layers]`.
    peaks: Vec<Vec<u64>>,
}

fn best(tiny: &Tiny, evaluations: &[Evaluation]) -> Option<Best> {
    let least = |value: &dyn Fn(&Evaluation) -> u64| evaluations.iter().map(value).min();
    let topology = tiny.instance.topology();
    let peaks = (0..topology.num_parts())
        .map(|part| {
            (0..tiny.instance.num_layers())
                .map(|layer| {
                    least(&|e| {
                        let blocks = e.peaks.chunks(e.num_layers).enumerate();
                        blocks
                            .filter(|(block, _)| {
                                topology.shard_group_and_part(block % e.num_shards).1 == part
                            })
                            .map(|(_, layers)| layers[layer])
                            .sum()
                    })
                    .unwrap_or(0)
                })
                .collect()
        })
        .collect();
    Some(Best {
        attention: least(&|e| e.attention.iter().sum())?,
        expert: least(&|e| e.expert.iter().sum())?,
        total: least(&|e| e.score.total)?,
        worst_shard: least(&|e| e.score.worst_shard)?,
        worst_row: least(&|e| e.score.worst_row)?,
        peaks,
    })
}

fn assert_below(bound: &LayoutBound, peaks: &ExpertPeaks, best: &Best) -> Result<(), TestCaseError> {
    for (name, bound, best) in [
        ("attention", bound.attention, best.attention),
        ("expert", bound.expert, best.expert),
        ("total", bound.total, best.total),
        ("worst_shard", bound.worst_shard, best.worst_shard),
        ("worst_row", bound.worst_row, best.worst_row),
    ] {
        prop_assert!(bound <= best, "{name}: bound {bound} above optimum {best}");
    }
    for (part, layers) in best.peaks.iter().enumerate() {
        for (layer, &sum) in layers.iter().enumerate() {
            prop_assert!(peaks.best(part, layer) <= sum, "part {part}, layer {layer}: {peaks:?} above {sum}");
        }
    }
    Ok(())
}

fn evaluations(tiny: &Tiny, layouts: &[Layout], placement: &Placement) -> Vec<Evaluation> {
    layouts.iter().map(|layout| evaluate(&tiny.instance, placement, layout)).collect()
}

fn identity(instance: &Instance) -> Placement {
    let ranks = instance.topology().num_ranks();
    Placement::identity(instance.num_layers(), instance.num_experts(), ranks).expect("divisible")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, max_global_rejects: 100_000, ..ProptestConfig::default() })]

    #[test]
    fn given_a_placement(tiny in tiny(6, 2)) {
        let layouts = layouts(&tiny);
        let placement = identity(&tiny.instance);
        if let Some(best) = best(&tiny, &evaluations(&tiny, &layouts, &placement)) {
            let peaks = given_placement(&tiny.instance, &placement);
            assert_below(&layout_bound(&tiny.instance, &peaks, tiny.rows), &peaks, &best)?;
        }
    }

    #[test]
    fn free_of_the_placement(tiny in tiny(4, 2)) {
        let layouts = layouts(&tiny);
        let all: Vec<Evaluation> = placements(&tiny.instance)
            .iter()
            .flat_map(|placement| evaluations(&tiny, &layouts, placement))
            .collect();
        if let Some(best) = best(&tiny, &all) {
            let peaks = placement_free(&tiny.instance);
            assert_below(&layout_bound(&tiny.instance, &peaks, tiny.rows), &peaks, &best)?;
        }
    }

    #[test]
    fn of_a_peak(
        (ranks, loads) in (1usize..=4, 1usize..=4)
            .prop_filter("enumerable", |(ranks, slots)| ranks * slots <= 9)
            .prop_flat_map(|(ranks, slots)| (Just(ranks), prop::collection::vec(
                prop_oneof![0u64..8, 0u64..1000, Just(1u64 << 40)], ranks * slots)))
    ) {
        let slots = loads.len() / ranks;
        let best = splits(loads.len(), ranks)
            .into_iter()
            .map(|split| {
                let mut sums = vec![0u64; ranks];
                for (expert, slot) in split.into_iter().enumerate() {
                    sums[slot as usize / slots] += loads[expert];
                }
                sums.into_iter().max().unwrap_or(0)
            })
            .min()
            .expect("a split");
        let bounds = peak_bounds(&loads, ranks);
        prop_assert!(bounds.best() <= best, "{bounds:?} above {best}");
        prop_assert_eq!(bounds.nested, bounds.best());
        if slots <= 2 {
            prop_assert_eq!(bounds.best(), best, "two slots a rank are no riddle");
        }
    }
}

/// The random instances do reach the cases that the bounds were made for.
#[test]
fn the_generator_reaches_every_rule() {
    let mut runner = TestRunner::deterministic();
    let strategy = tiny(6, 2);
    let mut seen = BTreeSet::new();
    for _ in 0..1500 {
        let tiny = strategy.new_tree(&mut runner).expect("an instance").current();
        let placement = identity(&tiny.instance);
        let peaks = given_placement(&tiny.instance, &placement);
        let bound = layout_bound(&tiny.instance, &peaks, tiny.rows);
        let mut note = |name, holds: bool| {
            if holds {
                seen.insert(name);
            }
        };
        for kind in &bound.attention_kinds {
            note("average", kind.average == kind.best() && kind.average > kind.integrality);
            note("integrality", kind.integrality > kind.average.max(kind.levelled));
            note("levelled", kind.levelled > kind.average.max(kind.integrality).max(kind.prefix));
            note("prefix", kind.prefix > kind.average.max(kind.integrality).max(kind.levelled));
        }
        note("several kinds", bound.attention_kinds.len() > 1);
        note("average shard", bound.average_shard > bound.heaviest_slot);
        note("heaviest slot", bound.heaviest_slot > bound.average_shard);
        note("heaviest unit", bound.worst_row > bound.worst_shard.div_ceil(tiny.rows as u64));
        note("heaviest unit alone", bound.worst_shard > bound.average_shard.max(bound.heaviest_slot));
        note("parts", peaks.num_parts() > 1);
        note("stages", tiny.instance.paced_stages() > 1);
        note("atomic groups", tiny.instance.num_units() < tiny.instance.num_samples());
        note("dummies", tiny.instance.num_dummies() > 0);
        note("padding", tiny.instance.charges_padding());
        for part in 0..peaks.num_parts() {
            for layer in 0..peaks.num_layers() {
                note("unlevelled units", peaks.levelled[part][layer] > peaks.aggregate[part][layer]);
            }
        }
        note("attained", {
            let layouts = layouts(&tiny);
            best(&tiny, &evaluations(&tiny, &layouts, &placement))
                .is_some_and(|best| best.worst_shard == bound.worst_shard && layouts.len() > 1)
        });
    }
    let expected = [
        "atomic groups",
        "attained",
        "average",
        "average shard",
        "dummies",
        "heaviest slot",
        "heaviest unit",
        "heaviest unit alone",
        "integrality",
        "levelled",
        "padding",
        "parts",
        "prefix",
        "several kinds",
        "stages",
        "unlevelled units",
    ];
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn sums_near_the_end_of_u64_are_right() {
    let w = (1u64 << 61) - 1;
    let bounds = peak_bounds(&[w, w, w, w], 2);
    assert_eq!((bounds.mean, bounds.pigeonhole, bounds.aggregate), (2 * w, 2 * w, 2 * w));
    // Beyond u64 a bound says what it can.
    assert_eq!(peak_bounds(&[u64::MAX; 4], 2).best(), u64::MAX);
}

#[test]
fn each_peak_bound_can_be_the_best() {
    let mut found = [false; 4];
    for seed in 0..4000 {
        let mut draw = Draw(seed);
        let loads: Vec<u64> = (0..9).map(|_| draw.below(30)).collect();
        let bounds = peak_bounds(&loads, 3);
        found[0] |= bounds.mean > bounds.pigeonhole;
        found[1] |= bounds.pigeonhole > bounds.mean.max(bounds.aggregate);
        found[2] |= bounds.aggregate > bounds.mean.max(bounds.pigeonhole);
        found[3] |= bounds.nested > bounds.aggregate.max(bounds.pigeonhole);
        assert!(bounds.aggregate >= bounds.mean, "t = E is the mean: {loads:?}");
    }
    assert_eq!(found, [true; 4], "mean, pigeonhole, aggregate, nested");
}
