//! Lines: one or several series over a common axis.

use maud::{Markup, html};

use crate::frame::{Frame, Mark, WIDTH, legend, px};
use crate::picture::svg;

/// Series to draw.
pub(crate) struct Lines<'a> {
    /// What is shown, for those who hear it.
    pub(crate) title: &'a str,
    /// The common axis, with its unit.
    pub(crate) x_label: &'a str,
    /// What the series are, with their unit.
    pub(crate) y_label: &'a str,
    /// Range of the common axis; from the points when absent.
    pub(crate) range: Option<(f64, f64)>,
    /// Whether x counts things.
    pub(crate) whole: bool,
    /// Names, at most four.
    pub(crate) names: &'a [&'a str],
    /// Where a new run of points begins: no line leads there from the point before.
    pub(crate) breaks: &'a [f64],
    /// Points (x, y) of every series, x ascending.
    pub(crate) series: &'a [Vec<(f64, f64)>],
    /// The axis of y.
    pub(crate) scale: Scale,
}

/// An axis of y.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Scale {
    /// From 0 to the greatest value.
    FromZero,
    /// From the least to the greatest value.
    Fitted,
    /// By powers of ten; values that are not positive have no place.
    Powers,
}

/// Draws the series, a mark at every point of short ones.
pub(crate) fn lines(lines: &Lines<'_>) -> Markup {
    let powers = lines.scale == Scale::Powers;
    let placed = |&(x, y): &(f64, f64)| if powers { (x, y.log10()) } else { (x, y) };
    let shown = |points: &Vec<(f64, f64)>| -> Vec<(f64, f64)> {
        points.iter().map(placed).filter(|(_, y)| y.is_finite()).collect()
    };
    let series: Vec<Vec<(f64, f64)>> = lines.series.iter().map(shown).collect();
    let points = || series.iter().flatten();
    let range = |of: fn(&(f64, f64)) -> f64| {
        if points().next().is_none() {
            return (0.0, 0.0);
        }
        let values = || points().map(of);
        (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max))
    };
    let (low, high) = range(|point| point.1);
    let margin = 0.04 * (high - low);
    let y = match lines.scale {
        Scale::FromZero => (0.0, high * 1.04),
        Scale::Fitted => (low - margin, high + margin),
        Scale::Powers => (low.floor(), high.ceil()),
    };
    let names: Vec<(&str, Mark)> =
        lines.names.iter().enumerate().map(|(index, &name)| (name, Mark::Line(index))).collect();
    let x = lines.range.unwrap_or_else(|| range(|point| point.0));
    let frame = Frame::new(300.0, names.len() > 1, x, y);
    let frame = if powers { frame.in_powers() } else { frame };
    let path = |points: &[(f64, f64)]| {
        let run = |x: f64| lines.breaks.partition_point(|&first| first <= x);
        let mut before = None;
        let places = points.iter().map(|&(x, y)| {
            let letter = if before.replace(run(x)) == Some(run(x)) { 'L' } else { 'M' };
            format!("{letter}{} {}", px(frame.at_x(x)), px(frame.at_y(y)))
        });
        places.collect::<Vec<String>>().join(" ")
    };
    let content = html! {
        (frame.axes(lines.x_label, lines.y_label, lines.whole))
        @if names.len() > 1 { (legend(&names)) }
        @for &first in lines.breaks {
            path.grid d={ "M" (px(frame.at_x(first - 0.5))) " " (px(frame.top())) " V" (px(frame.bottom())) } {}
        }
        @for (index, points) in series.iter().enumerate() {
            @if !points.is_empty() {
                path class=(format!("line s{index}")) d=(path(points)) {}
            }
            @if points.len() <= 64 {
                @for &(x, y) in points {
                    circle class=(format!("f{index}")) cx=(px(frame.at_x(x))) cy=(px(frame.at_y(y))) r="2.5" {
                        title { (lines.names[index]) ": " (crate::frame::number(x)) ", " (crate::frame::number(if powers { 10f64.powf(y) } else { y })) }
                    }
                }
            }
        }
    };
    svg(WIDTH, frame.height, lines.title, content)
}
