//! Bin packing as integer programs.
//!
//! Problem: fewest bins of capacity C with at most q items each, as data for any solver: by assignment of items to bins,
//! and by choice among given patterns. They find packings and cross-check; their bounds are floats and no proof.
//! models/assignment.md and models/pattern_master.md are the pages, the .lp files beside them a tiny instance each.
//! Complexity: n·K and Σ|P| coefficients.
//! References: L. V. Kantorovich, Management Science 6 (1960), doi:10.1287/mnsc.6.4.366; S. Martello, P. Toth, Knapsack
//! Problems, 1990, ch. 8; P. C. Gilmore, R. E. Gomory, Operations Research 9 (1961), doi:10.1287/opre.9.6.849.

use routepack_certificate::Statement;
use routepack_lp::{Program, Relation, VariableId};

use crate::types::{Pattern, Types};

/// The assignment program with at most so many bins: min Σ y_b; y_b = 1 if bin b is used, x_ib = 1 if item i is in it.
/// Bins are used in order, and item i only goes into the first i + 1 bins.
pub fn assignment_program(statement: &Statement, bins: usize) -> Program {
    let mut program = Program::minimise("bin packing by assignment");
    let used: Vec<VariableId> = (0..bins).map(|bin| program.add_binary(format!("y[{bin}]"))).collect();
    used.iter().for_each(|&used| program.set_cost(used, 1.0));
    let mut items_of: Vec<Vec<(usize, VariableId)>> = vec![Vec::new(); bins];
    let mut bins_of: Vec<Vec<VariableId>> = Vec::new();
    for item in 0..statement.sizes.len() {
        let allowed = 0..bins.min(item + 1);
        bins_of.push(allowed.clone().map(|bin| program.add_binary(format!("x[{item},{bin}]"))).collect());
        for (bin, &variable) in allowed.zip(&bins_of[item]) {
            items_of[bin].push((item, variable));
        }
    }
    for (item, variables) in bins_of.iter().enumerate() {
        let terms = variables.iter().map(|&variable| (variable, 1.0));
        program.constrain(format!("once[{item}]"), terms, Relation::Equal, 1.0);
    }
    for (bin, items) in items_of.iter().enumerate() {
        let load = items.iter().map(|&(item, variable)| (variable, statement.sizes[item] as f64));
        let terms = load.chain([(used[bin], -(statement.capacity as f64))]);
        program.constrain(format!("load[{bin}]"), terms, Relation::AtMost, 0.0);
        if let Some(limit) = statement.max_items {
            let terms =
                items.iter().map(|&(_, variable)| (variable, 1.0)).chain([(used[bin], -f64::from(limit))]);
            program.constrain(format!("count[{bin}]"), terms, Relation::AtMost, 0.0);
        }
    }
    for bin in 1..bins {
        let terms = [(used[bin - 1], 1.0), (used[bin], -1.0)];
        program.constrain(format!("order[{bin}]"), terms, Relation::AtLeast, 0.0);
    }
    program
}

/// The master over these patterns in integers: min Σ x_P; x_P bins are filled by pattern P (or by a part of it).
pub fn pattern_program(types: &Types, patterns: &[Pattern]) -> Program {
    let mut program = Program::minimise("bin packing by patterns");
    let mut covers: Vec<Vec<(VariableId, f64)>> = vec![Vec::new(); types.len()];
    for (place, pattern) in patterns.iter().enumerate() {
        let most = pattern.iter().map(|&kind| types.demands[kind as usize]).max().unwrap_or(0);
        let variable = program.add_integer(format!("x[{place}]"), 0.0, f64::from(most));
        program.set_cost(variable, 1.0);
        pattern.iter().for_each(|&kind| covers[kind as usize].push((variable, 1.0)));
    }
    for (kind, terms) in covers.into_iter().enumerate() {
        let bound = f64::from(types.demands[kind]);
        program.constrain(format!("cover[{}]", types.sizes[kind]), terms, Relation::AtLeast, bound);
    }
    program
}

/// The packing that values of [`pattern_program`] mean, rounded; `None` if they do not cover every item.
pub fn packing_of_values(types: &Types, patterns: &[Pattern], values: &[f64]) -> Option<Vec<Pattern>> {
    let mut left = types.demands.clone();
    let mut bins = Vec::new();
    for (pattern, value) in patterns.iter().zip(values) {
        for _ in 0..value.round().max(0.0) as u64 {
            let part = pattern.iter().copied().filter(|&kind| {
                let wanted = left[kind as usize] > 0;
                left[kind as usize] -= u32::from(wanted);
                wanted
            });
            let part: Pattern = part.collect();
            if !part.is_empty() {
                bins.push(part);
            }
        }
    }
    left.iter().all(|&left| left == 0).then_some(bins)
}
