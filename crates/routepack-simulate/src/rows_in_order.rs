//! Step time of a layout's rows in any order: rows are timed once, an order costs a makespan.
//!
//! Symbols: R rows, G shards, S stages, V chunks a stage. A shard lasts as long as its pipeline (pipeline.rs); the slowest
//! shard ends the step.
//! Complexity: O(G·R·S·V) an order.

use std::cmp::Reverse;

use crate::StepTime;
use crate::pipeline::{Passes, makespan};
use crate::row_time::{ChunkTime, Work};

/// Times of a layout's rows, and with them the step time of every order of the rows.
#[derive(Clone, Debug, PartialEq)]
pub struct RowTimes {
    pub(crate) stages: usize,
    /// Seconds to hand a full cell's activations to the next stage.
    pub(crate) hand_over: f64,
    /// `[shards][rows][chunks]`.
    pub(crate) shards: Vec<Vec<Vec<ChunkTime>>>,
    /// What no order changes: its seconds are those of these terms alone.
    pub(crate) besides: StepTime,
}

impl RowTimes {
    /// Rows R.
    pub fn num_rows(&self) -> usize {
        self.shards.first().map_or(0, Vec::len)
    }

    /// The step time with row `order[k]` of the layout in place k, bit for bit that of the layout with rows so ordered.
    ///
    /// # Panics
    /// `order` is no order of the rows.
    pub fn step_time(&self, order: &[usize]) -> StepTime {
        assert_eq!(order.len(), self.num_rows(), "an order of all rows");
        let shards = self.shards.iter().map(|rows| self.shard_time(rows, order));
        let mut step = shards.max_by(|a, b| a.seconds.total_cmp(&b.seconds)).expect("a topology has a shard");
        step += self.besides;
        step
    }

    /// The rows, those first that take the slowest shard longest; of equal ones the first.
    pub fn longest_first(&self) -> Vec<usize> {
        let of_shard = |row: &Vec<ChunkTime>| -> f64 {
            row.iter().map(|time| (time.forward + time.backward).seconds()).sum()
        };
        // Floats that are not negative are ordered as their bits.
        let seconds =
            |&row: &usize| Reverse(self.shards.iter().map(|rows| of_shard(&rows[row]).to_bits()).max());
        let mut rows: Vec<usize> = (0..self.num_rows()).collect();
        rows.sort_by_key(seconds);
        rows
    }

    /// Makespan of one shard's rows, and its busiest stage's work.
    fn shard_time(&self, rows: &[Vec<ChunkTime>], order: &[usize]) -> StepTime {
        let (stages, chunks) = (self.stages, rows[0].len());
        let times = |of: fn(&ChunkTime) -> Work| -> Vec<Vec<f64>> {
            (0..chunks)
                .map(|chunk| order.iter().map(|&row| of(&rows[row][chunk]).seconds()).collect())
                .collect()
        };
        let made = makespan(&Passes {
            stages,
            forward: times(|time| time.forward),
            backward: times(|time| time.backward),
            hand_over: self.hand_over,
        });
        let busiest = (0..stages).max_by(|&a, &b| made.busy[a].total_cmp(&made.busy[b])).unwrap_or(0);
        let mut work = Work::default();
        for &row in order {
            for chunk in (busiest..chunks).step_by(stages) {
                work += rows[row][chunk].forward + rows[row][chunk].backward;
            }
        }
        // The same sum in another order: not to be read as waiting.
        let bubble = if stages == 1 { 0.0 } else { made.seconds - work.seconds() };
        StepTime { seconds: work.seconds() + bubble, work, bubble, ..StepTime::default() }
    }
}
