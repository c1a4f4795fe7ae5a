//! A packing from the patterns at hand, by an integer program over them.
//!
//! Problem: choose among generated patterns so that at most K bins cover every item. A solver's branch and bound with a node
//! limit; its answer counts only as a packing, checked by handing the items out.
//! Complexity: exponential at worst, limited by nodes.
//! Reference: the restricted master heuristic, R. Sadykov, F. Vanderbeck, A. Pessoa, I. Tahiri, E. Uchoa, INFORMS J. on
//! Computing 31 (2019), doi:10.1287/ijoc.2018.0822.

use routepack_lp::{Relation, SolveOptions, solve_until};

use crate::error::PackError;
use crate::program::{packing_of_values, pattern_program};
use crate::types::{Pattern, Types};

/// A packing into at most so many bins, or `None` if the patterns hold none or the nodes run out.
pub(crate) fn pack_by_patterns(
    types: &Types,
    patterns: &[Pattern],
    bins: u64,
    nodes: u64,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Vec<Pattern>>, PackError> {
    let mut program = pattern_program(types, patterns);
    let variables: Vec<_> =
        program.constraints().iter().flat_map(|cover| cover.terms.iter().map(|term| term.0)).collect();
    let mut all = variables;
    all.sort_unstable();
    all.dedup();
    program.constrain("bins", all.into_iter().map(|variable| (variable, 1.0)), Relation::AtMost, bins as f64);
    let options = SolveOptions { node_limit: Some(nodes), ..SolveOptions::default() };
    let solved = solve_until(&program, &options, stop)?;
    let packing = packing_of_values(types, patterns, &solved.values);
    Ok(packing.filter(|packing| packing.len() as u64 <= bins))
}
