//! Cost weights from measured micro-batches: least squares with weights of at least 0.
//!
//! seconds ≈ α·Σt + β·Σt²/C + γ·Σ_l peak + overhead, over micro-batches with samples of t tokens and the busiest EP
//! rank's routed rows per layer. With at most four weights every subset of them is solved without bounds (normal
//! equations of scaled columns) and the best solution without a negative weight is taken, which is the optimum: its
//! support is one of the subsets. O(2⁴ · measurements).

use std::ops::RangeInclusive;

use nalgebra::{DMatrix, DVector};
use routepack_problem::counted;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SimulateError;

/// Seconds that a measurement may have.
pub(crate) const SECONDS: RangeInclusive<f64> = 1e-9..=1e9;

/// One measured micro-batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// Padded tokens of its samples.
    pub lengths: Vec<u32>,
    /// Σ over layers of the busiest EP rank's routed rows; `None` where experts were not recorded.
    pub expert_rows: Option<u64>,
    /// Seconds it took.
    pub seconds: f64,
}

/// Fitted weights, in seconds, and how well they tell the measurements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calibrated {
    /// Measured micro-batches.
    pub measurements: usize,
    /// Cell capacity C of the quadratic term, tokens.
    pub capacity: u32,
    /// Seconds a token.
    pub alpha: f64,
    /// Seconds per token² over C.
    pub beta: f64,
    /// Seconds per routed row of the busiest rank; `None` where experts were not recorded.
    pub gamma: Option<f64>,
    /// Seconds a micro-batch.
    pub overhead: f64,
    /// Root of the mean squared residual, seconds.
    pub residual: f64,
    /// Largest residual over the measured time.
    pub worst: f64,
    /// Share of the variance that is told; `None` where all seconds are the same.
    pub r_squared: Option<f64>,
    /// Rank correlation (Spearman's) of told and measured seconds; `None` where all of these are the same.
    pub rank_correlation: Option<f64>,
}

/// Fits the weights of a cell of `capacity` tokens.
///
/// # Errors
/// Fewer measurements than weights, measurements that do not tell the weights apart (all alike, say), only some with
/// recorded experts, or seconds out of range.
pub fn calibrate(measurements: &[Measurement], capacity: u32) -> Result<Calibrated, SimulateError> {
    let experts = measurements.iter().filter(|one| one.expert_rows.is_some()).count();
    let parameters = 3 + usize::from(experts > 0);
    let refuse = |why: String| Err(SimulateError::Fit { parameters, why });
    if experts > 0 && experts < measurements.len() {
        return refuse(format!(
            "expert rows in {experts} of {}",
            counted(measurements.len() as u64, "measurement")
        ));
    }
    if measurements.len() < parameters {
        return refuse(format!("only {}", counted(measurements.len() as u64, "measurement")));
    }
    if capacity == 0 {
        return refuse("a capacity of 0".to_owned());
    }
    if let Some(one) = measurements.iter().find(|one| !SECONDS.contains(&one.seconds)) {
        return refuse(format!("{} seconds: expected 10^-9 to 10^9", one.seconds));
    }
    let columns = columns(measurements, capacity);
    let seconds = DVector::from_iterator(measurements.len(), measurements.iter().map(|one| one.seconds));
    let weights = if told_apart(&columns) { least_squares(&columns, &seconds) } else { None };
    let Some(weights) = weights else {
        return refuse(
            "the measurements do not tell one from another: tokens, their squares and expert rows must vary apart"
                .to_owned(),
        );
    };
    let told = &columns * &weights;
    let residuals = &seconds - &told;
    let mean = seconds.mean();
    let varies = measurements.iter().any(|one| one.seconds.total_cmp(&measurements[0].seconds).is_ne());
    let variance: f64 = seconds.iter().map(|value| (value - mean).powi(2)).sum();
    Ok(Calibrated {
        measurements: measurements.len(),
        capacity,
        alpha: weights[0],
        beta: weights[1],
        overhead: weights[2],
        gamma: weights.get(3).copied(),
        residual: (residuals.norm_squared() / measurements.len() as f64).sqrt(),
        worst: residuals.iter().zip(&seconds).map(|(off, seconds)| off.abs() / seconds).fold(0.0, f64::max),
        r_squared: varies.then(|| 1.0 - residuals.norm_squared() / variance),
        rank_correlation: varies.then(|| rank_correlation(told.as_slice(), seconds.as_slice())),
    })
}

/// Σt, Σt²/C, 1 and, where recorded, expert rows: `[measurements, weights]`.
fn columns(measurements: &[Measurement], capacity: u32) -> DMatrix<f64> {
    let experts = measurements.iter().any(|one| one.expert_rows.is_some());
    DMatrix::from_fn(measurements.len(), 3 + usize::from(experts), |row, column| {
        let one = &measurements[row];
        let lengths = one.lengths.iter().map(|&length| f64::from(length));
        match column {
            0 => lengths.sum(),
            1 => lengths.map(|length| length * length).sum::<f64>() / f64::from(capacity),
            2 => 1.0,
            _ => one.expert_rows.unwrap_or(0) as f64,
        }
    })
}

/// Whether no column is a combination of the others, up to a millionth part of its square.
fn told_apart(columns: &DMatrix<f64>) -> bool {
    let scaled = columns.map_with_location(|_, column, value| value / columns.column(column).norm());
    // A pivot is what of a column's squared length the columns before it leave.
    let lower = (scaled.transpose() * &scaled).cholesky().map(|factor| factor.l());
    lower.is_some_and(|lower| lower.diagonal().iter().all(|pivot| pivot.powi(2) > 1e-6))
}

/// Non-negative weights of least squared residual; `None` if no subset of columns determines any.
fn least_squares(columns: &DMatrix<f64>, seconds: &DVector<f64>) -> Option<DVector<f64>> {
    let count = columns.ncols();
    let scales: Vec<f64> = (0..count).map(|column| columns.column(column).norm()).collect();
    let mut best: Option<(f64, DVector<f64>)> = None;
    for subset in 1u32..1 << count {
        let chosen: Vec<usize> = (0..count).filter(|column| subset >> column & 1 == 1).collect();
        if chosen.iter().any(|&column| scales[column] == 0.0) {
            continue;
        }
        let scaled = DMatrix::from_fn(columns.nrows(), chosen.len(), |row, column| {
            columns[(row, chosen[column])] / scales[chosen[column]]
        });
        let Some(solution) = (scaled.transpose() * &scaled).cholesky() else { continue };
        let solution = solution.solve(&(scaled.transpose() * seconds));
        if solution.iter().any(|weight| !weight.is_finite() || *weight < 0.0) {
            continue;
        }
        let mut weights = DVector::zeros(count);
        for (&column, weight) in chosen.iter().zip(&solution) {
            weights[column] = weight / scales[column];
        }
        let residual = (seconds - columns * &weights).norm_squared();
        if best.as_ref().is_none_or(|(least, _)| residual < *least) {
            best = Some((residual, weights));
        }
    }
    best.map(|(_, weights)| weights)
}

/// Spearman's rank correlation, equal values sharing their mean rank; 1 where nothing varies, 0 where one side alone does.
fn rank_correlation(one: &[f64], other: &[f64]) -> f64 {
    let (one, other) = (ranks(one), ranks(other));
    let mean = (one.len() as f64 - 1.0) / 2.0;
    let product =
        |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean)).sum() };
    let spreads = [product(&one, &one), product(&other, &other)];
    match spreads.map(|spread| spread > 0.0) {
        [true, true] => product(&one, &other) / spreads.map(f64::sqrt).iter().product::<f64>(),
        [false, false] => 1.0,
        _ => 0.0,
    }
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    for equal in order.chunk_by(|&a, &b| values[a].total_cmp(&values[b]).is_eq()) {
        let rank = first as f64 + (equal.len() as f64 - 1.0) / 2.0;
        equal.iter().for_each(|&index| ranks[index] = rank);
        first += equal.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn measured(
        lengths: Vec<u32>,
        expert_rows: Option<u64>,
        weights: [f64; 4],
        capacity: u32,
    ) -> Measurement {
        let [alpha, beta, overhead, gamma] = weights;
        let sum: f64 = lengths.iter().map(|&length| f64::from(length)).sum();
        let squares: f64 = lengths.iter().map(|&length| f64::from(length).powi(2)).sum();
        let experts = gamma * expert_rows.unwrap_or(0) as f64;
        let seconds = alpha * sum + beta * squares / f64::from(capacity) + overhead + experts;
        Measurement { lengths, expert_rows, seconds }
    }

    proptest! {
        #[test]
        fn weights_that_made_the_times_are_found(
            weights in [1e-6..1e-4, 1e-6..1e-4, 1e-3..1e-1, 1e-7..1e-5],
            cells in prop::collection::vec((prop::collection::vec(1u32..4000, 1..6), 1000u64..90_000), 12..30),
        ) {
            let times: Vec<Measurement> =
                cells.into_iter().map(|(cell, rows)| measured(cell, Some(rows), weights, 8192)).collect();
            let fitted = calibrate(&times, 8192).expect("enough");
            prop_assert!(fitted.worst < 1e-6, "{fitted:?}");
            prop_assert!(fitted.rank_correlation.is_some_and(|found| found > 1.0 - 1e-9));
        }
    }

    #[test]
    fn a_weight_that_would_be_negative_is_left_out() {
        // Twice the tokens in less time: no weight of at least 0 tells more than the mean.
        let cell =
            |length: u32, seconds: f64| Measurement { lengths: vec![length], expert_rows: None, seconds };
        let fitted = calibrate(&[cell(10, 3.0), cell(20, 2.0), cell(30, 1.0)], 100).expect("enough");
        assert_eq!((fitted.alpha, fitted.beta, fitted.gamma), (0.0, 0.0, None));
        assert!((fitted.overhead - 2.0).abs() < 1e-9);
        assert!(fitted.r_squared.is_some_and(|found| found.abs() < 1e-9));
        assert!(
            fitted.rank_correlation.is_some_and(|found| found.abs() < 1e-9),
            "a constant ranks nothing: {fitted:?}"
        );
    }

    #[test]
    fn ranks_of_equal_values_are_shared() {
        assert_eq!(ranks(&[5.0, 1.0, 5.0, 0.0]), [2.5, 1.0, 2.5, 0.0]);
        let close = |one: &[f64], other: &[f64], expected: f64| {
            assert!((rank_correlation(one, other) - expected).abs() < 1e-12, "{one:?} {other:?}");
        };
        close(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0], -1.0);
        close(&[1.0, 2.0, 3.0], &[2.0, 2.0, 2.0], 0.0);
        close(&[1.0, 1.0], &[2.0, 2.0], 1.0);
    }

    #[test]
    fn too_little_is_refused() {
        let one = Measurement { lengths: vec![10], expert_rows: Some(4), seconds: 1.0 };
        let refused = |times: &[Measurement]| calibrate(times, 100).expect_err("refused").to_string();
        assert_eq!(refused(std::slice::from_ref(&one)), "cannot fit 4 weights: only 1 measurement");
        let without = Measurement { expert_rows: None, ..one.clone() };
        assert!(refused(&[one.clone(), without]).contains("expert rows in 1 of 2 measurements"));
        // All alike; or tokens and overhead alike, for every cell is full.
        assert!(refused(&vec![one; 9]).contains("do not tell one from another"));
        let full = |short: u32| Measurement {
            lengths: vec![short, 100 - short],
            expert_rows: Some(u64::from(short * short % 7)),
            seconds: 1.0,
        };
        assert!(refused(&(1..20).map(full).collect::<Vec<_>>()).contains("do not tell one from another"));
        let huge = |length: u32| Measurement { lengths: vec![length], expert_rows: None, seconds: 1e308 };
        assert!(refused(&(1..9).map(huge).collect::<Vec<_>>()).contains("seconds: expected 10^-9 to 10^9"));
    }
}
