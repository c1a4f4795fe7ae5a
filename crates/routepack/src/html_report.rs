//! A plan as a page: facts, the table of arms, and pictures, all from what `verify` recomputes.

use std::sync::Arc;

use routepack_html::{
    NumberTable, Page, Picture, ShownStep, page, pictures_of_step, placement_moves, rows_curve_picture,
};
use routepack_problem::{Batch, Placement};
use routepack_simulate::Machine;
use routepack_verify::{Plan, PlanResident, Verified, VerifyError, verify};

use crate::beside::{Beside, HtmlReportError};
use crate::report::{Report, report_of};

/// A plan's page and its pictures, ready to be written.
pub struct HtmlReport {
    /// The figures of the table.
    pub report: Report,
    /// The page: one file of HTML.
    pub html: String,
    /// Every picture as a file of its own: name without ending, SVG.
    pub svgs: Vec<(String, String)>,
}

/// Verifies a plan and draws it beside its reference arms; `beside` is shown in a section of its own.
///
/// Experts are shown to come from the plan's resident placement; expert e from slot e where it names none.
///
/// # Errors
/// The plan does not verify, or a table beside it is of another plan.
pub fn html_report(plan: &Plan, batch: &Arc<Batch>, beside: &Beside) -> Result<HtmlReport, HtmlReportError> {
    let verified = verify(plan, batch)?;
    let report = report_of(plan, &verified)?;
    let before = placement_before(plan, &verified)?;
    let ours = report.arms.last().expect("the plan is always an arm");
    beside.check(plan, batch, &before, &ours.figures)?;
    let mut sections = sections(plan, &verified, &report, &before)?;
    let more = beside.pictures(ours.figures.unit as f64);
    if !more.is_empty() {
        sections.push(("How it was found".to_owned(), more));
    }
    let svgs = sections.iter().flat_map(|(_, pictures)| pictures);
    let svgs = svgs.map(|picture| (picture.id.clone(), picture.svg())).collect();
    let (header, rows) = report.page_table();
    let tables = [("Beside reference arms".to_owned(), NumberTable { header, rows })];
    let html = page(&Page {
        title: &format!("RoutePack plan {}", plan.sha256.get(..8).unwrap_or(&plan.sha256)),
        facts: &facts(plan, &report),
        tables: &tables,
        sections: &sections,
    });
    Ok(HtmlReport { report, html, svgs })
}

fn resident(plan: &Plan) -> Option<&PlanResident> {
    plan.placement.as_ref()?.resident.as_ref()
}

/// Where experts were: the plan's resident placement; expert e in slot e where it names none.
fn placement_before(plan: &Plan, verified: &Verified) -> Result<Placement, VerifyError> {
    let ranks = verified.instances[0].topology().num_ranks();
    Ok(match (resident(plan), &verified.placement) {
        (Some(resident), _) => Placement::new(ranks, resident.log2phys.clone())?,
        (None, Some(placement)) => {
            Placement::identity(placement.num_layers(), placement.num_experts(), ranks)?
        }
        (None, None) => Placement::identity(0, 0, ranks)?,
    })
}

/// A section a step, and one for the placement they share.
fn sections(
    plan: &Plan,
    verified: &Verified,
    report: &Report,
    before: &Placement,
) -> Result<Vec<(String, Vec<Picture>)>, VerifyError> {
    let ranks = verified.instances[0].topology().num_ranks();
    let none = Placement::identity(0, 0, ranks)?;
    let placement = verified.placement.as_ref().unwrap_or(&none);
    let before_name = if resident(plan).is_some() { "resident" } else { "identity" };
    let steps = plan.steps.iter().zip(&verified.instances).zip(&verified.layouts).zip(&verified.figures);
    let mut sections: Vec<(String, Vec<Picture>)> = steps
        .map(|(((step, instance), layout), figures)| {
            let shown = ShownStep { instance, layout, placement, before, before_name, figures };
            (format!("Step {}", step.step), pictures_of_step(&shown))
        })
        .collect();
    for ((_, pictures), (points, step)) in sections.iter_mut().zip(report.rows_tried.iter().zip(&plan.steps))
    {
        let id = format!("step-{}-rows-tried", step.step);
        let machine = plan.machine.as_ref().map_or_else(String::new, Machine::in_words);
        pictures.push(rows_curve_picture(id, "Simulated step time by rows tried", &machine, points));
    }
    if placement.num_layers() > 0 {
        sections.push(("Placement".to_owned(), vec![placement_moves(before, placement)]));
    }
    Ok(sections)
}

fn facts(plan: &Plan, report: &Report) -> Vec<(String, String)> {
    let topology = &plan.setting.topology;
    let rows: Vec<String> = plan
        .steps
        .iter()
        .map(|step| {
            let fewest =
                if step.rows == step.rows_found { "the" } else { &format!("{} are the", step.rows_found) };
            let proof = if step.rows_proved { "proved" } else { "not proved" };
            format!("{} ({fewest} fewest, {proof}: at least {} necessary)", step.rows, step.rows_bound)
        })
        .collect();
    let ours = report.arms.last().expect("the plan is always an arm");
    let percent = |gap: f64| format!("{:.3} %", 100.0 * gap);
    let mut facts = vec![
        ("Plan", plan.sha256.clone()),
        ("Window", plan.window_sha256.clone()),
        ("Made by", format!("{}, seed {}, {}", plan.tool, plan.seed, plan.lp_backend)),
        (
            "Topology",
            format!(
                "dp {}, tp {}, cp {}, pp {}, vpp {}, ep {}, etp {}",
                topology.dp,
                topology.tp,
                topology.cp,
                topology.pp,
                topology.vpp,
                topology.ep,
                topology.etp()
            ),
        ),
        ("Capacity", format!("{} tokens a micro-batch", plan.setting.packing.cell_capacity())),
        ("Rows per step", rows.join(", ")),
    ];
    if let Some(machine) = plan.machine.as_ref().filter(|_| !report.rows_tried.is_empty()) {
        facts.push(("Rows chosen by", format!("least step time found, {}, simulated", machine.in_words())));
    }
    facts.push(("Joint score", format!("{:.4}", ours.figures.joint_score)));
    if report.has_routes() {
        facts.push(("Gap under this placement", percent(ours.figures.gap_to_placement)));
        facts.push(("Gap to any placement", percent(ours.gap)));
    } else {
        facts.push(("Gap to the bound", percent(ours.gap)));
        let why = "none recorded: attention alone is charged, and nothing is known of experts";
        facts.push(("Routes", why.to_owned()));
    }
    if let Some(machine) = plan.machine.as_ref().filter(|_| report.is_simulated()) {
        facts.push(("Tokens/s", format!("{}, simulated", machine.in_words())));
    }
    if plan.estimate {
        facts
            .push(("Estimate", "expert figures: routes were divided evenly over parts of a slot".to_owned()));
    }
    if !plan.finished {
        facts.push(("Search", "ended early, by a deadline or an interruption".to_owned()));
    }
    facts.into_iter().map(|(what, value)| (what.to_owned(), value)).collect()
}
