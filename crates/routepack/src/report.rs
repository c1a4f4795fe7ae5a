//! The paper's table: a verified plan beside its reference arms (DESIGN §1.4).

use std::sync::Arc;

use routepack_html::RowsPoint;
use routepack_problem::Batch;
use routepack_verify::{Figures, Plan, Verified, VerifyError, verify};
use schemars::JsonSchema;
use serde::Serialize;

use crate::arms::{Arms, PlacedArm, arms, least};
use crate::rows_curve::rows_tried;

/// One line of the table: a way to place and pack, and its figures summed over the steps.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
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
    /// Figures, summed over the steps.
    #[serde(flatten)]
    pub figures: Figures,
}

/// A figure of an arm: name with its unit, value as text.
pub type ArmFigure = (&'static str, fn(&Arm) -> String);

/// The figures of the table of arms.
pub const ARM_FIGURES: [ArmFigure; 11] = [
    ("placement", |arm| placement_in_words(&arm.placement).to_owned()),
    ("rows", |arm| arm.figures.rows.to_string()),
    ("CV of rank loads", |arm| format!("{:.5}", arm.figures.cv)),
    ("peak sum, routed rows", |arm| arm.figures.peak_sum.to_string()),
    ("worst peak, routed rows", |arm| arm.figures.worst_peak.to_string()),
    ("balance efficiency", |arm| format!("{:.4}", arm.figures.balance_efficiency)),
    ("attention cost", |arm| format!("{:.4}", arm.figures.attention_cost)),
    ("joint score", |arm| format!("{:.4}", arm.figures.joint_score)),
    ("gap to its placement, %", |arm| format!("{:.3}", 100.0 * arm.figures.gap_to_placement)),
    ("gap to any placement, %", |arm| format!("{:.3}", 100.0 * arm.gap)),
    ("busiest rank's rows", |arm| arm.figures.busiest_rank_rows.to_string()),
];

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
        arms: best.map(Arm::from).collect(),
        without,
    })
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
    /// The table of arms, an arm a column: titles, then a line a figure with its name in front.
    pub fn table(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let names = self.arms.iter().map(|arm| arm.name.clone());
        let figures = ARM_FIGURES.iter().map(|(name, figure)| {
            std::iter::once((*name).to_owned()).chain(self.arms.iter().map(figure)).collect()
        });
        (std::iter::once("figure".to_owned()).chain(names).collect(), figures.collect())
    }
}

impl From<PlacedArm> for Arm {
    fn from(arm: PlacedArm) -> Self {
        let PlacedArm { name, about, placed, own_rows, figures, .. } = arm;
        let (name, about, placement) = (name.to_owned(), about.to_owned(), placed.to_owned());
        Self { name, about, placement, own_rows, gap: figures.gap_to_free, figures }
    }
}
