//! Mean and standard deviation of measured values.

/// Values in short.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Sample {
    /// How many.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// Standard deviation, with n − 1 below; a single value has none.
    pub sd: Option<f64>,
}

impl Sample {
    /// Mean and standard deviation of at least one value.
    pub fn of(values: &[f64]) -> Self {
        let count = values.len();
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let sd = (count > 1).then(|| (squares / (count - 1) as f64).sqrt());
        Self { count, mean, sd }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        assert_eq!(Sample::of(&[1.0, 2.0, 3.0]), Sample { count: 3, mean: 2.0, sd: Some(1.0) });
        assert_eq!(Sample::of(&[5.0]), Sample { count: 1, mean: 5.0, sd: None });
    }
}
