//! The paper's table: a verified plan beside its reference arms (DESIGN §1.4).

use std::sync::Arc;

use routepack_baselines::{BaselineError, BaselineLayout, dp_local_ffd, global_ffd};
use routepack_place::{PlaceOptions, place};
use routepack_problem::{Batch, Instance, Placement};
use routepack_verify::{Figures, Plan, Verified, VerifyError, figures, verify};
use schemars::JsonSchema;
use serde::Serialize;

use crate::plan::total_loads;

/// One line of the table: a way to place and pack, and its figures summed over the steps.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Arm {
    /// `baseline`, `reorder`, `dp-local-ffd` or `routepack`.
    pub name: String,
    /// What the arm does.
    pub about: String,
    /// Whether its rule needed more rows than the plan in some step.
    pub own_rows: bool,
    /// (joint score − placement-free bound)/joint score.
    pub gap: f64,
    /// Figures, summed over the steps.
    #[serde(flatten)]
    pub figures: Figures,
}

/// A plan's figures beside those of the reference arms, all recomputed from the window.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Report {
    /// SHA-256 of the plan.
    pub plan_sha256: String,
    /// Rows R of every step.
    pub rows: Vec<u64>,
    /// Whether the fewest rows are proved, per step.
    pub rows_proved: Vec<bool>,
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
    let verified = verify(plan, batch)?;
    let identity = verified
        .placement
        .as_ref()
        .map(|placement| {
            Placement::identity(placement.num_layers(), placement.num_experts(), placement.num_ranks())
        })
        .transpose()?;
    // A plan's placement may be made for its own layout; the other arms take the one made for the window if it suits them.
    let own = verified.placement.as_ref();
    let window = own.map(|own| window_placement(&verified, own.num_ranks()));
    let either = [own, window.as_ref()];
    let arms: [(&str, &str, Rule, &[Option<&Placement>]); 3] = [
        ("baseline", "identity placement, first-fit decreasing", global_ffd, &[identity.as_ref()]),
        (
            "reorder",
            "the plan's placement or the window's, whichever is better here; first-fit decreasing",
            global_ffd,
            &either,
        ),
        (
            "dp-local-ffd",
            "the plan's placement or the window's, whichever is better here; LPT over slots, first-fit decreasing in each",
            dp_local_ffd,
            &either,
        ),
    ];
    let mut report = Report {
        plan_sha256: plan.sha256.clone(),
        rows: plan.steps.iter().map(|step| step.rows).collect(),
        rows_proved: plan.steps.iter().map(|step| step.rows_proved).collect(),
        estimate: plan.estimate,
        arms: Vec::new(),
        without: Vec::new(),
    };
    for (name, about, rule, placements) in arms {
        let mut tried = Vec::new();
        for placement in placements {
            match reference_figures(&verified, rule, *placement)? {
                Ok((own_rows, steps)) => tried.extend(arm(name, about, own_rows, &steps)),
                Err(why) => {
                    report.without.push((name.to_owned(), why.to_string()));
                    break;
                }
            }
        }
        let best = tried.into_iter().min_by(|a, b| a.figures.joint_score.total_cmp(&b.figures.joint_score));
        report.arms.extend(best);
    }
    report.arms.extend(arm("routepack", "this plan", false, &verified.figures));
    Ok(report)
}

/// The placement of the first stage alone: for the load of the whole window.
fn window_placement(verified: &Verified, num_ranks: usize) -> Placement {
    let loads = total_loads(&verified.instances);
    let placed = place(&loads, num_ranks, &PlaceOptions::default(), &|| false);
    placed.expect("loads of a verified plan are in range").placement
}

type Rule = fn(&Instance, usize) -> Result<BaselineLayout, BaselineError>;

/// Figures of a rule in every step, and whether it took rows of its own in some; or why it gives no layout.
fn reference_figures(
    verified: &Verified,
    rule: Rule,
    placement: Option<&Placement>,
) -> Result<Result<(bool, Vec<Figures>), BaselineError>, VerifyError> {
    let (mut own_rows, mut steps) = (false, Vec::new());
    for (instance, layout) in verified.instances.iter().zip(&verified.layouts) {
        let base = match rule(instance, layout.num_rows()) {
            Ok(base) => base,
            Err(why) => return Ok(Err(why)),
        };
        own_rows |= base.own_rows;
        steps.push(figures(instance, placement, &base.layout)?);
    }
    Ok(Ok((own_rows, steps)))
}

fn arm(name: &str, about: &str, own_rows: bool, steps: &[Figures]) -> Option<Arm> {
    let figures = Figures::sum(steps)?;
    Some(Arm { name: name.to_owned(), about: about.to_owned(), own_rows, gap: figures.gap_to_free, figures })
}
