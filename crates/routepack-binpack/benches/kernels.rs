//! The kernels of the tree search: a pricing table, the patterns read off it, the checker's knapsack.
//!
//! Tables are compared with one pass over as many bytes of memory, which nothing that fills them can beat.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use routepack_anneal::Stream;
use routepack_binpack::{Collect, Goal, PackOptions, PatternSpace, Prices, PricingTable, Types, pack};
use routepack_certificate::{Limits, Statement, check};
use routepack_generate::{BinsRecipe, bins};

const ONE: i64 = 1 << 40;

fn instance(family: &str) -> Statement {
    let made = bins(&BinsRecipe::named(family).expect("a family"), 1).expect("valid");
    Statement::bins(made.sizes, made.capacity)
}

/// Weights near each item's share of a bin, as the duals of a linear program are: within 1 %.
fn weights(types: &Types) -> Vec<i64> {
    let mut draws = Stream::new(1);
    let share = |&size: &u64| size as f64 / types.capacity as f64 * (0.99 + 0.02 * draws.unit());
    types.sizes.iter().map(share).map(|weight| (weight * ONE as f64) as i64).collect()
}

fn pricing(criterion: &mut Criterion) {
    for family in ["ani", "scholl-3", "rl"] {
        let types = Types::new(&instance(family)).expect("valid");
        let (space, weights) = (PatternSpace::of_types(&types), weights(&types));
        let prices = Prices { weights: &weights, cuts: &[] };
        let mut table = PricingTable::new(&space, 4 << 30, &mut Vec::new()).expect("fits");
        let top = table.build(&prices, &|| false).expect("not stopped");
        let mut group = criterion.benchmark_group(format!("pricing/{family}"));
        group.sample_size(10);
        group.throughput(Throughput::Bytes(table.bytes()));
        group.bench_function("table", |bencher| bencher.iter(|| table.build(&prices, &|| false)));
        let mut memory = vec![1_i64; table.bytes() as usize / 8];
        group.bench_function("one pass over its memory", |bencher| {
            bencher.iter(|| {
                memory.iter_mut().for_each(|cell| *cell = cell.wrapping_add(1));
                std::hint::black_box(&mut memory);
            });
        });
        group.finish();
        let how = Collect { threshold: ONE + (top - ONE) / 3, usage: Some(3), max_steps: 1_000_000 };
        criterion.bench_function(&format!("pricing/{family}/patterns"), |bencher| {
            bencher.iter(|| table.collect(&prices, how, &|| false).patterns.len());
        });
    }
}

fn checker(criterion: &mut Criterion) {
    let statement = instance("ani");
    let options = PackOptions { goal: Goal::Cells, ..PackOptions::default() };
    let packed = pack(&statement, &options, 1, &|| false, &mut |_| {}).expect("valid");
    criterion.bench_function("check/ani", |bencher| {
        let fresh = || packed.certificate.clone();
        let checked = |certificate| check(&statement, &certificate, &Limits::default()).expect("accepted");
        bencher.iter_batched(fresh, checked, BatchSize::SmallInput);
    });
}

criterion_group!(benches, pricing, checker);
criterion_main!(benches);
