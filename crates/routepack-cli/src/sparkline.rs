//! Sparklines: a row of bars, one character each.

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Most characters; of more values neighbours share one, which shows the largest.
const WIDTH: usize = 40;

/// Bars from `low` (the smallest) to the largest value.
pub(crate) fn sparkline(values: &[f64], low: f64) -> String {
    let high = values.iter().copied().fold(low, f64::max);
    let shared = values.len().div_ceil(WIDTH).max(1);
    let bar = |values: &[f64]| {
        let value = values.iter().copied().fold(low, f64::max);
        let share = if high > low { (value - low) / (high - low) } else { 1.0 };
        BARS[(share * 7.0).round() as usize]
    };
    values.chunks(shared).map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_high_as_their_values() {
        assert_eq!(sparkline(&[0.0, 1.0, 3.5, 7.0], 0.0), "▁▂▅█");
        assert_eq!(sparkline(&[2.0, 2.0], 2.0), "██", "all alike");
        let many: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(sparkline(&many, 0.0).chars().count(), 34, "three values a bar");
        assert!(sparkline(&many, 0.0).ends_with('█'));
    }
}
