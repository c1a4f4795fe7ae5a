//! Small jobs of every kind, some stopped early: a plan whose claims are true by brute force, or an error that is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use routepack::{Batch, Control, Job, Plan, PlanError, Setting, plan, verify};
use routepack_problem::{Dummies, OversizePolicy, ProblemError, RowsPolicy};
use routepack_tests::oracle;

/// A job on lengths alone.
#[derive(Clone, Debug)]
struct Case {
    lengths: Vec<u32>,
    groups: Vec<i64>,
    steps: Vec<i64>,
    /// DP slots and context parallel size.
    grid: (u32, u32),
    capacity: u32,
    /// Multiples of a sample, a cell, the rows.
    multiples: (u32, u32, u32),
    max_samples: Option<u32>,
    /// Rows asked for, in multiples.
    fixed: Option<u32>,
    drop: bool,
    dummies: bool,
    /// Reports of progress after which planning is cancelled.
    reports: Option<usize>,
    seed: u64,
}

fn cases() -> impl Strategy<Value = Case> {
    let samples =
        prop::collection::vec((1u32..=12, prop_oneof![2 => Just(-1i64), 1 => 0i64..3], 0i64..2), 1..9);
    let shape = (
        prop_oneof![Just((1, 1)), Just((2, 1)), Just((3, 1)), Just((2, 2))],
        10u32..=20,
        prop_oneof![Just((1, 1, 1)), Just((2, 1, 1)), Just((1, 4, 1)), Just((3, 2, 2))],
    );
    let rules = (
        prop::option::of(1u32..=4),
        prop::option::of(1u32..=4),
        prop::bool::ANY,
        prop::bool::ANY,
        prop::option::of(0usize..3),
        any::<u64>(),
    );
    (samples, shape, rules, prop::bool::ANY).prop_map(
        |(
            samples,
            (grid, capacity, multiples),
            (max_samples, fixed, drop, dummies, reports, seed),
            several,
        )| Case {
            lengths: samples.iter().map(|sample| sample.0).collect(),
            groups: samples.iter().map(|sample| sample.1).collect(),
            steps: samples.iter().map(|sample| if several { sample.2 } else { 0 }).collect(),
            grid,
            capacity,
            multiples,
            max_samples,
            fixed,
            drop,
            dummies,
            reports,
            seed,
        },
    )
}

/// Units of a step that may be planned: tokens and samples each.
type Units = Vec<(u64, usize)>;

impl Case {
    fn batch(&self) -> Batch {
        Batch {
            atomic_groups: Some(self.groups.clone()),
            step: Some(self.steps.clone()),
            ..Batch::from_lengths(self.lengths.clone())
        }
    }

    fn job(&self) -> Job {
        let mut setting = Setting::new(self.grid.0, 1, self.capacity);
        setting.topology.cp = self.grid.1;
        let packing = &mut setting.packing;
        (packing.sample_multiple, packing.cell_multiple, packing.rows_multiple) = self.multiples;
        packing.max_samples = self.max_samples;
        packing.rows = self.fixed.map_or(RowsPolicy::Min, |rows| RowsPolicy::Fixed(rows * self.multiples.2));
        packing.oversize = if self.drop { OversizePolicy::Drop } else { OversizePolicy::Error };
        packing.dummies = self.dummies.then_some(Dummies { length: 1 });
        let mut job = Job::new(setting);
        job.seed = self.seed;
        (job.arrange.population, job.arrange.temperatures, job.arrange.proposals_per_unit) = (2, 2, 10);
        job
    }

    fn planned(&self) -> Result<Plan, PlanError> {
        let (cancel, mut left) = (AtomicBool::new(self.reports == Some(0)), self.reports);
        let mut control = Control::new().cancelled_by(&cancel).observed_by(|_| {
            left = left.map(|left| left.saturating_sub(1));
            cancel.fetch_or(left == Some(0), Ordering::Relaxed);
        });
        plan(&Arc::new(self.batch()), &self.job(), &mut control).map_err(|error| match error {
            PlanError::Step { error, .. } => *error,
            other => other,
        })
    }

    fn capacity(&self) -> u64 {
        u64::from(self.capacity / self.multiples.1 * self.multiples.1)
    }

    /// Units of every step, those longer than a cell apart.
    fn units(&self) -> (BTreeMap<i64, Units>, Units) {
        let mut units: BTreeMap<(i64, i64), (u64, usize)> = BTreeMap::new();
        for (sample, &length) in self.lengths.iter().enumerate() {
            let group = if self.groups[sample] < 0 { 100 + sample as i64 } else { self.groups[sample] };
            let unit = units.entry((self.steps[sample], group)).or_default();
            *unit = (unit.0 + u64::from(length.next_multiple_of(self.multiples.0)), unit.1 + 1);
        }
        let (mut steps, mut oversize) = (BTreeMap::<i64, Units>::new(), Units::new());
        for ((step, _), unit) in units {
            if unit.0 > self.capacity() {
                oversize.push(unit);
            } else {
                steps.entry(step).or_default().push(unit);
            }
        }
        (steps, oversize)
    }

    /// R* and the fewest cells of a step.
    fn fewest(&self, units: &Units) -> (u64, u64) {
        let cells = oracle::fewest_cells(units, self.capacity(), self.max_samples) as u64;
        (cells.div_ceil(self.grid.0.into()).next_multiple_of(self.multiples.2.into()), cells)
    }

    /// Rows of a plan of a step, if there is any.
    fn feasible_rows(&self, units: &Units) -> Option<u64> {
        let (fewest, _) = self.fewest(units);
        let rows = self.fixed.map_or(fewest, |rows| (rows * self.multiples.2).into());
        let filled = self.dummies || rows * u64::from(self.grid.0) <= units.len() as u64;
        (rows >= fewest && filled).then_some(rows)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn plans_and_refusals_are_true(case in cases()) {
        let (steps, oversize) = case.units();
        let too_many = |unit: &(u64, usize)| case.max_samples.is_some_and(|limit| unit.1 > limit as usize);
        match case.planned() {
            Ok(plan) => {
                let verified = verify(&plan, &Arc::new(case.batch()));
                prop_assert!(verified.is_ok(), "{:?}", verified.err());
                prop_assert_eq!(plan.steps.len(), steps.len());
                prop_assert_eq!(plan.dropped.len(), oversize.iter().map(|unit| unit.1).sum::<usize>());
                for (step, (number, units)) in plan.steps.iter().zip(&steps) {
                    prop_assert_eq!(step.step, *number);
                    let (rows, cells) = case.fewest(units);
                    prop_assert!(step.cells_bound <= cells && cells <= step.cells_found);
                    prop_assert!(step.rows_bound <= rows && rows <= step.rows_found);
                    prop_assert!(step.rows_found <= step.rows);
                    prop_assert_eq!(step.rows_proved, step.rows_bound == step.rows_found);
                    if case.reports.is_none() {
                        prop_assert_eq!(Some(step.rows), case.feasible_rows(units));
                        prop_assert_eq!(step.rows_found, rows);
                    }
                }
            }
            Err(PlanError::Problem(ProblemError::Oversize { length, .. })) => {
                prop_assert!(!case.drop && oversize.iter().any(|unit| unit.0 == length));
            }
            Err(PlanError::Problem(ProblemError::Value { field: "atomic_groups", .. })) => {
                prop_assert!(steps.values().flatten().any(too_many));
            }
            Err(PlanError::Problem(ProblemError::AllDropped { .. })) => prop_assert!(case.drop && steps.is_empty()),
            Err(PlanError::Problem(ProblemError::FewerUnitsThanCells { units, .. })) => {
                let true_of = |of_step: &Units| of_step.len() == units && case.feasible_rows(of_step).is_none();
                prop_assert!(!case.dummies && steps.values().any(true_of));
            }
            Err(PlanError::Rows { asked, bound, step }) => {
                prop_assert_eq!(Some(asked), case.fixed.map(|rows| (rows * case.multiples.2).into()));
                let (fewest, _) = case.fewest(&steps[&step]);
                prop_assert!(asked < bound && bound <= fewest);
            }
            Err(PlanError::NotFound { most, bound, found, step }) => {
                prop_assert!(case.reports.is_some(), "tiny cases are settled unless stopped");
                prop_assert!(bound <= most && most < found);
                prop_assert!(case.fewest(&steps[&step]).0 <= found);
            }
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
}

/// The strategy reaches plans and every kind of refusal, stopped and not.
#[test]
fn the_strategy_reaches_every_outcome() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for _ in 0..1500 {
        let case = cases().new_tree(&mut runner).expect("a case").current();
        let (steps, _) = case.units();
        let mixed = steps.values().any(|units| units.iter().any(|unit| unit.1 != units[0].1));
        let kind = match case.planned() {
            Ok(_) if mixed && case.max_samples.is_some() => "plan, groups under a limit",
            Ok(plan) if plan.steps.len() > 1 => "plan, several steps",
            Ok(plan) if !plan.dropped.is_empty() => "plan, samples left out",
            Ok(_) => "plan",
            Err(PlanError::Problem(ProblemError::Oversize { .. })) => "oversize",
            Err(PlanError::Problem(ProblemError::Value { .. })) => "group beyond the limit",
            Err(PlanError::Problem(ProblemError::FewerUnitsThanCells { .. })) => "fewer units",
            Err(PlanError::Rows { .. }) => "too few rows",
            Err(_) => "other",
        };
        *seen.entry(kind).or_default() += 1;
    }
    for kind in [
        "plan, groups under a limit",
        "plan, several steps",
        "plan, samples left out",
        "plan",
        "oversize",
        "group beyond the limit",
        "fewer units",
        "too few rows",
    ] {
        assert!(seen.get(kind).is_some_and(|&times| times >= 15), "{kind}: {seen:?}");
    }
}
