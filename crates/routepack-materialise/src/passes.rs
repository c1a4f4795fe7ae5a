//! Passes: stripes moved together, so that what a rank receives fits its staging buffer.
//!
//! A stripe reads and writes the same seats, so once all of it is received aside, it can be written in place whatever
//! the cycles of the permutation are. A pass is several stripes; no rank receives more than `limit` bytes in it,
//! copies within a rank included. Tensors are cut so that one stripe fits: its elements times the changed slots of the
//! busiest rank. Stripes are then taken in order (layer, kind, tensor, element) while the pass holds them.

use std::collections::BTreeMap;

use routepack_problem::Placement;

use crate::transfer::{Stripe, Transfer, transfers_of};
use crate::{Holdings, MaterialiseError};

/// The transfers of every pass. Without a limit there is one pass, or none if nothing moves.
pub(crate) fn passes(
    holdings: &Holdings,
    resident: &Placement,
    target: &Placement,
    limit: Option<u64>,
) -> Result<Vec<Vec<Transfer>>, MaterialiseError> {
    let mut passes: Vec<Vec<Transfer>> = Vec::new();
    let mut received: BTreeMap<u32, u64> = BTreeMap::new();
    for stripe in stripes(holdings, resident, target, limit)? {
        let transfers = transfers_of(holdings, resident, target, &stripe);
        let mut more: BTreeMap<u32, u64> = BTreeMap::new();
        for transfer in &transfers {
            *more.entry(holdings.grid.rank(transfer.to.owner)).or_default() += transfer.len();
        }
        let fits = |(rank, bytes): (&u32, &u64)| {
            limit.is_none_or(|limit| bytes + received.get(rank).unwrap_or(&0) <= limit)
        };
        match passes.last_mut() {
            Some(pass) if more.iter().all(fits) => pass.extend(transfers),
            _ => {
                received.clear();
                passes.push(transfers);
            }
        }
        for (rank, bytes) in more {
            *received.entry(rank).or_default() += bytes;
        }
    }
    Ok(passes)
}

/// The stripes of all layers in which something moves.
fn stripes(
    holdings: &Holdings,
    resident: &Placement,
    target: &Placement,
    limit: Option<u64>,
) -> Result<Vec<Stripe>, MaterialiseError> {
    let mut stripes = Vec::new();
    for layer in 0..holdings.grid.num_layers() {
        let mut arriving = vec![0u64; holdings.grid.ep as usize];
        for (from, to) in resident.slots(layer).iter().zip(target.slots(layer)) {
            arriving[holdings.ep_of(*to) as usize] += u64::from(from != to);
        }
        let busiest = arriving.into_iter().max().unwrap_or(0);
        if busiest == 0 {
            continue;
        }
        for (kind, state) in holdings.state.kinds.iter().enumerate() {
            let least = busiest * u64::from(state.element_bytes);
            let width = match limit {
                None => u64::MAX,
                Some(limit) if limit >= least => limit / least,
                Some(limit) => {
                    let why = format!(
                        "layer {layer} needs at least {least} bytes: one element of every expert a rank receives"
                    );
                    return Err(MaterialiseError::state("options.staging_bytes", limit, why));
                }
            };
            for (tensor, described) in holdings.state.tensors.iter().enumerate() {
                let mut start = 0;
                while start < described.elements {
                    let end = described.elements.min(start.saturating_add(width));
                    stripes.push(Stripe { layer, kind, tensor, elements: start..end });
                    start = end;
                }
            }
        }
    }
    Ok(stripes)
}
