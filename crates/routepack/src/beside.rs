//! What a page shows beside the plan: tables that other commands wrote, each checked to belong to this very plan.

use std::fmt;

use routepack_html::{
    MovePoint, Picture, RowsLine, RowsPoint, TracePoint, annealing, rows_curve_picture, trade_off_curve,
};
use routepack_problem::{Batch, Placement};
use routepack_verify::{Figures, Plan, VerifyError};
use thiserror::Error;

/// Most methods that a curve of moves is drawn for.
const METHODS: usize = 4;

/// Records of how a plan was made, from the files that other commands write.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Beside {
    /// Temperatures of the layout search.
    pub trace: Vec<TracePoint>,
    /// What moves of experts buy.
    pub moves: Vec<MovePoint>,
    /// What more rows cost or save.
    pub rows: Vec<RowsLine>,
}

/// One of the tables of [`Beside`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BesideTable {
    /// [`Beside::trace`].
    Trace,
    /// [`Beside::moves`].
    Moves,
    /// [`Beside::rows`].
    Rows,
}

impl fmt::Display for BesideTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Trace => "the trace of the search",
            Self::Moves => "the curve of moves",
            Self::Rows => "the curve of rows",
        })
    }
}

/// Why a plan is not shown.
#[derive(Debug, Error)]
pub enum HtmlReportError {
    /// It does not verify.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// A table beside it is of another plan.
    #[error("{table}: {why}")]
    Beside {
        /// Which.
        table: BesideTable,
        /// What does not agree.
        why: String,
    },
}

impl Beside {
    /// Refuses tables of other plans: traces and curves of rows name theirs, and in a curve of moves the layers without a
    /// move must have the peaks of the window under the placement `before` the plan's; `figures` are the plan's.
    pub(crate) fn check(
        &self,
        plan: &Plan,
        batch: &Batch,
        before: &Placement,
        figures: &Figures,
    ) -> Result<(), HtmlReportError> {
        let of = |table: BesideTable| move |why: String| HtmlReportError::Beside { table, why };
        check_trace(&self.trace, plan).map_err(of(BesideTable::Trace))?;
        check_moves(&self.moves, batch, before).map_err(of(BesideTable::Moves))?;
        check_rows(&self.rows, plan, figures).map_err(of(BesideTable::Rows))
    }

    /// The pictures of what is there; `unit` is S·C, the divisor of the paper's unit.
    pub(crate) fn pictures(&self, unit: f64) -> Vec<Picture> {
        let mut pictures = Vec::new();
        if !self.trace.is_empty() {
            pictures.extend(annealing(&self.trace, unit));
        }
        if !self.moves.is_empty() {
            pictures.push(trade_off_curve(&self.moves));
        }
        if let Some(first) = self.rows.first() {
            let points: Vec<RowsPoint> = self.rows.iter().map(RowsLine::point).collect();
            let title = "Simulated step time by rows";
            pictures.push(rows_curve_picture("rows-curve".to_owned(), title, &first.machine, &points));
        }
        pictures
    }
}

fn check_plan(found: &str, plan: &Plan) -> Result<(), String> {
    if found == plan.sha256 {
        return Ok(());
    }
    Err(format!("of another plan: plan_sha256 = {found}, this plan is {}", plan.sha256))
}

fn check_trace(points: &[TracePoint], plan: &Plan) -> Result<(), String> {
    for point in points {
        check_plan(&point.plan_sha256, plan)?;
        if plan.steps.iter().all(|step| step.step != point.step) {
            return Err(format!("step {}: the plan has no such step", point.step));
        }
    }
    Ok(())
}

fn check_rows(lines: &[RowsLine], plan: &Plan, figures: &Figures) -> Result<(), String> {
    let Some(first) = lines.first() else { return Ok(()) };
    for line in lines {
        check_plan(&line.plan_sha256, plan)?;
        if line.machine != first.machine {
            return Err(format!("of two machines: {}, {}", first.machine, line.machine));
        }
        // Every number of rows trains the same tokens.
        let (tokens, found) = (figures.tokens.raw as f64, line.seconds * line.tokens_per_second);
        if (found - tokens).abs() > 1e-9 * tokens {
            let RowsLine { rows, seconds, tokens_per_second, .. } = line;
            return Err(format!(
                "{rows} rows: seconds = {seconds}, tokens_per_second = {tokens_per_second}: together {found:.0} tokens, \
                 the plan trains {tokens}"
            ));
        }
    }
    let own: u64 = plan.steps.iter().map(|step| step.rows).sum();
    let Some(line) = lines.iter().find(|line| line.rows == own) else {
        return Err(format!("no line of the plan's {own} rows"));
    };
    let (found, joint_score) = (line.joint_score, figures.joint_score);
    if (found - joint_score).abs() > 1e-9 * joint_score.abs() {
        return Err(format!("{own} rows: joint_score = {found}, the plan's is {joint_score}"));
    }
    Ok(())
}

fn check_moves(points: &[MovePoint], batch: &Batch, before: &Placement) -> Result<(), String> {
    if points.is_empty() {
        return Ok(());
    }
    let Some(counts) = &batch.expert_counts else {
        return Err("the window has no recorded routes".to_owned());
    };
    let mut methods: Vec<&str> = points.iter().map(|point| point.method.as_str()).collect();
    methods.sort_unstable();
    methods.dedup();
    if methods.len() > METHODS {
        return Err(format!("{} methods: at most {METHODS} are drawn", methods.len()));
    }
    let layers = counts.layers();
    if let Some(point) = points.iter().find(|point| point.layer as usize >= layers) {
        return Err(format!("of another window: layer = {}, expected 0 to {}", point.layer, layers - 1));
    }
    for (layer, loads) in counts.loads().iter().enumerate() {
        let peak = before.peak(layer, loads);
        for method in &methods {
            let stay = |point: &&MovePoint| {
                (point.layer as usize, point.moved, point.method.as_str()) == (layer, 0, *method)
            };
            match points.iter().find(stay) {
                None => return Err(format!("layer {layer}, method {method}: no line without moves")),
                Some(point) if point.peak != peak => {
                    return Err(format!(
                        "of another window, placement or number of ranks: layer {layer}: peak = {} without moves, where the plan's \
                         experts come from it is {peak}",
                        point.peak
                    ));
                }
                Some(_) => {}
            }
        }
    }
    Ok(())
}
