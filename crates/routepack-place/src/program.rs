//! The assignment program of one layer, for cross-checks.
//!
//! Problem, sets, data, variables and constraints: `models/equal_cardinality_partition.md`. The search of this crate
//! does not use it: a solver closes little of it at the sizes of real layers (PLACEMENT §2.1), but small layers it solves,
//! independently of everything else here.
//! Reference: the usual assignment formulation of P | # ≤ s | Cmax; lower bound of z and broken symmetry added.

use routepack_bounds::peak_bounds;
use routepack_lp::{Program, Relation};

/// The program for `loads` `[experts]` (routed rows) on `num_ranks` ranks; its optimum is the least peak.
///
/// Loads become floating point: exact up to 2^53.
///
/// ```
/// let program = routepack_place::equal_cardinality_partition(&[5, 4, 3, 2], 2);
/// assert_eq!(program.variables().len(), 1 + 7); // z, and x[e, p] for p ≤ e
/// ```
///
/// # Panics
/// `num_ranks` is 0 or does not divide the number of experts.
pub fn equal_cardinality_partition(loads: &[u64], num_ranks: usize) -> Program {
    let slots = loads.len() / num_ranks;
    let bound = peak_bounds(loads, num_ranks).best();
    let mut program = Program::minimise("equal_cardinality_partition");
    let peak = program.add_real("z", bound as f64, f64::INFINITY);
    program.set_cost(peak, 1.0);
    // x[e][p] for p ≤ e: ranks are named in the order of their first experts.
    let x: Vec<Vec<_>> = (0..loads.len())
        .map(|e| (0..num_ranks.min(e + 1)).map(|p| program.add_binary(format!("x[{e},{p}]"))).collect())
        .collect();
    for (e, x) in x.iter().enumerate() {
        program.constrain(format!("once[{e}]"), x.iter().map(|&x| (x, 1.0)), Relation::Equal, 1.0);
    }
    for p in 0..num_ranks {
        let on_rank: Vec<_> =
            x.iter().zip(loads).filter_map(|(x, &load)| Some((*x.get(p)?, load as f64))).collect();
        let ones = on_rank.iter().map(|&(x, _)| (x, 1.0));
        program.constrain(format!("slots[{p}]"), ones, Relation::Equal, slots as f64);
        let load = on_rank.iter().copied().chain([(peak, -1.0)]);
        program.constrain(format!("load[{p}]"), load, Relation::AtMost, 0.0);
    }
    program
}
