//! A batch of several optimizer steps as one batch a step.

use std::collections::BTreeMap;

use crate::{Batch, CostTable, ProblemError, SampleIds};

impl Batch {
    /// The batches of the optimizer steps, steps ascending, each with its samples in input order.
    ///
    /// # Errors
    /// A wrong shape, or a zero length.
    pub fn by_step(&self) -> Result<Vec<Self>, ProblemError> {
        self.check_shapes(1)?;
        let Some(steps) = &self.step else { return Ok(vec![self.clone()]) };
        let mut samples: BTreeMap<i64, Vec<usize>> = BTreeMap::new();
        for (sample, &step) in steps.iter().enumerate() {
            samples.entry(step).or_default().push(sample);
        }
        Ok(samples.values().map(|samples| self.select(samples)).collect())
    }

    /// The batch of these samples.
    fn select(&self, samples: &[usize]) -> Self {
        let tokens = |values: &Option<Vec<u32>>| values.as_ref().map(|values| pick(values, 1, samples));
        let integers = |values: &Option<Vec<i64>>| values.as_ref().map(|values| pick(values, 1, samples));
        Self {
            lengths: pick(&self.lengths, 1, samples),
            expert_counts: self.expert_counts.as_ref().map(|counts| counts.select(samples)),
            routed_rows: tokens(&self.routed_rows),
            loss_tokens: tokens(&self.loss_tokens),
            sample_ids: self.sample_ids.as_ref().map(|ids| match ids {
                SampleIds::Integers(ids) => SampleIds::Integers(pick(ids, 1, samples)),
                SampleIds::Strings(ids) => SampleIds::Strings(pick(ids, 1, samples)),
            }),
            prompt_ids: integers(&self.prompt_ids),
            atomic_groups: integers(&self.atomic_groups),
            step: integers(&self.step),
            cost: self.cost.as_ref().map(|table| CostTable {
                kinds: table.kinds,
                values: pick(&table.values, table.kinds, samples),
            }),
        }
    }
}

/// The values of these samples, `width` each.
fn pick<T: Clone>(values: &[T], width: usize, samples: &[usize]) -> Vec<T> {
    samples.iter().flat_map(|&sample| &values[sample * width..(sample + 1) * width]).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ExpertCounts;

    #[test]
    fn every_array_follows_its_sample() {
        let batch = Batch {
            lengths: vec![3, 4, 5],
            expert_counts: Some(ExpertCounts::new([3, 1, 1, 2], vec![1, 2, 2, 2, 5, 0]).expect("shape")),
            routed_rows: Some(vec![3, 4, 5]),
            loss_tokens: Some(vec![1, 2, 3]),
            sample_ids: Some(SampleIds::Strings(vec!["a".into(), "b".into(), "c".into()])),
            prompt_ids: Some(vec![7, 8, 9]),
            atomic_groups: Some(vec![-1, 0, 0]),
            step: Some(vec![4, -2, 4]),
            cost: Some(CostTable { kinds: 2, values: vec![1, 2, 3, 4, 5, 6] }),
        };
        let steps = batch.by_step().expect("valid");
        let middle = Batch {
            lengths: vec![4],
            expert_counts: Some(ExpertCounts::new([1, 1, 1, 2], vec![2, 2]).expect("shape")),
            routed_rows: Some(vec![4]),
            loss_tokens: Some(vec![2]),
            sample_ids: Some(SampleIds::Strings(vec!["b".into()])),
            prompt_ids: Some(vec![8]),
            atomic_groups: Some(vec![0]),
            step: Some(vec![-2]),
            cost: Some(CostTable { kinds: 2, values: vec![3, 4] }),
        };
        assert_eq!(steps[0], middle);
        assert_eq!((&steps[1].lengths[..], steps[1].prompt_ids.as_deref()), (&[3, 5][..], Some(&[7, 9][..])));
        assert_eq!(steps[1].cost.as_ref().map(|table| &table.values[..]), Some(&[1, 2, 5, 6][..]));
        assert_eq!(Batch::from_lengths(vec![2]).by_step(), Ok(vec![Batch::from_lengths(vec![2])]));
        assert!(Batch { step: Some(vec![0]), ..Batch::from_lengths(vec![2, 3]) }.by_step().is_err());
    }
}
