//! A population shared among processes is the population of one.

#![allow(clippy::unwrap_used, reason = "tests may stop")]

use std::sync::{Barrier, Mutex};

use routepack_anneal::peers::share;
use routepack_anneal::systems::Partitioning;
use routepack_anneal::{AnnealError, Ladder, Options, Outcome, Peers, Stream, anneal, anneal_among};

/// Processes played by threads.
struct Table {
    ranks: usize,
    words: Mutex<Vec<Vec<u32>>>,
    barrier: Barrier,
}

struct Seat<'a> {
    table: &'a Table,
    rank: usize,
    spoil: bool,
}

impl Peers for Seat<'_> {
    fn rank(&self) -> (usize, usize) {
        (self.rank, self.table.ranks)
    }

    fn exchange(&self, mut words: Vec<u32>) -> Result<Vec<Vec<u32>>, String> {
        if self.spoil {
            words.pop();
        }
        self.table.words.lock().unwrap()[self.rank] = words;
        self.table.barrier.wait();
        let all = self.table.words.lock().unwrap().clone();
        self.table.barrier.wait();
        Ok(all)
    }
}

fn problem() -> (Partitioning, Options) {
    let mut stream = Stream::new(4);
    let numbers: Vec<u32> = (0..60).map(|_| stream.below(1 << 30) as u32).collect();
    let options = Options {
        population: 13,
        temperatures: 12,
        sweeps: 3,
        ladder: Ladder::Geometric { hottest: 1e9, coldest: 1e2 },
        ..Options::default()
    };
    (Partitioning::new(&numbers), options)
}

/// What a run gives on each of so many ranks.
fn among(
    ranks: usize,
    spoil: bool,
    stop: &(dyn Fn(usize) -> bool + Sync),
) -> Vec<Result<String, AnnealError>> {
    let (system, options) = problem();
    let words = Mutex::new(vec![Vec::new(); ranks]);
    let table = Table { ranks, words, barrier: Barrier::new(ranks) };
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..ranks)
            .map(|rank| {
                let seat = Seat { table: &table, rank, spoil: spoil && rank == 1 };
                let (system, options) = (&system, &options);
                scope.spawn(move || {
                    let (starts, stop) = (vec![system.begin()], || stop(rank));
                    anneal_among(system, starts, options, &Stream::new(9), &stop, &mut |_| {}, &seat).map(
                        |annealed| describe(annealed.score, &annealed.best, annealed.outcome, annealed.trace),
                    )
                })
            })
            .collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    })
}

/// Everything but how often the archive was improved.
fn describe(
    score: u64,
    best: &[bool],
    outcome: Outcome,
    mut trace: Vec<routepack_anneal::TemperatureReport>,
) -> String {
    trace.iter_mut().for_each(|report| report.gains = 0);
    format!("{score} {best:?} {outcome:?} {trace:?}")
}

#[test]
fn shared_is_as_alone_for_any_number_of_processes() {
    let (system, options) = problem();
    let alone =
        anneal(&system, vec![system.begin()], &options, &Stream::new(9), &|| false, &mut |_| {}).unwrap();
    let alone = describe(alone.score, &alone.best, alone.outcome, alone.trace);
    for ranks in [1, 2, 3, 13, 16] {
        for run in among(ranks, false, &|_| false) {
            assert_eq!(run.unwrap(), alone, "{ranks} processes");
        }
    }
}

#[test]
fn a_stop_anywhere_stops_all_and_a_broken_message_is_refused() {
    for run in among(3, false, &|rank| rank == 2) {
        assert!(run.unwrap().contains("Stopped"));
    }
    for run in among(2, true, &|_| false) {
        let error = run.unwrap_err().to_string();
        assert!(error.contains("rank 1 sent no state"), "{error}");
    }
}

#[test]
fn every_replica_falls_to_one_rank() {
    for (count, ranks) in [(1, 1), (5, 2), (2, 5), (64, 7)] {
        let shares: Vec<usize> = (0..ranks).flat_map(|rank| share(count, (rank, ranks))).collect();
        assert_eq!(shares, (0..count).collect::<Vec<_>>());
    }
}
