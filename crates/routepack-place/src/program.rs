//! The programs of one layer, for cross-checks: by assignment, and by rank patterns (`models/rank_patterns.md`).
//!
//! Problem, sets, data, variables and constraints: `models/equal_cardinality_partition.md`. The search of this crate
//! does not use it: a solver closes little of it at the sizes of real layers (PLACEMENT §2.1), but small layers it solves,
//! independently of everything else here.
//! Reference: the usual assignment formulation of P | # ≤ s | Cmax; lower bound of z and broken symmetry added.

use itertools::Itertools;
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

/// The program that asks whether `num_ranks` ranks can hold `loads` `[experts]` (routed rows) with no rank load above
/// `peak`: its optimum is `num_ranks` if and only if they can. All patterns are written out: for tiny layers.
///
/// Problem, sets, data, variables and constraints: `models/rank_patterns.md`.
///
/// ```
/// let program = routepack_place::rank_pattern_program(&[4, 4, 4, 1, 1, 1], 2, 9);
/// assert_eq!(program.variables().len(), 18); // all sets of three but those of 3 and 12
/// ```
///
/// # Panics
/// `num_ranks` is 0 or does not divide the number of experts.
pub fn rank_pattern_program(loads: &[u64], num_ranks: usize, peak: u64) -> Program {
    assert!(num_ranks > 0 && loads.len().is_multiple_of(num_ranks), "experts not divisible by ranks");
    let total: u128 = loads.iter().map(|&load| u128::from(load)).sum();
    let least = total.saturating_sub(u128::from(peak) * (num_ranks as u128 - 1));
    let load = |pattern: &Vec<usize>| pattern.iter().map(|&expert| u128::from(loads[expert])).sum::<u128>();
    let mut program = Program::minimise("rank_patterns");
    let patterns = (0..loads.len()).combinations(loads.len() / num_ranks);
    let patterns: Vec<_> = patterns
        .filter(|pattern| (least..=u128::from(peak)).contains(&load(pattern)))
        .map(|pattern| {
            let x = program.add_binary(format!("x[{}]", pattern.iter().join(",")));
            program.set_cost(x, 1.0);
            (x, pattern)
        })
        .collect();
    for expert in 0..loads.len() {
        let holding = patterns.iter().filter(|(_, pattern)| pattern.contains(&expert));
        let name = format!("cover[{expert}]");
        program.constrain(name, holding.map(|&(x, _)| (x, 1.0)), Relation::AtLeast, 1.0);
    }
    program
}
