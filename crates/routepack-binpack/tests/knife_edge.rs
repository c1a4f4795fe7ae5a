//! Rows at the knife edge: the volume bound is exactly D·rows, the slack below 2 %, and first-fit and best-fit decreasing
//! need a row more. `pack` must reach the rows and prove them.
#![allow(clippy::unwrap_used)]

use routepack_binpack::{PackOptions, Types, best_fit_decreasing, first_fit_decreasing, pack, volume_bound};
use routepack_certificate::{Limits, Statement, check};
use routepack_generate::{BinsRecipe, KnifeEdge, KnifeEdgeRecipe, LengthRecipe, bins};

/// An instance with so many items of mean size in a cell.
fn knife_edge(slots: u32, rows: u32, per_cell: f64, seed: u64) -> Option<Statement> {
    let standard = KnifeEdge::default();
    let median = f64::from(standard.capacity) / per_cell;
    let recipe = KnifeEdge {
        slots,
        edge: KnifeEdgeRecipe { rows, attempts: 200, ..standard.edge },
        lengths: LengthRecipe {
            prompt_median: median / 8.0,
            response_median: median * 0.7,
            ..standard.lengths
        },
        ..standard
    };
    let made = bins(&BinsRecipe::KnifeEdge(recipe), seed).ok()?;
    Some(Statement { slots: slots.into(), ..Statement::bins(made.sizes, made.capacity) })
}

#[test]
fn every_one_ends_at_its_rows() {
    let mut seen = 0;
    for (slots, rows, per_cell) in
        [(8, 5, 8.0), (8, 5, 4.0), (8, 5, 3.0), (1, 40, 4.0), (4, 25, 3.0), (64, 3, 6.0), (32, 4, 4.0)]
    {
        for seed in 0..3 {
            let Some(statement) = knife_edge(slots, rows, per_cell, seed) else { continue };
            let bound = volume_bound(&Types::new(&statement).unwrap()).cells;
            let greedy = [first_fit_decreasing, best_fit_decreasing]
                .map(|greedy| greedy(&statement.sizes, statement.capacity, None).len() as u64);
            assert_eq!(bound, u64::from(slots * rows));
            assert!(greedy.iter().all(|&cells| statement.rows_for(cells) > u64::from(rows)));
            let packed = pack(&statement, &PackOptions::default(), seed, &|| false, &mut |_| {}).unwrap();
            check(&statement, &packed.certificate, &Limits::default()).unwrap();
            let name = format!("{} items, {slots} slots, seed {seed}", statement.sizes.len());
            assert_eq!((packed.rows, packed.rows_bound), (u64::from(rows), u64::from(rows)), "{name}");
            seen += 1;
        }
    }
    assert!(seen >= 15, "only {seen} instances were drawn");
}
