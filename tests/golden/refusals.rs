//! Jobs that were refused though feasible, planned with a false claim, or ended the process: each says which it was.

use std::sync::Arc;

use routepack::{Batch, Control, ExpertCounts, Job, Plan, PlanError, Setting, plan, report, verify};
use routepack_problem::{AttentionKind, CostTable, Dummies, ExactDecimal, Gamma, ProblemError, RowsPolicy};

fn linear(alpha: &str) -> Vec<AttentionKind> {
    let alpha = alpha.parse().expect("a decimal");
    vec![AttentionKind { name: "linear".into(), alpha, beta: ExactDecimal::ZERO }]
}

/// A plan whose every claim holds.
fn planned(batch: Batch, job: &Job) -> Result<Plan, PlanError> {
    let batch = Arc::new(batch);
    let plan = plan(&batch, job, &mut Control::new())?;
    verify(&plan, &batch).expect("every claim holds");
    Ok(plan)
}

fn problem(batch: Batch, job: &Job) -> ProblemError {
    match planned(batch, job) {
        Err(PlanError::Problem(error)) => error,
        other => panic!("{:?}", other.map(|plan| plan.steps.len())),
    }
}

/// Three pairs and three single samples, at most three samples a cell: three cells are necessary and suffice. The units
/// went to the packer with a limit on units, so a cell held six samples; with more rows a plan claimed that two suffice.
#[test]
fn groups_of_several_sizes_under_a_limit_of_samples() {
    let batch = || Batch {
        atomic_groups: Some(vec![0, 0, 1, 1, 2, 2, -1, -1, -1]),
        ..Batch::from_lengths(vec![1; 9])
    };
    let mut setting = Setting::new(1, 1, 10);
    setting.packing.max_samples = Some(3);
    for rows in [RowsPolicy::Min, RowsPolicy::Fixed(3), RowsPolicy::Fixed(4)] {
        setting.packing.rows = rows.clone();
        let plan = planned(batch(), &Job::new(setting.clone())).expect("a plan");
        let step = &plan.steps[0];
        assert_eq!((step.cells_bound, step.cells_found, step.rows_proved), (3, 3, true), "{rows:?}");
    }
    setting.packing.rows = RowsPolicy::Fixed(2);
    let refused = planned(batch(), &Job::new(setting.clone()));
    assert!(matches!(refused, Err(PlanError::Rows { asked: 2, bound: 3, .. })), "{refused:?}");
    // One sample more than three cells take, the last cell not full: the quotient is rounded up.
    let ten = Batch {
        atomic_groups: Some(vec![0, 0, 1, 1, 2, 2, -1, -1, -1, -1]),
        ..Batch::from_lengths(vec![1; 10])
    };
    setting.packing.rows = RowsPolicy::Min;
    let plan = planned(ten, &Job::new(setting)).expect("a plan");
    assert_eq!((plan.steps[0].cells_bound, plan.steps[0].cells_found), (4, 4));
}

/// Eight cells are necessary and suffice; with next to no budget nine were found, and the 16 cells of two rows cannot be
/// filled by twelve samples: that was called infeasible.
#[test]
fn unproved_is_not_infeasible() {
    let batch = || Batch::from_lengths(vec![10, 10, 10, 10, 10, 10, 5, 3, 2, 4, 3, 3]);
    let mut job = Job::new(Setting::new(8, 1, 10));
    (job.pack.fill_tries, job.pack.fill_window) = (1, 1);
    (job.pack.repack_tries, job.pack.column_rounds) = (0, 0);
    let plan = planned(batch(), &job).expect("a plan");
    assert_eq!((plan.steps[0].rows, plan.steps[0].rows_proved), (1, true));
    // And with seven slots it is infeasible: two rows are necessary, and 14 cells are too many.
    job = Job::new(Setting::new(7, 1, 10));
    assert!(matches!(
        problem(batch(), &job),
        ProblemError::FewerUnitsThanCells { units: 12, cells: 14, rows: 2, .. }
    ));
}

/// Cancelled before it began, no packing into the rows asked for is at hand: said as such, not as infeasible.
#[test]
fn not_found_is_an_answer_of_its_own() {
    let lengths = vec![22, 21, 21, 20, 20, 18, 15, 11, 8, 8, 8, 8, 8, 6, 6];
    let cancel = std::sync::atomic::AtomicBool::new(true);
    let batch = Arc::new(Batch::from_lengths(lengths.clone()));
    let mut setting = Setting::new(1, 1, 50);
    setting.packing.rows = RowsPolicy::Fixed(4);
    let job = Job::new(setting);
    match plan(&batch, &job, &mut Control::new().cancelled_by(&cancel)) {
        Err(PlanError::NotFound { most: 4, bound, found, .. }) => assert!(bound <= 4 && found > 4),
        other => panic!("{other:?}"),
    }
    let plan = planned(Batch::from_lengths(lengths), &job).expect("given time, a plan");
    assert_eq!((plan.steps[0].rows, plan.steps[0].rows_proved), (4, true));
}

/// Attention is charged once a part, which the check of totals did not count.
#[test]
fn totals_count_every_part() {
    for cp in [1, 4, 16] {
        let mut setting = Setting::new(1, 1, 1000);
        setting.topology.cp = cp;
        setting.cost.kinds = Some(linear("2200000000000000"));
        let outcome = planned(Batch::from_lengths(vec![1000, 1000]), &Job::new(setting));
        match (cp, outcome) {
            (1, Ok(_)) | (4 | 16, Err(PlanError::Problem(ProblemError::Overflow { .. }))) => {}
            (_, other) => panic!("cp = {cp}: {other:?}"),
        }
    }
}

/// Twelve steps, each within the exact range, ended a report when they were added up.
#[test]
fn totals_count_every_step() {
    let batch = Arc::new(Batch {
        step: Some((0..12).collect()),
        cost: Some(CostTable { kinds: 1, values: vec![1 << 31; 12] }),
        ..Batch::from_lengths(vec![100; 12])
    });
    let mut setting = Setting::new(1, 1, 1000);
    setting.cost.kinds = Some(linear("0.00047"));
    let plan = plan(&batch, &Job::new(setting.clone()), &mut Control::new()).expect("a plan");
    assert_eq!(report(&plan, &batch).expect("figures").arms.len(), 4);
    setting.cost.kinds = Some(linear("6000000000000000"));
    let without_table = Batch { cost: None, ..(*batch).clone() };
    assert!(matches!(problem(without_table, &Job::new(setting)), ProblemError::Overflow { .. }));
}

/// Every token may be padding that is routed: all enter the totals.
#[test]
fn totals_count_padding() {
    let counts = ExpertCounts::new([2, 1, 1, 2], vec![1; 4]).expect("a full array");
    let batch = Batch {
        expert_counts: Some(counts),
        routed_rows: Some(vec![1, 1]),
        ..Batch::from_lengths(vec![1 << 30, 1 << 30])
    };
    let mut setting = Setting::new(2, 2, 1 << 30);
    setting.routing.top_k = 2;
    setting.cost.gamma = Some(Gamma::Every(ExactDecimal::from(1 << 31)));
    assert!(matches!(problem(batch, &Job::new(setting)), ProblemError::Overflow { .. }));
}

/// A weight that rounding would change by more than one part in a million is refused by name, or scaled for.
#[test]
fn small_weights_are_exact_or_refused() {
    let counts = ExpertCounts::new([2, 1, 1, 2], vec![5, 5, 12, 8]).expect("a full array");
    let batch = Batch { expert_counts: Some(counts), ..Batch::from_lengths(vec![10, 20]) };
    let mut setting = Setting::new(2, 2, 100);
    setting.routing.top_k = 1;
    let weigh = |gamma: &str| Some(Gamma::Every(gamma.parse().expect("a decimal")));
    setting.cost.gamma = weigh("0.000000001");
    let plan = planned(batch.clone(), &Job::new(setting.clone())).expect("a plan");
    assert!((plan.scale_bits as i32 - 49).abs() <= 1, "2^{}", plan.scale_bits);
    setting.cost.gamma = weigh("0.000000000000000001");
    let refused = problem(batch, &Job::new(setting)).to_string();
    assert!(refused.starts_with("cost.gamma = 0.000000000000000001: too small"), "{refused}");
    assert!(refused.contains("at least"), "{refused}");
}

/// Two billion cells full of dummies took all memory.
#[test]
fn dummies_are_limited() {
    for (rows, multiple) in
        [(RowsPolicy::Fixed(1 << 31), 1), (RowsPolicy::Min, 1 << 30), (RowsPolicy::Fixed(1_000_000), 1)]
    {
        let mut setting = Setting::new(1, 1, 10);
        setting.packing.dummies = Some(Dummies { length: 1 });
        (setting.packing.rows, setting.packing.rows_multiple) = (rows, multiple);
        let refused = problem(Batch::from_lengths(vec![5; 3]), &Job::new(setting)).to_string();
        assert!(refused.contains("2^16 dummies"), "{refused}");
    }
}

/// Misspelt keys of a table of rows were taken without a word.
#[test]
fn policies_refuse_what_they_do_not_know() {
    let read = |text: &str| serde_json::from_str::<RowsPolicy>(text).map_err(|error| error.to_string());
    assert_eq!(read("\"min\""), Ok(RowsPolicy::Min));
    assert_eq!(read("7"), Ok(RowsPolicy::Fixed(7)));
    let search = RowsPolicy::Search { extra_rows: 2, row_cost: Some(ExactDecimal::ONE) };
    assert_eq!(read(r#"{"extra_rows": 2, "row_cost": 1}"#), Ok(search.clone()));
    assert_eq!(read(&serde_json::to_string(&search).expect("JSON")), Ok(search));
    for (text, named) in [
        (r#"{"extra_rows": 2, "row_cost": 1, "foo": 3}"#, "foo"),
        (r#"{"row_cost": 2}"#, "extra_rows"),
        ("\"max\"", "`min`, a number of rows"),
        ("-1", "`min`, a number of rows"),
        ("5000000000", "`min`, a number of rows"),
        ("true", "`min`, a number of rows"),
    ] {
        let refused = read(text).expect_err(text);
        assert!(refused.contains(named), "{text}: {refused}");
    }
    let read = |text: &str| serde_json::from_str::<Gamma>(text).map_err(|error| error.to_string());
    for text in ["0.5", "\"0.5\"", "[0.5, \"1\"]", "3"] {
        assert!(read(text).is_ok(), "{text}");
    }
    for (text, named) in
        [("true", "a decimal number"), ("{\"a\": 1}", "a list of them"), ("[-1]", "negative")]
    {
        let refused = read(text).expect_err(text);
        assert!(refused.contains(named), "{text}: {refused}");
    }
}

/// `rows = search` is never worse by its own criterion than the fewest rows, which stay certified.
#[test]
fn searched_rows_are_never_worse_than_the_fewest() {
    for (row_cost, more) in [(0, true), (1000, false)] {
        // One long sample a row hides that spreading the short ones helps, once a row costs little.
        let lengths = vec![60, 30, 30, 30, 20, 20, 10, 10, 10, 10];
        let plan_with = |rows| {
            let mut setting = Setting::new(2, 1, 100);
            setting.packing.rows = rows;
            planned(Batch::from_lengths(lengths.clone()), &Job::new(setting)).expect("a plan")
        };
        let fewest = plan_with(RowsPolicy::Min);
        let searched = plan_with(RowsPolicy::Search { extra_rows: 3, row_cost: Some(row_cost.into()) });
        let (one, other) = (&fewest.steps[0], &searched.steps[0]);
        assert_eq!((other.rows_found, other.rows_bound, other.rows_proved), (one.rows, one.rows_bound, true));
        assert!((one.rows..=one.rows + 3).contains(&other.rows));
        let cost = |step: &routepack::verification::PlanStep| {
            u128::from(step.score.worst_shard)
                + (u128::from(step.rows * u64::from(row_cost)) << fewest.scale_bits)
        };
        assert_eq!(fewest.scale_bits, searched.scale_bits);
        assert!(cost(other) <= cost(one), "{} rows, {} rows", one.rows, other.rows);
        assert_eq!(other.rows > one.rows, more && cost(other) < cost(one), "a row too many");
    }
}
