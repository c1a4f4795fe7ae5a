//! Annealing trace: temperature, score and families, rung by rung.

use super::titles;
use crate::lines::{Lines, lines};
use crate::{NumberTable, Picture};

/// One temperature of an annealing run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TracePoint {
    /// Temperature, in the unit of the score.
    pub temperature: f64,
    /// Best joint score so far.
    pub best: f64,
    /// Mean joint score of the population.
    pub mean: f64,
    /// Families that are left: replicas with one ancestor each.
    pub families: u32,
}

/// The score over the rungs of a ladder.
pub fn trace(id: &str, points: &[TracePoint]) -> Picture {
    let of = |value: fn(&TracePoint) -> f64| {
        points.iter().enumerate().map(|(rung, point)| (rung as f64, value(point))).collect::<Vec<_>>()
    };
    let title = "Annealing";
    let drawing = lines(&Lines {
        title,
        x_label: "temperature step, hot to cold",
        y_label: "joint score (unit of the paper)",
        whole: true,
        names: &["best so far", "mean of the population"],
        series: &[of(|point| point.best), of(|point| point.mean)],
        from_zero: false,
    });
    let rows = points.iter().enumerate().map(|(rung, point)| {
        vec![
            rung.to_string(),
            format!("{:.4e}", point.temperature),
            format!("{:.4}", point.best),
            format!("{:.4}", point.mean),
            point.families.to_string(),
        ]
    });
    Picture {
        id: id.to_owned(),
        title: title.to_owned(),
        caption: "A mean that meets the best says that the population has frozen; few families say that it has narrowed."
            .to_owned(),
        drawing,
        numbers: NumberTable {
            header: titles(["step", "temperature", "best", "mean", "families"]),
            rows: rows.collect(),
        },
    }
}
