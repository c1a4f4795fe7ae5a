//! Trade-off of placement: experts moved against how far the peaks lie above their bound.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::lines::{Lines, Scale, lines};
use crate::{NumberTable, Picture};

/// A line of the table that `routepack place --curve` writes: with so many moves a layer's peak is this.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct MovePoint {
    /// Layer.
    pub layer: u32,
    /// Method that chose the moves.
    pub method: String,
    /// Experts of the layer that move.
    pub moved: u32,
    /// Load of the layer's busiest rank, routed rows.
    pub peak: u64,
    /// No placement has a smaller peak.
    pub bound: u64,
}

impl MovePoint {
    /// Refuses a peak that no placement has: below its bound, or above the `load` of the whole layer, routed rows.
    ///
    /// # Errors
    /// The column, its value and its limit.
    pub fn check(&self, load: u64) -> Result<(), String> {
        let Self { peak, bound, .. } = *self;
        if peak < bound {
            return Err(format!("peak = {peak}: expected at least bound = {bound}"));
        }
        if peak > load {
            return Err(format!("peak = {peak}: expected at most {load}, all routed rows of the layer"));
        }
        Ok(())
    }
}

/// Experts moved in all layers to bring each within so many percent of its bound, as far as that goes; four methods at most.
pub fn trade_off_curve(points: &[MovePoint]) -> Picture {
    let mut methods: BTreeMap<&str, BTreeMap<u32, Vec<&MovePoint>>> = BTreeMap::new();
    for point in points {
        methods.entry(&point.method).or_default().entry(point.layer).or_default().push(point);
    }
    let moved = |layers: &BTreeMap<u32, Vec<&MovePoint>>, percent: f64| -> Option<u64> {
        let of = |points: &Vec<&MovePoint>| {
            let near =
                |point: &&&MovePoint| point.peak as f64 <= point.bound as f64 * (1.0 + percent / 100.0);
            points.iter().filter(near).map(|point| u64::from(point.moved)).min()
        };
        layers.values().map(of).sum()
    };
    let percents: Vec<f64> = (0..=40).map(|step| f64::from(step) / 2.0).collect();
    let chosen: Vec<(&str, Vec<Option<u64>>)> = methods
        .iter()
        .take(4)
        .map(|(name, layers)| (*name, percents.iter().map(|&percent| moved(layers, percent)).collect()))
        .collect();
    let series: Vec<Vec<(f64, f64)>> = chosen
        .iter()
        .map(|(_, moved)| {
            let known =
                percents.iter().zip(moved).filter_map(|(&percent, moved)| Some((percent, (*moved)? as f64)));
            known.collect()
        })
        .collect();
    let names: Vec<&str> = chosen.iter().map(|(name, _)| *name).collect();
    let title = "What moves of experts buy";
    let drawing = lines(&Lines {
        title,
        x_label: "largest peak above its bound, %",
        y_label: "experts moved, all layers",
        // The same axis whatever is reached: a curve may begin late, or not at all.
        range: percents.first().copied().zip(percents.last().copied()),
        whole: false,
        names: &names,
        breaks: &[],
        series: &series,
        scale: Scale::FromZero,
    });
    let header = std::iter::once("peak above bound, %").chain(names.iter().copied());
    let rows = percents.iter().enumerate().map(|(at, percent)| {
        let moved = chosen
            .iter()
            .map(|(_, moved)| moved[at].map_or_else(|| "–".to_owned(), |moved| moved.to_string()));
        std::iter::once(percent.to_string()).chain(moved).collect()
    });
    Picture {
        id: "trade-off".to_owned(),
        title: title.to_owned(),
        caption: "Experts that must move, over all layers, until every layer's busiest rank is so near to its bound.".to_owned(),
        drawing,
        numbers: NumberTable { header: header.map(str::to_owned).collect(), rows: rows.collect() },
    }
}
