//! The transfer list: what has to be copied where when a placement changes.

use routepack_problem::Placement;
use serde::{Deserialize, Serialize};

/// One expert of one layer changes slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Transfer {
    /// Layer.
    pub layer: u32,
    /// Logical expert.
    pub expert: u32,
    /// Slot it leaves.
    pub from: u32,
    /// Slot it takes.
    pub to: u32,
}

/// Every expert whose slot differs between two placements of the same shape, by layer, then expert.
///
/// The transfers of a layer permute its slots: copying all `from` aside and then to their `to` turns any array laid out
/// by `resident` into one laid out by `target`.
///
/// # Panics
/// The placements have different shapes.
pub fn transfers(resident: &Placement, target: &Placement) -> Vec<Transfer> {
    assert_eq!(
        (resident.num_layers(), resident.num_experts()),
        (target.num_layers(), target.num_experts()),
        "[layers, experts]"
    );
    (0..target.num_layers())
        .flat_map(|layer| {
            resident.slots(layer).iter().zip(target.slots(layer)).enumerate().filter_map(
                move |(expert, (&from, &to))| {
                    (from != to).then_some(Transfer { layer: layer as u32, expert: expert as u32, from, to })
                },
            )
        })
        .collect()
}
