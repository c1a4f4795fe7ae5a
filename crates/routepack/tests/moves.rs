//! Plans and sequences of plans from where the weights are: what may move does, no more, and `verify` counts it.

use std::sync::Arc;

use routepack::generate::{Preset, window};
use routepack::place::{MoveGoal, NodeGroups};
use routepack::problem::{ExactDecimal, Gamma};
use routepack::{
    Aim, Batch, Control, Job, MoveOptions, Placement, Plan, Sequence, html_report, plan, verify,
};

/// A batch of three drifting steps of a small model, and its job with little budget.
fn drifting(seed: u64) -> (Batch, Job) {
    let mut recipe = Preset::Mixed.recipe();
    (recipe.prompts, recipe.group, recipe.steps) = (24, 4, 3);
    let routing = recipe.routing.as_mut().expect("routes");
    (routing.layers, routing.experts) = (3, 32);
    recipe.setting.topology.dp = 4;
    recipe.setting.topology.ep = 4;
    let generated = window(&recipe, seed).expect("valid");
    let mut job = Job::new(generated.setting);
    job.arrange.proposals_per_unit = 50;
    job.refine.row_peaks.proposals_per_expert = 20;
    (generated.batch, job)
}

fn resident() -> Placement {
    let layer = |shift: u32| (0..32).map(|expert| (expert * 7 + shift) % 32).collect();
    Placement::new(4, (0..3).map(layer).collect()).expect("bijections")
}

fn moved(plan: &Plan) -> Vec<u32> {
    plan.placement.as_ref().expect("routes").resident.as_ref().expect("resident").moved.clone()
}

fn score(plan: &Plan) -> u64 {
    plan.steps.iter().map(|step| step.score.worst_shard).sum()
}

#[test]
fn a_goal_bounds_the_moves_of_every_aim() {
    let (batch, mut job) = drifting(1);
    let batch = Arc::new(batch);
    job.place.resident = Some(resident());
    let planned = |aim, goal, refine_up_to| {
        let mut job = job.clone();
        job.refine.placement = aim;
        job.moves = MoveOptions { goal, refine_up_to, ..MoveOptions::default() };
        let plan = plan(&batch, &job, &mut Control::new()).expect("valid");
        let claims = verify(&plan, &batch).expect("every claim holds").claims;
        assert!(claims.iter().any(|claim| claim.what == "moves"));
        plan
    };
    let budget = |per_layer, total| Some(MoveGoal::Budget { per_layer, total });
    for aim in [Aim::RowPeaks, Aim::Aggregate] {
        let still = planned(aim, budget(Some(0), None), 0);
        assert_eq!(moved(&still), [0, 0, 0]);
        let page = html_report(&still, &batch, &routepack::Beside::default()).expect("verifies").html;
        assert!(
            page.contains("Experts that change their rank: 0 of "),
            "the page counts from the resident placement"
        );
        let few = planned(aim, budget(Some(6), None), 0);
        assert!(moved(&few).iter().all(|&moved| moved <= 6), "{:?}", moved(&few));
        let shared = planned(aim, budget(None, Some(9)), 0);
        assert!(moved(&shared).iter().sum::<u32>() <= 9, "{:?}", moved(&shared));
        let free = planned(aim, None, 0);
        assert!(score(&few) < score(&still), "moves help");
        assert!(moved(&free).iter().sum::<u32>() > 18, "free moves are many");
        let dear = planned(aim, Some(MoveGoal::Cost { move_cost: 1 << 40, steps: 1 }), 0);
        assert_eq!(moved(&dear), [0, 0, 0]);
        let cheap = planned(aim, Some(MoveGoal::Cost { move_cost: 1, steps: 1000 }), 0);
        assert!(moved(&cheap).iter().sum::<u32>() > 18, "{:?}", moved(&cheap));
        let within = planned(aim, Some(MoveGoal::Within { tolerance_ppm: 50_000 }), 0);
        assert!(moved(&within).iter().sum::<u32>() <= moved(&free).iter().sum());
        let fewest = moved(&within).into_iter().max().expect("a layer");
        let refined = planned(aim, Some(MoveGoal::Within { tolerance_ppm: 50_000 }), 8);
        assert!(moved(&refined).iter().all(|&moved| moved <= fewest.max(8)), "{:?}", moved(&refined));
    }
    let fixed = planned(Aim::Fixed, None, 0);
    assert_eq!(moved(&fixed), [0, 0, 0], "fixed is where the weights are");
}

#[test]
fn a_common_budget_follows_the_weights_of_layers() {
    let (batch, mut job) = drifting(1);
    let batch = Arc::new(batch);
    job.place.resident = Some(resident());
    job.moves.goal = Some(MoveGoal::Budget { per_layer: None, total: Some(12) });
    for aim in [Aim::RowPeaks, Aim::Aggregate] {
        job.refine.placement = aim;
        let gamma = [0, 0, 1].map(ExactDecimal::from);
        job.cost.gamma = Some(Gamma::PerLayer(gamma.to_vec()));
        let plan = plan(&batch, &job, &mut Control::new()).expect("valid");
        let moves = moved(&plan);
        assert!(moves[..2] == [0, 0] && moves[2] > 6, "only the last layer costs anything: {moves:?}");
    }
}

#[test]
fn groups_stay_whole_on_nodes() {
    let (batch, mut job) = drifting(4);
    let batch = Arc::new(batch);
    job.place.node_groups = Some(NodeGroups { groups: 8, nodes: 2 });
    let from_identity = plan(&batch, &job, &mut Control::new()).expect("valid");
    let placement = from_identity.placement.as_ref().expect("routes");
    let placement = Placement::new(4, placement.log2phys.clone()).expect("bijections");
    job.place.resident = Some(placement.clone());
    let again = plan(&batch, &job, &mut Control::new()).expect("valid");
    for plan in [&from_identity, &again] {
        verify(plan, &batch).expect("every claim holds");
        for slots in &plan.placement.as_ref().expect("routes").log2phys {
            for group in slots.chunks(4) {
                assert!(group.iter().all(|slot| slot / 16 == group[0] / 16), "{slots:?}");
            }
        }
    }
    job.place.node_groups = Some(NodeGroups { groups: 5, nodes: 2 });
    let error = plan(&batch, &job, &mut Control::new()).expect_err("refused").to_string();
    assert!(error.contains("place.node_groups") && error.contains("32 experts"), "{error}");
    job.place.node_groups = Some(NodeGroups { groups: 8, nodes: 2 });
    job.moves.goal = Some(MoveGoal::Within { tolerance_ppm: 0 });
    assert!(plan(&batch, &job, &mut Control::new()).is_err());
}

#[test]
fn a_sequence_carries_the_placement_over() {
    let (batch, mut job) = drifting(2);
    job.moves.bytes_per_expert = 1000;
    job.moves.link_bytes_per_second = 1_000_000;
    let mut sequence = Sequence::new(&job, true);
    let mut before = Placement::identity(3, 32, 4).expect("divisible");
    let (mut ours, mut scratch) = (0, 0);
    for batch in batch.by_step().expect("valid") {
        let batch = Arc::new(batch);
        let next = sequence.plan_next(&batch, &Control::new).expect("valid");
        verify(&next.plan, &batch).expect("every claim holds");
        let placement = next.plan.placement.as_ref().expect("routes");
        let resident = placement.resident.as_ref().expect("resident");
        let slots =
            |placement: &Placement| (0..3).map(|layer| placement.slots(layer).to_vec()).collect::<Vec<_>>();
        assert_eq!(resident.log2phys, slots(&before), "it starts where the one before ended");
        before = sequence.resident().expect("planned").clone();
        assert_eq!(placement.log2phys, slots(&before));
        let names: Vec<&str> = next.arms.iter().map(|arm| arm.name.as_str()).collect();
        assert_eq!(names, ["routepack", "identity", "scratch", "oracle"]);
        let [own, identity, fresh, oracle] = &next.arms[..] else { panic!("four arms") };
        assert_eq!(own.worst_shard, score(&next.plan));
        assert_eq!(own.moved, moved(&next.plan).iter().map(|&moved| u64::from(moved)).sum::<u64>());
        assert_eq!((own.bytes, identity.moved), (1000 * own.moved, 0));
        let most = next.arms.iter().map(|arm| arm.worst_shard).min();
        assert_eq!(Some(oracle.worst_shard), most, "nothing beats the oracle");
        assert!(own.peak >= own.peak_bound && own.link_ms.is_some());
        ours += own.moved;
        scratch += fresh.moved;
    }
    assert!(2 * ours < scratch, "{ours} moves, {scratch} from scratch");
    let (other, _) = drifting(3);
    let other = Batch { expert_counts: None, routed_rows: None, ..other };
    assert!(
        sequence.plan_next(&Arc::new(other), &Control::new).is_ok(),
        "a window without routes moves nothing"
    );
    assert_eq!(sequence.resident(), Some(&before));
}
