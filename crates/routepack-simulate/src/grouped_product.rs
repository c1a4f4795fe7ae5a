//! Time of the grouped matrix products of one EP rank: all its experts, each with its own number of rows.
//!
//! An expert with n > 0 rows computes ⌈n/tile⌉·tile rows at the efficiency measured for that many: linear in the
//! logarithm of the rows between measured points, level above the last, proportional to the rows below the first (the
//! weights are read once, whatever the rows). O(experts · log points).

use crate::Cluster;
use crate::cluster::GroupedEfficiency;

/// Seconds of a rank's experts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ExpertSeconds {
    pub(crate) forward: f64,
    pub(crate) backward: f64,
}

/// Seconds of experts with the given rows, when a row costs `flops` forward on this GPU, and twice that backward.
pub(crate) fn expert_seconds(
    cluster: &Cluster,
    flops: f64,
    rows: impl Iterator<Item = u64>,
) -> ExpertSeconds {
    let peak = cluster.peak_tflops * 1e12;
    let mut seconds = ExpertSeconds::default();
    for rows in rows.filter(|&rows| rows > 0) {
        let computed = rows.next_multiple_of(u64::from(cluster.tile_rows)) as f64;
        let at = efficiency(&cluster.grouped, computed);
        let work = flops * computed / peak;
        seconds.forward += work / at.forward;
        seconds.backward += work / at.data_gradient + work / at.weight_gradient;
    }
    seconds
}

/// Efficiency at a number of rows, between the measured points.
fn efficiency(points: &[GroupedEfficiency], rows: f64) -> GroupedEfficiency {
    let scaled = |point: &GroupedEfficiency, factor: f64| GroupedEfficiency {
        rows,
        forward: point.forward * factor,
        data_gradient: point.data_gradient * factor,
        weight_gradient: point.weight_gradient * factor,
    };
    let above = points.partition_point(|point| point.rows < rows);
    match (points[..above].last(), points.get(above)) {
        (None, Some(first)) => scaled(first, rows / first.rows),
        (Some(last), None) => scaled(last, 1.0),
        (Some(low), Some(high)) => {
            let weight = (rows / low.rows).ln() / (high.rows / low.rows).ln();
            let between = |low: f64, high: f64| low + weight * (high - low);
            GroupedEfficiency {
                rows,
                forward: between(low.forward, high.forward),
                data_gradient: between(low.data_gradient, high.data_gradient),
                weight_gradient: between(low.weight_gradient, high.weight_gradient),
            }
        }
        (None, None) => unreachable!("a checked cluster has a point"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::cluster;

    fn point(rows: f64, forward: f64) -> GroupedEfficiency {
        GroupedEfficiency { rows, forward, data_gradient: 0.5, weight_gradient: 0.25 }
    }

    #[test]
    fn few_rows_cost_as_much_as_the_first_point_and_many_are_linear() {
        let mut cluster = cluster("h20").expect("preset");
        cluster.peak_tflops = 1e-12; // 1 FLOP a second
        cluster.tile_rows = 1;
        cluster.grouped = vec![point(10.0, 0.5), point(1000.0, 0.5)];
        let forward = |rows: u64| expert_seconds(&cluster, 1.0, [rows].into_iter()).forward;
        assert!((forward(1) - 20.0).abs() < 1e-9, "a weight read costs 10 rows at efficiency 1/2");
        assert!((forward(10) - 20.0).abs() < 1e-9);
        assert!((forward(500) - 1000.0).abs() < 1e-6);
        assert!((forward(5000) - 10_000.0).abs() < 1e-6);
        let both = expert_seconds(&cluster, 1.0, [10, 0, 10].into_iter());
        assert!((both.forward - 40.0).abs() < 1e-9, "an expert without rows costs nothing");
        assert!((both.backward - 2.0 * (20.0 + 40.0)).abs() < 1e-9);
    }

    #[test]
    fn rows_are_rounded_up_to_tiles_and_efficiency_is_interpolated() {
        let mut cluster = cluster("h20").expect("preset");
        cluster.peak_tflops = 1e-12;
        cluster.tile_rows = 64;
        cluster.grouped = vec![point(16.0, 0.2), point(256.0, 0.6)];
        let one = expert_seconds(&cluster, 1.0, [1].into_iter()).forward;
        assert!(
            (one - 64.0 / 0.4).abs() < 1e-9,
            "64 rows lie half-way between 16 and 256 by logarithm: {one}"
        );
    }
}
