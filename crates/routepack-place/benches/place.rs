//! All 48 layers of 128 log-normal experts on one core.

use criterion::{Criterion, criterion_group, criterion_main};
use routepack_anneal::stream::Stream;
use routepack_place::{PlaceOptions, place};

/// `[48][128]` loads with log-normal weights (σ = 0.5), about a million picks a layer; as in the example `gap_table`.
fn layers(seed: u64) -> Vec<Vec<u64>> {
    (0..48)
        .map(|layer| {
            let mut stream = Stream::new(seed).child(layer);
            let weights: Vec<f64> = (0..128).map(|_| (0.5 * stream.normal()).exp()).collect();
            let total: f64 = weights.iter().sum();
            weights.iter().map(|weight| (1e6 * weight / total).round() as u64).collect()
        })
        .collect()
}

fn place_all_layers(criterion: &mut Criterion) {
    let loads = layers(1);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a pool");
    for ranks in [8, 16, 32] {
        criterion.bench_function(&format!("place/48x128/{ranks}"), |bencher| {
            bencher.iter(|| {
                pool.install(|| place(&loads, ranks, &PlaceOptions::default(), &|| false)).expect("valid")
            });
        });
    }
}

criterion_group!(benches, place_all_layers);
criterion_main!(benches);
