//! What a rank holds of its experts: tensors, kinds of state, and where every byte of them is.

use std::collections::BTreeMap;
use std::ops::Range;

use routepack_problem::{Parallelism, Placement};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::flat::{ChunkShape, FlatBuffer};
use crate::{ExpertGrid, FlatOptions, MaterialiseError, Owner};

/// One tensor of every expert.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExpertTensor {
    /// Name, for messages and for whoever moves it.
    pub name: String,
    /// Elements of one expert's slice on one ETP rank.
    pub elements: u64,
}

/// How state is spread over the EDP group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Held {
    /// Whole experts in slots, a copy on every EDP position: weights.
    BySlot,
    /// Flat ranges over the EDP group: a distributed optimizer's masters and moments.
    Flat,
}

/// One kind of state that every element of every tensor has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StateKind {
    /// Name: `weight`, `master`, …
    pub name: String,
    /// Bytes an element.
    pub element_bytes: u32,
    /// How it is spread.
    pub held: Held,
}

/// Expert state of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExpertState {
    /// Logical experts per layer.
    pub num_experts: u32,
    /// Tensors of an expert.
    pub tensors: Vec<ExpertTensor>,
    /// Kinds of state.
    pub kinds: Vec<StateKind>,
    /// How flat kinds are cut.
    #[serde(default)]
    pub flat: FlatOptions,
}

impl ExpertState {
    /// A gated expert (gate and up in one tensor, down in another) in BF16 with Adam's FP32 master and moments, as
    /// Megatron's distributed optimizer holds them; `ffn` is divided by the ETP size.
    pub fn mixed_precision_adam(num_experts: u32, hidden: u64, ffn: u64, etp: u32) -> Self {
        let slice = ffn / u64::from(etp);
        let flat = |name: &str| StateKind { name: name.into(), element_bytes: 4, held: Held::Flat };
        Self {
            num_experts,
            tensors: vec![
                ExpertTensor { name: "linear_fc1.weight".into(), elements: 2 * hidden * slice },
                ExpertTensor { name: "linear_fc2.weight".into(), elements: hidden * slice },
            ],
            kinds: vec![
                StateKind { name: "weight".into(), element_bytes: 2, held: Held::BySlot },
                flat("master"),
                flat("exp_avg"),
                flat("exp_avg_sq"),
            ],
            flat: FlatOptions::default(),
        }
    }
}

/// A place for one expert: a slot, at one of its owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Seat {
    /// Owner.
    pub owner: Owner,
    /// Slot of the layer.
    pub slot: u32,
}

/// A run of a tensor's bytes in one rank's memory of a flat kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldRun {
    /// Layer.
    pub layer: usize,
    /// Tensor.
    pub tensor: usize,
    /// Slot.
    pub slot: u32,
    /// First byte, counted from the start of the tensor's slice.
    pub start: u64,
    /// Bytes.
    pub num_bytes: u64,
    /// Where they are in the rank's memory of the layer's chunk.
    pub at: u64,
}

/// Expert state on a grid: where every byte is.
#[derive(Clone, Debug)]
pub struct Holdings {
    pub(crate) grid: ExpertGrid,
    pub(crate) state: ExpertState,
    places: u32,
    /// Elements before every tensor of an expert, and of all.
    offsets: Vec<u64>,
    /// Of every stage and chunk, with the layers in it.
    flat: BTreeMap<(u32, u32), (Vec<usize>, FlatBuffer)>,
}

/// Most bytes of one kind of state on one rank.
const LIMIT: u128 = 1 << 62;

impl Holdings {
    /// The state of `num_layers` layers on the grid of `parallelism`.
    ///
    /// # Errors
    /// Sizes that give no grid, experts not divisible by EP, no tensors or kinds, a size of 0 or beyond 2^62 bytes.
    pub fn new(
        parallelism: &Parallelism,
        num_layers: usize,
        state: ExpertState,
    ) -> Result<Self, MaterialiseError> {
        let grid = ExpertGrid::new(parallelism, num_layers)?;
        Placement::identity(1, state.num_experts as usize, grid.ep as usize)?;
        validate(&state, num_layers)?;
        let places = state.num_experts / grid.ep;
        let sizes: Vec<u64> = state.tensors.iter().map(|tensor| tensor.elements).collect();
        let mut offsets = vec![0];
        offsets.extend(sizes.iter().scan(0, |sum, size| {
            *sum += size;
            Some(*sum)
        }));
        let mut flat = BTreeMap::new();
        let last = num_layers.checked_sub(1).map(|layer| grid.home(layer));
        for home in (0..num_layers).map(|layer| grid.home(layer)) {
            flat.entry(home).or_insert_with(|| {
                let layers: Vec<usize> = grid.layers_of(home.0, home.1).collect();
                let shape = ChunkShape {
                    num_layers: layers.len(),
                    num_places: places as usize,
                    num_copies: grid.edp,
                    first: home == (0, 0),
                    last: Some(home) == last,
                };
                let buffer = FlatBuffer::new(shape, &state.tensors, &state.flat);
                (layers, buffer)
            });
        }
        Ok(Self { grid, state, places, offsets, flat })
    }

    /// The grid.
    pub fn grid(&self) -> &ExpertGrid {
        &self.grid
    }

    /// The state's description.
    pub fn state(&self) -> &ExpertState {
        &self.state
    }

    /// Bytes of one kind that an owner holds.
    pub fn held_bytes(&self, owner: Owner, kind: usize) -> u64 {
        let Some((layers, buffer)) = self.flat.get(&(owner.stage, owner.chunk)) else { return 0 };
        let elements = match self.state.kinds[kind].held {
            Held::BySlot => layers.len() as u64 * u64::from(self.places) * self.expert_elements(),
            Held::Flat => buffer.shard_elements(),
        };
        elements * u64::from(self.state.kinds[kind].element_bytes)
    }

    /// Elements of one expert's slice.
    pub fn expert_elements(&self) -> u64 {
        self.offsets[self.state.tensors.len()]
    }

    /// Where byte `offset` of a tensor is in its owner's memory of that kind, and how many bytes follow it there; none
    /// if another EDP position holds it.
    pub fn address(
        &self,
        kind: usize,
        layer: usize,
        seat: Seat,
        tensor: usize,
        offset: u64,
    ) -> Option<(u64, u64)> {
        let bytes = u64::from(self.state.kinds[kind].element_bytes);
        let (element, within) = (offset / bytes, offset % bytes);
        let at = |run: Range<u64>| (run.start * bytes + within, (run.end - run.start) * bytes - within);
        let end = self.state.tensors[tensor].elements;
        match self.state.kinds[kind].held {
            Held::BySlot => {
                let layer = self.layer_in_chunk(layer) as u64;
                let seats = layer * u64::from(self.places) + u64::from(seat.slot % self.places);
                let start = seats * self.expert_elements() + self.offsets[tensor];
                Some(at(start + element..start + end))
            }
            Held::Flat => {
                let run = self.runs(layer, seat.slot, tensor, element..end).into_iter().next()?;
                (run.edp == seat.owner.edp).then(|| at(run.at..run.at + run.len))
            }
        }
    }

    /// What one rank holds of a flat kind, by layer, slot and tensor; nothing of a kind held by slot.
    pub fn runs_of_rank(&self, kind: usize, rank: u32) -> Vec<HeldRun> {
        let described = &self.state.kinds[kind];
        let size = u64::from(described.element_bytes);
        let mut held = Vec::new();
        for layer in (0..self.grid.num_layers()).filter(|_| described.held == Held::Flat) {
            for owner in self.grid.owners(layer).filter(|&owner| self.grid.rank(owner) == rank) {
                for slot in owner.ep * self.places..(owner.ep + 1) * self.places {
                    for (tensor, sized) in self.state.tensors.iter().enumerate() {
                        let runs = self.runs(layer, slot, tensor, 0..sized.elements).into_iter();
                        held.extend(runs.filter(|run| run.edp == owner.edp).map(|run| HeldRun {
                            layer,
                            tensor,
                            slot,
                            start: run.start * size,
                            num_bytes: run.len * size,
                            at: run.at * size,
                        }));
                    }
                }
            }
        }
        held
    }

    /// EP rank of a slot.
    pub(crate) fn ep_of(&self, slot: u32) -> u32 {
        slot / self.places
    }

    pub(crate) fn runs(
        &self,
        layer: usize,
        slot: u32,
        tensor: usize,
        range: Range<u64>,
    ) -> Vec<crate::flat::Run> {
        let buffer = &self.flat[&self.grid.home(layer)].1;
        buffer.runs(self.layer_in_chunk(layer), (slot % self.places) as usize, tensor, range)
    }

    fn layer_in_chunk(&self, layer: usize) -> usize {
        let layers = &self.flat[&self.grid.home(layer)].0;
        layers.binary_search(&layer).expect("a layer is in its own chunk")
    }
}

fn validate(state: &ExpertState, num_layers: usize) -> Result<(), MaterialiseError> {
    let positive = |field: String, value: u64| {
        if value == 0 { Err(MaterialiseError::state(field, value, "expected at least 1")) } else { Ok(()) }
    };
    positive("num_experts".into(), u64::from(state.num_experts))?;
    positive("tensors".into(), state.tensors.len() as u64)?;
    positive("kinds".into(), state.kinds.len() as u64)?;
    positive("flat.tensor_alignment".into(), state.flat.tensor_alignment)?;
    positive("flat.bucket_alignment".into(), state.flat.bucket_alignment)?;
    for (index, tensor) in state.tensors.iter().enumerate() {
        positive(format!("tensors[{index}].elements"), tensor.elements)?;
    }
    let aligned = u128::from(state.flat.tensor_alignment) + u128::from(state.flat.bucket_alignment) * 65_536;
    let elements: u128 = state.tensors.iter().map(|tensor| u128::from(tensor.elements) + aligned).sum();
    for (index, kind) in state.kinds.iter().enumerate() {
        positive(format!("kinds[{index}].element_bytes"), u64::from(kind.element_bytes))?;
        let bytes = elements
            .saturating_mul(u128::from(state.num_experts))
            .saturating_mul(num_layers as u128 + u128::from(state.flat.mtp_layers))
            .saturating_mul(u128::from(kind.element_bytes));
        if bytes > LIMIT {
            return Err(MaterialiseError::state(format!("kinds[{index}]"), bytes, "more than 2^62 bytes"));
        }
    }
    Ok(())
}
