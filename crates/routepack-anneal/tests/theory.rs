//! The sampler against the Ising ring's exact sums.
//!
//! Seeds are fixed, tolerances are five standard errors, so a failure is a change of the method, not bad luck.

#![allow(clippy::unwrap_used)]

use routepack_anneal::systems::{IsingRing, Spins};
use routepack_anneal::{Ladder, Options, Record, Start, Stream, System, TemperatureReport, anneal};

fn sample(ring: &IsingRing, population: u64, stream: &Stream) -> Vec<Spins> {
    (0..population).map(|i| ring.draw(&mut stream.child(i))).collect()
}

fn options(population: u32, temperatures: u32, sweeps: u32, to: f64) -> Options {
    Options {
        population,
        temperatures,
        sweeps,
        ladder: Ladder::LinearBeta { from: 0.0, to },
        start: Start::Equilibrium,
        ..Options::default()
    }
}

/// ⟨E²⟩ − ⟨E⟩² = −d⟨E⟩/dβ, by a central difference.
fn energy_variance(ring: &IsingRing, beta: f64) -> f64 {
    (ring.mean_energy(beta - 1e-5) - ring.mean_energy(beta + 1e-5)) / 2e-5
}

fn assert_in_equilibrium(ring: &IsingRing, population: f64, report: &TemperatureReport) {
    let beta = 1.0 / report.temperature;
    let sd = energy_variance(ring, beta).sqrt();
    // Members of one family may be correlated: the population counts for its size over the mean square family.
    let independent = population / report.rho_t;
    let error = report.energy_mean - ring.mean_energy(beta);
    assert!(error.abs() < 5.0 * sd / independent.sqrt(), "β {beta}: {error}, sd {sd}, ρ {}", report.rho_t);
    // The energy is nearly normal: its deviation's relative error is 1/√(2n), taken generously.
    assert!(
        (report.energy_sd / sd - 1.0).abs() < 5.0 / independent.sqrt(),
        "β {beta}: {} {sd}",
        report.energy_sd
    );
}

#[test]
fn mean_energy_and_its_variance_at_every_temperature() {
    let (ring, stream) = (IsingRing::new(24), Stream::new(1));
    let mut rungs = 0;
    let mut check = |report: &TemperatureReport| {
        assert_in_equilibrium(&ring, 4000.0, report);
        rungs += 1;
    };
    let starts = sample(&ring, 4000, &stream);
    anneal(&ring, starts, &options(4000, 21, 5, 1.0), &stream, &|| false, &mut check).unwrap();
    assert_eq!(rungs, 21);
}

#[test]
fn free_energy() {
    let (ring, stream) = (IsingRing::new(24), Stream::new(2));
    let exact = ring.log_partition(1.2) - ring.log_partition(0.0);
    let estimates: Vec<f64> = (0..10)
        .map(|run| {
            let stream = stream.child(run);
            let starts = sample(&ring, 1000, &stream);
            let run =
                anneal(&ring, starts, &options(1000, 25, 4, 1.2), &stream, &|| false, &mut |_| ()).unwrap();
            run.log_partition_ratio.expect("all conditions hold")
        })
        .collect();
    let mean = estimates.iter().sum::<f64>() / 10.0;
    let variance = estimates.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / 9.0;
    let error = (mean - exact).abs();
    assert!(error < 5.0 * (variance / 10.0).sqrt() + variance / 2.0, "{mean} {exact} {variance}");
    // And the estimate is sharp, so that the test means something: the ratio is about e^7.
    assert!(error < 0.02 && variance < 0.01, "{mean} {exact} {variance}");
}

#[test]
fn adaptive_ladder_stays_in_equilibrium_and_hits_its_target() {
    let (ring, stream) = (IsingRing::new(64), Stream::new(3));
    let adaptive = Options { culling: Some(0.1), ..options(2000, 60, 8, 1.0) };
    let starts = sample(&ring, 2000, &stream);
    let run = anneal(&ring, starts, &adaptive, &stream, &|| false, &mut |report| {
        assert_in_equilibrium(&ring, 2000.0, report);
    })
    .unwrap();
    let (last, steps) = run.trace.split_last().unwrap();
    assert!((last.temperature - 1.0).abs() < 1e-12);
    assert!(steps.len() > 10 && steps.len() < 50, "{}", steps.len());
    // All steps but the last, which is cut short by the end of the ladder, replace the tenth that was asked for.
    for report in &steps[..steps.len() - 1] {
        assert!((report.culled - 0.1).abs() < 0.02, "{report:?}");
    }
    // Where the energy distribution changes slowly the steps in β are wider.
    let beta = |rung: usize| 1.0 / run.trace[rung].temperature;
    assert!(beta(steps.len() - 1) - beta(steps.len() - 2) > 1.2 * (beta(1) - beta(0)));
}

/// The ring, with chains that stand still: nothing but resampling can move the mean.
struct Frozen(IsingRing);

impl System for Frozen {
    type State = Spins;
    type Score = i64;
    type Snapshot = Vec<i8>;
    const MOVE_KINDS: &'static [&'static str] = &[];
    fn energy(&self, state: &Spins) -> f64 {
        self.0.energy(state)
    }
    fn score(&self, state: &Spins) -> i64 {
        self.0.score(state)
    }
    fn snapshot(&self, state: &Spins) -> Vec<i8> {
        self.0.snapshot(state)
    }
    fn sample_change(&self, state: &mut Spins, stream: &mut Stream) -> f64 {
        self.0.sample_change(state, stream)
    }
    fn sweep(&self, _: &mut Spins, _: f64, _: &mut Stream, _: &mut Record<Self>) {}
}

#[test]
fn resampling_alone_carries_the_distribution() {
    let (ring, stream) = (IsingRing::new(10), Stream::new(4));
    let starts = sample(&ring, 20_000, &stream);
    let frozen = Frozen(ring.clone());
    let run = anneal(&frozen, starts, &options(20_000, 6, 1, 0.5), &stream, &|| false, &mut |report| {
        assert_in_equilibrium(&ring, 20_000.0, report);
    })
    .unwrap();
    let last = run.trace.last().unwrap();
    assert!(last.families < 12_000 && last.rho_t > 2.0, "{last:?}");
    // Frozen chains do not state that they keep the Boltzmann distribution.
    assert_eq!(run.log_partition_ratio, None);
}

#[test]
fn chains_alone_reach_equilibrium() {
    let (ring, stream) = (IsingRing::new(24), Stream::new(5));
    let one_rung = Options {
        population: 4000,
        temperatures: 1,
        sweeps: 200,
        ladder: Ladder::Geometric { hottest: 1.5, coldest: 1.5 },
        ..Options::default()
    };
    let start = vec![ring.draw(&mut stream.child(0))];
    let run = anneal(&ring, start, &one_rung, &stream, &|| false, &mut |_| ()).unwrap();
    let [report] = &run.trace[..] else { panic!("one rung") };
    assert_in_equilibrium(&ring, 4000.0, report);
    assert_eq!(run.log_partition_ratio, None, "seeds are no sample");
}

#[test]
fn a_measured_ladder_accepts_what_it_was_asked_to() {
    let (ring, stream) = (IsingRing::new(64), Stream::new(6));
    // A flip changes the energy by 4 or not at all: T = 4 / ln(1 / acceptance).
    let measured = Options {
        population: 50,
        temperatures: 5,
        ladder: Ladder::Measured { hot_acceptance: 0.5, cold_acceptance: 0.01 },
        ..Options::default()
    };
    let starts = sample(&ring, 50, &stream);
    let run = anneal(&ring, starts, &measured, &stream, &|| false, &mut |_| ()).unwrap();
    let temperatures: Vec<f64> = run.trace.iter().map(|report| report.temperature).collect();
    assert_eq!(temperatures.len(), 5);
    assert!((temperatures[0] - 4.0 / 2f64.ln()).abs() < 1e-6, "{temperatures:?}");
    assert!((temperatures[4] - 4.0 / 100f64.ln()).abs() < 1e-6, "{temperatures:?}");
    let ratios: Vec<f64> = temperatures.windows(2).map(|pair| pair[1] / pair[0]).collect();
    assert!(ratios.iter().all(|ratio| (ratio - ratios[0]).abs() < 1e-9), "{ratios:?}");
}
