//! Bin packing as a flow through half the loads, reflected at the middle.
//!
//! Problem: fewest bins. A bin is two paths of decreasing sizes through loads up to C/2: one ends with the item that
//! crosses the middle, reflected from load u + w to C − (u + w), the other ends there and fills the rest. Arcs of
//! loss lead from each node to the next; a bin at most half full is reflected empty at the middle.
//! models/reflect.md is the page, reflect.lp beside it a tiny instance.
//! Complexity: O(m·C/2) variables, O(C/2) constraints.
//! Reference: M. Delorme, M. Iori, INFORMS J. on Computing 32 (2020), doi:10.1287/ijoc.2018.0880. Deviation: a plain
//! model, without their column-generation bounds and arc fixing; arcs are those of the prefix that crosses the middle.

use std::collections::BTreeSet;

use routepack_lp::Relation;

use crate::flow::{Arc, Flow, Node, SOURCE, tails};
use crate::types::Types;

/// The reflect program of these types; `None` where the number of items in a bin is limited, which two half-paths cannot
/// keep. Loads count half units where the capacity is odd.
pub fn reflect_program(types: &Types) -> Option<Flow> {
    if types.max_items.is_some() {
        return None;
    }
    let unit = 1 + types.capacity % 2;
    let (capacity, middle) = (types.capacity * unit, types.capacity * unit / 2);
    let mut arcs = Vec::new();
    let mut nodes: BTreeSet<Node> = BTreeSet::from([SOURCE, (middle, 0)]);
    for (kind, (tails, size)) in tails(types, middle / unit).into_iter().zip(&types.sizes).enumerate() {
        for (load, _) in tails {
            let (from, end) = (load * unit, (load + size) * unit);
            let to = if end <= middle { end } else { capacity - end };
            arcs.push(Arc { from: (from, 0), to: (to, 0), kind: Some(kind as u32), reflected: end > middle });
            nodes.insert((to, 0));
        }
    }
    let loss = |(&from, &to): (&Node, &Node)| Arc { from, to, kind: None, reflected: false };
    arcs.extend(nodes.iter().zip(nodes.iter().skip(1)).map(loss));
    arcs.push(Arc { from: (middle, 0), to: (middle, 0), kind: None, reflected: true });
    Some(Flow::new("bin packing by reflected arc flow", types, arcs, Relation::Equal))
}
