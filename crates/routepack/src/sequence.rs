//! Windows planned one after another, each from where the plan before left the weights.
//!
//! Problem: a placement made anew for every batch moves most experts; loads drift slowly. Plan batch after batch with the
//! resident placement carried over and few experts moved, and say what that costs beside moving at will.
//! Method: the plan of a batch under the job's goal for moves ([`crate::MoveOptions`]; without one, fewest moves for
//! aggregate peaks within 1 % of the bound, and up to an eighth of a layer's experts for the peaks of the layout). For
//! comparison, with the same budgets: expert e in slot e; a placement from scratch each time, its ranks renamed so that as
//! few experts as possible leave where its own last placement had them; and the *oracle*, the best score met for that batch
//! with moves free, from scratch or from the resident placement.
//! Complexity: one plan a batch, four with comparison.

use std::sync::Arc;

use routepack_place::{MoveGoal, Start, check_resident};
use routepack_problem::{Batch, ExpertCounts, Placement, prepare};
use routepack_verify::Plan;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{Aim, Control, Job, MoveOptions, PlanError, plan};

/// The goal where the job has none: moving is worth it beyond one percent.
const DEFAULT_GOAL: MoveGoal = MoveGoal::Within { tolerance_ppm: 10_000 };
/// Experts of a layer for one that co-refinement may move there.
const EXPERTS_PER_MOVE: usize = 8;

/// Batches planned one after another.
#[derive(Clone, Debug)]
pub struct Sequence {
    job: Job,
    compares: bool,
    /// Where the weights are; nowhere yet before the first plan, unless the job says where.
    resident: Option<Placement>,
    /// Where they would be if every placement were made from scratch.
    scratch: Option<Placement>,
    /// Layers and experts of the batches with routes that were checked or planned.
    model: Option<[usize; 2]>,
}

/// One way to place, over one batch. Integers are exact; floats are prose.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SequenceArm {
    /// `routepack`, `identity`, `scratch` or `oracle`.
    pub name: String,
    /// Cost of the slowest shard, scaled, summed over the steps of the batch.
    pub worst_shard: u64,
    /// The same in the paper's unit.
    pub joint_score: f64,
    /// Load of the busiest rank over the batch, summed over the layers, in routed rows.
    pub peak: u64,
    /// Lower bound on that for any placement.
    pub peak_bound: u64,
    /// Experts that change slots, summed over the layers.
    pub moved: u64,
    /// Bytes of their state.
    pub bytes: u64,
    /// Milliseconds that the busiest rank's link takes, if bytes and link are known.
    pub link_ms: Option<f64>,
}

/// A batch planned, and what else could have been done.
#[derive(Clone, Debug, PartialEq)]
pub struct Sequenced {
    /// The plan.
    pub plan: Plan,
    /// `routepack`, then the arms it is compared with.
    pub arms: Vec<SequenceArm>,
}

impl Sequence {
    /// A sequence that begins at the job's resident placement, or with expert e in slot e.
    pub fn new(job: &Job, compares: bool) -> Self {
        let resident = job.place.resident.clone();
        Self { job: job.clone(), compares, scratch: resident.clone(), resident, model: None }
    }

    /// Where the weights are after the last plan.
    pub fn resident(&self) -> Option<&Placement> {
        self.resident.as_ref()
    }

    /// Checks a batch that is planned later, before the first is: that the job makes instances of it, and that it is of the
    /// model of the resident placement and of the batches checked or planned before.
    ///
    /// # Errors
    /// It is not; the job and the batch do not go together.
    pub fn check(&mut self, batch: &Arc<Batch>) -> Result<(), PlanError> {
        prepare(Arc::clone(batch), &self.job.setting())?;
        check_model(self.model, batch)?;
        if let (Some([layers, experts]), Some(resident)) = (model_of(batch), &self.resident) {
            check_resident(resident, layers, experts, self.job.topology.ep as usize)?;
        }
        self.model = self.model.or(model_of(batch));
        Ok(())
    }

    /// Plans the next batch; `control` is asked for once a plan.
    ///
    /// # Errors
    /// As [`plan`]; a batch of another model than the one before. The sequence stays where it was.
    pub fn plan_next<'c>(
        &mut self,
        batch: &Arc<Batch>,
        control: &dyn Fn() -> Control<'c>,
    ) -> Result<Sequenced, PlanError> {
        check_model(self.model, batch)?;
        let mut moves = self.job.moves.clone();
        if moves.goal.is_none() {
            let experts = batch.expert_counts.as_ref().map_or(0, ExpertCounts::experts);
            moves.refine_up_to = moves.refine_up_to.max((experts / EXPERTS_PER_MOVE) as u32);
        }
        moves.goal = moves.goal.or(Some(DEFAULT_GOAL));
        let free = MoveOptions { goal: None, ..moves.clone() };
        let made = |moves: &MoveOptions, resident: &Option<Placement>, aim: Aim, start: Start| {
            let mut job = self.job.clone();
            job.moves.clone_from(moves);
            job.refine.placement = aim;
            (job.place.resident, job.place.start) = (resident.clone(), start);
            plan(batch, &job, &mut control())
        };
        let (aim, start) = (self.job.refine.placement, self.job.place.start);
        let none = self.identity(batch)?;
        let resident = self.resident.clone().or_else(|| none.clone());
        let ours = made(&moves, &resident, aim, start)?;
        let mut arms = vec![self.arm("routepack", &ours)];
        let mut scratch = None;
        if self.compares {
            arms.push(self.arm("identity", &made(&free, &none, Aim::Fixed, start)?));
            let from_scratch = made(&free, &self.scratch.clone().or_else(|| none.clone()), aim, Start::Lpt)?;
            arms.push(self.arm("scratch", &from_scratch));
            let at_will = self.arm("oracle", &made(&free, &resident, aim, start)?);
            let best =
                arms.iter().chain([&at_will]).min_by_key(|arm| arm.worst_shard).expect("four arms").clone();
            arms.push(SequenceArm { name: "oracle".to_owned(), ..best });
            scratch = placement_of(&from_scratch)?;
        }
        self.model = self.model.or(model_of(batch));
        self.resident = placement_of(&ours)?.or(resident);
        self.scratch = scratch.or_else(|| self.scratch.take());
        Ok(Sequenced { plan: ours, arms })
    }

    /// Expert e in slot e, for the model of a batch; nothing without recorded routes.
    fn identity(&self, batch: &Batch) -> Result<Option<Placement>, PlanError> {
        let Some(counts) = &batch.expert_counts else { return Ok(None) };
        let ranks = self.job.topology.ep as usize;
        Ok(Some(Placement::identity(counts.layers(), counts.experts(), ranks)?))
    }

    fn arm(&self, name: &str, plan: &Plan) -> SequenceArm {
        let worst_shard = plan.steps.iter().map(|step| step.score.worst_shard).sum();
        let unit = (u64::from(plan.setting.packing.capacity) << plan.scale_bits) as f64;
        let mut arm = SequenceArm {
            name: name.to_owned(),
            worst_shard,
            joint_score: worst_shard as f64 / unit,
            peak: 0,
            peak_bound: 0,
            moved: 0,
            bytes: 0,
            link_ms: None,
        };
        let Some(placement) = &plan.placement else { return arm };
        (arm.peak, arm.peak_bound) = (placement.peak.iter().sum(), placement.bound.iter().sum());
        let Some(resident) = &placement.resident else { return arm };
        arm.moved = resident.moved.iter().map(|&moved| u64::from(moved)).sum();
        let (bytes, link) = (self.job.moves.bytes_per_expert, self.job.moves.link_bytes_per_second);
        arm.bytes = arm.moved * bytes;
        if bytes > 0 && link > 0 {
            let busiest = busiest_link(&resident.log2phys, &placement.log2phys, placement.num_ranks as usize);
            arm.link_ms = Some(1e3 * (busiest * bytes) as f64 / link as f64);
        }
        arm
    }
}

/// Layers and experts of a batch with routes.
fn model_of(batch: &Batch) -> Option<[usize; 2]> {
    batch.expert_counts.as_ref().map(|counts| [counts.layers(), counts.experts()])
}

/// Refuses a batch of another model than the one before.
fn check_model(before: Option<[usize; 2]>, batch: &Batch) -> Result<(), PlanError> {
    let describe = |[layers, experts]: [usize; 2]| format!("{layers} layers, {experts} experts");
    match before.zip(model_of(batch)) {
        Some((expected, found)) if found != expected => {
            Err(PlanError::OtherModel { found: describe(found), expected: describe(expected) })
        }
        _ => Ok(()),
    }
}

/// Experts that the busiest rank sends or receives, `[layers][experts]` slots before and after.
fn busiest_link(before: &[Vec<u32>], after: &[Vec<u32>], ranks: usize) -> u64 {
    let (mut sent, mut received) = (vec![0u64; ranks], vec![0u64; ranks]);
    for (before, after) in before.iter().zip(after) {
        let width = before.len() / ranks;
        for (&from, &to) in before.iter().zip(after) {
            let (from, to) = (from as usize / width, to as usize / width);
            if from != to {
                sent[from] += 1;
                received[to] += 1;
            }
        }
    }
    sent.into_iter().chain(received).max().unwrap_or(0)
}

/// The placement of a plan; nothing without recorded routes.
fn placement_of(plan: &Plan) -> Result<Option<Placement>, PlanError> {
    let Some(placement) = &plan.placement else { return Ok(None) };
    Ok(Some(Placement::new(placement.num_ranks as usize, placement.log2phys.clone())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_link_counts_ranks_not_slots() {
        // Experts 0 and 2 trade ranks, 1 and 3 only slots of their ranks (they do not, but could).
        assert_eq!(busiest_link(&[vec![0, 1, 2, 3]], &[vec![2, 0, 1, 3]], 2), 1);
        assert_eq!(busiest_link(&[vec![0, 1], vec![0, 1]], &[vec![1, 0], vec![1, 0]], 2), 2);
        assert_eq!(busiest_link(&[], &[], 2), 0);
    }
}
