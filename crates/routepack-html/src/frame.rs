//! Frame: the axes of a drawing, their round numbers, and where a value goes.

use maud::{Markup, html};

/// Width of a drawing.
pub(crate) const WIDTH: f64 = 720.0;
/// Room for labels: left, right, above, below.
pub(crate) const LEFT: f64 = 76.0;
const RIGHT: f64 = 16.0;
const ABOVE: f64 = 26.0;
const BELOW: f64 = 44.0;
/// More room above for the names of series.
const LEGEND: f64 = 20.0;

/// The axes of a drawing.
pub(crate) struct Frame {
    pub(crate) height: f64,
    /// Whether y holds powers of ten.
    powers: bool,
    above: f64,
    x: (f64, f64),
    y: (f64, f64),
}

impl Frame {
    /// Axes over these ranges, with room for a legend if there is one; an empty range is widened.
    pub(crate) fn new(height: f64, legend: bool, x: (f64, f64), y: (f64, f64)) -> Self {
        let widen = |(low, high): (f64, f64)| if high > low { (low, high) } else { (low, low + 1.0) };
        let more = if legend { LEGEND } else { 0.0 };
        Self { powers: false, height: height + more, above: ABOVE + more, x: widen(x), y: widen(y) }
    }

    /// The same with y as powers of ten.
    pub(crate) fn in_powers(self) -> Self {
        Self { powers: true, ..self }
    }

    /// Where a value lies, from the left.
    pub(crate) fn at_x(&self, value: f64) -> f64 {
        let (low, high) = self.x;
        LEFT + (value - low) / (high - low) * (WIDTH - LEFT - RIGHT)
    }

    /// Where a value lies, from above.
    pub(crate) fn at_y(&self, value: f64) -> f64 {
        let (low, high) = self.y;
        self.height - BELOW - (value - low) / (high - low) * (self.height - self.above - BELOW)
    }

    /// Upper end of the drawing.
    pub(crate) fn top(&self) -> f64 {
        self.at_y(self.y.1)
    }

    /// Lower end of the drawing.
    pub(crate) fn bottom(&self) -> f64 {
        self.at_y(self.y.0)
    }

    /// Grid, numbers and labels of both axes; with `whole`, no ticks between whole numbers of x.
    pub(crate) fn axes(&self, x_label: &str, y_label: &str, whole: bool) -> Markup {
        let (left, right) = (self.at_x(self.x.0), self.at_x(self.x.1));
        let (bottom, top) = (self.bottom(), self.top());
        let xs = ticks(self.x).into_iter().filter(|tick| !whole || tick.fract() == 0.0);
        let ys = ticks(self.y).into_iter().filter(|tick| !self.powers || tick.fract() == 0.0);
        html! {
            @for tick in ys {
                line.grid x1=(px(left)) x2=(px(right)) y1=(px(self.at_y(tick))) y2=(px(self.at_y(tick))) {}
                text.soft.end x=(px(left - 6.0)) y=(px(self.at_y(tick) + 4.0)) { @if self.powers { "1e" (tick) } @else { (short(tick)) } }
            }
            @for tick in xs {
                line.axis x1=(px(self.at_x(tick))) x2=(px(self.at_x(tick))) y1=(px(bottom)) y2=(px(bottom + 4.0)) {}
                text.soft.middle x=(px(self.at_x(tick))) y=(px(bottom + 18.0)) { (number(tick)) }
            }
            path.axis d={ "M" (px(left)) " " (px(top)) " V" (px(bottom)) " H" (px(right)) } {}
            text.middle x=(px(f64::midpoint(left, right))) y=(px(self.height - 6.0)) { (x_label) }
            text x="4" y="14" { (y_label) }
        }
    }
}

/// How a series is drawn.
#[derive(Clone, Copy)]
pub(crate) enum Mark {
    /// Filled, in the colour of this number.
    Block(usize),
    /// A line, in the colour and with the dashes of this number.
    Line(usize),
    /// What bars are held against.
    Limit,
}

/// Names of series behind their marks, in a line of their own above the drawing.
pub(crate) fn legend(names: &[(&str, Mark)]) -> Markup {
    let mut at = LEFT;
    let starts: Vec<f64> = names
        .iter()
        .map(|(name, _)| {
            let start = at;
            at += 46.0 + 6.4 * name.chars().count() as f64;
            start
        })
        .collect();
    html! {
        @for ((name, mark), start) in names.iter().zip(starts) {
            @match mark {
                Mark::Block(index) => rect class=(format!("f{index}")) x=(px(start + 14.0)) y="25" width="10" height="10" {}
                Mark::Line(index) => path class=(format!("line s{index}")) d={ "M" (px(start)) " 30 H" (px(start + 24.0)) } {}
                Mark::Limit => path.limit d={ "M" (px(start)) " 30 H" (px(start + 24.0)) } {}
            }
            text x=(px(start + 29.0)) y="34" { (name) }
        }
    }
}

/// Round numbers within a range, about six.
fn ticks((low, high): (f64, f64)) -> Vec<f64> {
    let rough = (high - low) / 5.0;
    let power = 10f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|&step| step >= rough * 0.999);
    let step = step.unwrap_or(power);
    let first = (low / step).ceil() as i64;
    (first..).map(|tick| tick as f64 * step).take_while(|&tick| tick <= high + step * 1e-9).take(64).collect()
}

/// The least of 1, 2, 5 times a power of ten that is not below `value`.
pub(crate) fn round_up(value: u64) -> u64 {
    let mut power = 1;
    loop {
        if let Some(round) = [power, 2 * power, 5 * power].into_iter().find(|&round| round >= value) {
            return round;
        }
        power *= 10;
    }
}

/// A number for a person: thousands set apart, no more digits than it needs.
pub(crate) fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return whole(value.abs() as u64, value < 0.0);
    }
    let digits = (3 - value.abs().log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A number in the room beside an axis: powers of ten from ten million on.
pub(crate) fn short(value: f64) -> String {
    if value.abs() < 1e7 { number(value) } else { format!("{value:e}") }
}

fn whole(value: u64, negative: bool) -> String {
    let digits = value.to_string();
    let mut text = String::from(if negative { "−" } else { "" });
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// A coordinate, to a tenth of a pixel.
pub(crate) fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(ticks((0.0, 10.0)), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(ticks((3.0, 23.0)), [5.0, 10.0, 15.0, 20.0]);
        assert_eq!(ticks((0.0, 0.3)).len(), 4);
    }

    #[test]
    fn steps_are_round() {
        assert_eq!([1, 2, 3, 6, 11, 257].map(round_up), [1, 2, 5, 10, 20, 500]);
    }

    #[test]
    fn numbers_are_for_persons() {
        assert_eq!(number(1_234_567.0), "1\u{202f}234\u{202f}567");
        assert_eq!(number(-12.0), "−12");
        assert_eq!([short(2e6), short(25e9)], ["2\u{202f}000\u{202f}000", "2.5e10"]);
        assert_eq!(number(0.25), "0.25");
        assert_eq!(number(15.085_21), "15.09");
    }

    #[test]
    fn a_value_lands_where_its_axis_says() {
        let frame = Frame::new(300.0, false, (0.0, 10.0), (5.0, 5.0));
        assert!((frame.at_x(0.0) - LEFT).abs() < 1e-9);
        assert!((frame.at_x(10.0) - (WIDTH - RIGHT)).abs() < 1e-9);
        assert!((frame.at_y(5.0) - (300.0 - BELOW)).abs() < 1e-9, "a range of one value is widened");
    }
}
