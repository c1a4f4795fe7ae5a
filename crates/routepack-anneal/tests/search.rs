//! The search: optima, the archive, stopping, determinism, refusals.

#![allow(clippy::float_cmp, clippy::unwrap_used)]

use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use routepack_anneal::systems::{Partitioning, Sides};
use routepack_anneal::{
    AnnealError, Annealed, Ladder, Options, Outcome, Record, Start, Stream, System, TemperatureReport, anneal,
};

fn least_difference(numbers: &[u32]) -> u64 {
    (0_u32..1 << (numbers.len() - 1))
        .map(|set| {
            let signed =
                |i: usize| if set >> i & 1 == 0 { i64::from(numbers[i]) } else { -i64::from(numbers[i]) };
            (0..numbers.len()).map(signed).sum::<i64>().unsigned_abs()
        })
        .min()
        .expect("at least one partition")
}

fn difference(numbers: &[u32], sides: &[bool]) -> u64 {
    let signed =
        numbers.iter().zip(sides).map(|(n, side)| if *side { i64::from(*n) } else { -i64::from(*n) });
    signed.sum::<i64>().unsigned_abs()
}

fn draw_numbers(count: usize, stream: &mut Stream) -> Vec<u32> {
    (0..count).map(|_| stream.range(1..10_000) as u32).collect()
}

fn small() -> Options {
    Options {
        population: 32,
        temperatures: 20,
        sweeps: 3,
        ladder: Ladder::Geometric { hottest: 3000.0, coldest: 1.0 },
        ..Options::default()
    }
}

fn run(system: &Partitioning, options: &Options, seed: u64) -> Annealed<Partitioning> {
    anneal(system, vec![system.begin()], options, &Stream::new(seed), &|| false, &mut |_| ()).unwrap()
}

#[test]
fn finds_the_optimum_of_small_partitionings() {
    let mut stream = Stream::new(1);
    let thorough = Options { sweeps: 20, ..small() };
    for case in 0..40 {
        let numbers = draw_numbers(3 + case % 12, &mut stream);
        let annealed = run(&Partitioning::new(&numbers), &thorough, case as u64);
        assert_eq!(annealed.score, least_difference(&numbers), "{numbers:?}");
        assert_eq!(annealed.score, difference(&numbers, &annealed.best), "{numbers:?}");
    }
}

#[test]
fn measured_and_adaptive_ladders_find_it_too() {
    let mut stream = Stream::new(2);
    let measured = Options { ladder: Ladder::default(), temperatures: 40, sweeps: 20, ..small() };
    let adaptive = Options { culling: Some(0.1), temperatures: 60, sweeps: 20, ..small() };
    for case in 0..20 {
        let numbers = draw_numbers(12, &mut stream);
        let system = Partitioning::new(&numbers);
        let optimum = least_difference(&numbers);
        assert_eq!(run(&system, &measured, case).score, optimum, "{numbers:?}");
        assert_eq!(run(&system, &adaptive, case).score, optimum, "{numbers:?}");
    }
}

#[test]
fn same_bytes_for_any_number_of_threads_and_again() {
    let system = Partitioning::new(&draw_numbers(40, &mut Stream::new(3)));
    for options in [small(), Options { culling: Some(0.2), ladder: Ladder::default(), ..small() }] {
        let digest = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let annealed = pool.install(|| run(&system, &options, 5));
            let rows: Vec<String> = annealed.trace.iter().map(TemperatureReport::csv_row).collect();
            (annealed.score, annealed.best, annealed.sweeps, rows)
        };
        let one = digest(1);
        assert_eq!(one.3.len() as u64 * u64::from(options.sweeps), one.2);
        for threads in [1, 2, 4] {
            assert_eq!(digest(threads), one, "{threads} threads");
        }
    }
    // And the seed matters: another gives another trace.
    let rows = |seed| run(&system, &small(), seed).trace;
    assert_ne!(rows(5), rows(6));
}

/// A frozen case: the method as a whole, to the bit.
#[test]
fn frozen_run() {
    let system = Partitioning::new(&draw_numbers(30, &mut Stream::new(4)));
    let ladder = Ladder::Geometric { hottest: 3000.0, coldest: 100.0 };
    let options = Options { population: 8, temperatures: 6, ladder, ..small() };
    let annealed = run(&system, &options, 9);
    let energies: Vec<f64> = annealed.trace.iter().map(|report| report.energy_mean * 8.0).collect();
    let accepted: Vec<u64> = annealed.trace.iter().map(|report| report.moves[1].accepted).collect();
    assert_eq!(energies, [16_462.0, 13_144.0, 8_754.0, 1_598.0, 2_168.0, 1_048.0]);
    assert_eq!(accepted, [148, 85, 43, 36, 9, 11]);
    assert_eq!(annealed.score, 18);
}

/// Walks away from its start and never comes back: only the archive can remember it.
struct Climber;

impl System for Climber {
    type State = u64;
    type Score = u64;
    type Snapshot = u64;
    const MOVE_KINDS: &'static [&'static str] = &["climb"];
    fn energy(&self, state: &u64) -> f64 {
        *state as f64
    }
    fn score(&self, state: &u64) -> u64 {
        *state
    }
    fn snapshot(&self, state: &u64) -> u64 {
        *state
    }
    fn sample_change(&self, state: &mut u64, _: &mut Stream) -> f64 {
        *state as f64
    }
    fn sweep(&self, state: &mut u64, _: f64, _: &mut Stream, record: &mut Record<Self>) {
        *state += 1;
        record.propose(0);
        record.accept(0, 1.0);
    }
}

#[test]
fn never_worse_than_the_best_start() {
    let starts = vec![30, 10, 20];
    for population in [1, 2, 3, 7] {
        let options = Options { population, ..small() };
        let annealed =
            anneal(&Climber, starts.clone(), &options, &Stream::new(1), &|| false, &mut |_| ()).unwrap();
        assert_eq!((annealed.score, annealed.best), (10, 10));
        assert!(annealed.trace.iter().all(|report| report.gains == 0));
    }
}

#[test]
fn a_ladder_is_measured_on_all_replicas() {
    let ladder = Ladder::Measured { hot_acceptance: 0.3, cold_acceptance: 0.01 };
    let options = Options { population: 2, samples: 2, ladder, ..small() };
    let annealed = anneal(&Climber, vec![1, 3], &options, &Stream::new(1), &|| false, &mut |_| ()).unwrap();
    let hottest = annealed.trace[0].temperature;
    let accepted = f64::exp(-1.0 / hottest) + 3.0 * f64::exp(-3.0 / hottest);
    assert!((accepted / 4.0 - 0.3).abs() < 1e-9, "{hottest}");
}

/// Goes down by one a sweep, and counts the snapshots taken of it.
struct Sinker {
    snapshots: AtomicU64,
}

impl System for Sinker {
    type State = i64;
    type Score = i64;
    type Snapshot = i64;
    const MOVE_KINDS: &'static [&'static str] = &[];
    fn energy(&self, state: &i64) -> f64 {
        *state as f64
    }
    fn score(&self, state: &i64) -> i64 {
        *state
    }
    fn snapshot(&self, state: &i64) -> i64 {
        self.snapshots.fetch_add(1, Ordering::Relaxed);
        *state
    }
    fn sample_change(&self, _: &mut i64, _: &mut Stream) -> f64 {
        -1.0
    }
    fn sweep(&self, state: &mut i64, _: f64, _: &mut Stream, _: &mut Record<Self>) {
        *state -= 1;
    }
}

/// A replica behind the archive never takes a snapshot, even when it is better than it ever was.
#[test]
fn only_what_beats_the_archive_is_kept() {
    let system = Sinker { snapshots: AtomicU64::new(0) };
    let options = Options { population: 3, temperatures: 1, sweeps: 50, ..small() };
    let annealed =
        anneal(&system, vec![20, 10, 15], &options, &Stream::new(1), &|| false, &mut |_| ()).unwrap();
    assert_eq!((annealed.score, annealed.best), (10 - 50, 10 - 50));
    assert_eq!(annealed.trace[0].gains, 50);
    assert_eq!(system.snapshots.into_inner(), 1 + 50);
}

#[test]
fn fewer_replicas_than_starts_keep_the_best_and_more_repeat_them() {
    let energies = |population: u32| {
        let options = Options { population, temperatures: 1, sweeps: 1, ..small() };
        let annealed =
            anneal(&Climber, vec![30, 10, 20], &options, &Stream::new(1), &|| false, &mut |_| ()).unwrap();
        (annealed.trace[0].energy_deciles[0], annealed.trace[0].energy_mean, annealed.trace[0].families)
    };
    assert_eq!(energies(2), (11.0, 16.0, 2));
    assert_eq!(energies(3), (11.0, 21.0, 3));
    assert_eq!(energies(6), (11.0, 21.0, 6));
}

#[test]
fn a_stopped_run_keeps_its_best_and_can_be_repeated_by_count() {
    let numbers = draw_numbers(60, &mut Stream::new(6));
    let system = Partitioning::new(&numbers);
    let starts = || vec![system.begin()];
    let full = run(&system, &small(), 7);
    assert_eq!((full.outcome, full.sweeps), (Outcome::Finished, 60));
    let mut stopped_between = 0;
    for looks in [0, 1, 31, 32, 33, 500, 1000, 1919] {
        let count = AtomicU64::new(0);
        let stop = || count.fetch_add(1, Ordering::Relaxed) >= looks;
        let stopped = anneal(&system, starts(), &small(), &Stream::new(7), &stop, &mut |_| ()).unwrap();
        assert_eq!(stopped.outcome, Outcome::Stopped);
        assert_eq!(stopped.sweeps, looks / 32);
        assert_eq!(stopped.trace.len() as u64, stopped.sweeps / 3);
        assert_eq!(stopped.trace[..], full.trace[..stopped.trace.len()]);
        assert_eq!(stopped.score, difference(&numbers, &stopped.best));

        let limited = Options { sweep_limit: Some(stopped.sweeps), ..small() };
        let repeated = run(&system, &limited, 7);
        assert_eq!(repeated.outcome, Outcome::Stopped);
        assert_eq!(
            (repeated.score, &repeated.best, repeated.sweeps),
            (stopped.score, &stopped.best, stopped.sweeps)
        );
        assert_eq!(repeated.trace, stopped.trace);
        stopped_between += u32::from(stopped.score > full.score);
    }
    assert!(stopped_between > 0, "some stop comes before the best is found");
    let enough = AtomicU64::new(0);
    let stop = || enough.fetch_add(1, Ordering::Relaxed) >= 1920;
    let finished = anneal(&system, starts(), &small(), &Stream::new(7), &stop, &mut |_| ()).unwrap();
    assert_eq!((finished.outcome, finished.score), (Outcome::Finished, full.score));
}

#[test]
fn better_starts_are_kept_when_stopped_at_once() {
    let numbers = draw_numbers(20, &mut Stream::new(8));
    let system = Partitioning::new(&numbers);
    let stopped = anneal(&system, vec![system.begin()], &small(), &Stream::new(1), &|| true, &mut |_| {
        panic!("no temperature")
    })
    .unwrap();
    assert_eq!(stopped.score, numbers.iter().map(|n| u64::from(*n)).sum::<u64>());
    assert!(stopped.trace.is_empty() && stopped.best.iter().all(|side| *side));
}

/// A system whose numbers go wrong when told to.
struct Broken {
    energy: f64,
    change: f64,
}

impl System for Broken {
    type State = bool;
    type Score = u64;
    type Snapshot = ();
    const MOVE_KINDS: &'static [&'static str] = &[];
    fn energy(&self, state: &bool) -> f64 {
        if *state { self.energy } else { 0.0 }
    }
    fn score(&self, _: &bool) -> u64 {
        0
    }
    fn snapshot(&self, _: &bool) {}
    fn sample_change(&self, _: &mut bool, _: &mut Stream) -> f64 {
        self.change
    }
    fn sweep(&self, state: &mut bool, _: f64, _: &mut Stream, _: &mut Record<Self>) {
        *state = true;
    }
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let refuse = |system: &Broken, starts: Vec<bool>, options: &Options| {
        anneal(system, starts, options, &Stream::new(1), &|| false, &mut |_| ()).unwrap_err()
    };
    let sound = Broken { energy: 1.0, change: 1.0 };
    assert_eq!(refuse(&sound, vec![], &small()), AnnealError::NoStart);
    let sample = Options { start: Start::Equilibrium, ..small() };
    assert_eq!(
        refuse(&sound, vec![false; 31], &sample),
        AnnealError::SampleSize { starts: 31, population: 32 }
    );

    let overflow = Broken { energy: f64::INFINITY, change: 1.0 };
    assert_eq!(
        refuse(&overflow, vec![false], &small()),
        AnnealError::Energy { replica: 0, energy: f64::INFINITY, sweeps: 1 }
    );
    assert!(matches!(refuse(&overflow, vec![true], &small()), AnnealError::Energy { sweeps: 0, .. }));
    let undefined = Broken { energy: 1.0, change: f64::NAN };
    let measured = Options { ladder: Ladder::default(), ..small() };
    assert!(matches!(refuse(&undefined, vec![false], &measured), AnnealError::Change { sample: 0, .. }));

    let bad = [
        ("population", Options { population: 0, ..small() }),
        ("population", Options { population: (1 << 20) + 1, ..small() }),
        ("temperatures", Options { temperatures: 0, ..small() }),
        ("sweeps", Options { sweeps: 0, ..small() }),
        ("samples", Options { samples: 0, ..small() }),
        ("culling", Options { culling: Some(0.0), ..small() }),
        ("culling", Options { culling: Some(f64::NAN), ..small() }),
        (
            "ladder.hottest",
            Options { ladder: Ladder::Geometric { hottest: f64::INFINITY, coldest: 1.0 }, ..small() },
        ),
        ("ladder.coldest", Options { ladder: Ladder::Geometric { hottest: 1.0, coldest: 0.0 }, ..small() }),
        ("ladder.coldest", Options { ladder: Ladder::Geometric { hottest: 1.0, coldest: 2.0 }, ..small() }),
        ("ladder.from", Options { ladder: Ladder::LinearBeta { from: 2.0, to: 1.0 }, ..small() }),
        ("ladder.to", Options { ladder: Ladder::LinearBeta { from: 0.0, to: f64::INFINITY }, ..small() }),
        (
            "ladder.hot_acceptance",
            Options { ladder: Ladder::Measured { hot_acceptance: 1.0, cold_acceptance: 0.1 }, ..small() },
        ),
        (
            "ladder.cold_acceptance",
            Options { ladder: Ladder::Measured { hot_acceptance: 0.1, cold_acceptance: 0.2 }, ..small() },
        ),
    ];
    for (name, options) in bad {
        let error = refuse(&sound, vec![false], &options);
        assert!(matches!(error, AnnealError::Option { option, .. } if option == name), "{name}: {error}");
        assert!(error.to_string().contains(name));
    }
}

#[test]
fn flat_systems_need_no_temperature() {
    let flat = Broken { energy: 0.0, change: 0.0 };
    for culling in [None, Some(0.1)] {
        let options = Options { ladder: Ladder::default(), culling, ..small() };
        let annealed = anneal(&flat, vec![false], &options, &Stream::new(1), &|| false, &mut |_| ()).unwrap();
        assert_eq!(annealed.outcome, Outcome::Finished);
        assert!(annealed.trace.iter().all(|report| report.culled == 0.0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the numbers and options: the score is the snapshot's, no worse than any start's, and the trace adds up.
    #[test]
    fn laws_of_a_run(
        numbers in prop::collection::vec(0_u32..1000, 1..30),
        population in 1_u32..20,
        temperatures in 1_u32..12,
        sweeps in 1_u32..4,
        culling in prop::option::of(0.01_f64..0.9),
        measured in any::<bool>(),
        num_starts in 1_usize..25,
        seed in any::<u64>(),
    ) {
        let system = Partitioning::new(&numbers);
        let ladder = if measured { Ladder::default() } else { Ladder::LinearBeta { from: 0.0, to: 1.0 } };
        let options = Options { population, temperatures, sweeps, culling, ladder, ..Options::default() };
        let stream = Stream::new(seed);
        let starts: Vec<Sides> = (0..num_starts).map(|i| {
            let mut state = system.begin();
            let mut record = Record::new(0);
            system.sweep(&mut state, f64::INFINITY, &mut stream.child(i as u64 + 100), &mut record);
            state
        }).collect();
        let best_start = starts.iter().map(|state| system.score(state)).min().unwrap();
        let mut observed = Vec::new();
        let annealed = anneal(&system, starts, &options, &stream, &|| false, &mut |report| observed.push(report.clone()))
            .unwrap();

        prop_assert!(annealed.score <= best_start);
        prop_assert_eq!(annealed.score, difference(&numbers, &annealed.best));
        prop_assert_eq!(&observed, &annealed.trace);
        prop_assert!(annealed.trace.len() <= temperatures as usize);
        prop_assert!(culling.is_some() || annealed.trace.len() == temperatures as usize || measured);
        prop_assert_eq!(annealed.sweeps, annealed.trace.len() as u64 * u64::from(sweeps));
        let last = annealed.trace.last().unwrap();
        if !measured && temperatures > 1 {
            prop_assert_eq!(last.temperature, 1.0);
        }
        let size = f64::from(population);
        for (report, next) in annealed.trace.iter().zip(&annealed.trace[1..]) {
            prop_assert!(next.temperature < report.temperature);
            prop_assert!(next.families <= report.families);
        }
        for report in &annealed.trace {
            prop_assert!(annealed.score as f64 <= report.energy_best());
            prop_assert!(report.energy_deciles.is_sorted());
            prop_assert!(report.families >= 1 && report.families <= population);
            prop_assert!(report.rho_t >= 1.0 - 1e-9 && report.rho_t <= size + 1e-9);
            prop_assert!(report.effective_population >= 1.0 - 1e-9 && report.effective_population <= size + 1e-9);
            prop_assert!((0.0..1.0).contains(&report.culled));
            let proposed: u64 = report.moves.iter().map(|count| count.proposed).sum();
            prop_assert_eq!(proposed, 2 * numbers.len() as u64 * u64::from(population * sweeps));
            for count in &report.moves {
                prop_assert!(count.improved <= count.accepted && count.accepted <= count.proposed);
            }
        }
    }
}
