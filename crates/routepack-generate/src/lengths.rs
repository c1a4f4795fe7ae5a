//! Lengths of rollouts: log-normal, the prompt shared by its group, with a spike where responses are cut.
//!
//! Problem: totals t, prompt and response together, of the samples of a prompt. Symbols: m, σ median and log-standard
//! deviation of responses; c fraction of σ² shared by a group; δ a domain's shift; T the cut.
//! Method: ln response = ln m + δ + σ(y√c + z√(1−c)) with standard normals, y the prompt's and z the sample's; t is cut
//! at T, and is T with the probability of a runaway. Complexity: constant a sample.
//! Reference: shapes of public rollout logs (log-normal bodies with σ from 0.6 to 1.0, a spike exactly at the limit); the
//! log-normal model is ours.

use routepack_anneal::elementary::{exp, ln};
use routepack_anneal::stream::Stream;

use crate::LengthRecipe;

/// Tokens of the samples of one prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prompt {
    /// Tokens of the prompt.
    pub(crate) prompt: u32,
    /// Tokens of prompt and response of every sample.
    pub(crate) totals: Vec<u32>,
}

impl LengthRecipe {
    /// The samples of one prompt, whose domain moves the logarithm of the response median by `shift`.
    pub(crate) fn draw(&self, group: u32, shift: f64, stream: &mut Stream) -> Prompt {
        let prompt = log_normal(self.prompt_median, self.prompt_sigma * stream.normal());
        let prompt = prompt.min(f64::from(self.max_total - self.min_response)).max(1.0) as u32;
        let common = shift + self.response_sigma * self.shared.sqrt() * stream.normal();
        let own = self.response_sigma * (1.0 - self.shared).sqrt();
        let totals = (0..group)
            .map(|_| {
                let response = log_normal(self.response_median, common + own * stream.normal());
                let runaway = stream.unit() < self.truncated;
                let room = f64::from(self.max_total - prompt);
                let response = response.max(f64::from(self.min_response)).min(room);
                prompt + if runaway { room } else { response } as u32
            })
            .collect();
        Prompt { prompt, totals }
    }

    /// How far a domain moves the logarithm of the response median.
    pub(crate) fn domain_shift(&self, stream: &mut Stream) -> f64 {
        self.domain_sigma * stream.normal()
    }
}

/// `median · e^deviation`, to the nearest whole number.
fn log_normal(median: f64, deviation: f64) -> f64 {
    exp(ln(median) + deviation).round()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_its_law() {
        let recipe = LengthRecipe { truncated: 0.1, max_total: 4000, ..LengthRecipe::default() };
        let prompts: Vec<Prompt> =
            (0..4000).map(|i| recipe.draw(8, 0.0, &mut Stream::new(1).child(i))).collect();
        let totals: Vec<u32> = prompts.iter().flat_map(|prompt| prompt.totals.iter().copied()).collect();
        let spike = totals.iter().filter(|&&total| total == 4000).count() as f64 / totals.len() as f64;
        // 10 % runaways and P(response > 3910) = P(z > ln(3910/560)/0.75) = 0.005 of the rest.
        assert!((0.097..0.113).contains(&spike), "{spike}");
        assert!(totals.iter().all(|&total| (2..=4000).contains(&total)));
        // The uncut logarithms have the median and spread asked for, and correlate within a prompt as asked.
        let logs = |prompt: &Prompt, sample: usize| {
            let response = f64::from(prompt.totals[sample] - prompt.prompt);
            (prompt.totals[sample] < 4000).then(|| ln(response / 560.0))
        };
        let pairs: Vec<(f64, f64)> =
            prompts.iter().filter_map(|prompt| Some((logs(prompt, 0)?, logs(prompt, 1)?))).collect();
        let n = pairs.len() as f64;
        let mean = pairs.iter().map(|pair| pair.0).sum::<f64>() / n;
        let variance = pairs.iter().map(|pair| pair.0 * pair.0).sum::<f64>() / n;
        let covariance = pairs.iter().map(|pair| pair.0 * pair.1).sum::<f64>() / n;
        assert!(mean.abs() < 0.05, "{mean}");
        assert!((variance / 0.5625 - 1.0).abs() < 0.1, "{variance}");
        assert!((covariance / variance - 0.3).abs() < 0.06, "{covariance}");
    }

    #[test]
    fn extremes_stay_within_their_limits() {
        let long = LengthRecipe {
            prompt_median: 1e9,
            response_median: 1e9,
            max_total: 2,
            ..LengthRecipe::default()
        };
        assert_eq!(long.draw(2, 0.0, &mut Stream::new(1)), Prompt { prompt: 1, totals: vec![2, 2] });
        let short = LengthRecipe {
            prompt_median: 1.0,
            response_median: 1.0,
            min_response: 7,
            truncated: 0.0,
            prompt_sigma: 0.0,
            response_sigma: 0.0,
            ..LengthRecipe::default()
        };
        assert_eq!(short.draw(1, 0.0, &mut Stream::new(1)), Prompt { prompt: 1, totals: vec![8] });
    }
}
