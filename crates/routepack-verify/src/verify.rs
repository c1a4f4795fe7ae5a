//! Everything a plan claims, recomputed from the batch and the plan's own decisions.
//!
//! What a plan decides (setting, placement, cells, dummies, certificates) is checked against the batch; then a plan is
//! assembled anew from these decisions and compared with the given one field by field, so that no claim can be
//! forgotten. Nothing is taken from a solver. Not verifiable, only covered by the plan's digest: `tool`, `lp_backend`,
//! `options`, `seed`, `finished` and the reason of a fallback.

use std::collections::BTreeMap;
use std::sync::Arc;

use routepack_certificate::Limits;
use routepack_problem::{
    Batch, Instance, Layout, LayoutError, Oversize, Placement, counted, prepare_without,
};
use serde_json::Value;

use crate::assemble::assemble_measured;
use crate::rows_tried::rebuild_other_rows;
use crate::{
    AssembleInputs, FORMAT, Figures, Plan, PlanRows, PlanStep, Status, StepDecisions, VerifyError,
    plan_sha256, window_sha256,
};

/// One verified claim, ready to print.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// What was recomputed.
    pub what: String,
    /// The value found, equal to the claim.
    pub value: String,
}

/// A plan whose every claim holds, and the nouns it was verified with.
#[derive(Clone, Debug)]
pub struct Verified {
    /// What was checked, in order.
    pub claims: Vec<Claim>,
    /// The windows of the steps, dummies included.
    pub instances: Vec<Instance>,
    /// Samples left out.
    pub dropped: Vec<Oversize>,
    /// The placement; `None` without recorded routes.
    pub placement: Option<Placement>,
    /// The layout of every step.
    pub layouts: Vec<Layout>,
    /// The figures of every step.
    pub figures: Vec<Figures>,
    /// The layouts in other numbers of rows of every step, each with its window, as far as the plan names any.
    pub other_rows: Vec<Vec<(Instance, Layout)>>,
}

/// Verifies a plan against the batch it was made for, within the default [`Limits`] of a certificate's check.
///
/// # Errors
/// The first claim that does not hold, with its field, the claim and the recomputed value.
pub fn verify(plan: &Plan, batch: &Arc<Batch>) -> Result<Verified, VerifyError> {
    verify_within(plan, batch, &Limits::default())
}

/// Verifies a plan, spending at most `limits` on the check of each certificate.
///
/// # Errors
/// As [`verify`]; a certificate that needs more is not accepted.
pub fn verify_within(plan: &Plan, batch: &Arc<Batch>, limits: &Limits) -> Result<Verified, VerifyError> {
    if plan.format != FORMAT {
        return Err(VerifyError::mismatch("format", &plan.format, &FORMAT));
    }
    let window = window_sha256(batch);
    if plan.window_sha256 != window {
        return Err(VerifyError::mismatch("window_sha256", &plan.window_sha256, &window));
    }
    let prepared = prepare_without(Arc::clone(batch), &plan.setting, &plan.filtered)?;
    let claimed: Vec<i64> = plan.steps.iter().map(|step| step.step).collect();
    let recorded: Vec<i64> = prepared.instances.iter().map(Instance::step).collect();
    if claimed != recorded {
        return Err(VerifyError::mismatch("steps", &format!("{claimed:?}"), &format!("{recorded:?}")));
    }
    let read = |num_ranks: u32, log2phys: &[Vec<u32>]| Placement::new(num_ranks as usize, log2phys.to_vec());
    let (mut placement, mut resident) = (None, None);
    if let Some(claimed) = &plan.placement {
        placement = Some(read(claimed.num_ranks, &claimed.log2phys)?);
        let before = claimed.resident.as_ref();
        resident = before.map(|before| read(claimed.num_ranks, &before.log2phys)).transpose()?;
    }
    let (mut instances, mut layouts, mut other_rows) = (Vec::new(), Vec::new(), Vec::new());
    for (step, instance) in plan.steps.iter().zip(&prepared.instances) {
        other_rows.push(rebuild_other_rows(&step.rows_tried, step.rows, instance)?);
        let (instance, layout) = rebuild_layout(step, instance)?;
        instances.push(instance);
        layouts.push(layout);
    }
    let decisions = plan.steps.iter().zip(instances.iter().zip(&layouts).zip(&other_rows));
    let (again, figures) = assemble_measured(AssembleInputs {
        steps: decisions
            .map(|(step, ((instance, layout), other_rows))| StepDecisions {
                instance,
                layout,
                certificate: step.certificate.clone(),
                other_rows,
            })
            .collect(),
        dropped: &prepared.dropped,
        filtered: &plan.filtered,
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
        limits: *limits,
    })?;
    compare(plan, &again)?;
    Ok(Verified {
        claims: list_claims(&again),
        instances,
        dropped: prepared.dropped,
        placement,
        layouts,
        figures,
        other_rows,
    })
}

/// The window with the plan's dummies, and the layout its cells say.
fn rebuild_layout(step: &PlanStep, instance: &Instance) -> Result<(Instance, Layout), VerifyError> {
    let number = step.step;
    let slots = instance.topology().num_slots();
    let rows = step.cells.len();
    let field = |name: &str| format!("step {number}: {name}");
    if step.rows != rows as u64 {
        return Err(VerifyError::mismatch(field("rows"), &step.rows, &format!("{rows} rows of cells")));
    }
    for (row, cells) in step.cells.iter().enumerate() {
        if cells.len() != slots {
            let what = field(&format!("cells[{row}]"));
            return Err(VerifyError::mismatch(
                what,
                &format!("{} slots", cells.len()),
                &format!("{slots} slots"),
            ));
        }
    }
    if step.dummies.len() != rows || step.dummies.iter().any(|row| row.len() != slots) {
        let claimed: Vec<usize> = step.dummies.iter().map(Vec::len).collect();
        let grid = format!("{rows} rows of {slots} slots");
        return Err(VerifyError::mismatch(field("dummies"), &format!("rows of {claimed:?} slots"), &grid));
    }
    let num_dummies: u64 = step.dummies.iter().flatten().map(|&count| u64::from(count)).sum();
    if num_dummies > (rows * slots) as u64 {
        let limit = format!("at most one a cell, {}", rows * slots);
        return Err(VerifyError::mismatch(field("dummies"), &num_dummies, &limit));
    }
    let recorded = instance.num_samples();
    let with =
        if num_dummies == 0 { instance.clone() } else { instance.with_dummies(num_dummies as usize)? };
    let position: BTreeMap<u32, u32> = (0..recorded)
        .map(|sample| (instance.batch_index(sample).expect("a recorded sample") as u32, sample as u32))
        .collect();
    let mut next_dummy = recorded as u32;
    let mut cells = Vec::with_capacity(rows * slots);
    for (row, (indices, dummies)) in step.cells.iter().zip(&step.dummies).enumerate() {
        for (slot, (indices, &dummies)) in indices.iter().zip(dummies).enumerate() {
            let mut cell = Vec::with_capacity(indices.len() + dummies as usize);
            for index in indices {
                let Some(&sample) = position.get(index) else {
                    let claimed = format!("sample {index}");
                    let found = format!("no sample of step {number}");
                    return Err(VerifyError::mismatch(
                        field(&format!("cells[{row}][{slot}]")),
                        &claimed,
                        &found,
                    ));
                };
                cell.push(sample);
            }
            cell.extend(next_dummy..next_dummy + dummies);
            next_dummy += dummies;
            cells.push(cell);
        }
    }
    let layout = Layout::from_cells(rows, slots, with.num_samples(), &cells).map_err(|error| {
        // Positions within the step become input indices again.
        let error = match error {
            LayoutError::Coverage { sample, times } => {
                LayoutError::Coverage { sample: with.batch_index(sample).unwrap_or(sample), times }
            }
            other => other,
        };
        VerifyError::Layout { step: number, error }
    })?;
    Ok((with, layout))
}

/// Compares a plan with the one assembled from its decisions; names the first field that differs.
fn compare(plan: &Plan, again: &Plan) -> Result<(), VerifyError> {
    let digest = plan_sha256(plan);
    let as_json = |plan: &Plan| {
        let mut value = serde_json::to_value(plan).expect("a plan has only text keys");
        value.as_object_mut().expect("a plan is an object").remove("sha256");
        value
    };
    if let Some((field, claimed, recomputed)) = difference(&as_json(plan), &as_json(again), String::new()) {
        return Err(VerifyError::mismatch(field, &claimed, &recomputed));
    }
    if plan.sha256 != digest {
        return Err(VerifyError::mismatch("sha256", &plan.sha256, &digest));
    }
    Ok(())
}

/// Path and both values of the first difference, depth first.
fn difference(claimed: &Value, recomputed: &Value, path: String) -> Option<(String, String, String)> {
    match (claimed, recomputed) {
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => one
            .iter()
            .zip(other)
            .enumerate()
            .find_map(|(index, (one, other))| difference(one, other, format!("{path}[{index}]"))),
        (Value::Object(one), Value::Object(other)) if !one.keys().eq(other.keys()) => {
            let mut keys = one.keys().chain(other.keys());
            let key = keys.find(|key| one.contains_key(*key) != other.contains_key(*key))?;
            let of =
                |object: &serde_json::Map<String, Value>| object.get(key).map_or("nothing".into(), shorten);
            let dot = if path.is_empty() { "" } else { "." };
            Some((format!("{path}{dot}{key}"), of(one), of(other)))
        }
        (Value::Object(one), Value::Object(other)) if one.keys().eq(other.keys()) => {
            one.iter().find_map(|(key, value)| {
                let dot = if path.is_empty() { "" } else { "." };
                difference(value, &other[key], format!("{path}{dot}{key}"))
            })
        }
        (one, other) if one == other => None,
        (one, other) => Some((path, shorten(one), shorten(other))),
    }
}

fn shorten(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 80 { text } else { text.chars().take(79).chain(['…']).collect() }
}

/// What was recomputed, in reading order.
fn list_claims(plan: &Plan) -> Vec<Claim> {
    let mut claims = Vec::new();
    let mut add = |what: String, value: String| claims.push(Claim { what, value });
    add("window sha256".into(), plan.window_sha256.clone());
    add("plan sha256".into(), plan.sha256.clone());
    if let Some(placement) = &plan.placement {
        let layers = placement.log2phys.len();
        let optimal =
            placement.peak.iter().zip(&placement.bound).filter(|(peak, bound)| peak == bound).count();
        add("placement".into(), format!("a bijection on each of {}", counted(layers as u64, "layer")));
        add(
            "placement peaks".into(),
            format!("equal to the lower bound on {optimal} of {}", counted(layers as u64, "layer")),
        );
        if let Some(resident) = &placement.resident {
            let moved: u64 = resident.moved.iter().map(|&moved| u64::from(moved)).sum();
            let most = resident.moved.iter().max().unwrap_or(&0);
            add("moves".into(), format!("experts that leave their slot: {moved}, {most} of a layer at most"));
        }
    }
    add("samples left out".into(), plan.dropped.len().to_string());
    if !plan.filtered.is_empty() {
        add(
            "samples filtered since".into(),
            format!("{}; rows are those of the plan before", plan.filtered.len()),
        );
    }
    for step in &plan.steps {
        let prefix = if plan.steps.len() == 1 { String::new() } else { format!("step {}: ", step.step) };
        let mut add = |what: &str, value: String| add(format!("{prefix}{what}"), value);
        let totals = &step.totals;
        add(
            "layout",
            format!(
                "{} and {}, each in one of {} × {} cells, none empty, none over capacity",
                counted(totals.samples, "sample"),
                if totals.dummies == 1 {
                    "1 dummy".to_owned()
                } else {
                    format!("{} dummies", totals.dummies)
                },
                step.rows,
                step.cells[0].len()
            ),
        );
        add(
            "cells",
            format!("{} necessary, {} suffice (certificate accepted)", step.cells_bound, step.cells_found),
        );
        let proof = if step.rows_proved { "the fewest, proved" } else { "not proved to be the fewest" };
        add(
            "rows",
            format!(
                "{} necessary, {} suffice ({proof}), {} used",
                step.rows_bound, step.rows_found, step.rows
            ),
        );
        if let Some(machine) = plan.machine.as_ref().filter(|_| !step.rows_tried.is_empty()) {
            let seconds = |tried: &PlanRows| format!("{:.4} s with {}", tried.seconds, tried.rows);
            let (used, others): (Vec<_>, Vec<_>) =
                step.rows_tried.iter().partition(|tried| tried.rows == step.rows);
            let others = others.into_iter().map(seconds).collect::<Vec<_>>();
            let others = if others.is_empty() { "none beside them".to_owned() } else { others.join(", ") };
            add(
                "step time by rows",
                format!(
                    "{}, the least found; {others} ({} on {}, simulated)",
                    seconds(used[0]),
                    machine.model.name,
                    machine.cluster.name
                ),
            );
        }
        let loss = totals.loss.map_or("not recorded".to_owned(), |loss| loss.to_string());
        add(
            "tokens",
            format!("raw {}, padded {}, routed {}, loss {loss}", totals.raw, totals.padded, totals.routed),
        );
        let score = step.score;
        add(
            "score",
            format!(
                "worst shard {}, total {}, worst row {} (scale 2^{})",
                score.worst_shard, score.total, score.worst_row, plan.scale_bits
            ),
        );
        for (name, bound, gap) in [
            ("bound under this placement", step.bounds.given_placement, step.gap_to_placement),
            ("bound for every placement", step.bounds.placement_free, step.gap_to_free),
        ] {
            add(name, format!("worst shard {}, gap {:.4} %", bound.worst_shard, 100.0 * gap));
        }
    }
    if plan.estimate {
        add("estimate".into(), "expert figures rest on counts divided evenly over the parts".into());
    }
    claims
}
