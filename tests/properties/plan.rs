//! The whole path on small instances of every kind: what a plan claims is true, by other code than made it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use proptest::prelude::*;
use routepack::{Aim, Control, Job, Plan, PlanError, plan, verify};
use routepack_problem::ProblemError;
use routepack_tests::oracle;
use routepack_tests::small::{Shape, shapes};

fn job(shape: &Shape) -> Job {
    let mut job = Job::new(shape.setting());
    job.seed = shape.seed;
    job.arrange.population = 4;
    job.arrange.temperatures = 4;
    job.arrange.proposals_per_unit = 2_000;
    job.refine.placement =
        [Aim::RowPeaks, Aim::RowPeaks, Aim::Aggregate, Aim::Fixed][shape.seed as usize % 4];
    job
}

fn planned(shape: &Shape) -> Result<Plan, PlanError> {
    plan(&Arc::new(shape.batch()), &job(shape), &mut Control::new())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// Coverage, capacity, nonempty cells, equal micro-batch counts, limits and groups, straight from the plan's cells.
    #[test]
    fn cells_are_a_layout(shape in shapes(1..14)) {
        let batch = shape.batch();
        let plan = match planned(&shape) {
            Ok(plan) => plan,
            Err(PlanError::Problem(ProblemError::FewerUnitsThanCells { units, cells, .. })) => {
                prop_assert!(!shape.dummies && (units as u64) < cells);
                return Ok(());
            }
            Err(other) => return Err(TestCaseError::fail(other.to_string())),
        };
        let step = &plan.steps[0];
        let mut times = vec![0; batch.num_samples()];
        let mut place = vec![(0, 0); batch.num_samples()];
        prop_assert_eq!(step.cells.len() as u64, step.rows);
        prop_assert_eq!(step.rows % u64::from(shape.rows_multiple), 0);
        for (row, slots) in step.cells.iter().enumerate() {
            prop_assert_eq!(slots.len(), shape.dp as usize, "every slot has a micro-batch in every row");
            for (slot, samples) in slots.iter().enumerate() {
                let dummies = step.dummies[row][slot];
                prop_assert!(samples.len() + dummies as usize > 0, "no cell is empty");
                let pad = |length: u32| length.next_multiple_of(shape.multiples.0);
                let tokens: u32 = samples.iter().map(|&sample| pad(batch.lengths[sample as usize])).sum();
                prop_assert!(tokens + dummies * pad(2) <= 64, "capacity");
                if let Some(limit) = shape.max_samples {
                    prop_assert!(samples.len() + dummies as usize <= limit as usize);
                }
                for &sample in samples {
                    times[sample as usize] += 1;
                    place[sample as usize] = (row, slot);
                }
            }
        }
        prop_assert!(times.iter().all(|&times| times == 1), "every sample in exactly one cell");
        let groups = batch.atomic_groups.unwrap_or_else(|| vec![-1; times.len()]);
        for (i, j) in (0..times.len()).flat_map(|i| (0..i).map(move |j| (i, j))) {
            prop_assert!(groups[i] < 0 || groups[i] != groups[j] || place[i] == place[j], "groups stay whole");
        }
    }

    /// R* and the fewest cells by brute force, the score by its definition, and every claim by `verify`.
    #[test]
    fn claims_are_true(shape in shapes(1..8)) {
        let batch = Arc::new(shape.batch());
        let Ok(plan) = planned(&shape) else { return Ok(()) };
        let verified = verify(&plan, &batch).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let instance = &verified.instances[0];
        let recorded = shape.instance();
        let units: Vec<(u64, usize)> = (0..recorded.num_units())
            .map(|unit| (recorded.unit_tokens(unit), recorded.unit(unit).len()))
            .collect();
        let fewest = oracle::fewest_cells(&units, u64::from(recorded.cell_capacity()), shape.max_samples) as u64;
        let step = &plan.steps[0];
        let rows = fewest.div_ceil(u64::from(shape.dp)).next_multiple_of(u64::from(shape.rows_multiple));
        prop_assert!(step.cells_bound <= fewest && fewest <= step.cells_found);
        prop_assert_eq!((step.rows_bound, step.rows_found, step.rows_proved), (rows, rows, true));
        let placement = verified.placement.clone().unwrap_or_else(|| shape.placement());
        let (worst_shard, total, worst_row) = oracle::score(instance, &placement, &verified.layouts[0]);
        prop_assert_eq!((step.score.worst_shard, step.score.total, step.score.worst_row), (worst_shard, total, worst_row));
        prop_assert!(step.bounds.given_placement.worst_shard <= worst_shard);
        prop_assert!(step.bounds.placement_free.worst_shard <= step.bounds.given_placement.worst_shard);
    }

    /// The same bytes for 1, 2 and 4 threads.
    #[test]
    fn threads_do_not_matter(shape in shapes(4..14)) {
        let in_pool = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
            pool.install(|| planned(&shape)).map(|plan| plan.sha256).map_err(|error| error.to_string())
        };
        let one = in_pool(1);
        prop_assert_eq!(&one, &in_pool(2));
        prop_assert_eq!(&one, &in_pool(4));
    }

    /// Stopped before it began, planning still gives a plan that verifies.
    #[test]
    fn a_valid_plan_exists_at_once(shape in shapes(1..14)) {
        let stop = AtomicBool::new(true);
        let batch = Arc::new(shape.batch());
        match plan(&batch, &job(&shape), &mut Control::new().cancelled_by(&stop)) {
            Ok(plan) => prop_assert!(verify(&plan, &batch).is_ok()),
            Err(PlanError::NotFound { bound, .. }) => {
                prop_assert!(!shape.dummies && bound * u64::from(shape.dp) <= shape.samples as u64);
            }
            Err(error) => prop_assert!(
                matches!(error, PlanError::Problem(ProblemError::FewerUnitsThanCells { .. })), "{}", error
            ),
        }
    }
}
