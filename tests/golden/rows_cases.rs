//! Inputs that broke trainers' packers, planned from window to plan; each says what went wrong elsewhere.

use std::sync::Arc;

use routepack::{Batch, Control, Job, PlanError, Setting, plan, verify};
use routepack_problem::ProblemError;

/// What a case must give.
enum Expect {
    /// The fewest cells and rows.
    Fewest { cells: u64, rows: u64 },
    /// A sample that fits in no cell.
    Oversize { sample: usize, length: u64, capacity: u32 },
    /// Fewer samples than cells.
    Infeasible { cells: u64, samples: usize },
}

use Expect::{Fewest, Infeasible, Oversize};

fn check(lengths: Vec<u32>, capacity: u32, slots: u32, rows_multiple: u32, expect: &Expect) {
    let mut setting = Setting::new(slots, 1, capacity);
    setting.packing.rows_multiple = rows_multiple;
    let mut job = Job::new(setting);
    job.pack.goal = routepack::binpack::Goal::Cells;
    let batch = Arc::new(Batch::from_lengths(lengths));
    match (plan(&batch, &job, &mut Control::new()), expect) {
        (Ok(plan), Fewest { cells, rows }) => {
            verify(&plan, &batch).expect("every claim holds");
            let step = &plan.steps[0];
            assert_eq!((step.cells_found, step.cells_bound), (*cells, *cells));
            assert_eq!((step.rows, step.rows_bound, step.rows_proved), (*rows, *rows, true));
        }
        (
            Err(PlanError::Problem(ProblemError::Oversize { sample, length, capacity })),
            Oversize { sample: s, length: l, capacity: c },
        ) => assert_eq!((sample, length, capacity), (*s, *l, *c)),
        (
            Err(PlanError::Problem(ProblemError::FewerUnitsThanCells { units, cells, .. })),
            Infeasible { cells: c, samples },
        ) => assert_eq!((cells, units), (*c, *samples)),
        (other, _) => panic!("{other:?}"),
    }
}

/// A trainer that packs each rank's own samples ends with 4 and 1 micro-batches and hangs; samples may move between slots.
#[test]
fn fixed_shards_need_more_rows() {
    check(vec![9, 9, 9, 9, 2, 2, 2, 2], 10, 2, 1, &Fewest { cells: 5, rows: 3 });
}

/// Ceil(sum/capacity)=7 puts 14 tokens in one cell.
#[test]
fn volume_bound_is_not_enough() {
    check(vec![7, 7, 7, 7, 7, 7, 7, 7], 8, 1, 1, &Fewest { cells: 8, rows: 8 });
}

/// 206 samples on 4 slots: equal sample counts are impossible and not needed.
#[test]
fn odd_sample_count() {
    check(vec![100; 206], 1000, 4, 1, &Fewest { cells: 21, rows: 6 });
}

/// A packer rounded the count down and filled a cell with 12.
#[test]
fn never_round_rows_down() {
    check(vec![6, 6, 6, 6, 6, 1, 1, 1], 10, 4, 1, &Fewest { cells: 5, rows: 2 });
}

/// Accepted silently as one micro-batch.
#[test]
fn oversize_sample() {
    check(vec![21], 20, 1, 1, &Oversize { sample: 0, length: 21, capacity: 20 });
}

/// Gave an empty first micro-batch and 40 tokens in the second.
#[test]
fn oversize_first_sample() {
    check(vec![40, 10, 10], 32, 1, 1, &Oversize { sample: 0, length: 40, capacity: 32 });
}

/// A scheduler failed to split its only full group in two.
#[test]
fn plenty_of_room_few_rows() {
    check(vec![10, 10, 10, 10, 10, 10, 10, 10], 100, 2, 1, &Fewest { cells: 1, rows: 1 });
}

/// Virtual pipeline wants 4 rows: 8 cells, 6 samples.
#[test]
fn rows_multiple_infeasible() {
    check(vec![10, 10, 10, 10, 10, 10], 100, 2, 4, &Infeasible { cells: 8, samples: 6 });
}

/// 3 samples cannot fill 4 slots.
#[test]
fn fewer_samples_than_slots() {
    check(vec![10, 10, 10], 100, 4, 1, &Infeasible { cells: 4, samples: 3 });
}

/// A 'modified first-fit decreasing' needs 4.
#[test]
fn perfect_fit() {
    check(vec![6, 4, 6, 6, 3, 7, 2, 9, 5], 16, 1, 1, &Fewest { cells: 3, rows: 3 });
}

/// 24576*s+s*s overflowed 32 bits in a trainer.
#[test]
fn long_context_sample() {
    check(vec![131_072], 131_072, 1, 1, &Fewest { cells: 1, rows: 1 });
}
