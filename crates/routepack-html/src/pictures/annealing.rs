//! Annealing: temperature, energies and families of the first search, temperature by temperature.

use serde::Deserialize;

use super::{MOST, titles, within};
use crate::lines::{Lines, lines};
use crate::{NumberTable, Picture};

/// One temperature: a line of the table that `routepack plan --trace` writes. Other columns are left alone.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct TracePoint {
    /// Optimizer step, counted from 1.
    pub step: u32,
    /// Number of the temperature.
    pub rung: u32,
    /// Temperature, in units of the energy.
    pub temperature: f64,
    /// Least energy of the population.
    #[serde(rename = "energy_0")]
    pub best: f64,
    /// Its median.
    #[serde(rename = "energy_50")]
    pub median: f64,
    /// Its greatest.
    #[serde(rename = "energy_100")]
    pub worst: f64,
    /// Standard deviation over the population.
    #[serde(rename = "energy_sd")]
    pub spread: f64,
    /// Families that are left.
    pub families: u32,
}

impl TracePoint {
    /// Refuses what no search gives and no picture can show; the temperature may be infinite.
    ///
    /// # Errors
    /// The column, its value and its limit.
    pub fn check(&self) -> Result<(), String> {
        for (column, value) in [
            ("energy_0", self.best),
            ("energy_50", self.median),
            ("energy_100", self.worst),
            ("energy_sd", self.spread),
        ] {
            within(column, value, -MOST..=MOST)?;
        }
        within("temperature", self.temperature, 0.0..=f64::INFINITY)
    }
}

/// Energies, their spread, the temperature, and the families, in the order of the file.
pub fn annealing(trace: &[TracePoint]) -> Vec<Picture> {
    type Series = (&'static str, fn(&TracePoint) -> f64);
    let picture =
        |id: &str, title: &str, y_label: &str, caption: &str, series: &[Series], from_zero: bool| {
            let points: Vec<Vec<(f64, f64)>> = series
                .iter()
                .map(|(_, value)| {
                    let values = trace.iter().map(value).enumerate();
                    values
                        .map(|(at, value)| (at as f64, value))
                        .filter(|(_, value)| value.is_finite())
                        .collect()
                })
                .collect();
            let names: Vec<&str> = series.iter().map(|(name, _)| *name).collect();
            let drawing = lines(&Lines {
                title,
                x_label: "temperature, counted through the file",
                y_label,
                whole: true,
                names: &names,
                series: &points,
                from_zero,
            });
            let rows = trace.iter().map(|point| {
                let values = series.iter().map(|(_, value)| value(point).to_string());
                [point.step.to_string(), point.rung.to_string()].into_iter().chain(values).collect()
            });
            let header = titles(["step", "temperature no."])
                .into_iter()
                .chain(names.iter().map(|name| (*name).to_owned()));
            Picture {
                id: id.to_owned(),
                title: title.to_owned(),
                caption: caption.to_owned(),
                drawing,
                numbers: NumberTable { header: header.collect(), rows: rows.collect() },
            }
        };
    vec![
        picture(
            "annealing-energy",
            "Energies while annealing",
            "energy (cost scaled as in the search)",
            "Best, median and worst of the population after its sweeps at each temperature.",
            &[("best", |point| point.best), ("median", |point| point.median), ("worst", |point| point.worst)],
            false,
        ),
        picture(
            "annealing-temperature",
            "Temperature and spread while annealing",
            "energy (cost scaled as in the search)",
            "The spread of the population's energies should fall with the temperature: where it stands, the search is frozen.",
            &[("temperature", |point| point.temperature), ("spread (sd)", |point| point.spread)],
            true,
        ),
        picture(
            "annealing-families",
            "Families while annealing",
            "families left",
            "Replicas with one ancestor are a family. Few families early mean that the population has forgotten its seeds.",
            &[("families", |point| f64::from(point.families))],
            true,
        ),
    ]
}
