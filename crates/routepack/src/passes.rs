//! Several passes over the same samples: training, and forward-only ones such as the log-probabilities before it.
//!
//! A pass is a plan of its own, with its own capacity, certified rows and layout, so everything that reads a plan reads it.
//! All share the placement of the training pass: weights are laid out once. The training plan names the others and their
//! digests in its options, hence its digest stands for all of them.

use std::sync::Arc;
use std::time::Instant;

use routepack_problem::{Batch, Placement, ProblemError};
use routepack_verify::{Plan, VerifyError, plan_sha256};
use serde_json::json;

use crate::{Control, Job, PlanError, plan};

/// Name of the pass that `job.packing` describes.
pub const TRAIN: &str = "train";

/// The plan for training, then one for each of [`Job::passes`] by name.
///
/// With a deadline training takes two shares of the time, every other pass one.
///
/// # Errors
/// As [`plan`], for any of the passes.
pub fn plan_passes(
    batch: &Arc<Batch>,
    job: &Job,
    control: &mut Control<'_>,
) -> Result<Vec<(String, Plan)>, PlanError> {
    if let Some((name, packing)) = job.passes.iter().find(|(_, packing)| packing.rows.by_step_time()) {
        return Err(ProblemError::Setting {
            field: "passes.*.rows",
            value: format!("{} in pass {name}", serde_json::json!(packing.rows)),
            limit: "expected a row_cost: a pass beside training has no step time".to_owned(),
        }
        .into());
    }
    let deadline = control.limit.deadline;
    // The moment at which so many of so many equal shares of the time left are over.
    let after = |shares: u32, of: u32| {
        let now = Instant::now();
        deadline.map(|deadline| now + deadline.saturating_duration_since(now) * shares / of)
    };
    let others = job.passes.len() as u32;
    control.limit.deadline = after(2, 2 + others);
    let mut plans = vec![(TRAIN.to_owned(), plan(batch, job, control)?)];
    let placement = match &plans[0].1.placement {
        Some(placed) => Some(
            Placement::new(placed.num_ranks as usize, placed.log2phys.clone()).map_err(VerifyError::from)?,
        ),
        None => None,
    };
    for (done, (name, packing)) in (0..).zip(&job.passes) {
        control.limit.deadline = after(1, others - done);
        let pass = plan(batch, &job.pass(packing.clone(), placement.as_ref()), control)?;
        plans.push((name.clone(), pass));
    }
    control.limit.deadline = deadline;
    sign(&mut plans);
    Ok(plans)
}

/// Computes the digests of plans that belong together, anew; the first one's options name the digests of the others.
pub fn sign(plans: &mut [(String, Plan)]) {
    let Some(((_, train), others)) = plans.split_first_mut() else { return };
    let mut digests = serde_json::Map::new();
    for (name, pass) in others {
        pass.sha256 = plan_sha256(pass);
        digests.insert(name.clone(), json!(pass.sha256));
    }
    if !digests.is_empty() {
        train.options["passes"] = digests.into();
    }
    train.sha256 = plan_sha256(train);
}

#[cfg(test)]
mod tests {
    use routepack_generate::{Preset, window};
    use routepack_problem::{Packing, Steps};
    use routepack_verify::verify;

    use super::*;

    #[test]
    fn passes_share_the_placement_and_are_packed_by_their_own_rules() {
        let mut recipe = Preset::Mixed.recipe();
        recipe.prompts = 16;
        let mut generated = window(&recipe, 1).expect("valid");
        let samples = generated.batch.num_samples();
        generated.batch.step = Some((0..samples as i64).map(|sample| sample % 2).collect());
        let mut job = Job::new(generated.setting);
        (job.arrange.proposals_per_unit, job.refine.turns) = (20, 0);
        let twice = Packing { steps: Steps::Together, ..Packing::new(2 * job.packing.capacity) };
        job.passes.insert("log-prob".to_owned(), twice);
        let batch = Arc::new(generated.batch);
        let plans = plan_passes(&batch, &job, &mut Control::new()).expect("plans");
        let [(train, training), (name, forward)] = &plans[..] else { panic!("{} plans", plans.len()) };
        assert_eq!([train, name], ["train", "log-prob"]);
        verify(training, &batch).expect("every claim holds");
        verify(forward, &batch).expect("every claim holds");
        let [placed, kept] = [training, forward].map(|plan| plan.placement.as_ref().expect("placed"));
        assert_eq!(placed.log2phys, kept.log2phys);
        assert_ne!(placed.log2phys[0], (0..128).collect::<Vec<u32>>());
        assert_eq!(
            kept.resident.as_ref().expect("given").moved,
            [0; 24],
            "the pass begins where training has them"
        );
        assert_eq!(training.options["passes"]["log-prob"], json!(forward.sha256));
        assert_eq!((training.steps.len(), forward.steps.len()), (2, 1));
        assert_eq!(forward.steps[0].totals.samples, samples as u64);
        assert!(forward.steps[0].rows < training.steps.iter().map(|step| step.rows).sum());
    }
}
