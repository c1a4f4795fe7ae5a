//! Layouts of rules and ours: figures are those that `verify` recomputes, and what breaks the capacity is counted.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use routepack::generate::{Preset, window};
use routepack::simulation::{Machine, SimulateOptions, presets};
use routepack::verification::Figures;
use routepack::{Aim, Batch, Control, Job, Setting, plan, simulate_plan, verify};
use routepack_bench::{ArmFigures, LayoutArm, LayoutWindow, LayoutsBench, WindowArms, bench_layouts};

fn compare(batch: Batch, job: &Job) -> WindowArms {
    let bench = LayoutsBench {
        windows: vec![LayoutWindow { name: "w".to_owned(), batch: Arc::new(batch), job: job.clone() }],
        models: presets::model_names().map(|name| presets::model(name).unwrap()).collect(),
        cluster: presets::cluster("h20").unwrap(),
        options: SimulateOptions::default(),
        overlap_seconds: 1e6,
    };
    bench_layouts(&bench, &AtomicBool::new(false), &mut |_| {}).unwrap().remove(0)
}

fn small() -> (Batch, Job) {
    let mut recipe = Preset::Mixed.recipe();
    recipe.prompts = 16;
    let made = window(&recipe, 3).unwrap();
    let mut job = Job::new(made.setting);
    (job.arrange.proposals_per_unit, job.refine.turns) = (20, 1);
    (made.batch, job)
}

#[test]
fn our_figures_are_the_verified_ones_under_the_shared_placement_and_the_own() {
    let (batch, job) = small();
    let compared = compare(batch.clone(), &job);
    let batch = Arc::new(batch);
    for (name, aim) in [("routepack", Aim::Aggregate), ("routepack+", Aim::RowPeaks)] {
        let mut job = job.clone();
        job.refine.placement = aim;
        let plan = plan(&batch, &job, &mut Control::new()).unwrap();
        let figures = Figures::sum(&verify(&plan, &batch).unwrap().figures).unwrap();
        let arm = compared.arms.iter().find(|arm| arm.name == name).unwrap();
        let found = arm.figures.as_ref().unwrap();
        assert_eq!(
            (found.rows, found.peak_sum, found.worst_peak),
            (figures.rows, Some(figures.peak_sum), Some(figures.worst_peak))
        );
        assert_eq!((found.largest_cell, found.over_cap), (figures.largest_cell, 0));
        assert!((found.joint_score - figures.joint_score).abs() < 1e-12);
        assert!((found.attention_cost - figures.attention_cost).abs() < 1e-12);
        assert!(arm.step_seconds.unwrap() > 0.0);
        assert!(arm.planning_seconds > 0.0 && arm.net_planning_seconds.abs() < 1e-12, "all of it overlaps");
    }
    assert_eq!(compared.model.as_deref(), Some("Qwen3-30B-A3B at half its depth"));
}

#[test]
fn rows_of_a_pipeline_stand_as_a_plan_on_the_machine_has_them() {
    let (batch, mut job) = small();
    (job.topology.dp, job.topology.ep, job.topology.pp) = (4, 4, 4);
    let compared = compare(batch.clone(), &job);
    let ours = compared.arms.iter().find(|arm| arm.name == "routepack+").unwrap().step_seconds.unwrap();
    let (model, cluster) = (presets::model("mixed-half-qwen3").unwrap(), presets::cluster("h20").unwrap());
    let (options, batch) = (SimulateOptions::default(), Arc::new(batch));
    let seconds = |job: &Job| {
        let plan = plan(&batch, job, &mut Control::new()).unwrap();
        let simulated = simulate_plan(&plan, &batch, None, &model, &cluster, &options).unwrap();
        simulated.arms.last().unwrap().time.seconds
    };
    let unordered = seconds(&job);
    job.machine = Some(Machine { model: model.clone(), cluster: cluster.clone(), options: options.clone() });
    let ordered = seconds(&job);
    assert!(ordered < unordered, "{ordered} s against {unordered} s in the order found");
    assert!((ours - ordered).abs() < 1e-12, "{ours} s against {ordered} s");
}

#[test]
fn a_rule_that_breaks_the_capacity_is_named_where_it_is_better() {
    // Six samples of 60 tokens do not fit two to a cell of 100: three rows of two cells; verl 0.8 takes two.
    let compared = compare(Batch::from_lengths(vec![60; 6]), &Job::new(Setting::new(2, 1, 100)));
    let figures =
        |name: &str| *compared.arms.iter().find(|arm| arm.name == name).unwrap().figures.as_ref().unwrap();
    let (old, new, ours) = (figures("verl 0.8"), figures("verl 0.9"), figures("routepack"));
    assert_eq!((old.rows, old.cells, old.over_cap, old.largest_cell), (2, 4, 2, 120));
    assert_eq!((new.rows, new.over_cap), (3, 0));
    assert_eq!((ours.rows, ours.over_cap), (3, 0));
    let better = compared.better_peers("routepack");
    assert_eq!(better.first(), Some(&("rows", "verl 0.8", 2.0, 3.0)));
    assert!(better.iter().all(|(.., theirs, ours)| theirs < ours), "as good is not better: {better:?}");
    assert!(
        compared.arms.iter().all(|arm| arm.step_seconds.is_none()),
        "attention only: nothing to simulate"
    );
}

#[test]
fn rules_are_held_against_the_arm_that_is_named() {
    let arm = |name: &'static str, joint_score: f64, seconds: f64| LayoutArm {
        name,
        figures: Ok(ArmFigures { rows: 3, joint_score, ..ArmFigures::default() }),
        step_seconds: Some(seconds),
        planning_seconds: 0.0,
        net_planning_seconds: 0.0,
    };
    let compared = WindowArms {
        window: "w".to_owned(),
        model: None,
        tokens: 1,
        arms: vec![arm("slime", 2.0, 7.0), arm("routepack", 3.0, 7.0), arm("routepack+", 2.0, 8.0)],
    };
    assert_eq!(compared.better_peers("routepack"), [("joint score", "slime", 2.0, 3.0)]);
    assert_eq!(compared.better_peers("routepack+"), [("step seconds", "slime", 7.0, 8.0)]);
}

#[test]
fn a_rule_without_a_layout_says_why() {
    // Five samples on two slots: verl deals equal numbers.
    let compared = compare(Batch::from_lengths(vec![60, 50, 40, 30, 20]), &Job::new(Setting::new(2, 1, 100)));
    let verl = compared.arms.iter().find(|arm| arm.name == "verl 0.9").unwrap();
    assert!(verl.figures.as_ref().unwrap_err().contains("no multiple of the slots"));
    assert!(compared.better_peers("routepack").iter().all(|(_, name, ..)| !name.starts_with("verl")));
}

#[test]
fn stopped_it_gives_the_windows_that_were_done() {
    let (batch, job) = small();
    let batch = Arc::new(batch);
    let named =
        |name: &str| LayoutWindow { name: name.to_owned(), batch: Arc::clone(&batch), job: job.clone() };
    let bench = LayoutsBench {
        windows: vec![named("one"), named("other")],
        models: Vec::new(),
        cluster: presets::cluster("h20").unwrap(),
        options: SimulateOptions::default(),
        overlap_seconds: 0.0,
    };
    let stop = AtomicBool::new(false);
    let mut once = |_: &WindowArms| stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let done = bench_layouts(&bench, &stop, &mut once).unwrap();
    assert_eq!(done.iter().map(|window| window.window.as_str()).collect::<Vec<_>>(), ["one"]);
}
