//! Lines: one or several series over a common axis.

use maud::{Markup, html};

use crate::frame::{Frame, WIDTH, legend, px};
use crate::picture::svg;

/// Series to draw.
pub(crate) struct Lines<'a> {
    /// What is shown, for those who hear it.
    pub(crate) title: &'a str,
    /// The common axis, with its unit.
    pub(crate) x_label: &'a str,
    /// What the series are, with their unit.
    pub(crate) y_label: &'a str,
    /// Whether x counts things.
    pub(crate) whole: bool,
    /// Names, at most four.
    pub(crate) names: &'a [&'a str],
    /// Points (x, y) of every series, x ascending.
    pub(crate) series: &'a [Vec<(f64, f64)>],
    /// Whether y starts at 0 or at the least value.
    pub(crate) from_zero: bool,
}

/// Draws the series, a mark at every point of short ones.
pub(crate) fn lines(lines: &Lines<'_>) -> Markup {
    let points = || lines.series.iter().flatten();
    let range = |of: fn(&(f64, f64)) -> f64| {
        if points().next().is_none() {
            return (0.0, 0.0);
        }
        let values = || points().map(of);
        (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max))
    };
    let (low, high) = range(|point| point.1);
    let margin = 0.04 * (high - low);
    let y = if lines.from_zero { (0.0, high * 1.04) } else { (low - margin, high + margin) };
    let frame = Frame::new(300.0, range(|point| point.0), y);
    let path = |points: &[(f64, f64)]| {
        let places: Vec<String> =
            points.iter().map(|&(x, y)| format!("{} {}", px(frame.at_x(x)), px(frame.at_y(y)))).collect();
        format!("M{}", places.join(" L"))
    };
    let content = html! {
        (frame.axes(lines.x_label, lines.y_label, lines.whole))
        @if lines.names.len() > 1 { (legend(lines.names)) }
        @for (index, points) in lines.series.iter().enumerate() {
            @if !points.is_empty() {
                path class=(format!("line s{index}")) d=(path(points)) {}
            }
            @if points.len() <= 64 {
                @for &(x, y) in points {
                    circle class=(format!("f{index}")) cx=(px(frame.at_x(x))) cy=(px(frame.at_y(y))) r="2.5" {
                        title { (lines.names[index]) ": " (crate::frame::number(x)) ", " (crate::frame::number(y)) }
                    }
                }
            }
        }
    };
    svg(WIDTH, frame.height, lines.title, content)
}
