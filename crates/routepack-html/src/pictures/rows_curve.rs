//! Simulated step time by the number of rows.

use routepack_problem::{counted, four_places};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MOST, titles, within};
use crate::lines::{Lines, Scale, lines};
use crate::{NumberTable, Picture};

/// Step time with so many rows: of a plan whose rows it decided, or a line of `routepack simulate --rows-curve`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RowsPoint {
    /// Rows, over all steps.
    pub rows: u64,
    /// Simulated seconds.
    pub seconds: f64,
    /// Raw tokens a second.
    pub tokens_per_second: f64,
    /// Seconds that the pacing pipeline stage waits.
    pub bubble: f64,
    /// Cost of the slowest shard, unit of the paper.
    pub joint_score: f64,
}

/// A line of the table that `routepack simulate --rows-curve` writes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct RowsLine {
    /// As in [`RowsPoint`].
    pub rows: u64,
    /// As in [`RowsPoint`].
    pub seconds: f64,
    /// As in [`RowsPoint`].
    pub tokens_per_second: f64,
    /// As in [`RowsPoint`].
    pub bubble: f64,
    /// As in [`RowsPoint`].
    pub joint_score: f64,
    /// Model and cluster.
    pub machine: String,
    /// SHA-256 of the plan whose rows these are, or that they are more than.
    pub plan_sha256: String,
}

impl RowsLine {
    /// The point it states.
    pub fn point(&self) -> RowsPoint {
        let Self { rows, seconds, tokens_per_second, bubble, joint_score, .. } = *self;
        RowsPoint { rows, seconds, tokens_per_second, bubble, joint_score }
    }
}

impl RowsPoint {
    /// Refuses what no simulation gives and no picture can show.
    ///
    /// # Errors
    /// The column, its value and its limit.
    pub fn check(&self) -> Result<(), String> {
        for (column, value) in [
            ("seconds", self.seconds),
            ("tokens_per_second", self.tokens_per_second),
            ("joint_score", self.joint_score),
        ] {
            within(column, value, 0.0..=MOST)?;
        }
        within("bubble", self.bubble, 0.0..=self.seconds)?;
        within("rows", self.rows as f64, 1.0..=MOST)
    }
}

/// Step time and, of it, the bubble, by rows; `title` says whose, `machine` on what.
pub fn rows_curve_picture(id: String, title: &str, machine: &str, points: &[RowsPoint]) -> Picture {
    let of =
        |value: fn(&RowsPoint) -> f64| points.iter().map(|point| (point.rows as f64, value(point))).collect();
    let series: [Vec<(f64, f64)>; 2] = [of(|point| point.seconds), of(|point| point.bubble)];
    let drawing = lines(&Lines {
        title,
        x_label: "rows",
        y_label: "seconds (simulated)",
        range: None,
        whole: true,
        names: &["step", "pipeline bubble"],
        breaks: &[],
        series: &series,
        scale: Scale::FromZero,
    });
    let least = points.iter().min_by(|one, other| one.seconds.total_cmp(&other.seconds));
    let rows = points.iter().map(|point| {
        let RowsPoint { rows, seconds, tokens_per_second, bubble, joint_score } = point;
        std::iter::once(rows.to_string())
            .chain([seconds, tokens_per_second, bubble, joint_score].map(f64::to_string))
            .collect()
    });
    Picture {
        id,
        title: title.to_owned(),
        caption: least.map_or_else(String::new, |point| {
            format!(
                "{machine}. Least with {}: {} s. More rows shrink the bubble and add slowest slots.",
                counted(point.rows, "row"),
                four_places(point.seconds)
            )
        }),
        drawing,
        numbers: NumberTable {
            header: titles(["rows", "step, s", "tokens/s", "bubble, s", "joint score"]),
            rows: rows.collect(),
        },
    }
}
