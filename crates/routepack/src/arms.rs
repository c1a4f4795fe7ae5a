//! Arms: a verified plan and the ways to place and pack that it is compared with (DESIGN §1.4).
//!
//! baseline = identity placement, first-fit decreasing; reorder = a good placement, the same packing; dp-local-ffd = a good
//! placement, samples dealt to slots by LPT, first-fit decreasing in each. A good placement is the plan's or the one made
//! for the window alone, whichever is better for that arm: a plan's placement may be made for its own layout. So are the rows:
//! the plan's, or the fewest there are, for a plan may have more of them where a pipeline gains by it.

use routepack_baselines::{BaselineError, BaselineLayout, dp_local_ffd, global_ffd};
use routepack_place::{PlaceOptions, place};
use routepack_problem::{Instance, Layout, Placement};
use routepack_verify::{Figures, Plan, Verified, VerifyError, figures};

use crate::plan::total_loads;

/// One arm: where it places experts and samples, and what that gives.
pub(crate) struct PlacedArm {
    /// `baseline`, `reorder`, `dp-local-ffd` or `routepack`.
    pub(crate) name: &'static str,
    /// What the arm does.
    pub(crate) about: &'static str,
    /// Whose placement it has: `identity`, `plan`, `window` (the one made for the window's load), or `none`.
    pub(crate) placed: &'static str,
    /// Whether its rule needed more rows than the plan in some step.
    pub(crate) own_rows: bool,
    /// The placement of all steps; `None` without recorded routes.
    pub(crate) placement: Option<Placement>,
    /// The layout of every step.
    pub(crate) layouts: Vec<Layout>,
    /// Figures, summed over the steps.
    pub(crate) figures: Figures,
}

/// The arms of a plan, and those that give no layout with the reason.
pub(crate) struct Arms {
    /// Of every rule its candidates, by rows and placement, of which the better one counts; the plan comes last, alone.
    pub(crate) candidates: Vec<Vec<PlacedArm>>,
    /// Name and reason.
    pub(crate) without: Vec<(String, String)>,
}

/// A placement, and whose it is.
type Placed<'a> = (&'static str, Option<&'a Placement>);

type Rule = fn(&Instance, usize) -> Result<BaselineLayout, BaselineError>;

/// Places and packs every arm of a verified plan.
pub(crate) fn arms(plan: &Plan, verified: &Verified) -> Result<Arms, VerifyError> {
    let own = verified.placement.as_ref();
    let identity = own
        .map(|own| Placement::identity(own.num_layers(), own.num_experts(), own.num_ranks()))
        .transpose()?;
    let window = own.map(|own| window_placement(verified, own.num_ranks()));
    let either = [("plan", own), ("window", window.as_ref())];
    let rules: [(&str, &str, Rule, &[Placed<'_>]); 3] = [
        (
            "baseline",
            "identity placement, first-fit decreasing",
            global_ffd,
            &[("identity", identity.as_ref())],
        ),
        (
            "reorder",
            "the better here of the plan's placement and the one for the window's load; first-fit decreasing",
            global_ffd,
            &either,
        ),
        (
            "dp-local-ffd",
            "the better here of the plan's placement and the one for the window's load; LPT over slots, first-fit decreasing in each",
            dp_local_ffd,
            &either,
        ),
    ];
    let planned: Vec<usize> = verified.layouts.iter().map(Layout::num_rows).collect();
    let fewest: Vec<usize> = plan.steps.iter().map(|step| step.rows_found as usize).collect();
    // Dummies are there for the rows of the plan.
    let other = fewest != planned && verified.instances.iter().all(|instance| instance.num_dummies() == 0);
    let rows = if other { vec![&planned, &fewest] } else { vec![&planned] };
    let mut arms = Arms { candidates: Vec::new(), without: Vec::new() };
    for (name, about, rule, placements) in rules {
        let (mut candidates, mut refusal) = (Vec::new(), None);
        for rows in &rows {
            let layouts = match reference_layouts(verified, rule, rows) {
                Ok(layouts) => layouts,
                Err(why) => {
                    refusal.get_or_insert(why);
                    continue;
                }
            };
            let own_rows = layouts.iter().zip(&planned).any(|(layout, &planned)| layout.num_rows() > planned);
            for &(placed, placement) in placements {
                let figures = figures_of(plan, verified, placement, &layouts)?;
                let (placement, layouts) = (placement.cloned(), layouts.clone());
                let placed = if placement.is_some() { placed } else { "none" };
                candidates.push(PlacedArm { name, about, placed, own_rows, placement, layouts, figures });
            }
        }
        match refusal {
            Some(why) if candidates.is_empty() => arms.without.push((name.to_owned(), why.to_string())),
            _ => arms.candidates.push(candidates),
        }
    }
    arms.candidates.push(vec![PlacedArm {
        name: "routepack",
        about: "this plan",
        placed: if own.is_some() { "plan" } else { "none" },
        own_rows: false,
        placement: own.cloned(),
        layouts: verified.layouts.clone(),
        figures: sum(&verified.figures),
    }]);
    Ok(arms)
}

/// The candidate of the least figure, the first of equal ones; `None` of none.
pub(crate) fn least<T>(candidates: Vec<T>, figure: impl Fn(&T) -> f64) -> Option<T> {
    candidates.into_iter().min_by(|a, b| figure(a).total_cmp(&figure(b)))
}

/// Layouts of a rule in every step, asked for so many rows; or why it gives none.
fn reference_layouts(verified: &Verified, rule: Rule, rows: &[usize]) -> Result<Vec<Layout>, BaselineError> {
    verified.instances.iter().zip(rows).map(|(instance, &rows)| Ok(rule(instance, rows)?.layout)).collect()
}

fn figures_of(
    plan: &Plan,
    verified: &Verified,
    placement: Option<&Placement>,
    layouts: &[Layout],
) -> Result<Figures, VerifyError> {
    let steps = verified.instances.iter().zip(layouts);
    let steps: Result<Vec<Figures>, VerifyError> =
        steps.map(|(instance, layout)| figures(instance, placement, layout, plan.finished)).collect();
    Ok(sum(&steps?))
}

fn sum(steps: &[Figures]) -> Figures {
    Figures::sum(steps).expect("a plan has a step")
}

/// The placement of the first stage alone: for the load of the whole window.
fn window_placement(verified: &Verified, num_ranks: usize) -> Placement {
    let loads = total_loads(&verified.instances);
    let placed = place(&loads, num_ranks, &PlaceOptions::default(), &|| false);
    placed.expect("loads of a verified plan are in range").placement
}
