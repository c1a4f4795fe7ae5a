//! Recorded rollouts as arrays: what a window file holds.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{ExpertCounts, ProblemError};

/// Samples whose counts one thread reads at a time.
const SAMPLES_AT_ONCE: usize = 32;

/// Identities of samples outside this program: integers or strings, in input order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SampleIds {
    /// Integer ids `[samples]`.
    Integers(Vec<i64>),
    /// String ids `[samples]`.
    Strings(Vec<String>),
}

impl SampleIds {
    /// Number of ids.
    pub fn len(&self) -> usize {
        match self {
            Self::Integers(ids) => ids.len(),
            Self::Strings(ids) => ids.len(),
        }
    }

    /// Whether there is no id.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The id of sample `index` as text.
    pub fn text(&self, index: usize) -> String {
        match self {
            Self::Integers(ids) => ids[index].to_string(),
            Self::Strings(ids) => ids[index].clone(),
        }
    }
}

/// A given cost per sample and attention kind, `[samples, kinds]`, in place of α·t + β·t²/C.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostTable {
    /// Attention kinds.
    pub kinds: usize,
    /// Row-major values, in the unit of the linear attention term (tokens at α = 1).
    pub values: Vec<u32>,
}

/// Recorded samples of one or several optimizer steps, as handed over by the rollout engine.
///
/// Every array is in input order. Only `lengths` is required; without counts only attention is charged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Raw tokens (prompt + response) `[samples]`.
    pub lengths: Vec<u32>,
    /// Expert choices; `None` when routing was not recorded.
    pub expert_counts: Option<ExpertCounts>,
    /// Tokens whose routes were recorded `[samples]`; derived from the counts when absent.
    pub routed_rows: Option<Vec<u32>>,
    /// Loss-mask tokens `[samples]`.
    pub loss_tokens: Option<Vec<u32>>,
    /// Ids outside this program; input order when absent.
    pub sample_ids: Option<SampleIds>,
    /// Prompt of every sample `[samples]`; statistics only.
    pub prompt_ids: Option<Vec<i64>>,
    /// Samples with the same nonnegative value must share a cell; negative: free `[samples]`.
    pub atomic_groups: Option<Vec<i64>>,
    /// Optimizer step of every sample `[samples]`; one step when absent.
    pub step: Option<Vec<i64>>,
    /// Given attention costs.
    pub cost: Option<CostTable>,
}

impl Batch {
    /// A batch of lengths alone.
    pub fn from_lengths(lengths: Vec<u32>) -> Self {
        Self { lengths, ..Self::default() }
    }

    /// Samples.
    pub fn num_samples(&self) -> usize {
        self.lengths.len()
    }

    /// Recorded `MoE` layers; 0 without counts.
    pub fn num_layers(&self) -> usize {
        self.expert_counts.as_ref().map_or(0, ExpertCounts::layers)
    }

    /// The id of a sample as text: its id outside, or its index.
    pub fn id_text(&self, sample: usize) -> String {
        self.sample_ids.as_ref().map_or_else(|| sample.to_string(), |ids| ids.text(sample))
    }

    /// Tokens of a sample whose routes were recorded: given, else the first layer's counts over `top_k`.
    pub fn rows_of(&self, sample: usize, top_k: u32) -> u32 {
        match (&self.routed_rows, &self.expert_counts) {
            (Some(rows), _) => rows[sample],
            (None, Some(counts)) => {
                let sum: u64 = (0..counts.parts())
                    .flat_map(|part| counts.of(sample, part, 0))
                    .map(|&count| u64::from(count))
                    .sum();
                u32::try_from(sum / u64::from(top_k.max(1))).unwrap_or(u32::MAX)
            }
            (None, None) => 0,
        }
    }

    /// Checks that every array fits the others and the definitions of DESIGN §1.1.
    ///
    /// # Errors
    /// A wrong shape, a zero length, rows or loss tokens beyond the length, a count beyond the rows, or counts that
    /// do not sum to `top_k · routed_rows` in some layer; the error names the place.
    pub fn check(&self, top_k: u32) -> Result<(), ProblemError> {
        self.check_shapes(top_k)?;
        let samples: Vec<u32> = (0..self.num_samples() as u32).collect();
        self.sum_counts(&samples, top_k).map(drop)
    }

    /// [`Batch::check`] but for the values of the counts.
    pub(crate) fn check_shapes(&self, top_k: u32) -> Result<(), ProblemError> {
        let n = self.num_samples();
        if n == 0 {
            return Err(ProblemError::Empty);
        }
        if u32::try_from(n).is_err() {
            return Err(ProblemError::shape("lengths", &[n], "fewer than 2^32 samples"));
        }
        if let Some(sample) = self.lengths.iter().position(|&length| length == 0) {
            return Err(ProblemError::value("lengths", sample, 0, "a sample has at least 1 token"));
        }
        let ids = self.sample_ids.as_ref().map(SampleIds::len);
        for (field, len) in [
            ("routed_rows", self.routed_rows.as_ref().map(Vec::len)),
            ("loss_tokens", self.loss_tokens.as_ref().map(Vec::len)),
            ("sample_ids", ids),
            ("prompt_ids", self.prompt_ids.as_ref().map(Vec::len)),
            ("atomic_groups", self.atomic_groups.as_ref().map(Vec::len)),
            ("step", self.step.as_ref().map(Vec::len)),
        ] {
            if len.is_some_and(|len| len != n) {
                return Err(ProblemError::shape(field, &[len.unwrap_or(0)], format!("[{n}], as lengths")));
            }
        }
        for (field, values) in [("routed_rows", &self.routed_rows), ("loss_tokens", &self.loss_tokens)] {
            for (sample, (&value, &length)) in values.iter().flatten().zip(&self.lengths).enumerate() {
                if value > length {
                    return Err(ProblemError::value(
                        field,
                        sample,
                        value,
                        format!("at most the sample's {length} tokens"),
                    ));
                }
            }
        }
        if let Some(table) = &self.cost {
            if table.kinds == 0 || table.values.len() != n * table.kinds {
                return Err(ProblemError::shape("cost", &[table.values.len()], format!("[{n}, kinds]")));
            }
        }
        self.check_shape_of_counts(top_k)
    }

    fn check_shape_of_counts(&self, top_k: u32) -> Result<(), ProblemError> {
        let Some(counts) = &self.expert_counts else { return Ok(()) };
        let [samples, _, _, experts] = counts.shape();
        if samples != self.num_samples() {
            return Err(ProblemError::shape(
                "expert_counts",
                &counts.shape(),
                format!("[{}, ...], as lengths", self.num_samples()),
            ));
        }
        if top_k == 0 || top_k as usize > experts {
            return Err(ProblemError::setting(
                "routing.top_k",
                top_k,
                format!("expected 1 to {experts} experts"),
            ));
        }
        Ok(())
    }

    /// Checks the counts of these samples and adds them up over samples and parts: `[layers][experts]`.
    ///
    /// One pass at the speed of memory, on the threads of the current rayon pool.
    pub(crate) fn sum_counts(&self, samples: &[u32], top_k: u32) -> Result<Vec<Vec<u64>>, ProblemError> {
        let Some(counts) = &self.expert_counts else { return Ok(Vec::new()) };
        let none = || Ok(vec![vec![0u64; counts.experts()]; counts.layers()]);
        samples
            .par_chunks(SAMPLES_AT_ONCE)
            .map(|samples| {
                samples.iter().try_fold(none()?, |mut loads, &sample| {
                    self.add_sample(counts, sample as usize, top_k, &mut loads)?;
                    Ok(loads)
                })
            })
            // Rayon keeps the order, so the first sample at fault is the one named.
            .reduce(none, |one, other| {
                let (mut one, other) = (one?, other?);
                for (loads, more) in one.iter_mut().zip(other) {
                    loads.iter_mut().zip(more).for_each(|(load, more)| *load += more);
                }
                Ok(one)
            })
    }

    /// Checks the counts of one sample and adds them to `loads`.
    fn add_sample(
        &self,
        counts: &ExpertCounts,
        sample: usize,
        top_k: u32,
        loads: &mut [Vec<u64>],
    ) -> Result<(), ProblemError> {
        let rows = self.rows_of(sample, top_k);
        if rows > self.lengths[sample] {
            // Recorded rows were compared before: these are derived from the counts and `top_k`.
            return Err(ProblemError::value(
                "expert_counts",
                format!("{sample}, layer 0"),
                format!("{rows} rows of {top_k} experts"),
                format!("at most the sample's {} tokens (or routing.top_k is wrong)", self.lengths[sample]),
            ));
        }
        let expected = u64::from(top_k) * u64::from(rows);
        if u32::try_from(expected).is_err() {
            let limit = format!("top_k = {top_k} times the routed rows must stay below 2^32");
            return Err(ProblemError::value("routed_rows", sample, rows, limit));
        }
        for (layer, loads) in loads.iter_mut().enumerate() {
            let mut sum = 0u64;
            for part in 0..counts.parts() {
                let counts = counts.of(sample, part, layer);
                sum += counts.iter().map(|&count| u64::from(count)).sum::<u64>();
                if counts.iter().fold(0, |most, &count| most.max(count)) > rows {
                    let expert = counts.iter().position(|&count| count > rows).unwrap_or(0);
                    return Err(ProblemError::value(
                        "expert_counts",
                        format!("{sample}, layer {layer}, expert {expert}"),
                        counts[expert],
                        format!("at most the sample's {rows} routed rows"),
                    ));
                }
                loads.iter_mut().zip(counts).for_each(|(load, &count)| *load += u64::from(count));
            }
            if sum != expected {
                return Err(ProblemError::CountSum { sample, layer, sum, top_k, rows, expected });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(values: &[u32]) -> Batch {
        Batch {
            lengths: vec![3, 4],
            expert_counts: Some(ExpertCounts::new([2, 1, 1, 4], values.to_vec()).expect("shape")),
            ..Batch::default()
        }
    }

    #[test]
    fn counts_must_add_up() {
        assert_eq!(batch(&[3, 3, 0, 0, 2, 2, 2, 2]).check(2), Ok(()));
        assert_eq!(batch(&[3, 3, 0, 0, 2, 2, 2, 2]).rows_of(1, 2), 4);
        let odd = batch(&[3, 2, 0, 0, 2, 2, 2, 2]).check(2).expect_err("3 rows derived from 5 do not fit");
        assert!(matches!(
            odd,
            ProblemError::Value { .. } | ProblemError::CountSum { sample: 0, layer: 0, .. }
        ));
        let above = batch(&[6, 0, 0, 0, 2, 2, 2, 2]).check(2).expect_err("one expert above the rows");
        assert!(above.to_string().contains("expert 0"), "{above}");
    }

    #[test]
    fn shapes_are_checked() {
        let mut short = batch(&[3, 3, 0, 0, 2, 2, 2, 2]);
        short.loss_tokens = Some(vec![1]);
        assert!(matches!(short.check(2), Err(ProblemError::Shape { field: "loss_tokens", .. })));
        assert_eq!(Batch::default().check(1), Err(ProblemError::Empty));
        assert!(Batch::from_lengths(vec![1, 0]).check(1).is_err());
    }
}
