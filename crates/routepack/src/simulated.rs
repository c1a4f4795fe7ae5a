//! What a plan is worth: simulated step times of it and of its reference arms.

use std::sync::Arc;

use routepack_problem::{Batch, Placement};
use routepack_simulate::{Cluster, LEAVES_OUT, Model, SimulateError, SimulateOptions, StepTime, simulate};
use routepack_verify::{Plan, VerifyError, verify};
use schemars::JsonSchema;
use serde::Serialize;
use thiserror::Error;

use crate::arms::{Arms, PlacedArm, arms, least};

/// Simulated time of one arm, summed over the steps of the plan.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SimulatedArm {
    /// `baseline`, `reorder`, `dp-local-ffd` or `routepack`.
    pub name: String,
    /// Whose placement it has: `identity`, `plan` or `window`, of the candidates the one that is faster.
    pub placement: String,
    /// Rows run, over all steps.
    pub rows: u64,
    /// Raw tokens a second.
    pub tokens_per_second: f64,
    /// The same of every step.
    pub step_tokens_per_second: Vec<f64>,
    /// Seconds, by what they are spent on.
    #[serde(flatten)]
    pub time: StepTime,
}

/// Simulated arms of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Simulated {
    /// SHA-256 of the plan.
    pub plan_sha256: String,
    /// The model's name.
    pub model: String,
    /// The cluster's name.
    pub cluster: String,
    /// Comparison arms first, the plan last.
    pub arms: Vec<SimulatedArm>,
    /// Arms that give no layout here, with the reason.
    pub without: Vec<(String, String)>,
    /// What the times know nothing of.
    pub leaves_out: Vec<String>,
}

/// Why a plan cannot be simulated.
#[derive(Debug, Error)]
pub enum SimulatedError {
    /// The plan does not verify.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// The simulation refused its input.
    #[error(transparent)]
    Simulate(#[from] SimulateError),
    /// No layout of so many rows.
    #[error(transparent)]
    Arrange(#[from] routepack_arrange::ArrangeError),
    /// A plan without recorded routes: which expert is busy is not known.
    #[error("the window has no recorded routes: expert work cannot be simulated")]
    NoRoutes,
}

/// Verifies a plan and simulates its steps and those of the reference arms.
///
/// `resident`: where experts live before the step; their moves are charged when it is given.
///
/// # Errors
/// The plan does not verify, has no recorded routes, or was made for another model.
pub fn simulate_plan(
    plan: &Plan,
    batch: &Arc<Batch>,
    resident: Option<&Placement>,
    model: &Model,
    cluster: &Cluster,
    options: &SimulateOptions,
) -> Result<Simulated, SimulatedError> {
    let verified = verify(plan, batch)?;
    let Arms { candidates, mut without } = arms(plan, &verified)?;
    let simulated = |arm: PlacedArm| {
        let placement = arm.placement.as_ref().ok_or(SimulatedError::NoRoutes)?;
        let mut time = StepTime::default();
        // Experts move once: the first step pays.
        let mut resident = resident;
        let mut step_tokens_per_second = Vec::new();
        for (instance, layout) in verified.instances.iter().zip(&arm.layouts) {
            let step = simulate(instance, placement, layout, resident.take(), model, cluster, options)?;
            step_tokens_per_second.push(step.tokens_per_second());
            time += step;
        }
        let (name, rows) = (arm.name.to_owned(), arm.figures.rows);
        Ok(SimulatedArm {
            name,
            placement: arm.placed.to_owned(),
            rows,
            tokens_per_second: time.tokens_per_second(),
            step_tokens_per_second,
            time,
        })
    };
    let mut arms = Vec::new();
    for candidates in candidates {
        let (mut run, mut refusal) = (Vec::new(), None);
        for arm in candidates {
            let name = arm.name;
            match simulated(arm) {
                Ok(arm) => run.push(arm),
                // Rows that no interleaved pipeline runs; the plan's fit, or nothing can be said.
                Err(SimulatedError::Simulate(error @ SimulateError::Interleaved { .. }))
                    if name != "routepack" =>
                {
                    refusal.get_or_insert((name.to_owned(), error.to_string()));
                }
                Err(error) => return Err(error),
            }
        }
        match least(run, |arm| arm.time.seconds) {
            Some(arm) => arms.push(arm),
            None => without.extend(refusal),
        }
    }
    Ok(Simulated {
        plan_sha256: plan.sha256.clone(),
        model: model.name.clone(),
        cluster: cluster.name.clone(),
        arms,
        without,
        leaves_out: LEAVES_OUT.map(str::to_owned).to_vec(),
    })
}
