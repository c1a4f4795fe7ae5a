//! The programs written out in models/ are what the code writes, and their optima are those of brute force.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use proptest::prelude::*;
use routepack_binpack::{
    Flow, PackOptions, Types, arc_flow_program, assignment_program, pack, packing_of_values, pattern_program,
    reflect_program,
};
use routepack_certificate::Statement;
use routepack_lp::{Backend, Program, SolveOptions, solve};

fn tiny() -> Statement {
    Statement { max_items: Some(3), ..Statement::bins(vec![6, 5, 5, 3, 2, 2, 2], 10) }
}

fn patterns() -> Vec<Vec<u32>> {
    vec![vec![0, 2], vec![0, 3, 3], vec![1, 1], vec![1, 2, 3], vec![2, 3, 3], vec![3, 3, 3]]
}

fn golden(name: &str, program: &Program) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, program.write_lp()).unwrap();
    }
    assert_eq!(
        program.write_lp(),
        std::fs::read_to_string(&path).unwrap(),
        "{name}; UPDATE_GOLDEN=1 writes it"
    );
}

#[test]
fn assignment() {
    let program = assignment_program(&tiny(), 3);
    golden("assignment.lp", &program);
    for &backend in Backend::all() {
        assert_eq!(solve(&program, &SolveOptions::with(backend)).unwrap().objective, Some(3.0));
    }
}

#[test]
fn pattern_master() {
    let types = Types::new(&tiny()).unwrap();
    let program = pattern_program(&types, &patterns());
    golden("pattern_master.lp", &program);
    for &backend in Backend::all() {
        let solved = solve(&program, &SolveOptions::with(backend)).unwrap();
        assert_eq!(solved.objective, Some(3.0));
        let bins = packing_of_values(&types, &patterns(), &solved.values).unwrap();
        assert_eq!(bins.len(), 3);
        types.hand_out(&bins);
    }
}

/// The fewest bins a flow program finds, from the packing its values mean.
fn fewest(flow: &Flow, types: &Types, backend: Backend) -> usize {
    let solved = solve(&flow.program, &SolveOptions::with(backend)).unwrap();
    let bins = flow.packing(types, &solved.values).unwrap();
    types.hand_out(&bins);
    assert!(bins.iter().all(|bin| types.load(bin) <= types.capacity));
    assert!(bins.iter().all(|bin| types.max_items.is_none_or(|limit| bin.len() <= limit as usize)));
    assert_eq!(solved.objective.unwrap().round() as usize, bins.len());
    bins.len()
}

#[test]
fn arc_flow() {
    let types = Types::new(&tiny()).unwrap();
    let flow = arc_flow_program(&types);
    golden("arc_flow.lp", &flow.program);
    for &backend in Backend::all() {
        assert_eq!(fewest(&flow, &types, backend), 3);
    }
}

#[test]
fn reflect() {
    let limited = Types::new(&tiny()).unwrap();
    assert!(reflect_program(&limited).is_none(), "half-paths cannot keep a limit of items");
    let types = Types::new(&Statement { max_items: None, ..tiny() }).unwrap();
    let flow = reflect_program(&types).unwrap();
    golden("reflect.lp", &flow.program);
    for &backend in Backend::all() {
        assert_eq!(fewest(&flow, &types, backend), 3);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Three programs and the search agree, whatever the sizes, the parity of the capacity and the limit of items.
    #[test]
    fn programs_agree(
        sizes in prop::collection::vec(1u64..=17, 1..12),
        capacity in 17u64..=30,
        limit in prop::option::of(1u32..5),
    ) {
        for max_items in [None, limit] {
            let statement = Statement { max_items, ..Statement::bins(sizes.clone(), capacity) };
            let types = Types::new(&statement).unwrap();
            let packed = pack(&statement, &PackOptions::default(), 0, &|| false, &mut |_| {}).unwrap();
            prop_assert_eq!(packed.cells, packed.cells_bound);
            let bins = packed.cells as usize;
            prop_assert_eq!(fewest(&arc_flow_program(&types), &types, Backend::default()), bins);
            if let Some(flow) = reflect_program(&types) {
                prop_assert_eq!(fewest(&flow, &types, Backend::default()), bins);
            }
        }
    }
}
