//! Nanoseconds per evaluated swap: dispatched kernels and their scalar twin, EP 8 and 32, 1024 and 8192 units.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use routepack_peaks::{Demand, Exchange, Loads};
use routepack_problem::{Batch, ExpertCounts, Instance, Placement, Setting};

/// Layers, experts per rank, samples per block, swaps drawn.
const LAYERS: usize = 48;
const EXPERTS_PER_RANK: usize = 2;
const SAMPLES_PER_BLOCK: usize = 64;
const SWAPS: usize = 1024;

/// A splitmix step.
fn roll(state: &mut u64) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (z ^ (z >> 27)) as usize
}

/// A window of equal samples with random top-2 counts; demands take 32 bits each if `wide`.
fn window(samples: usize, ranks: usize, wide: bool) -> (Demand, Loads) {
    let (experts, mut state) = (ranks * EXPERTS_PER_RANK, 1);
    // One eighth of the rows alone leaves 16 bits.
    let rows = if wide { 8 * 70_000 } else { 800 };
    let mut counts = Vec::with_capacity(samples * LAYERS * experts);
    for _ in 0..samples * LAYERS {
        let mut of_layer = vec![0u32; experts];
        // The rows of a sample are cut into eight parts, each with two experts.
        for _ in 0..8 {
            let first = roll(&mut state) % experts;
            let second = (first + 1 + roll(&mut state) % (experts - 1)) % experts;
            of_layer[first] += rows / 8;
            of_layer[second] += rows / 8;
        }
        counts.extend(of_layer);
    }
    let batch = Batch {
        lengths: vec![rows; samples],
        expert_counts: Some(ExpertCounts::new([samples, 1, LAYERS, experts], counts).expect("shape")),
        ..Batch::default()
    };
    let mut setting = Setting::new(ranks as u32, ranks as u32, 8 * rows);
    setting.routing.top_k = 2;
    let instance = Instance::single(batch, &setting).expect("a valid window");
    let placement = Placement::identity(LAYERS, experts, ranks).expect("divisible");
    let demand = Demand::new(&instance, &placement).expect("below 2^32");
    assert_eq!(demand.is_narrow(), !wide);
    let blocks = samples / SAMPLES_PER_BLOCK;
    let mut loads = demand.empty_loads(blocks);
    (0..samples).for_each(|unit| demand.add(&mut loads, unit % blocks, unit));
    (0..blocks).for_each(|block| demand.repad(&mut loads, block, 0));
    (demand, loads)
}

fn swaps(units: usize, blocks: usize) -> Vec<Exchange> {
    let mut state = 2;
    std::iter::repeat_with(|| {
        let (i, j) = (roll(&mut state) % units, roll(&mut state) % units);
        Exchange { from: i % blocks, to: j % blocks, leaves: Some(i), comes: Some(j), pad_tokens: [0; 2] }
    })
    .filter(|swap| swap.from != swap.to)
    .take(SWAPS)
    .collect()
}

fn evaluated_swaps(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("evaluated swap");
    group.throughput(Throughput::Elements(SWAPS as u64));
    group.sample_size(20);
    for (ranks, samples, wide) in [
        (8, 1024, false),
        (8, 8192, false),
        (32, 1024, false),
        (32, 8192, false),
        (8, 1024, true),
        (32, 1024, true),
    ] {
        let (demand, loads) = window(samples, ranks, wide);
        let swaps = swaps(samples, loads.num_blocks());
        let name = format!("EP {ranks}, N {samples}, {} bits", if wide { 32 } else { 16 });
        group.bench_function(BenchmarkId::new("dispatched", &name), |bencher| {
            bencher.iter(|| {
                swaps.iter().fold(0, |sum, swap| sum ^ demand.exchange_costs(black_box(&loads), 0, swap)[0])
            });
        });
        if samples == 1024 {
            group.bench_function(BenchmarkId::new("scalar", &name), |bencher| {
                bencher.iter(|| {
                    swaps.iter().fold(0, |sum, swap| {
                        sum ^ demand.exchange_costs_scalar(black_box(&loads), 0, swap)[0]
                    })
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, evaluated_swaps);
criterion_main!(benches);
