//! Where every byte of expert state is: on which rank, and where in its memory.

use std::collections::BTreeMap;
use std::ops::Range;

use routepack_problem::{Parallelism, Placement};
use serde::{Deserialize, Serialize};

use crate::flat::{ChunkShape, FlatBuffer};
use crate::{ExpertGrid, ExpertState, ExpertTensor, Held, MaterialiseError, Owner};

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
    /// Layers of every stage and chunk.
    chunks: BTreeMap<(u32, u32), Vec<usize>>,
    kinds: Vec<KindHoldings>,
}

/// Where one kind of state is.
#[derive(Clone, Debug)]
struct KindHoldings {
    /// Its tensors, by index, ascending.
    tensors: Vec<usize>,
    /// Elements before every one of them in an expert held by slot, and of all.
    offsets: Vec<u64>,
    /// Of every stage and chunk, if flat.
    flat: BTreeMap<(u32, u32), FlatBuffer>,
}

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
        state.validate(num_layers)?;
        let places = state.num_experts / grid.ep;
        let mut chunks: BTreeMap<(u32, u32), Vec<usize>> = BTreeMap::new();
        (0..num_layers).for_each(|layer| chunks.entry(grid.home(layer)).or_default().push(layer));
        let last = num_layers.checked_sub(1).map(|layer| grid.home(layer));
        let kinds = state.kinds.iter().map(|kind| {
            let tensors: Vec<usize> = kind.held_tensors(&state.tensors).collect();
            let held: Vec<ExpertTensor> =
                tensors.iter().map(|&tensor| state.tensors[tensor].clone()).collect();
            let mut offsets = vec![0];
            offsets.extend(held.iter().scan(0, |sum, tensor| {
                *sum += tensor.elements;
                Some(*sum)
            }));
            let buffer = |(&home, layers): (&(u32, u32), &Vec<usize>)| {
                let shape = ChunkShape {
                    num_layers: layers.len(),
                    num_places: places as usize,
                    num_copies: grid.edp,
                    first: home == (0, 0),
                    last: Some(home) == last,
                };
                (home, FlatBuffer::new(shape, &held, &state.flat))
            };
            let flat = chunks.iter().filter(|_| kind.held == Held::Flat).map(buffer).collect();
            KindHoldings { tensors, offsets, flat }
        });
        Ok(Self { kinds: kinds.collect(), grid, state, places, chunks })
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
        let home = (owner.stage, owner.chunk);
        let Some(layers) = self.chunks.get(&home) else { return 0 };
        let elements = match self.state.kinds[kind].held {
            Held::BySlot => layers.len() as u64 * u64::from(self.places) * self.expert_elements(kind),
            Held::Flat => self.kinds[kind].flat[&home].shard_elements(),
        };
        elements * u64::from(self.state.kinds[kind].element_bytes)
    }

    /// The tensors that have a kind of state, by index.
    pub fn tensors_of(&self, kind: usize) -> &[usize] {
        &self.kinds[kind].tensors
    }

    /// Elements of one expert's slice that have a kind of state.
    fn expert_elements(&self, kind: usize) -> u64 {
        self.kinds[kind].offsets[self.kinds[kind].tensors.len()]
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
                let before = self.kinds[kind].offsets[self.position(kind, tensor)];
                let start = seats * self.expert_elements(kind) + before;
                Some(at(start + element..start + end))
            }
            Held::Flat => {
                let run = self.runs(kind, layer, seat.slot, tensor, element..end).into_iter().next()?;
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
                    for &tensor in self.tensors_of(kind) {
                        let whole = 0..self.state.tensors[tensor].elements;
                        let runs = self.runs(kind, layer, slot, tensor, whole).into_iter();
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

    /// Runs of a tensor of a flat kind.
    pub(crate) fn runs(
        &self,
        kind: usize,
        layer: usize,
        slot: u32,
        tensor: usize,
        range: Range<u64>,
    ) -> Vec<crate::flat::Run> {
        let buffer = &self.kinds[kind].flat[&self.grid.home(layer)];
        let place = (slot % self.places) as usize;
        buffer.runs(self.layer_in_chunk(layer), place, self.position(kind, tensor), range)
    }

    fn position(&self, kind: usize, tensor: usize) -> usize {
        self.kinds[kind].tensors.binary_search(&tensor).expect("a tensor that has this kind of state")
    }

    fn layer_in_chunk(&self, layer: usize) -> usize {
        self.chunks[&self.grid.home(layer)].binary_search(&layer).expect("a layer is in its own chunk")
    }
}
