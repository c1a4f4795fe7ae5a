//! The everyday extremes: one slot, one shard, one row, one sample, cells as many as samples.

use std::sync::Arc;

use routepack::{Batch, Control, ExpertCounts, Job, Plan, Setting, plan, verify};

/// Plans samples of these lengths, all of whose tokens choose experts 0 and 1 of four in two layers.
fn planned(lengths: &[u32], setting: Setting) -> Plan {
    let counts = lengths.iter().flat_map(|&length| [length, length, 0, 0, length, length, 0, 0]).collect();
    let batch = Arc::new(Batch {
        lengths: lengths.to_vec(),
        expert_counts: Some(ExpertCounts::new([lengths.len(), 1, 2, 4], counts).expect("a full array")),
        ..Batch::default()
    });
    let mut setting = setting;
    setting.routing.top_k = 2;
    let plan = plan(&batch, &Job::new(setting), &mut Control::new()).expect("a plan");
    verify(&plan, &batch).expect("every claim holds");
    plan
}

#[test]
fn one_sample_in_one_cell() {
    let plan = planned(&[7], Setting::new(1, 1, 7));
    assert_eq!(plan.steps[0].cells, [[[0]]]);
    assert_eq!((plan.steps[0].rows, plan.steps[0].rows_proved), (1, true));
}

#[test]
fn one_slot_over_four_ranks() {
    let mut setting = Setting::new(1, 4, 20);
    setting.topology.tp = 4;
    setting.topology.etp = Some(1);
    let plan = planned(&[9, 8, 7, 6, 5, 4], setting);
    assert_eq!((plan.steps[0].rows, plan.steps[0].rows_proved), (2, true));
    assert_eq!(plan.steps[0].shard_cost.len(), 1);
}

#[test]
fn one_row() {
    let plan = planned(&[5, 5, 5, 5, 5, 5], Setting::new(2, 2, 15));
    assert_eq!(plan.steps[0].cells.len(), 1);
    assert!(plan.steps[0].cells[0].iter().all(|cell| cell.len() == 3));
}

#[test]
fn as_many_cells_as_samples() {
    let plan = planned(&[9, 8, 7, 6, 6, 6], Setting::new(2, 2, 10));
    assert_eq!((plan.steps[0].rows, plan.steps[0].rows_proved), (3, true));
    assert!(plan.steps[0].cells.iter().flatten().all(|cell| cell.len() == 1));
}

#[test]
fn more_shards_than_one_stay_apart() {
    let plan = planned(&[6; 16], Setting::new(4, 2, 12));
    assert_eq!((plan.steps[0].rows, plan.steps[0].shard_cost.len()), (2, 2));
    assert_eq!(plan.steps[0].shard_cost[0], plan.steps[0].shard_cost[1]);
}
