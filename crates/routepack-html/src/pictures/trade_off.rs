//! Trade-off: what a placement gains by moving more experts.

use super::titles;
use crate::lines::{Lines, lines};
use crate::{NumberTable, Picture};

/// One point of a trade-off curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TradeOff {
    /// Experts moved.
    pub moved: u64,
    /// Busiest rank over the bound, summed over the layers; 1 is the bound.
    pub peak: f64,
}

/// Peak against moves, for one or two methods.
pub fn trade_off(id: &str, names: &[&str], curves: &[Vec<TradeOff>]) -> Picture {
    let title = "Experts moved against the busiest rank";
    let series: Vec<Vec<(f64, f64)>> = curves
        .iter()
        .map(|curve| curve.iter().map(|point| (point.moved as f64, point.peak)).collect())
        .collect();
    let drawing = lines(&Lines {
        title,
        x_label: "experts moved",
        y_label: "busiest rank over its bound",
        whole: true,
        names,
        series: &series,
        from_zero: false,
    });
    let rows = names.iter().zip(curves).flat_map(|(name, curve)| {
        curve
            .iter()
            .map(move |point| vec![(*name).to_owned(), point.moved.to_string(), format!("{:.5}", point.peak)])
    });
    Picture {
        id: id.to_owned(),
        title: title.to_owned(),
        caption: "Every point is the least peak for so many moves that the method finds; 1 is the bound of any placement."
            .to_owned(),
        drawing,
        numbers: NumberTable {
            header: titles(["method", "experts moved", "peak over bound"]),
            rows: rows.collect(),
        },
    }
}
