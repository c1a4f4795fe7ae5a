//! Flat optimizer state: how Megatron's distributed optimizer cuts FP32 masters and moments over the EDP group.
//!
//! The parameters of a chunk lie behind each other, last layer first, each start aligned; a bucket closes once it is
//! large enough and is padded so that EDP equal shards of it are aligned; shard j of every bucket belongs to EDP
//! position j, and a rank holds its shards one after another. So a cut falls anywhere inside an expert, and where it
//! falls depends on the local place alone: all EP ranks of a stage cut alike.
//! Symbols: place = slot within its rank; element = one parameter. All positions in elements.
//! Reference: Megatron-LM, core/distributed/param_and_grad_buffer.py and core/optimizer/distrib_optimizer.py.
//! Deviation: within a layer by place, then tensor, both descending (a model registers them ascending).

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How flat buffers are cut, in elements.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FlatOptions {
    /// Every tensor starts at a multiple of this, in elements.
    pub tensor_alignment: u64,
    /// Every shard of a bucket is a multiple of this, in elements.
    pub shard_alignment: u64,
    /// A bucket closes once it holds this many elements; one bucket when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bucket_elements: Option<u64>,
}

impl Default for FlatOptions {
    fn default() -> Self {
        Self { tensor_alignment: 64, shard_alignment: 128, bucket_elements: None }
    }
}

/// A run of a tensor's elements in one rank's shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// EDP position of the rank.
    pub(crate) edp: u32,
    /// First element, within the tensor.
    pub(crate) start: u64,
    /// Elements.
    pub(crate) len: u64,
    /// Where the rank holds it, in elements.
    pub(crate) at: u64,
}

/// The flat buffer of one chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FlatBuffer {
    num_places: usize,
    num_tensors: usize,
    /// Start of every tensor, `[layers of the chunk][places][tensors]`, and its bucket.
    starts: Vec<(u64, usize)>,
    buckets: Vec<Range<u64>>,
    num_copies: u64,
}

impl FlatBuffer {
    /// The buffer of `num_layers` layers with `num_places` experts a rank, each of these tensors.
    pub(crate) fn new(
        num_layers: usize,
        num_places: usize,
        tensors: &[u64],
        num_copies: u32,
        options: &FlatOptions,
    ) -> Self {
        let count = num_layers * num_places * tensors.len();
        let shard = options.shard_alignment * u64::from(num_copies);
        let (mut starts, mut buckets) = (vec![(0, 0); count], Vec::new());
        let (mut begin, mut end) = (0u64, 0u64);
        for index in (0..count).rev() {
            let start = end.next_multiple_of(options.tensor_alignment);
            starts[index] = (start, buckets.len());
            end = start + tensors[index % tensors.len()];
            if index == 0 || options.bucket_elements.is_some_and(|full| end - begin >= full) {
                end = begin + (end - begin).next_multiple_of(shard);
                buckets.push(begin..end);
                begin = end;
            }
        }
        Self { num_places, num_tensors: tensors.len(), starts, buckets, num_copies: u64::from(num_copies) }
    }

    /// Elements a rank holds.
    pub(crate) fn shard_elements(&self) -> u64 {
        self.buckets.iter().map(|bucket| (bucket.end - bucket.start) / self.num_copies).sum()
    }

    /// The runs of elements `range` of a tensor, ascending. `layer` counts within the chunk.
    pub(crate) fn runs(&self, layer: usize, place: usize, tensor: usize, range: Range<u64>) -> Vec<Run> {
        let (start, index) = self.starts[(layer * self.num_places + place) * self.num_tensors + tensor];
        let bucket = &self.buckets[index];
        let size = (bucket.end - bucket.start) / self.num_copies;
        // Buckets follow each other, so the shards before this bucket end at begin / copies.
        let before = bucket.start / self.num_copies;
        let mut runs = Vec::new();
        let mut next = range.start;
        while next < range.end {
            let position = start + next - bucket.start;
            let edp = position / size;
            let len = (range.end - next).min((edp + 1) * size - position);
            runs.push(Run { edp: edp as u32, start: next, len, at: before + position - edp * size });
            next += len;
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_has_one_place_and_cuts_fall_inside_tensors() {
        let options = FlatOptions { tensor_alignment: 4, shard_alignment: 2, bucket_elements: Some(40) };
        let tensors = [13, 7];
        let buffer = FlatBuffer::new(3, 2, &tensors, 3, &options);
        assert!(buffer.buckets.len() > 1);
        let mut held = vec![vec![false; buffer.shard_elements() as usize]; 3];
        let mut cut = 0;
        for layer in 0..3 {
            for place in 0..2 {
                for (tensor, &elements) in tensors.iter().enumerate() {
                    let runs = buffer.runs(layer, place, tensor, 0..elements);
                    assert_eq!(runs.iter().map(|run| run.len).sum::<u64>(), elements);
                    cut += usize::from(runs.len() > 1);
                    for run in runs {
                        for at in run.at..run.at + run.len {
                            assert!(!std::mem::replace(&mut held[run.edp as usize][at as usize], true));
                        }
                    }
                }
            }
        }
        assert!(cut > 0, "a tensor is cut");
    }
}
