//! Incremental loads and costs against the objective from scratch, after every exchange.

use proptest::prelude::*;
use routepack_peaks::{Demand, Exchange, Loads, PeaksError, Tile, TileRoom};
use routepack_problem::{
    Batch, ExpertCounts, Gamma, Instance, Layout, Pace, PadRoutes, Parallelism, Placement, Setting, evaluate,
};

/// A small splitmix generator: the tests' own stream.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.roll() % n as u64) as usize
    }
}

#[derive(Clone, Debug)]
struct Case {
    seed: u64,
    samples: usize,
    layers: usize,
    parts: usize,
    dp: usize,
    ep: usize,
    pads: usize,
    wide: bool,
    grouped: bool,
    stages: usize,
}

fn cases() -> impl Strategy<Value = Case> {
    (
        any::<u64>(),
        1..20usize,
        0..36usize,
        1..4usize,
        1..3usize,
        1..4usize,
        0..3usize,
        any::<bool>(),
        (any::<bool>(), 1..4usize),
    )
        .prop_map(|(seed, samples, layers, parts, dp, ep, pads, wide, (grouped, stages))| Case {
            seed,
            samples,
            layers,
            parts,
            dp: dp * 2,
            ep,
            pads,
            wide,
            grouped,
            stages,
        })
}

/// The instance and a placement of a case: top-2 of 4 · ep experts.
fn build(case: &Case) -> (Instance, Placement) {
    let mut dice = Dice(case.seed);
    let (experts, top_k) = (4 * case.ep, 2);
    let scale = if case.wide { 40_000 } else { 1 };
    let rows: Vec<u32> = (0..case.samples).map(|_| (1 + dice.below(9) as u32) * scale).collect();
    let mut counts = Vec::new();
    for &rows in &rows {
        let mut cut = vec![0u32; case.parts];
        for _ in 0..rows / scale {
            cut[dice.below(case.parts)] += scale;
        }
        for cut in cut {
            for _ in 0..case.layers {
                let mut of_layer = vec![0u32; experts];
                for _ in 0..cut / scale {
                    let first = dice.below(experts);
                    let second = (first + 1 + dice.below(experts - 1)) % experts;
                    of_layer[first] += scale;
                    of_layer[second] += scale;
                }
                counts.extend(of_layer);
            }
        }
    }
    let counts = (case.layers > 0)
        .then(|| ExpertCounts::new([case.samples, case.parts, case.layers, experts], counts).expect("shape"));
    let groups = case.grouped.then(|| (0..case.samples as i64).map(|i| i / 3 * 2 - 3).collect());
    let batch = Batch {
        lengths: rows.iter().map(|&rows| rows + u32::from(rows % 3 == 0)).collect(),
        routed_rows: (case.layers > 0).then_some(rows),
        expert_counts: counts,
        atomic_groups: groups,
        ..Batch::default()
    };
    let mut setting = Setting::new(case.dp as u32, case.ep as u32, 1 << 24);
    if case.parts > 1 {
        // tp·cp = parts · ep · etp: one slot spread over `parts` EP groups.
        setting.topology = Parallelism {
            tp: (case.parts * case.ep) as u32,
            etp: Some(1),
            ..Parallelism::new(case.dp as u32, case.ep as u32)
        };
    } else if !case.dp.is_multiple_of(case.ep) {
        setting.topology = Parallelism {
            tp: case.ep as u32,
            etp: Some(1),
            ..Parallelism::new(case.dp as u32, case.ep as u32)
        };
    }
    if case.stages > 1 {
        setting.topology.pp = case.stages as u32;
        setting.cost.pace = Pace::SlowestStage;
        // Uneven stages, of layers that do not lie together, and perhaps one without any.
        setting.topology.layer_stage =
            Some((0..case.layers).map(|layer| (layer * layer % 5 % case.stages) as u32).collect());
    }
    setting.routing.top_k = top_k;
    setting.routing.pad_routes = match case.pads {
        0 => PadRoutes::None,
        1 => PadRoutes::Spread,
        _ => PadRoutes::Fixed(vec![3, 1]),
    };
    setting.packing.sample_multiple = 3;
    setting.packing.cell_multiple = 5;
    setting.cost.gamma = Some(if case.seed.is_multiple_of(3) {
        Gamma::Every("0.7".parse().expect("decimal"))
    } else {
        let by_layer = |layer| format!("{}.{}", layer % 3, layer % 7).parse().expect("decimal");
        Gamma::PerLayer((0..case.layers).map(by_layer).collect())
    });
    let instance = Instance::single(batch, &setting).expect("valid");
    let slots = (0..case.layers)
        .map(|_| {
            let mut slots: Vec<u32> = (0..experts as u32).collect();
            for last in (1..experts).rev() {
                slots.swap(last, dice.below(last + 1));
            }
            slots
        })
        .collect();
    (instance, Placement::new(case.ep, slots).expect("valid"))
}

/// A grid of `rows` rows kept beside the loads: which unit is in which cell.
struct Grid<'a> {
    instance: &'a Instance,
    rows: usize,
    cell_of: Vec<usize>,
}

impl Grid<'_> {
    fn block_of(&self, cell: usize) -> usize {
        let topology = self.instance.topology();
        cell / topology.num_slots() * topology.num_groups() + topology.group_of(cell % topology.num_slots())
    }

    fn num_blocks(&self) -> usize {
        self.rows * self.instance.topology().num_groups()
    }

    fn layout(&self) -> Layout {
        let mut cell_of = vec![0; self.instance.num_samples()];
        for (unit, &cell) in self.cell_of.iter().enumerate() {
            for &sample in self.instance.unit(unit) {
                cell_of[sample as usize] = cell as u32;
            }
        }
        Layout::new(self.rows, self.instance.topology().num_slots(), cell_of)
    }

    /// Padding tokens of a block by their definition.
    fn pad_tokens(&self, block: usize) -> u64 {
        let mut tokens = vec![0; self.rows * self.instance.topology().num_slots()];
        let mut pads = 0;
        for (unit, &cell) in self.cell_of.iter().enumerate() {
            if self.block_of(cell) == block {
                tokens[cell] += self.instance.unit_tokens(unit);
                let of_samples = self.instance.unit(unit).iter();
                pads += of_samples.map(|&i| u64::from(self.instance.pad_tokens(i as usize))).sum::<u64>();
            }
        }
        pads + tokens.iter().map(|&tokens| self.instance.cell_padding(tokens)).sum::<u64>()
    }
}

fn assert_as_from_scratch(
    instance: &Instance,
    placement: &Placement,
    demand: &Demand,
    loads: &Loads,
    grid: &Grid<'_>,
) {
    let evaluation = evaluate(instance, placement, &grid.layout());
    let (parts, stages) = (demand.num_parts(), demand.num_stages());
    assert_eq!((stages, demand.num_shares()), (instance.paced_stages(), parts * stages));
    for shard in 0..grid.rows * instance.topology().num_shards() {
        let (block, part) = (shard / parts, shard % parts);
        for stage in 0..stages {
            let share = part * stages + stage;
            let layers = (0..demand.num_layers()).filter(|&layer| instance.paced_stage(layer) == stage);
            let expert = layers
                .map(|layer| demand.weight(layer) * evaluation.peaks[shard * demand.num_layers() + layer]);
            let expert = expert.sum::<u64>();
            assert_eq!(demand.cost(loads, block, share), expert, "X of block {block} share {share}");
            let floor: u64 = (0..instance.num_units())
                .filter(|&unit| grid.block_of(grid.cell_of[unit]) == block)
                .map(|unit| demand.floor(unit, share))
                .sum();
            assert!(floor.div_ceil(demand.num_ranks() as u64) <= expert, "floors are bounds");
        }
        for layer in 0..demand.num_layers() {
            for rank in 0..demand.num_ranks() {
                let at = (shard * demand.num_layers() + layer) * demand.num_ranks() + rank;
                assert_eq!(demand.load(loads, block, part, layer, rank), evaluation.loads[at]);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn exchanges_agree_with_the_objective_from_scratch(case in cases(), rows in 1..4usize) {
        let (instance, placement) = build(&case);
        let demand = Demand::new(&instance, &placement).expect("small");
        prop_assert_eq!(demand.is_narrow(), !case.wide || case.layers == 0 || demand_is_small(&demand));
        let mut dice = Dice(case.seed ^ 1);
        let cells = rows * instance.topology().num_slots();
        let mut grid = Grid { instance: &instance, rows, cell_of: Vec::new() };
        let mut loads = demand.empty_loads(grid.num_blocks());
        for unit in 0..instance.num_units() {
            grid.cell_of.push(dice.below(cells));
            let block = grid.block_of(grid.cell_of[unit]);
            demand.add(&mut loads, block, unit);
            demand.repad(&mut loads, block, grid.pad_tokens(block));
        }
        // Blocks that never saw a unit are empty and cost nothing.
        assert_as_from_scratch(&instance, &placement, &demand, &loads, &grid);

        for _ in 0..12 {
            let i = dice.below(instance.num_units());
            let j = (dice.below(2) == 0).then(|| dice.below(instance.num_units()));
            let before = loads.clone();
            let (cell, other) = (grid.cell_of[i], j.map_or_else(|| dice.below(cells), |j| grid.cell_of[j]));
            let (from, to) = (grid.block_of(cell), grid.block_of(other));
            grid.cell_of[i] = other;
            if let Some(j) = j { grid.cell_of[j] = cell; }
            if from == to {
                let pads = grid.pad_tokens(from);
                let costs: Vec<u64> =
                    (0..demand.num_shares()).map(|share| demand.repadded_cost(&loads, from, share, pads)).collect();
                demand.repad(&mut loads, from, pads);
                for (share, cost) in costs.into_iter().enumerate() {
                    prop_assert_eq!(cost, demand.cost(&loads, from, share));
                }
            } else {
                let pad_tokens = [grid.pad_tokens(from), grid.pad_tokens(to)];
                let exchange = Exchange { from, to, leaves: Some(i), comes: j, pad_tokens };
                let costs: Vec<[u64; 2]> = (0..demand.num_shares())
                    .map(|share| demand.exchange_costs(&loads, share, &exchange))
                    .collect();
                prop_assert_eq!(&before, &loads, "evaluation changes nothing");
                for share in 0..demand.num_shares() {
                    prop_assert_eq!(costs[share], demand.exchange_costs_scalar(&loads, share, &exchange));
                }
                demand.exchange(&mut loads, &exchange);
                for (share, costs) in costs.into_iter().enumerate() {
                    prop_assert_eq!(costs, [from, to].map(|block| demand.cost(&loads, block, share)));
                }
                let mut undone = loads.clone();
                let undo = exchange.reversed([from, to].map(|block| before.pad_tokens(block)));
                demand.exchange(&mut undone, &undo);
                prop_assert_eq!(&before, &undone, "undo restores every bit");
            }
            assert_as_from_scratch(&instance, &placement, &demand, &loads, &grid);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Tiles of any shape are the single exchanges, bit for bit; blocks trade all they have.
    #[test]
    fn tiles_are_single_exchanges(case in cases(), shape in (0..19usize, 0..19usize)) {
        let (instance, placement) = build(&Case { pads: 0, ..case.clone() });
        let demand = Demand::new(&instance, &placement).expect("small");
        let mut dice = Dice(case.seed ^ 2);
        let mut loads = demand.empty_loads(3);
        for unit in 0..instance.num_units() {
            demand.add(&mut loads, dice.below(3), unit);
        }
        (0..3).for_each(|block| demand.repad(&mut loads, block, 0));
        let [leaves, comes] = [shape.0, shape.1].map(|count| -> Vec<u32> {
            (0..count).map(|_| dice.below(instance.num_units()) as u32).collect()
        });
        let (from, to) = [(0, 1), (2, 0), (1, 2)][dice.below(3)];
        let tile = Tile { from, to, leaves: &leaves, comes: &comes };
        let (mut room, mut costs) = (TileRoom::default(), vec![[7; 2]; leaves.len() * comes.len()]);
        for share in 0..demand.num_shares() {
            demand.tile_costs(&loads, share, &tile, &mut room, &mut costs);
            for (i, &first) in leaves.iter().enumerate() {
                for (j, &second) in comes.iter().enumerate() {
                    let (leaves, comes) = (Some(first as usize), Some(second as usize));
                    let exchange = Exchange { from, to, leaves, comes, pad_tokens: [0; 2] };
                    // Units need not be in the blocks: sums wrap alike.
                    let single = demand.exchange_costs(&loads, share, &exchange);
                    prop_assert_eq!(costs[i * tile.comes.len() + j], single);
                }
            }
        }
        let before = loads.clone();
        loads.swap_blocks(0, 2);
        for share in 0..demand.num_shares() {
            let costs = |loads: &Loads| [0, 1, 2].map(|block| demand.cost(loads, block, share));
            let [first, second, third] = costs(&before);
            prop_assert_eq!(costs(&loads), [third, second, first]);
        }
        loads.swap_blocks(2, 0);
        prop_assert_eq!(loads, before);
    }
}

fn demand_is_small(demand: &Demand) -> bool {
    (0..demand.num_units()).all(|unit| {
        (0..demand.num_parts()).all(|part| {
            (0..demand.num_layers())
                .all(|layer| (0..demand.num_ranks()).all(|rank| demand.of(unit, part, layer, rank) < 1 << 16))
        })
    })
}

/// The generator reaches what it is meant to: both widths, all padding rules, parts, groups, several chunks of layers.
#[test]
fn the_generator_reaches_the_hard_cases() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut wide, mut parts, mut chunks, mut grouped, mut none, mut stages) = (0, 0, 0, 0, 0, 0);
    for _ in 0..200 {
        let case = cases().new_tree(&mut runner).expect("a case").current();
        let (instance, placement) = build(&case);
        let demand = Demand::new(&instance, &placement).expect("small");
        wide += usize::from(!demand.is_narrow());
        parts += usize::from(demand.num_parts() > 1);
        chunks += usize::from(demand.num_layers() > 32);
        grouped += usize::from(instance.num_units() < instance.num_samples());
        none += usize::from(demand.num_layers() == 0);
        stages += usize::from(demand.num_stages() > 1 && demand.num_layers() > 1);
    }
    assert!(
        wide > 40 && parts > 60 && chunks > 8 && grouped > 40 && none > 1 && stages > 60,
        "{wide} {parts} {chunks} {grouped} {none}"
    );
}

#[test]
fn loads_that_leave_32_bits_are_refused() {
    let counts = ExpertCounts::new([1, 1, 1, 4], vec![2, 2, 2, 2]).expect("shape");
    let batch = Batch { lengths: vec![4], expert_counts: Some(counts), ..Batch::default() };
    let mut setting = Setting::new(4, 4, 1 << 29);
    setting.routing.top_k = 2;
    setting.cost.gamma = Some(Gamma::Every("0.001".parse().expect("decimal")));
    let placement = Placement::identity(1, 4, 4).expect("valid");
    let instance = Instance::single(batch.clone(), &setting).expect("valid");
    let error = Demand::new(&instance, &placement).expect_err("4 · 2^29 · 2 = 2^32");
    assert!(matches!(error, PeaksError::LoadOverflow { bound, .. } if bound == 1 << 32), "{error}");
    setting.packing.capacity -= 1;
    assert!(Demand::new(&Instance::single(batch, &setting).expect("valid"), &placement).is_ok());
}

/// The pass over the counts is given up at the look that says so.
#[test]
fn projecting_stops() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let case = Case {
        seed: 1,
        samples: 90,
        layers: 2,
        parts: 1,
        dp: 2,
        ep: 2,
        pads: 0,
        wide: true,
        grouped: false,
        stages: 1,
    };
    let (instance, placement) = build(&case);
    let looks = AtomicUsize::new(0);
    let demand = |most: usize| {
        looks.store(0, Ordering::Relaxed);
        let stop = || looks.fetch_add(1, Ordering::Relaxed) >= most;
        Demand::new_unless(&instance, &placement, &stop).expect("small")
    };
    assert!(demand(0).is_none() && demand(3).is_none());
    assert!(demand(usize::MAX).is_some() && looks.into_inner() > 10);
}

#[test]
fn another_models_placement_is_refused() {
    let (instance, _) = build(&Case {
        seed: 1,
        samples: 3,
        layers: 2,
        parts: 1,
        dp: 2,
        ep: 2,
        pads: 0,
        wide: false,
        grouped: false,
        stages: 1,
    });
    for placement in [
        Placement::identity(3, 8, 2).expect("valid"),
        Placement::identity(2, 4, 2).expect("valid"),
        Placement::identity(2, 8, 4).expect("valid"),
    ] {
        assert!(matches!(Demand::new(&instance, &placement), Err(PeaksError::Placement { .. })));
    }
}
