//! Makespan of one-forward-one-backward pipelines, plain and interleaved.
//!
//! A model cut into S·V chunks runs R micro-batches; chunk c = v·S + s belongs to stage s. A stage runs its own list of
//! operations in Megatron's order: w forward passes to warm up, then forward and backward in turns, then what is left of
//! the backward passes; w = S − s − 1 with one chunk a stage, 2·(S − s − 1) + (V − 1)·S with V. Micro-batches enter in
//! groups of S: a group passes a stage's chunks one after another, forward from the first, backward from the last. A pass
//! waits for its predecessor on the neighbouring chunk. With V > 1, R must be a multiple of S, as in Megatron: a last
//! group of fewer would wait for itself. O(R·S·V).
//!
//! Narayanan et al. 2021, "Efficient large-scale language model training on GPU clusters using Megatron-LM", §2.2,
//! doi:10.1145/3458817.3476209.

/// Times of the passes of one pipeline.
#[derive(Clone, Debug, PartialEq)]
pub struct Passes {
    /// Pipeline stages S.
    pub stages: usize,
    /// Seconds forward, `[chunks][rows]`; chunks a multiple of the stages.
    pub forward: Vec<Vec<f64>>,
    /// Seconds backward, `[chunks][rows]`.
    pub backward: Vec<Vec<f64>>,
    /// Seconds to hand activations or gradients to the next chunk.
    pub hand_over: f64,
}

/// When a pipeline is done.
#[derive(Clone, Debug, PartialEq)]
pub struct Makespan {
    /// Seconds from the first pass to the last.
    pub seconds: f64,
    /// Seconds that every stage computes, `[stages]`.
    pub busy: Vec<f64>,
}

/// One pass of a micro-batch through a chunk.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pass {
    backward: bool,
    chunk: usize,
    row: usize,
}

/// The makespan of a pipeline.
///
/// # Panics
/// Several chunks a stage and rows that are no multiple of the stages.
pub fn makespan(passes: &Passes) -> Makespan {
    let rows = passes.forward.first().map_or(0, Vec::len);
    let interleaved = passes.forward.len() > passes.stages;
    assert!(
        !interleaved || rows.is_multiple_of(passes.stages),
        "{rows} rows interleaved over {} stages",
        passes.stages
    );
    let orders: Vec<Vec<Pass>> = (0..passes.stages).map(|stage| order(passes, stage, rows)).collect();
    let mut next = vec![0; passes.stages];
    let mut clock = vec![0.0f64; passes.stages];
    let mut busy = vec![0.0f64; passes.stages];
    // When each pass is done, once it is: [forward, backward][chunk][row].
    let mut done = [false, true].map(|_| vec![vec![None; rows]; passes.forward.len()]);
    loop {
        let mut moved = false;
        for stage in 0..passes.stages {
            while let Some(&pass) = orders[stage].get(next[stage]) {
                let Some(ready) = ready(passes, &done, pass) else { break };
                let times = if pass.backward { &passes.backward } else { &passes.forward };
                let seconds = times[pass.chunk][pass.row];
                clock[stage] = clock[stage].max(ready) + seconds;
                busy[stage] += seconds;
                done[usize::from(pass.backward)][pass.chunk][pass.row] = Some(clock[stage]);
                next[stage] += 1;
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    debug_assert!(
        orders.iter().zip(&next).all(|(order, &next)| next == order.len()),
        "the schedule is stuck"
    );
    Makespan { seconds: clock.iter().copied().fold(0.0, f64::max), busy }
}

/// When a pass can begin, if all that it waits for is done.
fn ready(passes: &Passes, done: &[Vec<Vec<Option<f64>>>; 2], pass: Pass) -> Option<f64> {
    let chunks = passes.forward.len();
    let [forward, backward] = done;
    let handed = |time: Option<f64>| time.map(|time| time + passes.hand_over);
    match (pass.backward, pass.chunk) {
        (false, 0) => Some(0.0),
        (false, chunk) => handed(forward[chunk - 1][pass.row]),
        (true, chunk) if chunk + 1 == chunks => forward[chunk][pass.row],
        (true, chunk) => handed(backward[chunk + 1][pass.row]),
    }
}

/// The passes of a stage in the order it runs them.
fn order(passes: &Passes, stage: usize, rows: usize) -> Vec<Pass> {
    let (stages, chunks) = (passes.stages, passes.forward.len() / passes.stages);
    let visits = |backward: bool| {
        (0..rows).step_by(stages).flat_map(move |first| {
            let group = first..(first + stages).min(rows);
            (0..chunks).flat_map(move |turn| {
                let chunk = (if backward { chunks - 1 - turn } else { turn }) * stages + stage;
                group.clone().map(move |row| Pass { backward, chunk, row })
            })
        })
    };
    let (forward, backward): (Vec<Pass>, Vec<Pass>) = (visits(false).collect(), visits(true).collect());
    let ahead = stages - stage - 1;
    let warm_up = if chunks == 1 { ahead } else { 2 * ahead + (chunks - 1) * stages };
    let (first, rest) = forward.split_at(warm_up.min(forward.len()));
    let mut order = first.to_vec();
    let mut returning = backward.into_iter();
    for &pass in rest {
        order.push(pass);
        order.extend(returning.next());
    }
    order.extend(returning);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uniform(stages: usize, chunks: usize, rows: usize) -> Passes {
        Passes {
            stages,
            forward: vec![vec![1.0; rows]; stages * chunks],
            backward: vec![vec![2.0; rows]; stages * chunks],
            hand_over: 0.0,
        }
    }

    #[test]
    fn equal_passes_leave_the_bubble_of_the_literature() {
        for (stages, rows) in [(1, 1), (1, 5), (2, 2), (4, 4), (4, 9), (8, 3), (3, 1)] {
            let made = makespan(&uniform(stages, 1, rows));
            assert!(
                (made.seconds - 3.0 * (rows + stages - 1) as f64).abs() < 1e-9,
                "{stages} stages, {rows} rows"
            );
            assert!(made.busy.iter().all(|&busy| (busy - 3.0 * rows as f64).abs() < 1e-9));
        }
        // Interleaved: the bubble shrinks by the chunks a stage, (S − 1)·(f + b) of one chunk.
        for (stages, chunks, rows) in [(2, 2, 4), (4, 2, 8), (4, 3, 12), (2, 4, 2)] {
            let made = makespan(&uniform(stages, chunks, rows));
            let ideal = 3.0 * (rows * chunks + stages - 1) as f64;
            assert!(
                (made.seconds - ideal).abs() < 1e-9,
                "{stages}×{chunks}, {rows}: {} {ideal}",
                made.seconds
            );
        }
    }

    #[test]
    fn no_schedule_is_stuck() {
        for stages in 1..=6 {
            for chunks in 1..=4 {
                let step = if chunks == 1 { 1 } else { stages };
                for rows in (step..=13).step_by(step) {
                    let passes = uniform(stages, chunks, rows);
                    let made = makespan(&passes);
                    assert!(made.seconds >= 3.0 * (rows * chunks) as f64 - 1e-9, "{stages} {chunks} {rows}");
                }
            }
        }
    }

    #[test]
    fn the_slowest_stage_paces() {
        let mut passes = uniform(3, 1, 6);
        passes.forward[1] = vec![5.0; 6];
        let made = makespan(&passes);
        assert!(made.seconds >= 7.0 * 6.0);
        assert!((made.busy[1] - 42.0).abs() < 1e-9);
        passes.hand_over = 0.5;
        assert!(makespan(&passes).seconds > made.seconds);
    }
}
