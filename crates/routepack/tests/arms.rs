//! Reference arms take whichever placement is better for them.

use std::sync::Arc;

use routepack::baselines::global_ffd;
use routepack::generate::{Preset, window};
use routepack::place::{PlaceOptions, place};
use routepack::verification::{Figures, figures};
use routepack::{Control, Job, plan, report, verify};

#[test]
fn reorder_takes_the_better_placement() {
    let mut recipe = Preset::Mixed.recipe();
    recipe.prompts = 16;
    let made = window(&recipe, 1).expect("valid");
    let batch = Arc::new(made.batch);
    let mut job = Job::new(made.setting);
    (job.arrange.proposals_per_unit, job.refine.turns) = (20, 0);
    let plan = plan(&batch, &job, &mut Control::new()).expect("a plan");
    let verified = verify(&plan, &batch).expect("verifies");
    let (instance, own) = (&verified.instances[0], verified.placement.as_ref().expect("routes"));
    let placed = place(instance.expert_loads(), own.num_ranks(), &PlaceOptions::default(), &|| false);
    let layout = global_ffd(instance, verified.layouts[0].num_rows()).expect("packs").layout;
    let of = |placement| -> Figures { figures(instance, Some(placement), &layout).expect("valid") };
    let (own, window) = (of(own).joint_score, of(&placed.expect("in range").placement).joint_score);
    let report = report(&plan, &batch).expect("verifies");
    let reorder = report.arms.iter().find(|arm| arm.name == "reorder").expect("an arm");
    assert_ne!(own.to_bits(), window.to_bits(), "the two placements differ here");
    assert_eq!(reorder.figures.joint_score.to_bits(), own.min(window).to_bits());
    assert_eq!(reorder.placement, if own <= window { "plan" } else { "window" }, "and says whose it is");
    let placements: Vec<&str> = report.arms.iter().map(|arm| arm.placement.as_str()).collect();
    assert_eq!((placements[0], placements[3]), ("identity", "plan"));
}
