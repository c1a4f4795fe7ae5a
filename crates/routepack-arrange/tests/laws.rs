//! What holds of every arranged layout, and the optimum where it can be known.

mod support;

use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use routepack_anneal::Stream;
use routepack_arrange::{
    ArrangeError, ArrangeOptions, Arranged, arrange, arrange_exactly, layout_program, spread_bins,
};
use routepack_bounds::{given_placement, layout_bound, placement_free};
use routepack_lp::{Backend, SolveOptions, Status, solve};
use routepack_problem::{
    AttentionKind, Batch, ExpertCounts, Gamma, Instance, Layout, Pace, Placement, Setting, check_layout,
    evaluate,
};
use support::{Case, Recipe, recipes};

fn short() -> ArrangeOptions {
    ArrangeOptions {
        proposals_per_unit: 3000,
        temperatures: 24,
        descent_per_unit: 300,
        ..ArrangeOptions::default()
    }
}

fn run(case: &Case, options: &ArrangeOptions, seed: u64) -> Arranged {
    arrange(&case.instance, &case.placement, &case.first, options, seed, &|| false, &mut |_| {})
        .expect("valid input")
}

fn bins_of(case: &Case) -> Vec<Vec<u32>> {
    let mut bins = vec![Vec::new(); case.first.num_cells()];
    for unit in 0..case.instance.num_units() {
        let first = case.instance.unit(unit)[0] as usize;
        bins[case.first.cell_of()[first] as usize].push(unit as u32);
    }
    bins
}

fn recipe(seed: u64) -> Recipe {
    Recipe {
        seed,
        rows: 2,
        slots_per_group: 2,
        groups: 2,
        extra: 12,
        layers: 3,
        parts: 1,
        kinds: 2,
        pads: 0,
        grouped: false,
        limited: false,
        tight: false,
        stages: 1,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn arranged_layouts_are_feasible_exact_and_no_worse(recipe in recipes(20)) {
        let case = recipe.build();
        let arranged = run(&case, &short(), recipe.seed);
        // Coverage, capacity, nonempty cells, samples per cell, whole groups, equal micro-batch counts.
        check_layout(&case.instance, &arranged.layout).expect("feasible");
        prop_assert_eq!(arranged.layout.num_rows(), recipe.rows);
        prop_assert!(arranged.layout.cells().iter().all(|cell| !cell.is_empty()));
        let first = evaluate(&case.instance, &case.placement, &case.first).score;
        prop_assert_eq!(evaluate(&case.instance, &case.placement, &arranged.layout).score, arranged.score);
        prop_assert!(arranged.score <= first);
        prop_assert!(arranged.finished);
        let bound = layout_bound(&case.instance, &given_placement(&case.instance, &case.placement), recipe.rows);
        prop_assert!(bound.worst_shard <= arranged.score.worst_shard);
    }

    #[test]
    fn witness_bins_become_layouts(recipe in recipes(20), merge in any::<bool>()) {
        let case = recipe.build();
        let mut bins = bins_of(&case);
        if merge && !recipe.tight && !recipe.limited && bins.len() > 1 {
            // Fewer bins than cells: two of them fit into one, as the capacity is twice the fullest.
            let last = bins.pop().expect("two bins");
            bins[0].extend(last);
            bins.push(Vec::new());
        }
        let layout = spread_bins(&case.instance, &bins, recipe.rows).expect("U >= R·D");
        check_layout(&case.instance, &layout).expect("feasible");
    }
}

/// Small cases of every kind, of `units` units in two to six cells: how often the search ends in the optimum of the
/// whole score, and how often it would without the exact one at its end, of `count` that the exact one decides within
/// `nodes`. No bound is above an optimum.
fn compare_with_the_optimum(
    count: usize,
    units: std::ops::RangeInclusive<usize>,
    nodes: u32,
) -> (usize, usize, usize) {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = recipes(*units.end());
    let (mut compared, mut optimal, mut unaided, mut nontrivial) = (0, 0, 0, 0);
    while compared < count {
        let recipe = strategy.new_tree(&mut runner).expect("a recipe").current();
        if !(2..=6).contains(&recipe.cells()) || !units.contains(&(recipe.cells() + recipe.extra)) {
            continue;
        }
        let case = recipe.build();
        let exact = ArrangeOptions { exact_nodes: nodes, ..short() };
        let optimum = run(&case, &exact, recipe.seed);
        if !optimum.exhausted {
            continue;
        }
        for peaks in [given_placement(&case.instance, &case.placement), placement_free(&case.instance)] {
            let bound = layout_bound(&case.instance, &peaks, recipe.rows);
            let holds = bound.worst_shard <= optimum.score.worst_shard
                && bound.total <= optimum.score.total
                && bound.worst_row <= optimum.score.worst_row;
            assert!(holds, "{bound:?} is above {:?}: {recipe:?}", optimum.score);
        }
        let ends = |exact_nodes: u32| {
            let options = ArrangeOptions { exact_nodes, ..ArrangeOptions::default() };
            usize::from(run(&case, &options, recipe.seed).score == optimum.score)
        };
        compared += 1;
        optimal += ends(ArrangeOptions::default().exact_nodes);
        unaided += ends(0);
        let first = evaluate(&case.instance, &case.placement, &case.first).score;
        nontrivial += usize::from(first > optimum.score);
    }
    assert!(nontrivial * 5 > count * 2, "only {nontrivial} cases had something to find");
    (compared, optimal, unaided)
}

/// Tiny cases of every kind: the search ends in the optimum, which the oracle knows.
#[test]
fn tiny_cases_end_in_the_optimum() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = recipes(5);
    let mut compared = 0;
    while compared < 60 {
        let recipe = strategy.new_tree(&mut runner).expect("a recipe").current();
        if recipe.cells() > 6 || recipe.cells() + recipe.extra > 9 {
            continue;
        }
        let case = recipe.build();
        let (best, score) = arrange_exactly(&case.instance, &case.placement, recipe.rows)
            .expect("enough units")
            .expect("a layout is known");
        check_layout(&case.instance, &best).expect("feasible");
        let arranged = run(&case, &short(), recipe.seed);
        assert_eq!(arranged.score, score, "{recipe:?}");
        compared += 1;
    }
    let (compared, optimal, unaided) = compare_with_the_optimum(100, 2..=10, 1_000_000);
    assert_eq!([optimal, unaided], [compared; 2]);
}

/// The same at length: all are optima; without the exact search most are.
#[test]
#[ignore = "takes minutes"]
#[expect(clippy::print_stdout, reason = "its figures are what it is run for")]
fn small_cases_end_in_the_optimum() {
    for (count, units, nodes, least) in [(200, 16..=24, 100_000, 180), (1000, 2..=12, 1_000_000, 995)] {
        let (compared, optimal, unaided) = compare_with_the_optimum(count, units.clone(), nodes);
        println!("{units:?} units: {optimal} of {compared}, {unaided} without the exact search");
        assert_eq!(optimal, compared);
        assert!(unaided >= least);
    }
}

/// The trace is a table of as many columns as its heading says, with every kind of move.
#[test]
fn the_trace_is_a_table() {
    let arranged = run(&recipe(1).build(), &short(), 0);
    let table = arranged.trace_csv();
    let columns: Vec<usize> = table.lines().map(|line| line.split(',').count()).collect();
    assert_eq!(columns.len(), 1 + (short().rounds * short().temperatures) as usize);
    assert!(columns.iter().all(|&count| count == columns[0]));
    for kind in ["swap-near", "chain", "sets", "trade-rows"] {
        assert!(table.lines().next().is_some_and(|heading| heading.contains(&format!("{kind}_accepted"))));
    }
}

/// Attention alone, quadratic, samples of tens of tokens in cells of 100.
fn quadratic(lengths: &[u32], dp: u32, ep: u32) -> (Instance, Placement) {
    let batch = Batch { lengths: lengths.to_vec(), ..Batch::default() };
    let mut setting = Setting::new(dp, ep, 100);
    setting.cost.kinds = Some(vec![AttentionKind {
        name: "full".into(),
        alpha: "0".parse().expect("decimal"),
        beta: "1".parse().expect("decimal"),
    }]);
    let instance = Instance::single(batch, &setting).expect("valid");
    (instance, Placement::identity(0, ep as usize, ep as usize).expect("valid"))
}

/// All cells full, two shards of one slot each: as dealt the worse shard costs 206, after whole cells traded places 162.
#[test]
fn whole_full_cells_trade_places() {
    let lengths = [70, 10, 20, 20, 60, 20, 20, 40, 40, 100, 20, 60, 20, 10, 50, 40];
    let (instance, placement) = quadratic(&lengths, 2, 1);
    // Cells of 100; 60 40; 60 40; 70 20 10; 50 40 10; 20 · 5, in an order that is far from even.
    let bins = [vec![9], vec![4, 7], vec![0, 2, 1], vec![11, 8], vec![14, 15, 13], vec![3, 5, 6, 10, 12]];
    let mut cell_of = vec![0; lengths.len()];
    for (bin, cell) in bins.iter().zip([0u32, 2, 4, 1, 3, 5]) {
        bin.iter().for_each(|&sample: &usize| cell_of[sample] = cell);
    }
    let first = Layout::new(3, 2, cell_of);
    let unit = 1u64 << instance.charges().scale_bits();
    assert_eq!(evaluate(&instance, &placement, &first).score.worst_shard, 206 * unit);
    for exact_nodes in [0, 100_000] {
        let options = ArrangeOptions { exact_nodes, ..ArrangeOptions::default() };
        let arranged =
            arrange(&instance, &placement, &first, &options, 0, &|| false, &mut |_| {}).expect("valid input");
        assert_eq!(arranged.score.worst_shard, 162 * unit);
        assert_eq!(arranged.exhausted, exact_nodes > 0);
    }
}

/// Windows without a token to spare: their optimum is found, and almost always without the exact search.
#[test]
fn full_cells_end_in_the_optimum() {
    let (mut compared, mut missed) = (0, 0);
    for seed in 0..150 {
        let mut dice = Stream::new(seed);
        let (dp, ep, most) = [(2, 1, 3), (2, 2, 3), (4, 2, 2), (3, 1, 2), (4, 4, 2)][seed as usize % 5];
        let rows = 1 + dice.below(most) as usize;
        let mut bins: Vec<Vec<u32>> = vec![Vec::new(); rows * dp as usize];
        let mut lengths = Vec::new();
        for bin in &mut bins {
            let mut left = 10;
            while left > 0 {
                let part = 1 + dice.below(left.min(7));
                bin.push(lengths.len() as u32);
                lengths.push(part as u32 * 10);
                left -= part;
            }
        }
        if lengths.len() > 18 {
            continue;
        }
        let (instance, placement) = quadratic(&lengths, dp, ep);
        let first = spread_bins(&instance, &bins, rows).expect("full bins");
        let optimum = arrange_exactly(&instance, &placement, rows).expect("units").expect("layout").1;
        for exact_nodes in [0, 100_000] {
            let options = ArrangeOptions { exact_nodes, ..short() };
            let arranged = arrange(&instance, &placement, &first, &options, 0, &|| false, &mut |_| {})
                .expect("valid input");
            if exact_nodes > 0 {
                assert_eq!(arranged.score, optimum, "seed {seed}");
            } else {
                missed += usize::from(arranged.score > optimum);
            }
        }
        compared += 1;
    }
    assert!(compared >= 50 && missed * 20 <= compared, "{missed} of {compared} missed");
}

/// The oracle itself, against the program that knows nothing of it.
#[test]
fn the_program_agrees_with_the_oracle() {
    let options = SolveOptions::with(Backend::default());
    for seed in 0..8 {
        let stages = 1 + seed as usize % 2;
        let case =
            Recipe { slots_per_group: 2, groups: 1, extra: 2, layers: 2, stages, ..recipe(seed) }.build();
        let (_, score) = arrange_exactly(&case.instance, &case.placement, 2).expect("units").expect("layout");
        let unit = 1 << case.instance.charges().scale_bits();
        let program = layout_program(&case.instance, &case.placement, 2, unit).expect("no padding");
        let solved = solve(program.program(), &options).expect("solved");
        assert_eq!(solved.status, Status::Optimal);
        let layout = program.layout(&case.instance, &solved.values);
        check_layout(&case.instance, &layout).expect("feasible");
        let found = evaluate(&case.instance, &case.placement, &layout).score.worst_shard;
        assert!(found >= score.worst_shard, "nothing beats the optimum");
        let excess = (found - score.worst_shard) as f64 / score.worst_shard as f64;
        assert!(excess < 1e-6, "seed {seed}: {found} against {}", score.worst_shard);
    }
}

/// The program of a tiny window is the one written out beside its page of mathematics.
#[test]
fn the_program_is_the_one_of_the_page() {
    // Three samples of 3, 4 and 3 tokens, one layer of 4 experts, top-2, P = 2, D = 2, C = 8: one row.
    let counts = vec![3, 3, 0, 0, 1, 2, 3, 2, 0, 0, 3, 3];
    let batch = Batch {
        lengths: vec![3, 4, 3],
        expert_counts: Some(ExpertCounts::new([3, 1, 1, 4], counts).expect("shape")),
        ..Batch::default()
    };
    let mut setting = Setting::new(2, 2, 8);
    setting.routing.top_k = 2;
    setting.cost.gamma = Some(Gamma::Every("1".parse().expect("decimal")));
    setting.cost.kinds = Some(vec![AttentionKind {
        name: "linear".into(),
        alpha: "1".parse().expect("decimal"),
        beta: "0".parse().expect("decimal"),
    }]);
    let instance = Instance::single(batch, &setting).expect("valid");
    let placement = Placement::identity(1, 4, 2).expect("valid");
    let unit = 1 << instance.charges().scale_bits();
    let program = layout_program(&instance, &placement, 1, unit).expect("no padding");
    let written = program.program().write_lp();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/fixed_row_layout.lp");
    if std::env::var_os("UPDATE_MODELS").is_some() {
        std::fs::write(path, &written).expect("written");
    }
    assert_eq!(written, std::fs::read_to_string(path).expect("models/fixed_row_layout.lp"));
}

/// The same bytes for 1, 2 and 4 threads, twice, and another answer is possible for another seed.
#[test]
fn threads_do_not_matter() {
    for seed in 0..4 {
        let case = Recipe { extra: 40, pads: (seed % 3) as usize, ..recipe(seed) }.build();
        let results: Vec<Arranged> = [1, 2, 4, 1, 2]
            .into_iter()
            .map(|threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
                pool.install(|| run(&case, &short(), seed))
            })
            .collect();
        assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "seed {seed}");
    }
}

/// Where all samples are alike, the best layout is known to be best at once, however many proposals are allowed.
#[test]
fn equal_samples_take_no_time() {
    for (count, stages) in [(8, 1), (16, 1), (40, 2), (64, 3)] {
        let counts = [3u32, 1, 2, 0, 2, 2, 1, 1].repeat(count);
        let batch = Batch {
            lengths: vec![3; count],
            expert_counts: Some(ExpertCounts::new([count, 1, 2, 4], counts).expect("shape")),
            ..Batch::default()
        };
        let mut setting = Setting::new(4, 2, 64);
        setting.topology.pp = stages;
        setting.cost.pace = Pace::SlowestStage;
        setting.routing.top_k = 2;
        let instance = Instance::single(batch, &setting).expect("valid");
        let placement = Placement::identity(2, 4, 2).expect("valid");
        // Dealt one by one: every cell has as many.
        let cell_of = (0..count as u32).map(|sample| sample % 8).collect();
        let first = Layout::new(2, 4, cell_of);
        let endless = ArrangeOptions {
            proposals_per_unit: u32::MAX,
            descent_per_unit: u32::MAX,
            ..ArrangeOptions::default()
        };
        let arranged =
            arrange(&instance, &placement, &first, &endless, 0, &|| false, &mut |_| {}).expect("valid input");
        assert!(arranged.finished && arranged.local_optimum);
        assert_eq!(arranged.layout, first);
    }
}

/// Stopped at once, the first layout is the answer; stopped at any look, a feasible one that is no worse.
#[test]
fn stopping_gives_the_best_so_far() {
    let case = Recipe { extra: 40, ..recipe(3) }.build();
    let first = evaluate(&case.instance, &case.placement, &case.first).score;
    let stopped_after = |looks: u64| {
        let count = AtomicU64::new(0);
        let stop = || count.fetch_add(1, Ordering::Relaxed) >= looks;
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a pool");
        let arranged = pool.install(|| {
            arrange(&case.instance, &case.placement, &case.first, &short(), 1, &stop, &mut |_| {})
                .expect("valid input")
        });
        check_layout(&case.instance, &arranged.layout).expect("feasible");
        assert_eq!(evaluate(&case.instance, &case.placement, &arranged.layout).score, arranged.score);
        assert!(arranged.score <= first);
        arranged
    };
    let at_once = stopped_after(0);
    assert!(!at_once.finished && !at_once.local_optimum);
    assert_eq!(at_once.layout, case.first);
    for looks in [1, 2, 3, 5, 8, 13, 50, 200, 1000] {
        stopped_after(looks);
    }
    assert!(stopped_after(u64::MAX).finished);
}

#[test]
fn everyday_extremes() {
    let one = Recipe { rows: 1, slots_per_group: 1, groups: 1, extra: 0, ..recipe(1) };
    let cases = [
        ("one sample", one.clone()),
        ("one cell", Recipe { extra: 9, ..one.clone() }),
        ("D = 1", Recipe { rows: 4, extra: 9, ..one.clone() }),
        ("R = 1, G = 1", Recipe { rows: 1, groups: 1, ..recipe(2) }),
        ("R = 1, G = 3", Recipe { rows: 1, groups: 3, ..recipe(3) }),
        ("U = R·D", Recipe { extra: 0, ..recipe(4) }),
        ("U = R·D, no room", Recipe { extra: 0, tight: true, ..recipe(5) }),
        ("no routes", Recipe { layers: 0, ..recipe(6) }),
        ("parts", Recipe { parts: 3, slots_per_group: 1, ..recipe(7) }),
    ];
    for (name, recipe) in cases {
        let case = recipe.build();
        let arranged = run(&case, &short(), 0);
        check_layout(&case.instance, &arranged.layout).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(arranged.finished, "{name}");
    }
}

#[test]
fn bad_input_is_named() {
    let case = recipe(1).build();
    let fails = |bins: &[Vec<u32>], rows| spread_bins(&case.instance, bins, rows).expect_err("refused");
    let bins = bins_of(&case);
    let units = case.instance.num_units();
    assert!(matches!(fails(&bins, 1), ArrangeError::TooManyBins { bins: 8, cells: 4, .. }));
    assert!(matches!(fails(&bins, units), ArrangeError::TooFewUnits { .. }));
    let mut twice = bins.clone();
    twice[0].push(bins[1][0]);
    assert!(matches!(fails(&twice, 2), ArrangeError::Coverage { times: 2, .. }));
    let mut missing = bins.clone();
    missing[0].clear();
    assert!(matches!(fails(&missing, 2), ArrangeError::Coverage { times: 0, .. }));
    let mut unknown = bins.clone();
    unknown[0].push(units as u32);
    assert!(matches!(fails(&unknown, 2), ArrangeError::NoSuchUnit { .. }));

    for options in [
        ArrangeOptions { population: 0, ..short() },
        ArrangeOptions { rounds: 9, ..short() },
        ArrangeOptions { cooling: 0.5, ..short() },
        ArrangeOptions { hot_acceptance: f64::NAN, ..short() },
        ArrangeOptions { quality_gate: -0.1, ..short() },
    ] {
        let error =
            arrange(&case.instance, &case.placement, &case.first, &options, 0, &|| false, &mut |_| {});
        assert!(matches!(error, Err(ArrangeError::Option { .. })), "{options:?}");
    }
    let padded = Recipe { pads: 2, ..recipe(1) }.build();
    let refused = layout_program(&padded.instance, &padded.placement, 2, 1).expect_err("padding");
    assert_eq!(refused, ArrangeError::PaddingInProgram);
}

/// The generator of these tests reaches the rules it is meant to.
#[test]
fn the_generator_reaches_the_hard_cases() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = recipes(20);
    let mut seen = [0usize; 6];
    for _ in 0..200 {
        let recipe = strategy.new_tree(&mut runner).expect("a recipe").current();
        let Case { instance, .. } = recipe.build();
        let facts: [fn(&Instance) -> bool; 6] = [
            |instance| instance.topology().num_parts() > 1,
            |instance| instance.topology().num_groups() > 1,
            |instance| instance.num_units() < instance.num_samples(),
            Instance::charges_padding,
            |instance| instance.num_layers() == 0,
            |instance| instance.setting().packing.max_samples.is_some(),
        ];
        for (seen, fact) in seen.iter_mut().zip(facts) {
            *seen += usize::from(fact(&instance));
        }
    }
    assert!(seen.into_iter().all(|count| count >= 20), "{seen:?}");
}
