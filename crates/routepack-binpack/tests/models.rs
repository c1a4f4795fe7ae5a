//! The programs written out in models/ are what the code writes, and their optima are those of brute force.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use routepack_binpack::{Types, assignment_program, packing_of_values, pattern_program};
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
