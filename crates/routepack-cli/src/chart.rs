//! Line charts as SVG, one panel above the other.

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
const COLOURS: [RGBColor; 4] =
    [RGBColor(0, 90, 170), RGBColor(200, 90, 0), RGBColor(110, 110, 110), RGBColor(0, 130, 80)];

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
