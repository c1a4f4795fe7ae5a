//! Annealing: temperature, energies and families of the layout searches, temperature by temperature.

use serde::Deserialize;

use super::{MOST, titles, within};
use crate::lines::{Lines, Scale, lines};
use crate::{NumberTable, Picture};

/// One temperature: a line of the table that `routepack plan --trace` writes. Other columns are left alone.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct TracePoint {
    /// Optimizer step, as in the plan.
    pub step: i64,
    /// Search, counted from 1 through the steps and the numbers of rows tried.
    pub search: u32,
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
    /// SHA-256 of the plan the searches led to.
    pub plan_sha256: String,
}

impl TracePoint {
    /// Refuses what no search with at most `population` replicas gives and no picture can show.
    ///
    /// # Errors
    /// The column, its value and its limit.
    pub fn check(&self, population: u32) -> Result<(), String> {
        for (column, value) in [
            ("energy_0", self.best),
            ("energy_50", self.median),
            ("energy_100", self.worst),
            ("energy_sd", self.spread),
        ] {
            within(column, value, -MOST..=MOST)?;
        }
        within("temperature", self.temperature, 0.0..=MOST)?;
        within("families", f64::from(self.families), 1.0..=f64::from(population))
    }

    /// Refuses a line that does not go on from the line before: within a search rungs rise and families only die out.
    ///
    /// # Errors
    /// As [`TracePoint::check`].
    pub fn check_after(&self, before: &Self) -> Result<(), String> {
        if (self.step, self.search) != (before.step, before.search) {
            return Ok(());
        }
        if self.rung <= before.rung {
            let (rung, last) = (self.rung, before.rung);
            return Err(format!("rung = {rung}: expected more than {last}, that of the line before"));
        }
        if self.families > before.families {
            let (families, last) = (self.families, before.families);
            return Err(format!("families = {families}: expected at most {last}, those of the line before"));
        }
        Ok(())
    }
}

type Series = (&'static str, fn(&TracePoint) -> f64);

/// A value as a table has it.
type Text = fn(f64) -> String;

/// The trace in the paper's unit, energies above the best one at the first temperature of their search: each search has a
/// reference of its own, so nothing else can be compared.
fn in_paper_unit(trace: &[TracePoint], unit: f64) -> Vec<TracePoint> {
    let mut start = 0.0;
    let mut before = None;
    let of_point = |point: &TracePoint| {
        if before.replace((point.step, point.search)) != Some((point.step, point.search)) {
            start = point.best;
        }
        let above_start = |energy: f64| (energy - start) / unit;
        TracePoint {
            temperature: point.temperature / unit,
            best: above_start(point.best),
            median: above_start(point.median),
            worst: above_start(point.worst),
            spread: point.spread / unit,
            ..point.clone()
        }
    };
    trace.iter().map(of_point).collect()
}

/// Energies, their spread, the temperature, and the families, in the order of the file; searches stand side by side.
///
/// `unit`: S·C, the divisor of the paper's unit.
pub fn annealing(trace: &[TracePoint], unit: f64) -> Vec<Picture> {
    let trace = &in_paper_unit(trace, unit)[..];
    let begins =
        |at: &usize| (trace[at - 1].step, trace[at - 1].search) != (trace[*at].step, trace[*at].search);
    let breaks: Vec<f64> = (1..trace.len()).filter(begins).map(|at| at as f64).collect();
    let searches = match breaks.len() {
        0 => String::new(),
        more => format!(" {} searches, one after another, each from its own hottest temperature.", more + 1),
    };
    let picture = |[id, title, y_label, caption]: [&str; 4], series: &[Series], scale: Scale, text: Text| {
        let points: Vec<Vec<(f64, f64)>> = series
            .iter()
            .map(|(_, value)| {
                trace.iter().map(value).enumerate().map(|(at, value)| (at as f64, value)).collect()
            })
            .collect();
        let names: Vec<&str> = series.iter().map(|(name, _)| *name).collect();
        let drawing = lines(&Lines {
            title,
            x_label: "temperatures, one after another",
            y_label,
            range: None,
            whole: true,
            names: &names,
            breaks: &breaks,
            series: &points,
            scale,
        });
        let rows = trace.iter().map(|point| {
            let values = series.iter().map(|(_, value)| text(value(point)));
            [point.step.to_string(), point.search.to_string(), point.rung.to_string()]
                .into_iter()
                .chain(values)
                .collect()
        });
        let header = titles(["step", "search", "temperature no."])
            .into_iter()
            .chain(names.iter().map(|name| (*name).to_owned()));
        Picture {
            id: id.to_owned(),
            title: title.to_owned(),
            caption: format!("{caption}{searches}"),
            drawing,
            numbers: NumberTable { header: header.collect(), rows: rows.collect() },
        }
    };
    vec![
        picture(
            [
                "annealing-energy",
                "Energies while annealing",
                "energy above the search's start (unit of the paper)",
                "Best, median and worst of the population after its sweeps at each temperature, less the best at the first: \
                 below 0 is gained.",
            ],
            &[("best", |point| point.best), ("median", |point| point.median), ("worst", |point| point.worst)],
            Scale::Fitted,
            |energy| format!("{energy:.6}"),
        ),
        picture(
            [
                "annealing-temperature",
                "Temperature and spread while annealing",
                "energy (unit of the paper)",
                "The spread of the population's energies should fall with the temperature: where it stands, the search is \
                 frozen.",
            ],
            &[("temperature", |point| point.temperature), ("spread (sd)", |point| point.spread)],
            Scale::Powers,
            |energy| format!("{energy:.3e}"),
        ),
        picture(
            [
                "annealing-families",
                "Families while annealing",
                "families left",
                "Replicas with one ancestor are a family. Few families early mean that the population has forgotten its \
                 seeds.",
            ],
            &[("families", |point| f64::from(point.families))],
            Scale::FromZero,
            |families| families.to_string(),
        ),
    ]
}
