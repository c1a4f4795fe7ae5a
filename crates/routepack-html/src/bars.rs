//! Bars: stacked parts per place, and a limit to hold them against.

use maud::{Markup, html};

use crate::frame::{Frame, Mark, WIDTH, legend, px};
use crate::picture::svg;

/// Bars to draw.
pub(crate) struct Bars<'a> {
    /// What is shown, for those who hear it.
    pub(crate) title: &'a str,
    /// What a place is.
    pub(crate) x_label: &'a str,
    /// What is counted, with its unit.
    pub(crate) y_label: &'a str,
    /// Range of the first bar on the x axis: start and width; the others follow. Bars of things begin at −½.
    pub(crate) places: (f64, f64),
    /// Whether x counts things.
    pub(crate) whole: bool,
    /// Names of the parts, at most four.
    pub(crate) parts: &'a [&'a str],
    /// Values `[bars][parts]`.
    pub(crate) values: &'a [Vec<f64>],
    /// A line across, with what it is.
    pub(crate) limit: Option<(f64, &'a str)>,
    /// A bar's values in words.
    pub(crate) words: &'a dyn Fn(usize) -> String,
}

/// Draws the bars.
pub(crate) fn bars(bars: &Bars<'_>) -> Markup {
    let sums = bars.values.iter().map(|parts| parts.iter().sum::<f64>());
    let most = sums.fold(bars.limit.map_or(0.0, |(limit, _)| limit), f64::max);
    let parts = bars.parts.iter().enumerate().map(|(part, &name)| (name, Mark::Block(part)));
    let names: Vec<(&str, Mark)> = parts.chain(bars.limit.map(|(_, name)| (name, Mark::Limit))).collect();
    let (first, width) = bars.places;
    let places = (first, first + width * bars.values.len() as f64);
    let frame = Frame::new(280.0, names.len() > 1, places, (0.0, most * 1.04));
    let gap = if bars.values.len() > 60 { 0.0 } else { 0.12 * width };
    let content = html! {
        (frame.axes(bars.x_label, bars.y_label, bars.whole))
        @if names.len() > 1 { (legend(&names)) }
        @for (bar, parts) in bars.values.iter().enumerate() {
            g {
                title { ((bars.words)(bar)) }
                @for (part, (from, to)) in stacked(parts).into_iter().enumerate() {
                    rect class=(format!("f{part}"))
                        x=(px(frame.at_x(first + width * bar as f64 + gap))) y=(px(frame.at_y(to)))
                        width=(px(frame.at_x(first + width) - frame.at_x(first + 2.0 * gap)))
                        height=(px(frame.at_y(from) - frame.at_y(to))) {}
                }
            }
        }
        @if let Some((limit, name)) = bars.limit {
            path.limit d={ "M" (px(frame.at_x(first))) " " (px(frame.at_y(limit))) " H" (px(WIDTH - 16.0)) } {
                title { (name) ": " (crate::frame::number(limit)) }
            }
        }
    };
    svg(WIDTH, frame.height, bars.title, content)
}

/// Where every part begins and ends.
fn stacked(parts: &[f64]) -> Vec<(f64, f64)> {
    let mut at = 0.0;
    parts
        .iter()
        .map(|part| {
            let from = at;
            at += part;
            (from, at)
        })
        .collect()
}
