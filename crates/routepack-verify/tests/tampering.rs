//! Every claim of a plan, changed, is refused; a plan that is accepted agrees with a second opinion.

mod support;

use std::sync::Arc;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use routepack_problem::Batch;
use routepack_verify::{Plan, Status, VerifyError, plan_sha256, verify};
use serde_json::{Value, json};
use support::{Recipe, agrees, build, decide, plan_of, recipes};

/// Nothing about these can be recomputed: the digest alone covers them.
const FREE: [&str; 5] = ["/tool", "/lp_backend", "/options", "/seed", "/finished"];

fn full_recipe() -> Recipe {
    Recipe {
        seed: 3,
        samples: 13,
        slots: 2,
        ranks: 2,
        layers: 2,
        tp: 1,
        steps: 2,
        groups: false,
        max_samples: Some(3),
        rows_multiple: 1,
        ids: 2,
        loss: true,
        pads: 2,
        multiples: (2, 3),
        oversize: true,
    }
}

fn plan(recipe: &Recipe) -> Option<(Plan, Arc<Batch>)> {
    let (batch, setting) = build(recipe);
    let decisions = decide(&batch, &setting)?;
    Some((plan_of(&decisions), batch))
}

/// Pointers to every value, the whole excepted.
fn pointers(value: &Value, path: &str, found: &mut Vec<String>) {
    if !path.is_empty() {
        found.push(path.to_owned());
    }
    match value {
        Value::Array(values) => {
            values.iter().enumerate().for_each(|(i, value)| pointers(value, &format!("{path}/{i}"), found));
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(key, value)| pointers(value, &format!("{path}/{key}"), found));
        }
        _ => {}
    }
}

/// Some different values in place of this one.
fn mutations(value: &Value) -> Vec<Value> {
    match value {
        Value::Null => vec![json!(0), json!("x"), json!([])],
        Value::Bool(flag) => vec![json!(!flag)],
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(0), _) => vec![json!(1), json!(u64::MAX), json!(-1)],
            (Some(n), _) => vec![json!(n - 1), json!(n.wrapping_add(1)), json!(0)],
            (None, Some(n)) => vec![json!(n + 1)],
            (None, None) => {
                let number = number.as_f64().expect("a number");
                vec![json!(number / 2.0 + 1e-9), json!(-number), json!(1.0)]
            }
        },
        Value::String(text) => vec![json!(format!("{text}x")), json!("")],
        Value::Array(values) => {
            let mut all = Vec::new();
            if let Some((last, rest)) = values.split_last() {
                all.push(json!(rest));
                let twice: Vec<&Value> = values.iter().chain([last]).collect();
                all.push(json!(twice));
            }
            for i in 1..values.len() {
                let mut swapped = values.clone();
                swapped.swap(i - 1, i);
                all.push(Value::Array(swapped));
            }
            all
        }
        Value::Object(fields) => {
            let mut all = Vec::new();
            for key in fields.keys() {
                let mut fewer = fields.clone();
                fewer.remove(key);
                all.push(Value::Object(fewer));
            }
            let mut more = fields.clone();
            more.insert("surplus".into(), json!(1));
            all.push(Value::Object(more));
            all
        }
    }
}

/// Whether a plan only says nothing of where the weights were.
fn is_without_resident(changed: &Plan, plan: &Plan) -> bool {
    let mut without = plan.clone();
    without.placement.as_mut().expect("routes").resident = None;
    changed.placement == without.placement && changed.steps == without.steps
}

/// Tries every mutation of every value; `reseal` computes the digest anew.
fn tamper(plan: &Plan, batch: &Arc<Batch>, reseal: bool) -> usize {
    let whole = serde_json::to_value(plan).expect("JSON");
    let mut paths = Vec::new();
    pointers(&whole, "", &mut paths);
    let mut refused = 0;
    for path in paths {
        if reseal && (path == "/sha256" || FREE.iter().any(|free| path.starts_with(free))) {
            continue;
        }
        for mutation in mutations(whole.pointer(&path).expect("the path exists")) {
            let mut changed = whole.clone();
            *changed.pointer_mut(&path).expect("the path exists") = mutation.clone();
            let Ok(mut changed) = serde_json::from_value::<Plan>(changed) else {
                refused += 1;
                continue;
            };
            if reseal {
                changed.sha256 = plan_sha256(&changed);
            }
            if changed == *plan {
                continue;
            }
            match verify(&changed, batch) {
                Err(_) => refused += 1,
                Ok(_) if reseal => {
                    // Another true plan: of another job, or with equal samples exchanged.
                    agrees(&changed, batch).unwrap_or_else(|why| panic!("{path} = {mutation}: {why}"));
                    let allowed = path.starts_with("/setting/")
                        || path.contains("/cells")
                        || path == "/status"
                        || is_without_resident(&changed, plan);
                    assert!(allowed, "{path} = {mutation} was accepted");
                }
                Ok(_) => panic!("{path} = {mutation} was accepted"),
            }
        }
    }
    refused
}

#[test]
fn every_changed_value_is_refused() {
    for (tp, ids, oversize) in [(1, 2, true), (4, 1, false), (1, 0, false)] {
        let (plan, batch) = plan(&Recipe { tp, ids, oversize, ..full_recipe() }).expect("plannable");
        assert!(tamper(&plan, &batch, false) > 500);
    }
}

#[test]
fn every_false_claim_is_refused_even_under_a_new_digest() {
    for (tp, ids, oversize) in [(1, 2, true), (4, 1, false), (1, 0, false)] {
        let (plan, batch) = plan(&Recipe { tp, ids, oversize, ..full_recipe() }).expect("plannable");
        assert!(tamper(&plan, &batch, true) > 400);
    }
}

#[test]
fn a_mismatch_names_field_claim_and_value() {
    let (honest, batch) = plan(&full_recipe()).expect("plannable");
    let refuse = |change: &dyn Fn(&mut Plan)| {
        let mut plan = honest.clone();
        change(&mut plan);
        plan.sha256 = plan_sha256(&plan);
        verify(&plan, &batch).expect_err("refused")
    };
    let worst = honest.steps[1].score.worst_shard;
    assert_eq!(
        refuse(&|plan| plan.steps[1].score.worst_shard -= 1),
        VerifyError::Mismatch {
            field: "steps[1].score.worst_shard".into(),
            claimed: (worst - 1).to_string(),
            recomputed: worst.to_string(),
        }
    );
    let text = |change: &dyn Fn(&mut Plan)| refuse(change).to_string();
    let loss = honest.steps[0].totals.loss.expect("recorded");
    let expected = format!("steps[0].totals.loss: the plan claims {}, recomputed {loss}", loss + 1);
    assert_eq!(text(&|plan| plan.steps[0].totals.loss = Some(loss + 1)), expected);
    let bijection = text(&|plan| plan.placement.as_mut().expect("routes").log2phys[1][2] = 0);
    assert!(bijection.contains("layer 1") && bijection.contains("bijection"), "{bijection}");
    let homeless = text(&|plan| {
        let placement = plan.placement.as_mut().expect("routes");
        placement.resident.as_mut().expect("resident").log2phys[0][1] = 2;
    });
    assert!(homeless.contains("layer 0") && homeless.contains("bijection"), "{homeless}");
    let stays = text(&|plan| {
        plan.placement.as_mut().expect("routes").resident.as_mut().expect("resident").moved[1] = 1;
    });
    assert_eq!(stays, "placement.resident.moved[1]: the plan claims 1, recomputed 2");
    let twice = text(&|plan| {
        let sample = plan.steps[0].cells[0][0][0];
        plan.steps[0].cells[0][1].push(sample);
    });
    assert!(twice.contains("occurs 2 times"), "{twice}");
    let certificate = text(&|plan| plan.steps[0].certificate = plan.steps[1].certificate.clone());
    assert!(certificate.starts_with("step 7: certificate"), "{certificate}");
    let rows = text(&|plan| plan.steps[0].rows_bound += 1);
    assert!(rows.starts_with("steps[0].rows_bound: the plan claims"), "{rows}");
    assert!(text(&|plan| plan.format.push('0')).starts_with("format"));
    let mut other = (*batch).clone();
    other.lengths[0] += 1;
    let window = verify(&honest, &Arc::new(other)).expect_err("another window").to_string();
    assert!(window.starts_with("window_sha256"), "{window}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn plain_plans_verify_and_agree_with_the_definitions(recipe in recipes()) {
        let Some((plan, batch)) = plan(&recipe) else { return Ok(()) };
        agrees(&plan, &batch).map_err(TestCaseError::fail)?;
        let text = serde_json::to_string(&plan).expect("JSON");
        let read: Plan = serde_json::from_str(&text).expect("own JSON");
        prop_assert_eq!(&read, &plan);
        let verified = verify(&read, &batch).map_err(|error| TestCaseError::fail(error.to_string()))?;
        for (figures, step) in verified.figures.iter().zip(&plan.steps) {
            prop_assert_eq!(figures.score, step.score);
            prop_assert_eq!(&figures.shard_cost, &step.shard_cost);
            prop_assert_eq!(figures.bounds, step.bounds);
            prop_assert_eq!(figures.tokens, step.totals);
        }
        // The same decisions give the same bytes.
        let (batch, setting) = build(&recipe);
        let again = plan_of(&decide(&batch, &setting).expect("plannable"));
        prop_assert_eq!(serde_json::to_string(&again).expect("JSON"), text);
    }

    #[test]
    fn a_random_change_is_refused(recipe in recipes(), at in any::<prop::sample::Index>(), which in any::<prop::sample::Index>()) {
        let Some((plan, batch)) = plan(&recipe) else { return Ok(()) };
        let mut changed = serde_json::to_value(&plan).expect("JSON");
        let mut paths = Vec::new();
        pointers(&changed, "", &mut paths);
        let path = at.get(&paths);
        let options = mutations(changed.pointer(path).expect("the path exists"));
        if options.is_empty() {
            return Ok(());
        }
        *changed.pointer_mut(path).expect("the path exists") = which.get(&options).clone();
        let Ok(changed) = serde_json::from_value::<Plan>(changed) else { return Ok(()) };
        if changed != plan {
            prop_assert!(verify(&changed, &batch).is_err(), "{} was accepted", path);
        }
    }
}

#[test]
fn recipes_reach_the_hard_parts() {
    let mut runner = TestRunner::deterministic();
    let plans: Vec<Plan> = (0..300)
        .filter_map(|_| {
            plan(&recipes().new_tree(&mut runner).expect("a recipe").current()).map(|plan| plan.0)
        })
        .collect();
    let reached = |what: &str, has: &dyn Fn(&Plan) -> bool| {
        assert!(plans.iter().any(has), "no plan with {what}");
    };
    reached("dummies", &|plan| plan.steps.iter().any(|step| step.totals.dummies > 0));
    reached("several steps", &|plan| plan.steps.len() > 1);
    reached("samples left out", &|plan| !plan.dropped.is_empty());
    reached("proved rows", &|plan| plan.status == Status::Ok);
    reached("an open row bound", &|plan| plan.status == Status::Gap);
    reached("no routes", &|plan| plan.placement.is_none());
    reached("estimates", &|plan| plan.estimate);
    reached("several shards", &|plan| plan.steps[0].shard_cost.len() > 1);
    reached("one slot", &|plan| plan.setting.topology.dp == 1);
    reached("a single cell", &|plan| plan.steps[0].cells.len() * plan.steps[0].cells[0].len() == 1);
}

#[test]
fn no_solver_is_in_sight() {
    let ours = |manifest: &'static str| -> Vec<&str> {
        let crates = manifest.lines().filter(|line| line.starts_with("routepack-"));
        crates.filter_map(|line| line.split('.').next()).collect()
    };
    assert_eq!(
        ours(include_str!("../Cargo.toml")),
        ["routepack-bounds", "routepack-certificate", "routepack-problem", "routepack-simulate"]
    );
    assert_eq!(ours(include_str!("../../routepack-simulate/Cargo.toml")), ["routepack-problem"]);
}
