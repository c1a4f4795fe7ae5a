//! Flat optimizer state: how Megatron's distributed optimizer cuts FP32 masters and moments over the EDP group.
//!
//! Experts have buffers of their own, one a chunk. Its parameters lie behind each other in reverse order of the model's:
//! last layer first, in a layer the last parameter first, each start aligned. A bucket closes once it is large enough
//! and is padded to a multiple of lcm(EDP, `bucket_alignment`); shard j of EDP equal shards of every bucket belongs to
//! EDP position j, and a rank holds its shards one after another. So a cut falls anywhere inside an expert, and where
//! it falls depends on the local place alone: all EP ranks of a stage cut alike.
//! Symbols: place = slot within its rank; element = one parameter. All positions in elements.
//! Reference: Megatron-LM, core/distributed/{param_and_grad_buffer,distributed_data_parallel}.py and
//! core/optimizer/distrib_optimizer.py, as in megatron-core 0.16.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ExpertTensor;

/// How a layer's experts are parameters of the model, and in which order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FlatOrder {
    /// Grouped linears: a module holds the tensors of one name up to its last dot, of every expert in turn:
    /// fc1.weight0, fc1.weight1, …, fc2.weight0, ….
    #[default]
    Grouped,
    /// One module an expert: all tensors of the first, then of the second.
    Sequential,
    /// One parameter a tensor, experts behind each other in it.
    Stacked,
}

/// How flat buffers are laid out and cut, in elements. The defaults are Megatron's without overlapped gradient reduction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FlatOptions {
    /// Order of the parameters of a layer.
    pub order: FlatOrder,
    /// Every parameter starts at a multiple of this.
    pub tensor_alignment: u64,
    /// A bucket's size is a multiple of this and of the EDP size; 65536 with `pad_buckets_for_high_nccl_busbw`.
    pub bucket_alignment: u64,
    /// A bucket closes once it holds this many elements; one bucket when absent. With overlapped gradient reduction
    /// Megatron takes max(40000000, 1000000·DP), and that on the first stage's first chunk alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bucket_elements: Option<u64>,
    /// Whether every chunk of every stage is cut into buckets, not only the first of the first.
    pub bucket_everywhere: bool,
    /// Layers of experts behind the last one in the last chunk's buffer that are not replayed: multi-token prediction.
    pub mtp_layers: u32,
}

impl Default for FlatOptions {
    fn default() -> Self {
        Self {
            order: FlatOrder::Grouped,
            tensor_alignment: 64,
            bucket_alignment: 128,
            bucket_elements: None,
            bucket_everywhere: false,
            mtp_layers: 0,
        }
    }
}

impl FlatOptions {
    /// Parameters of a layer as the model lists them; in each, which tensors of which places lie behind each other.
    fn parameters(&self, num_places: usize, tensors: &[ExpertTensor]) -> Vec<Vec<(usize, usize)>> {
        let module = |tensor: &ExpertTensor| {
            tensor.name.rsplit_once('.').map_or(&*tensor.name, |name| name.0).to_owned()
        };
        let each = |tensors: Range<usize>| {
            (0..num_places).flat_map(move |place| tensors.clone().map(move |tensor| vec![(place, tensor)]))
        };
        match self.order {
            FlatOrder::Sequential => each(0..tensors.len()).collect(),
            FlatOrder::Stacked => (0..tensors.len())
                .map(|tensor| (0..num_places).map(|place| (place, tensor)).collect())
                .collect(),
            FlatOrder::Grouped => {
                let mut first = 0;
                let modules = tensors.chunk_by(|a, b| module(a) == module(b)).map(|chunk| {
                    first += chunk.len();
                    first - chunk.len()..first
                });
                modules.flat_map(each).collect()
            }
        }
    }
}

/// Which chunk a buffer is of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkShape {
    pub(crate) num_layers: usize,
    pub(crate) num_places: usize,
    pub(crate) num_copies: u32,
    /// Whether it is the first chunk of the first stage, and the last of the last.
    pub(crate) first: bool,
    pub(crate) last: bool,
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
    /// The buffer of a chunk whose experts have these tensors.
    pub(crate) fn new(shape: ChunkShape, tensors: &[ExpertTensor], options: &FlatOptions) -> Self {
        let ChunkShape { num_layers, num_places, num_copies, first, last } = shape;
        let parameters = options.parameters(num_places, tensors);
        let full = options.bucket_elements.filter(|_| first || options.bucket_everywhere);
        let multiple = lcm(options.bucket_alignment, u64::from(num_copies));
        let behind = if last { options.mtp_layers as usize } else { 0 };
        let count = num_layers * num_places * tensors.len();
        let (mut starts, mut buckets) = (vec![(0, 0); count], Vec::new());
        let (mut begin, mut end) = (0u64, 0u64);
        for layer in (0..num_layers + behind).rev() {
            for (index, parameter) in parameters.iter().enumerate().rev() {
                end = end.next_multiple_of(options.tensor_alignment);
                for &(place, tensor) in parameter {
                    if layer < num_layers {
                        starts[(layer * num_places + place) * tensors.len() + tensor] = (end, buckets.len());
                    }
                    end += tensors[tensor].elements;
                }
                if (layer, index) == (0, 0) || full.is_some_and(|full| end - begin >= full) {
                    end = end.next_multiple_of(multiple);
                    buckets.push(begin..end);
                    begin = end;
                }
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

/// The least common multiple of two positive numbers.
fn lcm(a: u64, b: u64) -> u64 {
    let (mut divisor, mut rest) = (a, b);
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    a / divisor * b
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensors(sizes: &[(&str, u64)]) -> Vec<ExpertTensor> {
        sizes.iter().map(|&(name, elements)| ExpertTensor { name: name.into(), elements }).collect()
    }

    fn shape(num_layers: usize, num_places: usize, num_copies: u32) -> ChunkShape {
        ChunkShape { num_layers, num_places, num_copies, first: true, last: true }
    }

    /// (layer, place, tensor) in the order of the buffer.
    fn order(buffer: &FlatBuffer) -> Vec<(usize, usize, usize)> {
        let mut order: Vec<(u64, usize)> =
            buffer.starts.iter().zip(0..).map(|(start, at)| (start.0, at)).collect();
        order.sort_unstable();
        let (places, tensors) = (buffer.num_places, buffer.num_tensors);
        order
            .into_iter()
            .map(|(_, at)| (at / tensors / places, at / tensors % places, at % tensors))
            .collect()
    }

    #[test]
    fn orders_of_the_models_modules() {
        let tensors = tensors(&[("fc1.weight", 100), ("fc1.bias", 10), ("fc2.weight", 50)]);
        let buffer = |order| {
            FlatBuffer::new(shape(1, 2, 2), &tensors, &FlatOptions { order, ..FlatOptions::default() })
        };
        let grouped = [(0, 1, 2), (0, 0, 2), (0, 1, 1), (0, 1, 0), (0, 0, 1), (0, 0, 0)];
        assert_eq!(order(&buffer(FlatOrder::Grouped)), grouped);
        let sequential = [(0, 1, 2), (0, 1, 1), (0, 1, 0), (0, 0, 2), (0, 0, 1), (0, 0, 0)];
        assert_eq!(order(&buffer(FlatOrder::Sequential)), sequential);
        let stacked = buffer(FlatOrder::Stacked);
        assert_eq!(order(&stacked), [(0, 0, 2), (0, 1, 2), (0, 0, 1), (0, 1, 1), (0, 0, 0), (0, 1, 0)]);
        // Inside a parameter nothing is aligned: fc2.weight of both, then fc1.bias at 128 and 138.
        assert_eq!(
            stacked.starts.iter().map(|start| start.0).collect::<Vec<_>>(),
            [192, 128, 0, 292, 138, 50]
        );
    }

    /// Figures that `_ParamAndGradBuffer` of megatron-core 0.16.1 gives for these parameters
    /// (crates/routepack-py/tests/torch/megatron_buffer.py compares many more).
    #[test]
    fn buckets_are_cut_as_megatron_cuts_them() {
        let tensors = tensors(&[("fc1.weight", 100), ("fc2.weight", 50)]);
        let options = FlatOptions { bucket_elements: Some(150), ..FlatOptions::default() };
        let buffer = FlatBuffer::new(shape(1, 2, 3), &tensors, &options);
        assert_eq!(buffer.buckets, [0..384, 384..768]);
        // fc2.weight1, fc2.weight0, fc1.weight1 | fc1.weight0: by place, then tensor.
        assert_eq!(buffer.starts, [(384, 1), (64, 0), (128, 0), (0, 0)]);
        // Buckets only on the first stage's first chunk.
        let later = FlatBuffer::new(ChunkShape { first: false, ..shape(1, 2, 3) }, &tensors, &options);
        assert_eq!((later.buckets.len(), later.buckets[0].end), (1, 384));
        // 4 divides 128: buckets are multiples of 128, shards of 32.
        let four = FlatBuffer::new(shape(1, 1, 4), &tensors, &FlatOptions::default());
        assert_eq!((four.buckets[0].end, four.shard_elements()), (256, 64));
        let everywhere = FlatOptions { bucket_everywhere: true, ..options };
        let later = FlatBuffer::new(ChunkShape { first: false, ..shape(1, 2, 3) }, &tensors, &everywhere);
        assert_eq!(later.buckets, buffer.buckets);
    }

    #[test]
    fn experts_of_multi_token_prediction_come_first_on_the_last_stage() {
        let tensors = tensors(&[("w", 64)]);
        let options = FlatOptions { mtp_layers: 1, ..FlatOptions::default() };
        let last = FlatBuffer::new(shape(1, 2, 1), &tensors, &options);
        assert_eq!(last.starts, [(192, 0), (128, 0)]);
        let other = FlatBuffer::new(ChunkShape { last: false, ..shape(1, 2, 1) }, &tensors, &options);
        assert_eq!(other.starts, [(64, 0), (0, 0)]);
    }

    #[test]
    fn every_element_has_one_place_and_cuts_fall_inside_tensors() {
        let options = FlatOptions {
            tensor_alignment: 4,
            bucket_alignment: 2,
            bucket_elements: Some(50),
            ..FlatOptions::default()
        };
        let tensors = tensors(&[("up", 13), ("down", 7)]);
        let buffer = FlatBuffer::new(shape(3, 2, 3), &tensors, &options);
        assert!(buffer.buckets.len() > 1);
        let mut held = vec![vec![false; buffer.shard_elements() as usize]; 3];
        let mut cut = 0;
        for layer in 0..3 {
            for place in 0..2 {
                for (tensor, elements) in tensors.iter().map(|tensor| tensor.elements).enumerate() {
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
