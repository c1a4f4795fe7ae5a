//! One picture a file: what a plan's step costs and where, from its nouns alone.

mod annealing;
mod cells;
mod layers;
mod lengths;
mod moves;
mod rows_curve;
mod shards;
mod trade_off;

use std::ops::RangeInclusive;

use routepack_problem::{Evaluation, Instance, Layout, Placement, evaluate};
use routepack_verify::Figures;

use crate::Picture;

pub use annealing::{TracePoint, annealing};
pub use moves::placement_moves;
pub use rows_curve::{RowsLine, RowsPoint, rows_curve_picture};
pub use trade_off::{MovePoint, trade_off_curve};

/// A verified step, ready to be drawn.
pub struct ShownStep<'a> {
    /// Its window, dummies included.
    pub instance: &'a Instance,
    /// Its layout.
    pub layout: &'a Layout,
    /// The plan's placement; of no layers without recorded routes.
    pub placement: &'a Placement,
    /// Where experts lived before; of the same shape.
    pub before: &'a Placement,
    /// What that placement is called: `identity` or `resident`.
    pub before_name: &'a str,
    /// The step's figures as verified.
    pub figures: &'a Figures,
}

/// The pictures of a step: cost of its cells and rows, of its shards, layers before and after placement, rank loads,
/// lengths and cell fill.
pub fn pictures_of_step(step: &ShownStep<'_>) -> Vec<Picture> {
    let drawn = Drawn::of(step);
    let mut pictures = vec![cells::cell_costs(&drawn), cells::row_costs(&drawn), shards::shard_costs(&drawn)];
    if drawn.has_routes() {
        pictures.extend([layers::layer_peaks(&drawn), layers::rank_loads(&drawn)]);
    }
    pictures.extend([lengths::lengths(&drawn), lengths::cell_fill(&drawn)]);
    pictures
}

/// A step with everything recomputed from its nouns.
struct Drawn<'a> {
    step: &'a ShownStep<'a>,
    evaluation: Evaluation,
    /// S·C: what scaled costs are divided by for the paper's unit.
    unit: f64,
}

impl<'a> Drawn<'a> {
    fn of(step: &'a ShownStep<'a>) -> Self {
        let evaluation = evaluate(step.instance, step.placement, step.layout);
        Self { step, evaluation, unit: step.figures.unit as f64 }
    }

    /// Identifier of a picture, unlike those of other steps.
    fn id(&self, name: &str) -> String {
        format!("step-{}-{name}", self.step.instance.step())
    }

    /// A scaled cost in the paper's unit, as text.
    fn cost(&self, scaled: u64) -> String {
        format!("{:.4}", scaled as f64 / self.unit)
    }

    /// Whether routes were recorded: without, nothing is known of experts, and a zero is no claim about them.
    fn has_routes(&self) -> bool {
        self.evaluation.num_layers > 0
    }

    /// The parts of a cost that are known.
    fn parts(&self) -> &'static [&'static str] {
        if self.has_routes() { &["attention", "experts"] } else { &["attention"] }
    }

    /// The parts of a scaled cost in the paper's unit, as drawn.
    fn values(&self, attention: u64, expert: u64) -> Vec<f64> {
        let parts = [attention, expert].into_iter().take(self.parts().len());
        parts.map(|scaled| scaled as f64 / self.unit).collect()
    }

    /// The same as text, and their sum.
    fn texts(&self, attention: u64, expert: u64) -> [String; 3] {
        let experts = if self.has_routes() { self.cost(expert) } else { "–".to_owned() };
        [self.cost(attention), experts, self.cost(attention + expert)]
    }

    /// The same in words.
    fn words(&self, attention: u64, expert: u64) -> String {
        let [attention, experts, _] = self.texts(attention, expert);
        format!("attention {attention}, experts {experts}")
    }

    /// What to call a thing where there is no placement, and where there is one.
    fn of_placement(&self, without: &'static str, with: &'static str) -> &'static str {
        if self.has_routes() { with } else { without }
    }

    /// What a caption says where nothing is known of experts.
    fn without_routes(&self) -> &'static str {
        if self.has_routes() { "" } else { " No routes were recorded: attention alone." }
    }
}

/// The largest value of a table that is drawn.
const MOST: f64 = 1e30;

/// Refuses a value out of its range, by the name of its column.
fn within(column: &str, value: f64, range: RangeInclusive<f64>) -> Result<(), String> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(format!("{column} = {}: expected {} to {}", told(value), told(*range.start()), told(*range.end())))
}

/// A number in a message: whole ones as such, as long as they can be read.
fn told(value: f64) -> String {
    if value == 0.0 || (1e-6..1e15).contains(&value.abs()) { value.to_string() } else { format!("{value:e}") }
}

/// Titles of a table.
fn titles<const N: usize>(titles: [&str; N]) -> Vec<String> {
    titles.map(str::to_owned).to_vec()
}
