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
        /// Index of the line that says so, if it is one.
        line: Option<usize>,
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
        let of = |table: BesideTable| move |Other { line, why }| HtmlReportError::Beside { table, line, why };
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

/// What shows that a table is of another plan, and the index of its line.
struct Other {
    line: Option<usize>,
    why: String,
}

/// What a line shows.
fn at(line: usize, why: String) -> Other {
    Other { line: Some(line), why }
}

/// What no line shows, but what is missing.
impl From<String> for Other {
    fn from(why: String) -> Self {
        Self { line: None, why }
    }
}

fn check_plan(line: usize, found: &str, plan: &Plan) -> Result<(), Other> {
    if found == plan.sha256 {
        return Ok(());
    }
    Err(at(line, format!("of another plan: plan_sha256 = {found}, this plan is {}", plan.sha256)))
}

fn check_trace(points: &[TracePoint], plan: &Plan) -> Result<(), Other> {
    let steps: Vec<i64> = plan.steps.iter().map(|step| step.step).collect();
    for (line, point) in points.iter().enumerate() {
        check_plan(line, &point.plan_sha256, plan)?;
        if !steps.contains(&point.step) {
            return Err(at(line, format!("step = {}: expected one of the plan's, {steps:?}", point.step)));
        }
    }
    Ok(())
}

fn check_rows(lines: &[RowsLine], plan: &Plan, figures: &Figures) -> Result<(), Other> {
    let Some(first) = lines.first() else { return Ok(()) };
    for (index, line) in lines.iter().enumerate() {
        check_plan(index, &line.plan_sha256, plan)?;
        if line.machine != first.machine {
            let (machine, first) = (&line.machine, &first.machine);
            return Err(at(
                index,
                format!("of two machines: machine = {machine}, the first line has {first}"),
            ));
        }
        // Every number of rows trains the same tokens.
        let (tokens, found) = (figures.tokens.raw as f64, line.seconds * line.tokens_per_second);
        if (found - tokens).abs() > 1e-9 * tokens {
            let RowsLine { seconds, tokens_per_second, .. } = line;
            let why = format!(
                "seconds = {seconds}, tokens_per_second = {tokens_per_second}: together {found:.0} tokens, expected \
                 {tokens}, which the plan trains"
            );
            return Err(at(index, why));
        }
    }
    let own: u64 = plan.steps.iter().map(|step| step.rows).sum();
    let Some((index, line)) = lines.iter().enumerate().find(|(_, line)| line.rows == own) else {
        return Err(format!("no line of the plan's {own} rows").into());
    };
    let (found, joint_score) = (line.joint_score, figures.joint_score);
    if (found - joint_score).abs() > 1e-9 * joint_score.abs() {
        return Err(at(
            index,
            format!("joint_score = {found}: expected {joint_score}, the plan's of {own} rows"),
        ));
    }
    Ok(())
}

fn check_moves(points: &[MovePoint], batch: &Batch, before: &Placement) -> Result<(), Other> {
    if points.is_empty() {
        return Ok(());
    }
    let Some(counts) = &batch.expert_counts else {
        return Err("the window has no recorded routes".to_owned().into());
    };
    let mut methods: Vec<&str> = points.iter().map(|point| point.method.as_str()).collect();
    methods.sort_unstable();
    methods.dedup();
    if methods.len() > METHODS {
        return Err(format!("{} methods: at most {METHODS} are drawn", methods.len()).into());
    }
    let loads = counts.loads();
    for (line, point) in points.iter().enumerate() {
        let MovePoint { layer, peak, .. } = *point;
        let Some(loads) = loads.get(layer as usize) else {
            let last = loads.len() - 1;
            return Err(at(line, format!("of another window: layer = {layer}: expected 0 to {last}")));
        };
        point.check(loads.iter().sum()).map_err(|why| at(line, why))?;
        let stayed = before.peak(layer as usize, loads);
        if point.moved == 0 && peak != stayed {
            let why = format!(
                "of another window, placement or number of ranks: peak = {peak}: expected {stayed}, the busiest rank of layer \
                 {layer} where the plan's experts come from"
            );
            return Err(at(line, why));
        }
    }
    for layer in 0..loads.len() {
        let stays = |method: &str| {
            points
                .iter()
                .any(|point| (point.layer as usize, point.moved, &*point.method) == (layer, 0, method))
        };
        if let Some(method) = methods.iter().find(|method| !stays(method)) {
            return Err(format!("layer {layer}, method {method}: no line without moves").into());
        }
    }
    Ok(())
}
