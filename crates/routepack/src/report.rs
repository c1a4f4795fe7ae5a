//! The paper's table: a verified plan beside its reference arms (DESIGN §1.4).

use std::sync::Arc;

use routepack_html::RowsPoint;
use routepack_problem::Batch;
use routepack_simulate::StepTime;
use routepack_verify::{Figures, Plan, Verified, VerifyError, verify};
use schemars::{JsonSchema, Schema};
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::arms::{Arms, PlacedArm, arms, least};
use crate::rows_curve::rows_tried;

/// One line of the table: a way to place and pack, and its figures summed over the steps.
///
/// Its JSON has null for the figures of experts where no routes were recorded.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(transform = known_of_routes)]
pub struct Arm {
    /// `baseline`, `reorder`, `dp-local-ffd` or `routepack`.
    pub name: String,
    /// What the arm does.
    pub about: String,
    /// Whose placement it has: `identity`, `plan` (this plan's), `window` (the one made for the window's load), or `none`
    /// without recorded routes. Arms that may have either take the one that gives them the better joint score.
    pub placement: String,
    /// Whether its rule needed more rows than the plan in some step.
    pub own_rows: bool,
    /// (joint score − placement-free bound)/joint score.
    pub gap: f64,
    /// Raw tokens a second of this very layout, simulated on the machine of the plan's job; absent where it names none, no
    /// routes were recorded, or an interleaved pipeline cannot run these rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_second: Option<f64>,
    /// Figures, summed over the steps.
    #[serde(flatten, serialize_with = "what_is_known")]
    pub figures: Figures,
}

/// Figures that say nothing without recorded routes.
const OF_ROUTES: [&str; 7] =
    ["cv", "peak_sum", "worst_peak", "balance_efficiency", "busiest_rank_rows", "expert", "gap_to_placement"];

/// Figures as JSON, null where nothing is known.
fn what_is_known<S: Serializer>(figures: &Figures, serializer: S) -> Result<S::Ok, S::Error> {
    if has_routes(figures) {
        return figures.serialize(serializer);
    }
    let mut known = serde_json::to_value(figures).map_err(S::Error::custom)?;
    for name in OF_ROUTES {
        known[name] = Value::Null;
    }
    known["tokens"]["routed"] = Value::Null;
    known.serialize(serializer)
}

/// The schema of [`what_is_known`].
fn known_of_routes(schema: &mut Schema) {
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    for name in OF_ROUTES {
        if let Some(property) = properties.get_mut(name) {
            *property = json!({ "anyOf": [property, { "type": "null" }] });
        }
    }
    if let Some(tokens) = properties.get_mut("tokens") {
        let unknown = json!({ "type": "object", "properties": { "routed": { "type": "null" } } });
        *tokens = json!({ "anyOf": [tokens, unknown] });
    }
}

fn has_routes(figures: &Figures) -> bool {
    !figures.rank_loads.is_empty()
}

/// A figure of an arm: name with its unit, value as text; none where the window or the job tells nothing about it.
pub type ArmFigure = (&'static str, fn(&Arm) -> Option<String>);

/// The figures of the table of arms.
pub const ARM_FIGURES: [ArmFigure; 11] = [
    ("placement", |arm| Some(placement_in_words(&arm.placement).to_owned())),
    ("rows", |arm| Some(arm.figures.rows.to_string())),
    ("CV of rank loads", |arm| arm.of_routes(|figures| format!("{:.5}", figures.cv))),
    ("peak sum, routed rows", |arm| arm.of_routes(|figures| figures.peak_sum.to_string())),
    ("worst peak, routed rows", |arm| arm.of_routes(|figures| figures.worst_peak.to_string())),
    ("balance efficiency", |arm| arm.of_routes(|figures| format!("{:.4}", figures.balance_efficiency))),
    ("attention cost (all shards)", |arm| Some(format!("{:.4}", arm.figures.attention_cost))),
    ("joint score", |arm| Some(format!("{:.4}", arm.figures.joint_score))),
    ("gap to its placement, %", |arm| {
        arm.of_routes(|figures| format!("{:.3}", 100.0 * figures.gap_to_placement))
    }),
    ("gap to any placement, %", |arm| Some(format!("{:.3}", 100.0 * arm.gap))),
    ("all-layer peak, routed rows", |arm| arm.of_routes(|figures| figures.busiest_rank_rows.to_string())),
];

/// The figure of simulated arms.
const SPEED: ArmFigure = ("tokens/s, simulated", |arm| Some(format!("{:.0}", arm.tokens_per_second?)));

/// A plan's figures beside those of the reference arms, all recomputed from the window.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Report {
    /// SHA-256 of the plan.
    pub plan_sha256: String,
    /// Rows R of every step.
    pub rows: Vec<u64>,
    /// Fewest rows a packing is known for, per step.
    pub rows_found: Vec<u64>,
    /// Whether the fewest rows are proved, per step.
    pub rows_proved: Vec<bool>,
    /// Where the simulated step time decided about rows: what every number tried takes, per step; else empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rows_tried: Vec<Vec<RowsPoint>>,
    /// Whether expert figures are estimates.
    pub estimate: bool,
    /// Comparison arms first, the plan last.
    pub arms: Vec<Arm>,
    /// Arms that give no layout here, with the reason.
    pub without: Vec<(String, String)>,
}

/// Verifies a plan and compares it with the reference arms.
///
/// # Errors
/// The plan does not verify.
pub fn report(plan: &Plan, batch: &Arc<Batch>) -> Result<Report, VerifyError> {
    report_of(plan, &verify(plan, batch)?)
}

/// The report of a plan that verifies.
pub(crate) fn report_of(plan: &Plan, verified: &Verified) -> Result<Report, VerifyError> {
    let Arms { candidates, without } = arms(plan, verified)?;
    let best = candidates.into_iter().filter_map(|arms| least(arms, |arm| arm.figures.joint_score));
    Ok(Report {
        plan_sha256: plan.sha256.clone(),
        rows: plan.steps.iter().map(|step| step.rows).collect(),
        rows_found: plan.steps.iter().map(|step| step.rows_found).collect(),
        rows_tried: rows_tried(plan, verified)?,
        rows_proved: plan.steps.iter().map(|step| step.rows_proved).collect(),
        estimate: plan.estimate,
        arms: best.map(|arm| Arm::of(arm, plan, verified)).collect(),
        without,
    })
}

/// Raw tokens a second of an arm on the machine of the plan's job.
fn tokens_per_second(arm: &PlacedArm, plan: &Plan, verified: &Verified) -> Option<f64> {
    let (machine, placement) = (plan.machine.as_ref()?, arm.placement.as_ref()?);
    let mut time = StepTime::default();
    for (instance, layout) in verified.instances.iter().zip(&arm.layouts) {
        time += machine.step_time(instance, placement, layout).ok()?;
    }
    Some(time.tokens_per_second())
}

/// Whose placement an arm has, as tables say it.
pub fn placement_in_words(placement: &str) -> &str {
    match placement {
        "plan" => "plan's",
        "window" => "window's",
        other => other,
    }
}

impl Report {
    /// Whether the window has recorded routes: without, no figure of experts is known.
    pub fn has_routes(&self) -> bool {
        self.arms.iter().any(Arm::has_routes)
    }

    /// Whether the arms are simulated: the plan's job names a machine that can run them.
    pub fn is_simulated(&self) -> bool {
        self.arms.iter().any(|arm| arm.tokens_per_second.is_some())
    }

    /// The table of arms, an arm a column: titles, then a line a figure with its name in front.
    pub fn table(&self) -> (Vec<String>, Vec<Vec<String>>) {
        self.table_of(&self.arms.iter().collect::<Vec<_>>())
    }

    /// The same for a page that shows only the first columns of it: the plan stands before the arms, and differences from
    /// the baseline below.
    pub fn page_table(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let Some((ours, others)) = self.arms.split_last() else { return (Vec::new(), Vec::new()) };
        let arms: Vec<&Arm> = std::iter::once(ours).chain(others).collect();
        let (header, mut lines) = self.table_of(&arms);
        let Some(baseline) = others.iter().find(|arm| arm.name == "baseline") else { return (header, lines) };
        let mut percent = |name: &str, value: fn(&Arm) -> Option<f64>| {
            let Some(base) = value(baseline) else { return };
            let against = |arm: &&Arm| percent_more(value(arm), base);
            lines.push(std::iter::once(name.to_owned()).chain(arms.iter().map(against)).collect());
        };
        percent("joint score against baseline, %", |arm| Some(arm.figures.joint_score));
        percent("tokens/s against baseline, %", |arm| arm.tokens_per_second);
        (header, lines)
    }

    fn table_of(&self, arms: &[&Arm]) -> (Vec<String>, Vec<Vec<String>>) {
        let names = arms.iter().map(|arm| arm.name.clone());
        let figures = ARM_FIGURES.into_iter().chain(self.is_simulated().then_some(SPEED));
        let figures = figures.map(|(name, figure)| {
            let cells = arms.iter().map(|arm| figure(arm).unwrap_or_else(none));
            std::iter::once(name.to_owned()).chain(cells).collect()
        });
        (std::iter::once("figure".to_owned()).chain(names).collect(), figures.collect())
    }
}

/// How much more than `base` a value is, in percent; nothing is known where there is none of it.
pub fn percent_more(value: Option<f64>, base: f64) -> String {
    match value {
        Some(value) if base != 0.0 => format!("{:+.2}", 100.0 * (value / base - 1.0)),
        _ => none(),
    }
}

/// What stands where nothing is known.
fn none() -> String {
    "–".to_owned()
}

impl Arm {
    fn of(arm: PlacedArm, plan: &Plan, verified: &Verified) -> Self {
        let tokens_per_second = tokens_per_second(&arm, plan, verified);
        let PlacedArm { name, about, placed, own_rows, figures, .. } = arm;
        let (name, about, placement) = (name.to_owned(), about.to_owned(), placed.to_owned());
        Self { name, about, placement, own_rows, gap: figures.gap_to_free, tokens_per_second, figures }
    }

    /// Whether the window has recorded routes.
    pub fn has_routes(&self) -> bool {
        has_routes(&self.figures)
    }

    /// A figure of experts, where routes were recorded.
    fn of_routes(&self, figure: fn(&Figures) -> String) -> Option<String> {
        self.has_routes().then(|| figure(&self.figures))
    }
}

#[cfg(test)]
mod tests {
    use routepack_generate::{Preset, window};
    use routepack_simulate::{Machine, SimulateOptions, presets};

    use super::*;
    use crate::{Control, Job, plan};

    #[test]
    fn nothing_is_held_against_a_baseline_that_has_none() {
        let mut recipe = Preset::Mixed.recipe();
        recipe.prompts = 16;
        let made = window(&recipe, 1).expect("valid");
        let mut job = Job::new(made.setting);
        (job.arrange.proposals_per_unit, job.refine.turns) = (2, 0);
        job.machine = Some(Machine {
            model: presets::model("mixed-half-qwen3").expect("a preset"),
            cluster: presets::cluster("h20").expect("a preset"),
            options: SimulateOptions::default(),
        });
        let batch = Arc::new(made.batch);
        let plan = plan(&batch, &job, &mut Control::new()).expect("a plan");
        let mut report = report(&plan, &batch).expect("verifies");
        let against = |report: &Report| -> Vec<Vec<String>> {
            let (_, lines) = report.page_table();
            lines.into_iter().filter(|line| line[0].contains("against baseline")).collect()
        };
        let lines = against(&report);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines.iter().all(|line| line[2] == "+0.00"), "the baseline against itself: {lines:?}");
        let baseline = &mut report.arms[0];
        (baseline.figures.joint_score, baseline.tokens_per_second) = (0.0, None);
        let lines = against(&report);
        assert_eq!(lines.len(), 1, "no speed to hold others against: {lines:?}");
        assert!(lines[0][1..].iter().all(|cell| cell == "–"), "{lines:?}");
    }
}
