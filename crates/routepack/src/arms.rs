//! Arms: a verified plan and the ways to place and pack that it is compared with (DESIGN §1.4).
//!
//! baseline = identity placement, first-fit decreasing; reorder = a good placement, the same packing; dp-local-ffd = a good
//! placement, samples dealt to slots by LPT, first-fit decreasing in each. A good placement is the plan's or the one made
//! for the window alone, whichever is better for that arm: a plan's placement may be made for its own layout.

use routepack_baselines::{BaselineError, BaselineLayout, dp_local_ffd, global_ffd};
use routepack_place::{PlaceOptions, place};
use routepack_problem::{Instance, Layout, Placement};
use routepack_verify::{Figures, Verified, VerifyError, figures};

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
    /// Comparison arms first, the plan last.
    pub(crate) placed: Vec<PlacedArm>,
    /// Name and reason.
    pub(crate) without: Vec<(String, String)>,
}

/// A placement, and whose it is.
type Placed<'a> = (&'static str, Option<&'a Placement>);

type Rule = fn(&Instance, usize) -> Result<BaselineLayout, BaselineError>;

/// Places and packs every arm of a verified plan.
pub(crate) fn arms(verified: &Verified) -> Result<Arms, VerifyError> {
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
    let mut arms = Arms { placed: Vec::new(), without: Vec::new() };
    for (name, about, rule, placements) in rules {
        let (own_rows, layouts) = match reference_layouts(verified, rule) {
            Ok(layouts) => layouts,
            Err(why) => {
                arms.without.push((name.to_owned(), why.to_string()));
                continue;
            }
        };
        let mut best: Option<PlacedArm> = None;
        for &(placed, placement) in placements {
            let figures = figures_of(verified, placement, &layouts)?;
            if best.as_ref().is_none_or(|best| figures.joint_score < best.figures.joint_score) {
                let (placement, layouts) = (placement.cloned(), layouts.clone());
                let placed = if placement.is_some() { placed } else { "none" };
                best = Some(PlacedArm { name, about, placed, own_rows, placement, layouts, figures });
            }
        }
        arms.placed.extend(best);
    }
    arms.placed.push(PlacedArm {
        name: "routepack",
        about: "this plan",
        placed: if own.is_some() { "plan" } else { "none" },
        own_rows: false,
        placement: own.cloned(),
        layouts: verified.layouts.clone(),
        figures: sum(&verified.figures),
    });
    Ok(arms)
}

/// Layouts of a rule in every step, and whether it took rows of its own in some; or why it gives none.
fn reference_layouts(verified: &Verified, rule: Rule) -> Result<(bool, Vec<Layout>), BaselineError> {
    let (mut own_rows, mut layouts) = (false, Vec::new());
    for (instance, layout) in verified.instances.iter().zip(&verified.layouts) {
        let base = rule(instance, layout.num_rows())?;
        own_rows |= base.own_rows;
        layouts.push(base.layout);
    }
    Ok((own_rows, layouts))
}

fn figures_of(
    verified: &Verified,
    placement: Option<&Placement>,
    layouts: &[Layout],
) -> Result<Figures, VerifyError> {
    let steps = verified.instances.iter().zip(layouts);
    let steps: Result<Vec<Figures>, VerifyError> =
        steps.map(|(instance, layout)| figures(instance, placement, layout)).collect();
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
