//! The cover master: column generation on cutting stock, and every change against a master built from scratch.
#![allow(clippy::unwrap_used, clippy::float_cmp)]

use proptest::prelude::*;
use routepack_lp::{
    Backend, Column, CoverMaster, Cut, LpError, MasterStatus, Program, Relation, SolveOptions, Status, solve,
};

const NEAR: f64 = 1e-6;

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= NEAR * (1.0 + a.abs().max(b.abs()))
}

/// The best pattern for `duals` in a bar of length `capacity`: (value, pieces of each size).
fn price(capacity: usize, sizes: &[usize], duals: &[f64]) -> (f64, Vec<usize>) {
    let mut best = vec![(0.0, None); capacity + 1];
    for room in 1..=capacity {
        best[room] = (best[room - 1].0, None);
        for (k, &size) in sizes.iter().enumerate().filter(|&(_, &size)| size <= room) {
            let value = best[room - size].0 + duals[k];
            if value > best[room].0 + 1e-12 {
                best[room] = (value, Some(k));
            }
        }
    }
    let mut pattern = vec![0; sizes.len()];
    let mut room = capacity;
    while room > 0 {
        match best[room].1 {
            Some(k) => {
                pattern[k] += 1;
                room -= sizes[k];
            }
            None => room -= 1,
        }
    }
    (best[capacity].0, pattern)
}

/// All patterns of a bar.
fn patterns(capacity: usize, sizes: &[usize]) -> Vec<Vec<usize>> {
    let Some((&size, rest)) = sizes.split_first() else { return vec![vec![]] };
    let counts = 0..=capacity / size;
    counts
        .flat_map(|n| {
            patterns(capacity - n * size, rest).into_iter().map(move |tail| [vec![n], tail].concat())
        })
        .collect()
}

fn column(pattern: &[usize]) -> Column {
    let covers = pattern.iter().enumerate().filter(|&(_, &n)| n > 0).map(|(k, &n)| (k, n as f64));
    Column::new(1.0, covers.collect())
}

/// Column generation from single-size patterns: objective, columns and iterations at the end.
fn cut_stock(backend: Backend, capacity: usize, sizes: &[usize], demands: &[f64]) -> (f64, usize, u64) {
    let mut master = CoverMaster::new(backend, demands).unwrap();
    let single = |k| {
        let mut pattern = vec![0; sizes.len()];
        pattern[k] = capacity / sizes[k];
        column(&pattern)
    };
    master.add_columns((0..sizes.len()).map(single).collect()).unwrap();
    let mut iterations = 0;
    loop {
        let solved = master.solve().unwrap();
        assert_eq!(solved.status, MasterStatus::Optimal);
        iterations += solved.iterations;
        let (value, pattern) = price(capacity, sizes, &solved.duals);
        let entering = column(&pattern);
        assert!((1.0 - value - entering.reduced_cost(&solved)).abs() < NEAR);
        if value <= 1.0 + 1e-9 {
            let values = master.values().unwrap();
            let cost: f64 = values.iter().sum();
            assert!(near(cost, solved.objective), "{backend}: values cost {cost}, not {}", solved.objective);
            return (solved.objective, master.columns().len(), iterations);
        }
        master.add_columns(vec![entering]).unwrap();
        assert!(master.columns().len() < 10_000, "{backend} runs in circles");
    }
}

#[test]
fn column_generation_reaches_the_optimum_over_all_patterns() {
    let (capacity, sizes, demands) = (100, [45, 36, 31, 14, 9], [97.0, 610.0, 395.0, 211.0, 75.0]);
    let mut full = Program::minimise("all patterns");
    let all = patterns(capacity, &sizes);
    let uses: Vec<_> =
        all.iter().map(|pattern| full.add_real(format!("{pattern:?}"), 0.0, f64::INFINITY)).collect();
    for &x in &uses {
        full.set_cost(x, 1.0);
    }
    for (k, &demand) in demands.iter().enumerate() {
        let terms = uses.iter().zip(&all).map(|(&x, pattern)| (x, pattern[k] as f64));
        full.constrain(format!("size[{k}]"), terms, Relation::AtLeast, demand);
    }
    for &backend in Backend::all() {
        let optimum = solve(&full, &SolveOptions::with(backend)).unwrap().objective.unwrap();
        let (objective, columns, _) = cut_stock(backend, capacity, &sizes, &demands);
        assert!(near(objective, optimum), "{backend}: {objective}, not {optimum}");
        assert!(columns < all.len() / 4, "{columns} of {} patterns", all.len());
        // An integer bound any checker can recompute: ceil(Σ d q / best pattern of q).
        assert!(
            objective.ceil() >= demands.iter().zip(sizes).map(|(d, s)| d * s as f64).sum::<f64>() / 100.0
        );
    }
}

#[test]
fn the_same_calls_give_the_same_bits() {
    let sizes: Vec<usize> = (0..25).map(|k| 101 + 13 * k).collect();
    let demands: Vec<f64> = (0..25).map(|k| f64::from(3 + (k * 7) % 11)).collect();
    for &backend in Backend::all() {
        let expected = cut_stock(backend, 1000, &sizes, &demands);
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..3).map(|_| scope.spawn(|| cut_stock(backend, 1000, &sizes, &demands))).collect();
            for thread in threads {
                let found = thread.join().unwrap();
                assert_eq!(
                    (found.0.to_bits(), found.1, found.2),
                    (expected.0.to_bits(), expected.1, expected.2)
                );
            }
        });
    }
    let objectives: Vec<f64> =
        Backend::all().iter().map(|&b| cut_stock(b, 1000, &sizes, &demands).0).collect();
    assert!(objectives.iter().all(|&objective| near(objective, objectives[0])), "{objectives:?}");
}

#[test]
fn masters_move_between_threads() {
    for &backend in Backend::all() {
        let mut master = CoverMaster::new(backend, &[4.0, 6.0]).unwrap();
        master.add_columns(vec![Column::new(1.0, vec![(0, 2.0)]), Column::new(1.0, vec![(1, 2.0)])]).unwrap();
        assert!(near(master.solve().unwrap().objective, 5.0));
        let objective = std::thread::spawn(move || {
            master.add_columns(vec![Column::new(1.0, vec![(0, 1.0), (1, 2.0)])]).unwrap();
            master.solve().unwrap().objective
        });
        assert!(near(objective.join().unwrap(), 3.5));
    }
}

#[test]
fn named_cases() {
    for &backend in Backend::all() {
        let mut master = CoverMaster::new(backend, &[1.0]).unwrap();
        assert_eq!(master.solve().unwrap().status, MasterStatus::Infeasible);
        assert!(master.values().unwrap().is_empty());
        master.add_columns(vec![Column { upper: 0.5, ..Column::new(1.0, vec![(0, 1.0)]) }]).unwrap();
        assert_eq!(master.solve().unwrap().status, MasterStatus::Infeasible);
        master.limit_column(0, f64::INFINITY).unwrap();
        assert!(near(master.solve().unwrap().objective, 1.0));
        master.add_columns(vec![Column::new(-1.0, vec![])]).unwrap();
        assert_eq!(master.solve().unwrap().status, MasterStatus::Unbounded);
        master.limit_column(1, 3.0).unwrap();
        assert!(near(master.solve().unwrap().objective, -2.0));
        master.retain_columns(|j, _| j == 1).unwrap();
        assert_eq!(master.solve().unwrap().status, MasterStatus::Infeasible);
        master.change_demand(0, 0.0).unwrap();
        assert!(near(master.solve().unwrap().objective, -3.0));
        assert_eq!(master.values().unwrap().len(), 1);
        master.limit_column(0, 0.0).unwrap();
        assert!(master.values().unwrap().is_empty(), "values of a master that has changed");

        // No demands but a bound by an equation.
        let mut equal = CoverMaster::new(backend, &[]).unwrap();
        assert!(near(equal.solve().unwrap().objective, 0.0));
        equal.add_cut(&Cut { coefficients: vec![], relation: Relation::Equal, bound: 2.0 }).unwrap();
        assert_eq!(equal.solve().unwrap().status, MasterStatus::Infeasible);
        equal.add_columns(vec![Column { cuts: vec![(0, 4.0)], ..Column::new(3.0, vec![]) }]).unwrap();
        let solved = equal.solve().unwrap();
        assert!(near(solved.objective, 1.5) && near(solved.cut_duals[0], 0.75));
    }
}

#[test]
fn a_stopped_master_goes_on() {
    let sizes: Vec<usize> = (0..30).map(|k| 151 + 17 * k).collect();
    let demands: Vec<f64> = (0..30).map(|k| f64::from(5 + k % 7)).collect();
    for &backend in Backend::all() {
        let mut master = CoverMaster::new(backend, &demands).unwrap();
        let single = |k| {
            let mut pattern = vec![0; sizes.len()];
            pattern[k] = 1000 / sizes[k];
            column(&pattern)
        };
        master.add_columns((0..sizes.len()).map(single).collect()).unwrap();
        let stopped = master.solve_until(&|| true).unwrap();
        assert_eq!(stopped.status, MasterStatus::Stopped, "{backend} did not ask");
        assert!(master.values().unwrap().is_empty());
        let asked = std::sync::atomic::AtomicU32::new(0);
        let patience = || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 5;
        master.solve_until(&patience).unwrap();
        let expected: f64 = demands.iter().zip(&sizes).map(|(d, s)| d / (1000 / s) as f64).sum();
        assert!(near(master.solve().unwrap().objective, expected));
    }
}

#[test]
fn bad_input_is_refused_and_changes_nothing() {
    for &backend in Backend::all() {
        assert!(CoverMaster::new(backend, &[f64::NAN]).is_err());
        let mut master = CoverMaster::new(backend, &[1.0]).unwrap();
        let good = Column::new(1.0, vec![(0, 1.0)]);
        let bad = [
            Column { cost: f64::NAN, ..good.clone() },
            Column { upper: -1.0, ..good.clone() },
            Column { upper: f64::NAN, ..good.clone() },
            Column { covers: vec![(1, 1.0)], ..good.clone() },
            Column { covers: vec![(0, f64::INFINITY)], ..good.clone() },
            Column { cuts: vec![(0, 1.0)], ..good.clone() },
        ];
        for column in bad {
            assert!(master.add_columns(vec![good.clone(), column]).is_err());
        }
        assert!(master.columns().is_empty());
        master.add_columns(vec![good]).unwrap();
        let out_of_range =
            |result: Result<(), LpError>| matches!(result, Err(LpError::IndexOutOfRange { .. }));
        assert!(out_of_range(master.limit_column(1, 0.0)));
        assert!(out_of_range(master.change_demand(1, 0.0)));
        let cut = Cut { coefficients: vec![(1, 1.0)], relation: Relation::AtMost, bound: 1.0 };
        assert!(out_of_range(master.add_cut(&cut).map(|_| ())));
        assert!(out_of_range(master.change_cut(0, 1.0)));
        assert!(near(master.solve().unwrap().objective, 1.0));
    }
}

/// Cost, covers, coefficients in cuts, limit.
type Added = (i32, Vec<i32>, Vec<i32>, Option<u8>);

/// A change to a master, with numbers to be reduced to positions that exist.
#[derive(Clone, Debug)]
enum Change {
    Add(Vec<Added>),
    Limit(usize, Option<u8>),
    Remove(u64),
    Demand(usize, i32),
    Cut(Vec<i32>, u8, i32),
    Bound(usize, i32),
    RemoveCuts(u64),
}

const DEMANDS: usize = 4;

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let counts = || prop::collection::vec(0i32..=3, DEMANDS);
    let limit = || prop::option::weighted(0.2, 0u8..=4);
    let added = (1i32..=9, counts(), prop::collection::vec(0i32..=2, 4), limit());
    let change = prop_oneof![
        6 => prop::collection::vec(added, 1..6).prop_map(Change::Add),
        1 => (any::<usize>(), prop::option::of(0u8..=4)).prop_map(|(j, upper)| Change::Limit(j, upper)),
        1 => any::<u64>().prop_map(Change::Remove),
        1 => (any::<usize>(), 0i32..=12).prop_map(|(i, units)| Change::Demand(i, units)),
        2 => (prop::collection::vec(0i32..=2, 1..12), 0u8..3, 0i32..=12).prop_map(|(g, r, b)| Change::Cut(g, r, b)),
        1 => (any::<usize>(), 0i32..=12).prop_map(|(k, bound)| Change::Bound(k, bound)),
        1 => any::<u64>().prop_map(Change::RemoveCuts),
    ];
    prop::collection::vec(change, 1..14)
}

fn terms(counts: &[i32], len: usize) -> Vec<(usize, f64)> {
    let counts = counts.iter().take(len).enumerate();
    counts.filter(|&(_, &n)| n != 0).map(|(i, &n)| (i, f64::from(n))).collect()
}

fn upper(limit: Option<u8>) -> f64 {
    limit.map_or(f64::INFINITY, f64::from)
}

/// The master as a program, from what it tells of itself and from the cuts.
fn from_scratch(master: &CoverMaster, cuts: &[(Relation, f64)]) -> Program {
    let mut program = Program::minimise("master");
    let uses: Vec<_> =
        master.columns().iter().map(|column| program.add_real("x", 0.0, column.upper)).collect();
    for (&x, column) in uses.iter().zip(master.columns()) {
        program.set_cost(x, column.cost);
    }
    let coefficients = |of: fn(&Column) -> &Vec<(usize, f64)>, position: usize| {
        let each = uses.iter().zip(master.columns());
        each.flat_map(move |(&x, column)| {
            of(column).iter().filter(move |t| t.0 == position).map(move |t| (x, t.1))
        })
        .collect::<Vec<_>>()
    };
    for (i, &demand) in master.demands().iter().enumerate() {
        program.constrain("cover", coefficients(|column| &column.covers, i), Relation::AtLeast, demand);
    }
    for (k, &(relation, bound)) in cuts.iter().enumerate() {
        program.constrain("cut", coefficients(|column| &column.cuts, k), relation, bound);
    }
    program
}

fn check(
    master: &mut CoverMaster,
    cuts: &[(Relation, f64)],
    seen: &mut [u32; 2],
) -> Result<(), TestCaseError> {
    let solved = master.solve().unwrap();
    let program = from_scratch(master, cuts);
    let fresh = solve(&program, &SolveOptions::default()).unwrap();
    if fresh.status == Status::Infeasible {
        seen[1] += 1;
        prop_assert_eq!(solved.status, MasterStatus::Infeasible, "{}", program.write_lp());
        return Ok(());
    }
    seen[0] += 1;
    prop_assert_eq!(
        (solved.status, fresh.status),
        (MasterStatus::Optimal, Status::Optimal),
        "{}",
        program.write_lp()
    );
    let optimum = fresh.objective.unwrap();
    prop_assert!(
        near(solved.objective, optimum),
        "{} != {}\n{}",
        solved.objective,
        optimum,
        program.write_lp()
    );

    let values = master.values().unwrap();
    prop_assert!(program.violation_at(&values) <= NEAR);
    prop_assert!(near(program.objective_at(&values), optimum));

    // Weak duality with the duals at hand proves the optimum.
    prop_assert!(solved.duals.iter().all(|&dual| dual >= -NEAR));
    let mut proved: f64 = solved.duals.iter().zip(master.demands()).map(|(dual, demand)| dual * demand).sum();
    for (&dual, &(relation, bound)) in solved.cut_duals.iter().zip(cuts) {
        let right = match relation {
            Relation::AtLeast => dual >= -NEAR,
            Relation::AtMost => dual <= NEAR,
            Relation::Equal => true,
        };
        prop_assert!(right);
        proved += dual * bound;
    }
    for column in master.columns() {
        let reduced = column.reduced_cost(&solved);
        prop_assert!(reduced >= -NEAR || column.upper.is_finite());
        if reduced < -NEAR {
            proved += reduced * column.upper;
        }
    }
    prop_assert!(near(proved, optimum), "duals prove {}, not {}", proved, optimum);
    Ok(())
}

#[test]
fn every_change_equals_a_master_from_scratch() {
    for &backend in Backend::all() {
        let mut runner = proptest::test_runner::TestRunner::new_with_rng(
            proptest::test_runner::Config::with_cases(300),
            proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
        );
        let seen = std::cell::RefCell::new([0; 2]);
        runner
            .run(&changes(), |changes| {
                let mut master = CoverMaster::new(backend, &[3.0, 5.0, 2.0, 7.0]).unwrap();
                let mut cuts: Vec<(Relation, f64)> = Vec::new();
                for change in changes {
                    let (len, num_cuts) = (master.columns().len(), cuts.len());
                    match change {
                        Change::Add(columns) => {
                            let column = |(cost, covers, in_cuts, limit): Added| Column {
                                cost: f64::from(cost),
                                covers: terms(&covers, DEMANDS),
                                cuts: terms(&in_cuts, num_cuts),
                                upper: upper(limit),
                            };
                            master.add_columns(columns.into_iter().map(column).collect()).unwrap();
                        }
                        Change::Limit(j, limit) if len > 0 => {
                            master.limit_column(j % len, upper(limit)).unwrap();
                        }
                        Change::Limit(..) => {}
                        Change::Remove(bits) => {
                            master.retain_columns(|j, _| bits >> (j % 64) & 1 == 0).unwrap();
                        }
                        Change::Demand(i, units) => {
                            master.change_demand(i % DEMANDS, f64::from(units)).unwrap();
                        }
                        Change::Cut(coefficients, relation, bound) => {
                            let relations = [Relation::AtLeast, Relation::AtMost, Relation::Equal];
                            let relation = relations[usize::from(relation)];
                            let cut = Cut {
                                coefficients: terms(&coefficients, len),
                                relation,
                                bound: f64::from(bound),
                            };
                            assert_eq!(master.add_cut(&cut).unwrap(), num_cuts);
                            cuts.push((relation, cut.bound));
                        }
                        Change::Bound(k, bound) if num_cuts > 0 => {
                            master.change_cut(k % num_cuts, f64::from(bound)).unwrap();
                            cuts[k % num_cuts].1 = f64::from(bound);
                            assert!(master.cut_bounds().eq(cuts.iter().map(|cut| cut.1)));
                        }
                        Change::Bound(..) => {}
                        Change::RemoveCuts(bits) => {
                            let keep = |k: usize| bits >> (k % 64) & 1 == 0;
                            master.retain_cuts(keep).unwrap();
                            let mut k = 0..;
                            cuts.retain(|_| keep(k.next().unwrap()));
                        }
                    }
                    check(&mut master, &cuts, &mut seen.borrow_mut())?;
                }
                Ok(())
            })
            .unwrap();
        let seen = seen.into_inner();
        assert!(seen.iter().all(|&n| n >= 200), "{backend}: optimal and infeasible {seen:?}");
    }
}

#[test]
fn a_value_within_few_iterations_is_no_more_than_the_optimum() {
    for &backend in Backend::all() {
        // Bars of 10 cut into 7 pieces of 6 and 9 of 4: 8 bars, 11.5 without the pattern 6 + 4.
        let mut master = CoverMaster::new(backend, &[7.0, 9.0]).unwrap();
        let patterns = [vec![(0, 1.0)], vec![(1, 2.0)], vec![(0, 1.0), (1, 1.0)]];
        master.add_columns(patterns.map(|covers| Column::new(1.0, covers)).to_vec()).unwrap();
        assert!(near(master.solve().unwrap().objective, 8.0));
        master.limit_column(2, 0.0).unwrap();
        for iterations in [0, 1, 100] {
            let value = master.value_within(iterations, &|| false).unwrap().unwrap();
            assert!(value <= 11.5 + NEAR, "{value} after {iterations}");
        }
        assert!(near(master.value_within(100, &|| false).unwrap().unwrap(), 11.5));
        // The limit is gone, and so is the bar.
        master.limit_column(2, f64::INFINITY).unwrap();
        assert!(near(master.solve().unwrap().objective, 8.0));
    }
}

/// Three demands; columns of one and of two of them.
fn singles_and_pairs(backend: Backend) -> CoverMaster {
    let mut master = CoverMaster::new(backend, &[7.0, 9.0, 5.0]).unwrap();
    let singles = (0..3).map(|place| Column::new(1.0, vec![(place, 1.0)]));
    let pairs = [(0, 1), (0, 2), (1, 2)].map(|(i, j)| Column::new(1.0, vec![(i, 1.0), (j, 1.0)]));
    master.add_columns(singles.chain(pairs).collect()).unwrap();
    master
}

#[test]
fn a_fork_starts_where_its_master_stands_and_goes_its_own_way() {
    for &backend in Backend::all() {
        if !backend.is_available() {
            continue;
        }
        let mut master = singles_and_pairs(backend);
        master.limit_column(5, 0.0).unwrap();
        let cut = Cut { coefficients: vec![(3, 1.0)], relation: Relation::AtMost, bound: 3.0 };
        master.add_cut(&cut).unwrap();
        let stands = master.solve().unwrap();
        let mut fork = master.fork().unwrap();
        let forked = fork.solve().unwrap();
        assert!(near(forked.objective, stands.objective) && near(stands.objective, 14.0));
        #[cfg(feature = "highs")]
        if backend == Backend::Highs {
            assert_eq!(
                (forked.iterations, &forked.duals, &forked.cut_duals),
                (0, &stands.duals, &stands.cut_duals)
            );
        }
        fork.limit_column(5, f64::INFINITY).unwrap();
        fork.change_cut(0, 9.0).unwrap();
        assert!(near(fork.solve().unwrap().objective, 10.5));
        assert!(near(master.solve().unwrap().objective, 14.0));
    }
}

#[test]
fn a_basis_is_come_back_to() {
    for &backend in Backend::all() {
        if !backend.is_available() {
            continue;
        }
        let mut master = singles_and_pairs(backend);
        let first = master.solve().unwrap();
        assert!(near(first.objective, 10.5));
        let basis = master.basis().unwrap();

        // Bars, a cut and a column come and go, but for the column.
        master.limit_columns(&[(4, 0.0), (3, 0.0)]).unwrap();
        assert!(near(master.solve().unwrap().objective, 16.0));
        let cut = Cut { coefficients: vec![(0, 1.0)], relation: Relation::AtMost, bound: 3.0 };
        master.add_cut(&cut).unwrap();
        master.add_columns(vec![Column::new(2.0, vec![(0, 1.0)])]).unwrap();
        assert!(near(master.solve().unwrap().objective, 20.0));
        master.retain_cuts(|_| false).unwrap();
        master.limit_columns(&[(3, f64::INFINITY), (4, f64::INFINITY)]).unwrap();
        master.restore(&basis).unwrap();
        assert!(master.values().unwrap().is_empty(), "values of a basis that was not solved");
        let again = master.solve().unwrap();
        assert!(near(again.objective, 10.5));
        #[cfg(feature = "highs")]
        if backend == Backend::Highs {
            assert_eq!((again.iterations, &again.duals), (0, &first.duals));
        }

        master.change_costs(&[(5, 3.0), (0, 0.5)]).unwrap();
        assert!(near(master.solve().unwrap().objective, 14.0));
        assert!(matches!(master.change_costs(&[(9, 1.0)]), Err(LpError::IndexOutOfRange { .. })));
        assert!(matches!(master.change_costs(&[(0, f64::NAN)]), Err(LpError::NotFinite { .. })));
        assert!(matches!(master.limit_columns(&[(0, 1.0), (9, 1.0)]), Err(LpError::IndexOutOfRange { .. })));
        assert_eq!(master.columns()[0].upper, f64::INFINITY);
    }
}
