//! Passes: stripes moved together, so that what a rank receives fits its staging buffer.
//!
//! A stripe reads and writes the same seats, so once all of it is received aside, it can be written in place whatever
//! the cycles of the permutation are. A pass is several stripes; no rank receives more than `limit` bytes in it,
//! copies within a rank included. Every tensor of every layer is cut into as many equal stripes as the busiest rank has
//! limits to receive, and narrower where one of them would not fit. Passes take first stripes of all, then second ones,
//! as long as they fit: so a pass is the whole move on a smaller scale, and all stages and ranks are busy in all of them.

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

/// The stripes of all layers in which something moves, in the order in which passes take them.
fn stripes(
    holdings: &Holdings,
    resident: &Placement,
    target: &Placement,
    limit: Option<u64>,
) -> Result<Vec<Stripe>, MaterialiseError> {
    let whole = whole_stripes(holdings, resident, target);
    let Some(limit) = limit else { return Ok(whole.into_iter().map(|(stripe, _)| stripe).collect()) };
    let mut received: BTreeMap<u32, u64> = BTreeMap::new();
    for transfer in whole.iter().flat_map(|(stripe, _)| transfers_of(holdings, resident, target, stripe)) {
        *received.entry(holdings.grid.rank(transfer.to.owner)).or_default() += transfer.len();
    }
    let most = received.into_values().max().unwrap_or(0);
    let num_parts = most.div_ceil(limit.max(1));
    let mut stripes = Vec::new();
    for (stripe, arriving) in whole {
        let Stripe { layer, kind, tensor, elements } = stripe;
        let least = arriving * u64::from(holdings.state.kinds[kind].element_bytes);
        if limit < least {
            let why = format!(
                "layer {layer} needs at least {least} bytes: one element of every expert a rank receives"
            );
            return Err(MaterialiseError::state("options.staging_bytes", limit, why));
        }
        let cut = |part: u64| (u128::from(elements.end) * u128::from(part) / u128::from(num_parts)) as u64;
        for part in 0..num_parts {
            let (mut start, end) = (cut(part), cut(part + 1));
            while start < end {
                let next = end.min(start + limit / least);
                stripes.push((part, Stripe { layer, kind, tensor, elements: start..next }));
                start = next;
            }
        }
    }
    // Stable: within a part by layer, kind, tensor, element.
    stripes.sort_by_key(|(part, _)| *part);
    Ok(stripes.into_iter().map(|(_, stripe)| stripe).collect())
}

/// Every tensor of the layers in which something moves, with the experts that arrive at the layer's busiest EP rank.
fn whole_stripes(holdings: &Holdings, resident: &Placement, target: &Placement) -> Vec<(Stripe, u64)> {
    let mut stripes = Vec::new();
    for layer in 0..holdings.grid.num_layers() {
        let mut arriving = vec![0u64; holdings.grid.ep as usize];
        for (from, to) in resident.slots(layer).iter().zip(target.slots(layer)) {
            arriving[holdings.ep_of(*to) as usize] += u64::from(from != to);
        }
        let busiest = arriving.into_iter().max().unwrap_or(0);
        for kind in (0..holdings.state.kinds.len()).filter(|_| busiest > 0) {
            for &tensor in holdings.tensors_of(kind) {
                let elements = 0..holdings.state.tensors[tensor].elements;
                stripes.push((Stripe { layer, kind, tensor, elements }, busiest));
            }
        }
    }
    stripes
}
