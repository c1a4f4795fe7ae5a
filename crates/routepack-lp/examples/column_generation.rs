//! Times column generation for cutting stock on every backend: milliseconds of solving, pricing apart.
//!
//! `cargo run --release -p routepack-lp --example column_generation -- [SIZES] [COLUMNS A ROUND] [SEED]`
#![allow(clippy::print_stdout)]

use std::time::{Duration, Instant};

use routepack_lp::{Backend, Column, CoverMaster, LpError};

const CAPACITY: usize = 10_000;

/// The best pattern that holds one `first` piece, by dynamic programming over lengths.
fn price(
    best: &[(f64, Option<usize>)],
    sizes: &[usize],
    duals: &[f64],
    first: usize,
) -> (f64, Vec<(usize, f64)>) {
    let mut room = CAPACITY - sizes[first];
    let value = best[room].0 + duals[first];
    let mut counts = vec![0.0; sizes.len()];
    counts[first] += 1.0;
    while room > 0 {
        match best[room].1 {
            Some(k) => {
                counts[k] += 1.0;
                room -= sizes[k];
            }
            None => room -= 1,
        }
    }
    (value, counts.into_iter().enumerate().filter(|&(_, n)| n > 0.0).collect())
}

fn main() -> Result<(), LpError> {
    let number = |k: usize, otherwise: usize| {
        std::env::args().nth(k).and_then(|a| a.parse().ok()).unwrap_or(otherwise)
    };
    let (num_sizes, batch, mut state) = (number(1, 200), number(2, 1), number(3, 1) as u64);
    let mut below = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    let sizes: Vec<usize> = (0..num_sizes).map(|_| 500 + below(4500)).collect();
    let demands: Vec<f64> = (0..num_sizes).map(|_| (1 + below(30)) as f64).collect();

    for &backend in Backend::all() {
        let mut master = CoverMaster::new(backend, &demands)?;
        let single = |(k, &size): (usize, &usize)| Column::new(1.0, vec![(k, (CAPACITY / size) as f64)]);
        master.add_columns(sizes.iter().enumerate().map(single).collect())?;
        let (mut solving, mut rounds, mut iterations) = (Duration::ZERO, 0u32, 0);
        let objective = loop {
            let start = Instant::now();
            let solved = master.solve()?;
            solving += start.elapsed();
            rounds += 1;
            iterations += solved.iterations;
            let mut best = vec![(0.0, None); CAPACITY + 1];
            for room in 1..=CAPACITY {
                best[room] = (best[room - 1].0, None);
                for (k, &size) in sizes.iter().enumerate().filter(|&(_, &size)| size <= room) {
                    let value = best[room - size].0 + solved.duals[k];
                    if value > best[room].0 {
                        best[room] = (value, Some(k));
                    }
                }
            }
            let mut patterns: Vec<_> =
                (0..num_sizes).map(|k| price(&best, &sizes, &solved.duals, k)).collect();
            patterns.retain(|&(value, _)| value > 1.0 + 1e-8);
            patterns.sort_by(|a, b| b.0.total_cmp(&a.0));
            patterns.dedup_by(|a, b| a.1 == b.1);
            if patterns.is_empty() {
                break solved.objective;
            }
            master.add_columns(
                patterns.into_iter().take(batch).map(|(_, covers)| Column::new(1.0, covers)).collect(),
            )?;
        };
        let start = Instant::now();
        let used = master.values()?.iter().filter(|&&x| x > 1e-9).count();
        println!(
            "{}: objective {objective:.6}, {rounds} solves, {} columns, {iterations} iterations, {:.1} ms solving, {:.2} ms a solve, {:.2} ms for the values of {used} columns",
            backend.name_and_version()?,
            master.columns().len(),
            solving.as_secs_f64() * 1e3,
            solving.as_secs_f64() * 1e3 / f64::from(rounds),
            start.elapsed().as_secs_f64() * 1e3,
        );
    }
    Ok(())
}
