//! Bin packing as a flow through loads.
//!
//! Problem: fewest bins. Nodes are loads that items of decreasing sizes reach (with the number of items, where that is
//! limited); an arc of type i leads from load u to u + w_i; every unit of flow out of load 0 is a bin.
//! models/arc_flow.md is the page, arc_flow.lp beside it a tiny instance.
//! Complexity: O(m·C) variables, O(C) constraints (times q where the number of items is limited).
//! Reference: J. M. Valério de Carvalho, Annals of OR 86 (1999), doi:10.1023/A:1018952112615. Deviation: paths may end at
//! any node, so that no arcs of loss are needed.

use routepack_lp::Relation;

use crate::flow::{Arc, Flow, tails};
use crate::types::Types;

/// The arc-flow program of these types.
pub fn arc_flow_program(types: &Types) -> Flow {
    let place = u32::from(types.max_items.is_some());
    let arcs = tails(types, types.capacity).into_iter().zip(&types.sizes).enumerate();
    let arcs = arcs.flat_map(|(kind, (tails, size))| {
        let arc = move |from: (u64, u32)| {
            let to = (from.0 + size, from.1 + place);
            Arc { from, to, kind: Some(kind as u32), reflected: false }
        };
        tails.into_iter().map(arc)
    });
    Flow::new("bin packing by arc flow", types, arcs.collect(), Relation::AtLeast)
}
