//! Transfers: which bytes go from which owner to which when placements change.
//!
//! Problem: state laid out by a resident placement is to be laid out by a target placement.
//! An expert that changes slots takes the same offsets along: bytes [x, y) of its tensor go from its old slot to its
//! new one. Weights lie in slots on every EDP copy, and every copy receives from the peer at its own EDP position.
//! Flat state is cut over the EDP group, at cuts that depend on the local place: where the place stays (a swap of equal
//! places), ranges map one to one; where it changes, also inside one rank, ranges move between EDP positions too.
//! So a transfer is a run between two neighbouring cuts, of the old place or of the new.
//! The transfers of one (layer, kind, tensor, range) read and write the same seats: a permutation of bytes.
//! O(changed slots · copies + cuts).

use std::ops::Range;

use routepack_problem::Placement;
use serde::{Deserialize, Serialize};

use crate::{Held, Holdings, MaterialiseError, Owner, Seat};

/// Bytes of one expert's tensor go from one seat to another; the offsets stay.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Transfer {
    /// Layer.
    pub layer: u32,
    /// Kind of state, by index.
    pub kind: u32,
    /// Tensor, by index.
    pub tensor: u32,
    /// Logical expert.
    pub expert: u32,
    /// Where the bytes are.
    pub from: Seat,
    /// Where they go.
    pub to: Seat,
    /// Which bytes, counted from the start of the tensor's slice.
    pub bytes: Range<u64>,
}

impl Transfer {
    /// How many bytes.
    pub fn len(&self) -> u64 {
        self.bytes.end - self.bytes.start
    }

    /// Whether nothing is transferred.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes `from..to` of this transfer, as a transfer.
    pub(crate) fn part(&self, from: u64, to: u64) -> Self {
        Self { bytes: self.bytes.start + from..self.bytes.start + to, ..self.clone() }
    }
}

/// Where every slot's content goes, `[slots]` → slot.
pub fn slot_permutation(resident: &Placement, target: &Placement, layer: usize) -> Vec<u32> {
    let mut to = vec![0; resident.num_experts()];
    for (&from, &slot) in resident.slots(layer).iter().zip(target.slots(layer)) {
        to[from as usize] = slot;
    }
    to
}

/// A stripe: the same elements of one tensor in every slot of a layer, of one kind of state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stripe {
    pub(crate) layer: usize,
    pub(crate) kind: usize,
    pub(crate) tensor: usize,
    pub(crate) elements: Range<u64>,
}

/// The transfers of a stripe.
pub(crate) fn transfers_of(
    holdings: &Holdings,
    resident: &Placement,
    target: &Placement,
    stripe: &Stripe,
) -> Vec<Transfer> {
    let (layer, grid) = (stripe.layer, &holdings.grid);
    let (stage, chunk) = grid.home(layer);
    let kind = &holdings.state.kinds[stripe.kind];
    let size = u64::from(kind.element_bytes);
    let mut transfers = Vec::new();
    for (expert, (&from, &to)) in (0..).zip(resident.slots(layer).iter().zip(target.slots(layer))) {
        if from == to {
            continue;
        }
        let mut transfer = |etp: u32, copies: (u32, u32), elements: Range<u64>| {
            let seat =
                |slot, edp| Seat { owner: Owner { stage, chunk, ep: holdings.ep_of(slot), etp, edp }, slot };
            transfers.push(Transfer {
                layer: layer as u32,
                kind: stripe.kind as u32,
                tensor: stripe.tensor as u32,
                expert,
                from: seat(from, copies.0),
                to: seat(to, copies.1),
                bytes: elements.start * size..elements.end * size,
            });
        };
        match kind.held {
            Held::BySlot => {
                for edp in 0..grid.edp {
                    (0..grid.etp).for_each(|etp| transfer(etp, (edp, edp), stripe.elements.clone()));
                }
            }
            Held::Flat => {
                let runs =
                    |slot| holdings.runs(stripe.kind, layer, slot, stripe.tensor, stripe.elements.clone());
                let (old, new) = (runs(from), runs(to));
                let (mut i, mut j, mut start) = (0, 0, stripe.elements.start);
                while start < stripe.elements.end {
                    let ends = (old[i].start + old[i].len, new[j].start + new[j].len);
                    let end = ends.0.min(ends.1);
                    (0..grid.etp).for_each(|etp| transfer(etp, (old[i].edp, new[j].edp), start..end));
                    i += usize::from(ends.0 == end);
                    j += usize::from(ends.1 == end);
                    start = end;
                }
            }
        }
    }
    transfers
}

/// Both placements are of the model and job the state is of.
pub(crate) fn check_placements(
    holdings: &Holdings,
    resident: &Placement,
    target: &Placement,
) -> Result<(), MaterialiseError> {
    let expected =
        (holdings.grid.num_layers(), holdings.state.num_experts as usize, holdings.grid.ep as usize);
    let words = |(layers, experts, ranks)| format!("{layers} layers, {experts} experts, {ranks} ranks");
    for (which, placement) in [("resident", resident), ("target", target)] {
        let found = (placement.num_layers(), placement.num_experts(), placement.num_ranks());
        if found != expected {
            return Err(MaterialiseError::Placement {
                which,
                found: words(found),
                expected: words(expected),
            });
        }
    }
    Ok(())
}
