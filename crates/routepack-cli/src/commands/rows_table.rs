//! Step time by rows, as a table with bars.

use routepack::RowsPoint;
use routepack::problem::{counted, four_places};

use crate::table;

/// Characters of the longest bar.
const BARS: usize = 20;

/// A line a number of rows, and which is best against the plan's `own`.
pub(super) fn rows_table(points: &[RowsPoint], own: u64) -> String {
    let Some(best) = points.iter().min_by(|one, other| one.seconds.total_cmp(&other.seconds)) else {
        return String::new();
    };
    // Bars of what a number costs more than the best: whole step times are much alike.
    let most = points.iter().map(|point| point.seconds - best.seconds).fold(0.0, f64::max);
    let rows = points.iter().map(|point| {
        let more = if most > 0.0 { (point.seconds - best.seconds) / most } else { 0.0 };
        let bar = "█".repeat((BARS as f64 * more).round() as usize);
        vec![
            point.rows.to_string(),
            four_places(point.seconds),
            format!("{:.0}", point.tokens_per_second),
            format!("{:.2}", 100.0 * point.bubble / point.seconds),
            format!("{:.4}", point.joint_score),
            format!("{bar:<BARS$}"),
        ]
    });
    let above = format!("{:<BARS$}", "above the best");
    let header = ["rows", "seconds", "tokens/s", "bubble %", "joint score", &above];
    let table = table::render(&header, &rows.collect::<Vec<_>>());
    let gain = |point: &RowsPoint| 100.0 * (point.seconds / best.seconds - 1.0);
    let against = match points.iter().find(|point| point.rows == own && point.rows != best.rows) {
        Some(own) => format!(": {:+.2} % against the plan's {}", gain(own), own.rows),
        None if best.rows > points[0].rows => {
            format!(", the plan's: {:+.2} % against {}", gain(&points[0]), points[0].rows)
        }
        None => ", the plan's".to_owned(),
    };
    format!("{table}\nbest with {}{against}", counted(best.rows, "row"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bars of whole step times were all of one length.
    #[test]
    fn bars_show_what_is_above_the_best() {
        let point = |(rows, seconds): (u64, f64)| RowsPoint {
            rows,
            seconds,
            tokens_per_second: 1e5,
            bubble: 1.0,
            joint_score: 8.0,
        };
        let bars = |points: &[(u64, f64)]| -> Vec<usize> {
            let points: Vec<RowsPoint> = points.iter().copied().map(point).collect();
            let table = rows_table(&points, 2);
            table.lines().skip(1).take(points.len()).map(|line| line.matches('█').count()).collect()
        };
        assert_eq!(bars(&[(2, 3.24), (3, 3.22), (4, 3.23), (5, 3.26)]), [10, 0, 5, 20]);
        assert_eq!(bars(&[(2, 3.24), (3, 3.24)]), [0, 0]);
    }
}
