//! A plan as a page: facts, the table of arms, and pictures, all from what `verify` recomputes.

use std::sync::Arc;

use routepack_html::{
    MovePoint, NumberTable, Page, Picture, RowsPoint, ShownStep, TracePoint, annealing, page,
    pictures_of_step, placement_moves, rows_curve_picture, trade_off_curve,
};
use routepack_problem::{Batch, Placement};
use routepack_verify::{Plan, Verified, VerifyError, verify};

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

/// What else a page may show: records of how a plan was made, from the files that other commands write.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Beside {
    /// Temperatures of the layout search.
    pub trace: Vec<TracePoint>,
    /// What moves of experts buy.
    pub moves: Vec<MovePoint>,
    /// What more rows cost or save.
    pub rows: Vec<RowsPoint>,
}

impl Beside {
    fn pictures(&self) -> Vec<Picture> {
        let mut pictures = Vec::new();
        if !self.trace.is_empty() {
            pictures.extend(annealing(&self.trace));
        }
        if !self.moves.is_empty() {
            pictures.push(trade_off_curve(&self.moves));
        }
        if !self.rows.is_empty() {
            let title = "Simulated step time by rows";
            pictures.push(rows_curve_picture("rows-curve".to_owned(), title, &self.rows));
        }
        pictures
    }
}

/// Verifies a plan and draws it beside its reference arms; `beside` is shown as it is, in a section of its own.
///
/// Experts are shown to come from the plan's resident placement; expert e from slot e where it names none.
///
/// # Errors
/// The plan does not verify.
pub fn html_report(plan: &Plan, batch: &Arc<Batch>, beside: &Beside) -> Result<HtmlReport, VerifyError> {
    let verified = verify(plan, batch)?;
    let report = report_of(plan, &verified)?;
    let mut sections = sections(plan, &verified, &report)?;
    let more = beside.pictures();
    if !more.is_empty() {
        sections.push(("How it was found".to_owned(), more));
    }
    let svgs = sections.iter().flat_map(|(_, pictures)| pictures);
    let svgs = svgs.map(|picture| (picture.id.clone(), picture.svg())).collect();
    let (header, rows) = report.table();
    let tables = [("Beside reference arms".to_owned(), NumberTable { header, rows })];
    let html = page(&Page {
        title: "RoutePack plan",
        facts: &facts(plan, &report),
        tables: &tables,
        sections: &sections,
    });
    Ok(HtmlReport { report, html, svgs })
}

/// A section a step, and one for the placement they share.
fn sections(
    plan: &Plan,
    verified: &Verified,
    report: &Report,
) -> Result<Vec<(String, Vec<Picture>)>, VerifyError> {
    let ranks = verified.instances[0].topology().num_ranks();
    let none = Placement::identity(0, 0, ranks)?;
    let placement = verified.placement.as_ref().unwrap_or(&none);
    let before = &match plan.placement.as_ref().and_then(|placement| placement.resident.as_ref()) {
        Some(resident) => Placement::new(ranks, resident.log2phys.clone())?,
        None => Placement::identity(placement.num_layers(), placement.num_experts(), ranks)?,
    };
    let steps = plan.steps.iter().zip(&verified.instances).zip(&verified.layouts).zip(&verified.figures);
    let mut sections: Vec<(String, Vec<Picture>)> = steps
        .map(|(((step, instance), layout), figures)| {
            let shown = ShownStep { instance, layout, placement, before, figures };
            (format!("Step {}", step.step), pictures_of_step(&shown))
        })
        .collect();
    for ((_, pictures), (points, step)) in sections.iter_mut().zip(report.rows_tried.iter().zip(&plan.steps))
    {
        let id = format!("step-{}-rows-tried", step.step);
        pictures.push(rows_curve_picture(id, "Simulated step time by rows tried", points));
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
                "dp {}, ep {}, tp {}, cp {}, pp {}",
                topology.dp, topology.ep, topology.tp, topology.cp, topology.pp
            ),
        ),
        ("Capacity", format!("{} tokens a micro-batch", plan.setting.packing.cell_capacity())),
        ("Rows per step", rows.join(", ")),
    ];
    if let Some(machine) = &plan.machine {
        let (model, cluster) = (&machine.model.name, &machine.cluster.name);
        facts.push(("Rows chosen by", format!("least step time found, {model} on {cluster}, simulated")));
    }
    facts.extend([
        ("Joint score", format!("{:.4}", ours.figures.joint_score)),
        ("Gap under this placement", percent(ours.figures.gap_to_placement)),
        ("Gap to any placement", percent(ours.gap)),
    ]);
    if plan.estimate {
        facts
            .push(("Estimate", "expert figures: routes were divided evenly over parts of a slot".to_owned()));
    }
    if !plan.finished {
        facts.push(("Search", "ended early, by a deadline or an interruption".to_owned()));
    }
    facts.into_iter().map(|(what, value)| (what.to_owned(), value)).collect()
}
