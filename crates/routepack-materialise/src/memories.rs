//! Simulated memories of all ranks, and a move executed on them: what a real mover does, message by message.

use std::collections::BTreeMap;

use routepack_problem::Placement;

use crate::{Held, Holdings, Materialised, Owner, Pass, Seat, Transfer};

/// The bytes that every owner holds of every kind of state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memories {
    bytes: BTreeMap<(Owner, usize), Vec<u8>>,
}

/// What the execution of a move needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Most bytes a rank held aside.
    pub staging_bytes: u64,
    /// Largest message.
    pub message_bytes: u64,
}

impl Memories {
    /// Memories of zeros.
    pub fn new(holdings: &Holdings) -> Self {
        let owners = (0..holdings.grid.num_layers()).flat_map(|layer| holdings.grid.owners(layer));
        let kinds = 0..holdings.state.kinds.len();
        let bytes = owners.flat_map(|owner| {
            kinds.clone().map(move |kind| ((owner, kind), vec![0; holdings.held_bytes(owner, kind) as usize]))
        });
        Self { bytes: bytes.collect() }
    }

    /// An owner's bytes of one kind.
    pub fn bytes(&self, owner: Owner, kind: usize) -> &[u8] {
        &self.bytes[&(owner, kind)]
    }

    /// An owner's bytes of one kind, to be changed.
    pub fn bytes_mut(&mut self, owner: Owner, kind: usize) -> &mut [u8] {
        self.bytes.get_mut(&(owner, kind)).expect("an owner of the holdings")
    }

    /// A tensor of an expert, gathered: its bytes on EDP position `edp` where it lies in slots, else from all.
    pub fn gather(&self, holdings: &Holdings, place: &ExpertPlace, edp: u32) -> Vec<u8> {
        let mut gathered = Vec::new();
        place.runs(holdings, edp, &mut |owner, start, len| {
            gathered.extend_from_slice(&self.bytes(owner, place.kind)[start..start + len]);
        });
        gathered
    }

    /// Writes a tensor of an expert to wherever it is held, on all copies.
    pub fn scatter(&mut self, holdings: &Holdings, place: &ExpertPlace, bytes: &[u8]) {
        let copies = match holdings.state.kinds[place.kind].held {
            Held::BySlot => holdings.grid.edp,
            Held::Flat => 1,
        };
        for edp in 0..copies {
            let mut written = 0;
            place.runs(holdings, edp, &mut |owner, start, len| {
                self.bytes_mut(owner, place.kind)[start..start + len]
                    .copy_from_slice(&bytes[written..written + len]);
                written += len;
            });
        }
    }
}

/// One tensor of one kind of state of the expert in a slot, on one ETP rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpertPlace {
    /// Layer.
    pub layer: usize,
    /// Slot the expert is in.
    pub slot: u32,
    /// Kind of state.
    pub kind: usize,
    /// Tensor.
    pub tensor: usize,
    /// ETP rank.
    pub etp: u32,
}

impl ExpertPlace {
    /// The place of an expert under a placement.
    #[must_use]
    pub fn of(
        placement: &Placement,
        layer: usize,
        expert: usize,
        kind: usize,
        tensor: usize,
        etp: u32,
    ) -> Self {
        Self { layer, slot: placement.slots(layer)[expert], kind, tensor, etp }
    }

    /// Calls `visit` with owner, start and length of every run of the tensor, in order.
    fn runs(&self, holdings: &Holdings, edp: u32, visit: &mut dyn FnMut(Owner, usize, usize)) {
        let (stage, chunk) = holdings.grid.home(self.layer);
        let owner = |edp| Owner { stage, chunk, ep: holdings.ep_of(self.slot), etp: self.etp, edp };
        let kind = &holdings.state.kinds[self.kind];
        let elements = holdings.state.tensors[self.tensor].elements;
        let size = u64::from(kind.element_bytes);
        match kind.held {
            Held::BySlot => {
                let seat = Seat { owner: owner(edp), slot: self.slot };
                let (start, len) =
                    holdings.address(self.kind, self.layer, seat, self.tensor, 0).expect("held by slot");
                visit(owner(edp), start as usize, len as usize);
            }
            Held::Flat => {
                for run in holdings.runs(self.kind, self.layer, self.slot, self.tensor, 0..elements) {
                    visit(owner(run.edp), (run.at * size) as usize, (run.len * size) as usize);
                }
            }
        }
    }
}

/// Executes a move: per pass all messages are sent and received aside, round by round, then written to their places.
pub fn apply(holdings: &Holdings, moved: &Materialised, memories: &Memories) -> (Memories, Usage) {
    let mut memories = memories.clone();
    let mut usage = Usage::default();
    for pass in &moved.passes {
        apply_pass(holdings, pass, &mut memories, &mut usage);
    }
    (memories, usage)
}

fn apply_pass(holdings: &Holdings, pass: &Pass, memories: &mut Memories, usage: &mut Usage) {
    let mut aside: BTreeMap<u32, Vec<(&Transfer, Vec<u8>)>> = BTreeMap::new();
    let mut receive = |transfer, bytes| {
        aside.entry(holdings.grid.rank(Transfer::to(transfer))).or_default().push((transfer, bytes));
    };
    for transfer in &pass.local {
        receive(transfer, read(holdings, memories, transfer));
    }
    for block in pass.rounds.iter().flatten() {
        let message: Vec<u8> =
            block.pieces.iter().flat_map(|piece| read(holdings, memories, piece)).collect();
        usage.message_bytes = usage.message_bytes.max(message.len() as u64);
        let mut rest = message.as_slice();
        for piece in &block.pieces {
            let (bytes, after) = rest.split_at(piece.len() as usize);
            receive(piece, bytes.to_vec());
            rest = after;
        }
    }
    for received in aside.into_values() {
        let held = received.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        usage.staging_bytes = usage.staging_bytes.max(held);
        for (transfer, bytes) in received {
            let start = address(holdings, transfer, transfer.to);
            memories.bytes_mut(transfer.to.owner, transfer.kind as usize)[start..start + bytes.len()]
                .copy_from_slice(&bytes);
        }
    }
}

impl Transfer {
    fn to(&self) -> Owner {
        self.to.owner
    }
}

fn read(holdings: &Holdings, memories: &Memories, transfer: &Transfer) -> Vec<u8> {
    let start = address(holdings, transfer, transfer.from);
    memories.bytes(transfer.from.owner, transfer.kind as usize)[start..start + transfer.len() as usize]
        .to_vec()
}

/// Where a transfer's bytes start at one of its ends; they lie behind each other there.
fn address(holdings: &Holdings, transfer: &Transfer, seat: Seat) -> usize {
    let (kind, layer) = (transfer.kind as usize, transfer.layer as usize);
    let (start, len) = holdings
        .address(kind, layer, seat, transfer.tensor as usize, transfer.bytes.start)
        .expect("a transfer starts at its owner");
    assert!(len >= transfer.len(), "a transfer ends before the next cut");
    start as usize
}
