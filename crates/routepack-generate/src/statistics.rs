//! What a window is like: a few numbers to compare with real ones. Floats, for prose only.

use routepack_problem::{Batch, ExpertCounts};
use serde::Serialize;

/// Numbers of a batch, over all its steps together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Statistics {
    /// Samples.
    pub samples: usize,
    /// Raw tokens in all.
    pub tokens: u64,
    /// Mean raw tokens of a sample.
    pub mean_length: f64,
    /// Raw tokens of the longest sample.
    pub max_length: u32,
    /// Samples as long as the longest one: the truncation spike, if there is one.
    pub at_max: usize,
    /// Expert loads; absent without counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub experts: Option<LoadStatistics>,
}

/// Spread of loads within a layer, averaged over layers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadStatistics {
    /// Largest load over the mean load.
    pub max_over_mean: f64,
    /// Standard deviation of the loads over the mean load.
    pub cv: f64,
}

/// The statistics of a batch.
pub fn describe(batch: &Batch) -> Statistics {
    let tokens: u64 = batch.lengths.iter().map(|&length| u64::from(length)).sum();
    let max_length = batch.lengths.iter().copied().max().unwrap_or(0);
    Statistics {
        samples: batch.num_samples(),
        tokens,
        mean_length: tokens as f64 / (batch.num_samples() as f64).max(1.0),
        max_length,
        at_max: batch.lengths.iter().filter(|&&length| length == max_length).count(),
        experts: spread(&expert_loads(batch)),
    }
}

/// Spread of the loads of `num_ranks` EP ranks under the identity placement; none without counts, or where
/// `num_ranks` does not divide the number of experts.
pub fn describe_ranks(batch: &Batch, num_ranks: usize) -> Option<LoadStatistics> {
    let loads = expert_loads(batch);
    if num_ranks == 0 || loads.iter().any(|layer| !layer.len().is_multiple_of(num_ranks)) {
        return None;
    }
    let ranks = |layer: &Vec<u64>| -> Vec<u64> {
        layer.chunks(layer.len() / num_ranks).map(|rank| rank.iter().sum()).collect()
    };
    spread(&loads.iter().map(ranks).collect::<Vec<_>>())
}

/// Loads `[layers][experts]` of all samples.
fn expert_loads(batch: &Batch) -> Vec<Vec<u64>> {
    batch.expert_counts.as_ref().map_or_else(Vec::new, ExpertCounts::loads)
}

fn spread(layers: &[Vec<u64>]) -> Option<LoadStatistics> {
    if layers.is_empty() {
        return None;
    }
    let (mut max_over_mean, mut cv) = (0.0, 0.0);
    for loads in layers {
        let n = loads.len() as f64;
        let mean = (loads.iter().sum::<u64>() as f64 / n).max(f64::MIN_POSITIVE);
        let variance = loads.iter().map(|&load| (load as f64 - mean).powi(2)).sum::<f64>() / n;
        max_over_mean += loads.iter().copied().max().unwrap_or(0) as f64 / mean;
        cv += variance.sqrt() / mean;
    }
    let n = layers.len() as f64;
    Some(LoadStatistics { max_over_mean: max_over_mean / n, cv: cv / n })
}

#[cfg(test)]
mod tests {
    use routepack_problem::ExpertCounts;

    use super::*;

    #[test]
    fn by_hand() {
        let counts = ExpertCounts::new([2, 1, 1, 4], vec![3, 3, 0, 0, 2, 2, 2, 2]).expect("shape");
        let batch = Batch { lengths: vec![3, 4], expert_counts: Some(counts), ..Batch::default() };
        let statistics = describe(&batch);
        assert_eq!((statistics.samples, statistics.tokens, statistics.max_length), (2, 7, 4));
        assert_eq!(statistics.at_max, 1);
        // Loads 5 5 2 2 and 10 4: means 3.5 and 7, deviations 1.5 and 3.
        let (experts, ranks) =
            (statistics.experts.expect("counts"), describe_ranks(&batch, 2).expect("counts"));
        assert!((experts.max_over_mean - 5.0 / 3.5).abs() < 1e-12 && (experts.cv - 1.5 / 3.5).abs() < 1e-12);
        assert!((ranks.max_over_mean - 10.0 / 7.0).abs() < 1e-12 && (ranks.cv - 3.0 / 7.0).abs() < 1e-12);
        assert_eq!(describe_ranks(&batch, 3), None);
        assert_eq!(describe(&Batch::from_lengths(vec![1])).experts, None);
        assert_eq!(describe_ranks(&Batch::from_lengths(vec![1]), 2), None);
    }
}
