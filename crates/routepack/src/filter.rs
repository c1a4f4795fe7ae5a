//! A plan without some of its samples: for filters that come after planning.
//!
//! Problem: samples are taken away from a finished plan; give a plan of the others at once, and claim nothing about it that
//! was proved for all.
//! Method: placement, rows and the cell of every sample stay. A cell that empties gets a dummy. The question behind the
//! rows is another one now, so it is asked again: bounds that need no search, and the better of a first packing and the
//! layout's own cells as witness. Every figure is recomputed.
//! Complexity: one pass over the counts; bounds and packing O(n²) at most.

use std::sync::Arc;

use routepack_binpack::{PackOptions, pack};
use routepack_certificate::Limits;
use routepack_problem::{Batch, Dummies, Instance, Layout, Placement, prepare_without};
use routepack_verify::{
    AssembleInputs, Plan, PlanStep, Status, StepDecisions, VerifyError, assemble, statement, witness_counts,
};

use crate::PlanError;

/// The plan without the samples at these batch indices, in the same rows.
///
/// Cells that empty are filled with the dummies of the plan's setting; where it allows none, with dummies of `dummy_length`
/// tokens, and the setting then says so. `status` tells whether the fewest rows *of the samples that are left* are proved.
/// `window_sha256` is that of the batch if it is at hand, as hashing takes longer than all else; computed when absent.
///
/// # Errors
/// Another batch than the plan's, an index that is not in the plan, or a step that would lose its last sample.
pub fn filter(
    plan: &Plan,
    batch: &Arc<Batch>,
    samples: &[u32],
    dummy_length: u32,
    window_sha256: Option<String>,
) -> Result<Plan, PlanError> {
    let mut filtered = [&plan.filtered, samples].concat();
    filtered.sort_unstable();
    let mut setting = plan.setting.clone();
    let empties = |cell: &Vec<u32>, dummies: u32| {
        dummies == 0 && cell.iter().all(|sample| filtered.binary_search(sample).is_ok())
    };
    if plan.steps.iter().any(|step| {
        step.cells
            .iter()
            .flatten()
            .zip(step.dummies.iter().flatten())
            .any(|(cell, &dummies)| empties(cell, dummies))
    }) {
        setting.packing.dummies.get_or_insert(Dummies { length: dummy_length });
    }
    let digest = || window_sha256.unwrap_or_else(|| routepack_verify::window_sha256(batch));
    let (window, prepared) = rayon::join(digest, || prepare_without(Arc::clone(batch), &setting, &filtered));
    if window != plan.window_sha256 {
        return Err(VerifyError::Mismatch {
            field: "window_sha256".to_owned(),
            claimed: plan.window_sha256.clone(),
            recomputed: window,
        }
        .into());
    }
    let prepared = prepared?;
    let (mut placement, mut resident) = (None, None);
    if let Some(placed) = &plan.placement {
        let of = |slots: &[Vec<u32>]| Placement::new(placed.num_ranks as usize, slots.to_vec());
        placement = Some(of(&placed.log2phys)?);
        resident = placed.resident.as_ref().map(|before| of(&before.log2phys)).transpose()?;
    }
    let mut kept = Vec::with_capacity(plan.steps.len());
    for (step, window) in plan.steps.iter().zip(&prepared.instances) {
        let (instance, layout) = keep_cells(step, window)?;
        let certificate = certify(&instance, &layout, plan.seed)?;
        kept.push((instance, layout, certificate));
    }
    Ok(assemble(AssembleInputs {
        steps: kept
            .iter()
            .map(|(instance, layout, certificate)| StepDecisions {
                instance,
                layout,
                certificate: certificate.clone(),
                other_rows: &[],
            })
            .collect(),
        dropped: &prepared.dropped,
        filtered: &filtered,
        placement: placement.as_ref(),
        resident: resident.as_ref(),
        machine: plan.machine.as_ref(),
        window_sha256: Some(window),
        tool: plan.tool.clone(),
        options: plan.options.clone(),
        seed: plan.seed,
        lp_backend: plan.lp_backend.clone(),
        fallback: match &plan.status {
            Status::Fallback(why) => Some(why.clone()),
            Status::Ok | Status::Gap => None,
        },
        finished: plan.finished,
        limits: Limits::default(),
    })?)
}

/// The samples that are left in the cells they had, and a dummy in every cell without any.
fn keep_cells(step: &PlanStep, window: &Instance) -> Result<(Instance, Layout), PlanError> {
    let recorded = window.num_samples();
    let mut position = vec![None; window.batch().num_samples()];
    for sample in 0..recorded {
        position[window.batch_index(sample).expect("a recorded sample")] = Some(sample as u32);
    }
    let cells = step.cells.iter().flatten().zip(step.dummies.iter().flatten());
    let mut next_dummy = recorded as u32;
    let cells: Vec<Vec<u32>> = cells
        .map(|(cell, &dummies)| {
            let mut left: Vec<u32> =
                cell.iter().filter_map(|&index| *position.get(index as usize)?).collect();
            let dummies = if left.is_empty() { dummies.max(1) } else { dummies };
            left.extend(next_dummy..next_dummy + dummies);
            next_dummy += dummies;
            left
        })
        .collect();
    let num_dummies = next_dummy as usize - recorded;
    let instance = if num_dummies == 0 { window.clone() } else { window.with_dummies(num_dummies)? };
    let (rows, slots) = (step.cells.len(), window.topology().num_slots());
    let layout = Layout::from_cells(rows, slots, instance.num_samples(), &cells)
        .map_err(|error| VerifyError::Layout { step: step.step, error })?;
    Ok((instance, layout))
}

/// A certificate of the rows of the samples that are left, without a search.
fn certify(instance: &Instance, layout: &Layout, seed: u64) -> Result<String, PlanError> {
    let question = statement(instance);
    let quick = PackOptions {
        fill_tries: 1,
        repack_tries: 0,
        column_rounds: 0,
        dives: 0,
        cases: 0,
        program_nodes: 0,
        ..PackOptions::default()
    };
    let packed = pack(&question, &quick, seed, &|| false, &mut |_| {})?;
    let mut certificate = packed.certificate;
    let mut own = vec![Vec::new(); layout.num_cells()];
    for unit in 0..question.sizes.len() {
        own[layout.cell_of()[instance.unit(unit)[0] as usize] as usize].push(unit as u32);
    }
    own.retain(|bin| !bin.is_empty());
    if own.len() < packed.bins.len() || !witness_counts(instance, &packed.bins) {
        certificate.witness = Some(own);
    }
    Ok(certificate.to_text(&question))
}

#[cfg(test)]
mod tests {
    use routepack_generate::{Preset, window};
    use routepack_problem::check_layout;
    use routepack_verify::verify;

    use super::*;
    use crate::{Control, Job, plan};

    fn planned() -> (Arc<Batch>, Plan) {
        let mut recipe = Preset::Mixed.recipe();
        recipe.prompts = 24;
        let mut generated = window(&recipe, 3).expect("valid");
        let samples = generated.batch.num_samples() as i64;
        generated.batch.step = Some((0..samples).map(|sample| sample % 2).collect());
        let mut job = Job::new(generated.setting);
        (job.arrange.proposals_per_unit, job.refine.turns) = (20, 0);
        let batch = Arc::new(generated.batch);
        let plan = plan(&batch, &job, &mut Control::new()).expect("a plan");
        (batch, plan)
    }

    fn samples_of(plan: &Plan) -> Vec<u32> {
        let mut samples: Vec<u32> =
            plan.steps.iter().flat_map(|step| step.cells.iter().flatten().flatten().copied()).collect();
        samples.sort_unstable();
        samples
    }

    #[test]
    fn a_filtered_plan_verifies_and_keeps_rows_and_cells() {
        let (batch, plan) = planned();
        // A few samples, a whole cell, and all but one sample of a step; then some more from what is left.
        let whole = plan.steps[1].cells[0][0].clone();
        let most: Vec<u32> = samples_of(&plan).into_iter().filter(|sample| sample % 2 == 0).skip(1).collect();
        for gone in [vec![4, 1], whole, most] {
            let left = filter(&plan, &batch, &gone, 16, None).expect("a plan");
            let verified = verify(&left, &batch).expect("every claim holds");
            for (instance, layout) in verified.instances.iter().zip(&verified.layouts) {
                check_layout(instance, layout).expect("feasible");
            }
            let expected: Vec<u32> =
                samples_of(&plan).into_iter().filter(|sample| !gone.contains(sample)).collect();
            assert_eq!(samples_of(&left), expected);
            for (before, after) in plan.steps.iter().zip(&left.steps) {
                assert_eq!((before.rows, before.cells.len()), (after.rows, after.cells.len()));
                assert!(after.rows_bound <= after.rows_found && after.rows_found <= after.rows);
                let pairs = before.cells.iter().flatten().zip(after.cells.iter().flatten());
                for ((before, after), dummies) in pairs.zip(after.dummies.iter().flatten()) {
                    assert!(after.iter().all(|sample| before.contains(sample)));
                    assert_eq!(*dummies, u32::from(after.is_empty()));
                }
            }
            let next = samples_of(&left)[1];
            let again = filter(&left, &batch, &[next], 16, Some(plan.window_sha256.clone())).expect("a plan");
            verify(&again, &batch).expect("every claim holds");
            assert_eq!(again.filtered.len(), gone.len() + 1);
            // What is filtered is part of the claim.
            let mut forged = left.clone();
            forged.filtered.pop();
            verify(&forged, &batch).expect_err("a sample is missing");
        }
    }

    #[test]
    fn what_cannot_be_filtered_is_refused() {
        let (batch, plan) = planned();
        let step: Vec<u32> = (0..batch.num_samples() as u32).filter(|sample| sample % 2 == 1).collect();
        for (gone, text) in [(vec![3, 3], "each once"), (vec![u32::MAX], "each once"), (step, "step 1 would")]
        {
            let error = filter(&plan, &batch, &gone, 1, None).expect_err("refused").to_string();
            assert!(error.contains(text), "{error}");
        }
        let mut other = (*batch).clone();
        other.lengths[0] += 1;
        filter(&plan, &Arc::new(other.clone()), &[3], 1, None).expect_err("another batch");
        let known = routepack_verify::window_sha256(&other);
        filter(&plan, &batch, &[3], 1, Some(known)).expect_err("the digest of another batch");
    }
}
