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
