//! Several passes over the same samples: training, and forward-only ones such as the log-probabilities before it.
//!
//! A pass is a plan of its own, with its own capacity, certified rows and layout, so everything that reads a plan reads it.
//! All share the placement of the training pass: weights are laid out once. The training plan names the others and their
//! digests in its options, hence its digest stands for all of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use routepack_problem::{Batch, Placement, ProblemError};
use routepack_verify::{Plan, VerifyError, plan_sha256};
use serde_json::json;

use crate::{Control, Job, PlanError, plan};

/// Name of the pass that `job.packing` describes.
pub const TRAIN: &str = "train";

/// Most letters of a pass's name.
const MAX_NAME: usize = 64;

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
    job.check_passes()?;
    let deadline = control.limit.deadline;
    // The moment at which so many of so many equal shares of the time left are over.
    let after = |shares: u32, of: u32| {
        let now = Instant::now();
        deadline.map(|deadline| now + deadline.saturating_duration_since(now) * shares / of)
    };
    let others = job.passes.len() as u32;
    control.limit.deadline = after(2, 2 + others);
    let mut plans = vec![(TRAIN.to_owned(), plan(batch, job, control)?)];
    let known = control.window_sha256.replace(plans[0].1.window_sha256.clone());
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
    (control.limit.deadline, control.window_sha256) = (deadline, known);
    sign(&mut plans);
    Ok(plans)
}

impl Job {
    /// Checks the passes beside training: names that can be part of a file's name, and rows that have a cost.
    ///
    /// # Errors
    /// The first pass that cannot be.
    pub fn check_passes(&self) -> Result<(), PlanError> {
        let refuse = |field, value, limit: String| Err(ProblemError::Setting { field, value, limit }.into());
        let mut before: HashMap<String, &str> = HashMap::new();
        for (name, packing) in &self.passes {
            if !is_pass_name(name) {
                let limit = format!("expected 1 to {MAX_NAME} letters, digits, - and _, other than {TRAIN}");
                return refuse("passes.*", format!("{name:?}"), limit);
            }
            // Files of both would be one where capital letters do not count.
            if let Some(other) = before.insert(name.to_ascii_lowercase(), name) {
                let limit =
                    format!("expected names that differ in more than capital letters, {other} is one");
                return refuse("passes.*", name.clone(), limit);
            }
            if packing.rows.by_step_time() {
                let value = format!("{} in pass {name}", json!(packing.rows));
                let limit = "expected a row_cost: a pass beside training has no step time";
                return refuse("passes.*.rows", value, limit.to_owned());
            }
        }
        Ok(())
    }
}

/// Whether a pass beside training may be named so: the plan of a pass is a file with this in its name.
fn is_pass_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(allowed) && !name.eq_ignore_ascii_case(TRAIN)
}

/// Names of the passes beside training that a training plan's options tell.
///
/// # Errors
/// What the options tell are no names of passes.
pub fn pass_names(plan: &Plan) -> Result<Vec<String>, VerifyError> {
    let Some(passes) = plan.options.get("passes") else { return Ok(Vec::new()) };
    let names = passes.as_object().map(|passes| passes.keys().cloned().collect::<Vec<String>>());
    names.filter(|names| names.iter().all(|name| is_pass_name(name))).ok_or_else(|| VerifyError::Mismatch {
        field: "options.passes".to_owned(),
        claimed: passes.to_string(),
        recomputed: "digests by names of passes".to_owned(),
    })
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
    use routepack_problem::{Packing, Setting, Steps};
    use routepack_verify::verify;

    use super::*;

    #[test]
    fn names_of_passes_are_parts_of_names_of_files() {
        let named = |names: &[&str]| {
            let mut job = Job::new(Setting::new(1, 1, 8));
            job.passes = names.iter().map(|&name| (name.to_owned(), Packing::new(8))).collect();
            job.check_passes().map_err(|error| error.to_string())
        };
        named(&["log-prob", "reference_2", "B"]).expect("names");
        let long = "x".repeat(MAX_NAME + 1);
        for name in
            ["", "train", "Train", "a/b", "../../x", "..", "a.b", "a b", "é", "a\0", "-\n", "a\\b", &long]
        {
            let error = named(&[name]).expect_err(name);
            assert!(error.contains(&format!("passes.* = {name:?}: expected 1 to 64 letters")), "{error}");
        }
        let error = named(&["logprob", "logProb"]).expect_err("one file");
        assert!(error.contains("expected names that differ"), "{error}");
    }

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
        let mut control = Control::new();
        let plans = plan_passes(&batch, &job, &mut control).expect("plans");
        assert_eq!(control.window_sha256, None, "the next batch is another one");
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
