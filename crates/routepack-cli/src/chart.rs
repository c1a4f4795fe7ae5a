//! Charts of lines and of dots as SVG, one panel above the other.

use std::path::Path;

use plotters::prelude::*;
use routepack::formats;

use crate::exit::Failure;

/// A named line.
pub(crate) struct Line {
    pub(crate) name: String,
    /// (x, y), x ascending.
    pub(crate) points: Vec<(f64, f64)>,
}

const WIDTH: u32 = 800;
const PANEL: u32 = 360;
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 90, 170),
    RGBColor(200, 90, 0),
    RGBColor(110, 110, 110),
    RGBColor(0, 130, 80),
    RGBColor(150, 40, 140),
    RGBColor(190, 150, 0),
];

/// Writes panels of (label of y, lines) over a common x.
pub(crate) fn draw(path: &Path, x_label: &str, panels: &[(&str, &[Line])]) -> Result<(), Failure> {
    let mut svg = String::new();
    render(&mut svg, x_label, panels)
        .map_err(|error| Failure::File(format!("{}: cannot draw: {error}", path.display())))?;
    formats::write_atomically(path, svg.as_bytes())?;
    Ok(())
}

fn render(
    svg: &mut String,
    x_label: &str,
    panels: &[(&str, &[Line])],
) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(svg, (WIDTH, PANEL * panels.len() as u32)).into_drawing_area();
    area.fill(&WHITE)?;
    for (panel, (y_label, lines)) in area.split_evenly((panels.len(), 1)).iter().zip(panels) {
        let points = || lines.iter().flat_map(|line| &line.points);
        let most = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(0.0, f64::max);
        let least = points().map(|point| point.0).fold(f64::INFINITY, f64::min).min(most(|point| point.0));
        let (right, top) = (most(|point| point.0).max(least + 1.0), most(|point| point.1).max(1e-3) * 1.05);
        let mut chart = ChartBuilder::on(panel)
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(70)
            .build_cartesian_2d(least..right, 0.0..top)?;
        chart.configure_mesh().x_desc(x_label).y_desc(*y_label).light_line_style(WHITE).draw()?;
        for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
            let style = colour.stroke_width(2);
            chart
                .draw_series(LineSeries::new(line.points.iter().copied(), style))?
                .label(&line.name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        }
        chart.configure_series_labels().background_style(WHITE).border_style(BLACK.mix(0.2)).draw()?;
    }
    area.present()?;
    Ok(())
}

/// A value for each of some names.
pub(crate) struct Dots {
    pub(crate) name: String,
    /// In the order of the names; `None` where there is no value.
    pub(crate) values: Vec<Option<f64>>,
}

/// Writes panels of (label of x, dots) over the same names, a line each from the top.
pub(crate) fn draw_dots(path: &Path, names: &[&str], panels: &[(&str, &[Dots])]) -> Result<(), Failure> {
    let mut svg = String::new();
    render_dots(&mut svg, names, panels)
        .map_err(|error| Failure::File(format!("{}: cannot draw: {error}", path.display())))?;
    formats::write_atomically(path, svg.as_bytes())?;
    Ok(())
}

fn render_dots(
    svg: &mut String,
    names: &[&str],
    panels: &[(&str, &[Dots])],
) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(svg, (WIDTH, PANEL * panels.len() as u32)).into_drawing_area();
    area.fill(&WHITE)?;
    for (panel, (x_label, series)) in area.split_evenly((panels.len(), 1)).iter().zip(panels) {
        let values = || series.iter().flat_map(|dots| &dots.values).flatten().copied();
        let (low, high) = (values().fold(0.0, f64::min), values().fold(0.0, f64::max));
        let margin = 0.05 * (high - low).max(1e-3);
        let mut chart = ChartBuilder::on(panel)
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(100)
            .build_cartesian_2d(low - margin..high + margin, -(names.len() as f64) + 0.5..0.5)?;
        let name_at = |y: &f64| {
            let line = (-y).round();
            let whole = (line + y).abs() < 1e-6 && line >= 0.0;
            if whole { names.get(line as usize).copied().unwrap_or("").to_owned() } else { String::new() }
        };
        chart
            .configure_mesh()
            .x_desc(*x_label)
            .y_labels(2 * names.len())
            .y_label_formatter(&name_at)
            .light_line_style(WHITE)
            .draw()?;
        for (dots, colour) in series.iter().zip(COLOURS.iter().cycle()) {
            let places = dots.values.iter().enumerate();
            let points = places.filter_map(|(line, value)| Some(((*value)?, -(line as f64))));
            chart
                .draw_series(points.map(|point| Circle::new(point, 4, colour.filled())))?
                .label(&dots.name)
                .legend(move |(x, y)| Circle::new((x + 9, y), 4, colour.filled()));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE)
            .border_style(BLACK.mix(0.2))
            .draw()?;
    }
    area.present()?;
    Ok(())
}
