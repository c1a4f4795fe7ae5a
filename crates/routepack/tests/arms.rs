//! Reference arms take whichever placement is better for them.

use std::sync::Arc;

use routepack::baselines::global_ffd;
use routepack::generate::{Preset, window};
use routepack::place::{PlaceOptions, place};
use routepack::problem::RowsPolicy;
use routepack::verification::{Figures, figures};
use routepack::{Batch, Control, Job, plan, report, verify};

/// A window and a job, little searched.
fn few_samples() -> (Arc<Batch>, Job) {
    let mut recipe = Preset::Mixed.recipe();
    recipe.prompts = 16;
    let made = window(&recipe, 1).expect("valid");
    let batch = Arc::new(made.batch);
    let mut job = Job::new(made.setting);
    (job.arrange.proposals_per_unit, job.refine.turns) = (20, 0);
    (batch, job)
}

#[test]
fn reorder_takes_the_better_placement() {
    let (batch, job) = few_samples();
    let plan = plan(&batch, &job, &mut Control::new()).expect("a plan");
    let verified = verify(&plan, &batch).expect("verifies");
    let (instance, own) = (&verified.instances[0], verified.placement.as_ref().expect("routes"));
    let placed = place(instance.expert_loads(), own.num_ranks(), &PlaceOptions::default(), &|| false);
    let layout = global_ffd(instance, verified.layouts[0].num_rows()).expect("packs").layout;
    let of = |placement| -> Figures { figures(instance, Some(placement), &layout, true).expect("valid") };
    let (own, window) = (of(own).joint_score, of(&placed.expect("in range").placement).joint_score);
    let report = report(&plan, &batch).expect("verifies");
    let reorder = report.arms.iter().find(|arm| arm.name == "reorder").expect("an arm");
    assert_ne!(own.to_bits(), window.to_bits(), "the two placements differ here");
    assert_eq!(reorder.figures.joint_score.to_bits(), own.min(window).to_bits());
    assert_eq!(reorder.placement, if own <= window { "plan" } else { "window" }, "and says whose it is");
    let placements: Vec<&str> = report.arms.iter().map(|arm| arm.placement.as_str()).collect();
    assert_eq!((placements[0], placements[3]), ("identity", "plan"));
}

#[test]
fn reference_arms_are_not_bound_to_the_rows_of_a_plan_that_has_more() {
    let (batch, mut job) = few_samples();
    let fewest = plan(&batch, &job, &mut Control::new()).expect("a plan").steps[0].rows;
    job.packing.rows = RowsPolicy::Fixed(fewest as u32 + 2);
    let plan = plan(&batch, &job, &mut Control::new()).expect("a plan");
    assert_eq!((plan.steps[0].rows, plan.steps[0].rows_found), (fewest + 2, fewest));
    let verified = verify(&plan, &batch).expect("verifies");
    let instance = &verified.instances[0];
    let placement = routepack::Placement::identity(24, 128, 8).expect("even");
    let of = |rows: u64| {
        let layout = global_ffd(instance, rows as usize).expect("packs").layout;
        figures(instance, Some(&placement), &layout, true).expect("valid").joint_score
    };
    let (few, many) = (of(fewest), of(fewest + 2));
    assert!(few < many, "more rows cost more here: {few} {many}");
    let report = report(&plan, &batch).expect("verifies");
    let baseline = &report.arms[0];
    assert_eq!((baseline.figures.rows, baseline.figures.joint_score.to_bits()), (fewest, few.to_bits()));
}
