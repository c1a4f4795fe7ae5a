//! Random small programs: both backends against each other, against enumeration and against duality.
#![allow(clippy::unwrap_used, clippy::float_cmp)]

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use routepack_lp::{
    Backend, LpError, Program, Relation, Sense, SolveOptions, Solved, Status, VariableId, solve, solve_until,
};

const NEAR: f64 = 1e-6;

fn solve_with(backend: Backend, program: &Program) -> Solved {
    let options = SolveOptions { duals: true, ..SolveOptions::with(backend) };
    solve(program, &options).unwrap_or_else(|error| panic!("{error}\n{}", program.write_lp()))
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= NEAR * (1.0 + a.abs().max(b.abs()))
}

/// Small whole coefficients, many zeros, every relation, every kind of bounds; `integer` limits all variables to 0..=3.
fn programs(integer: bool) -> impl Strategy<Value = Program> {
    let relation = prop_oneof![Just(Relation::AtLeast), Just(Relation::AtMost), Just(Relation::Equal)];
    let coefficient = prop_oneof![Just(0), -4i32..=9];
    let variable = (-3i32..=5, 0i32..=3, 0u8..6);
    (1usize..=5, 0usize..=5).prop_flat_map(move |(n, m)| {
        (
            any::<bool>(),
            -2i32..=2,
            prop::collection::vec(variable.clone(), n),
            prop::collection::vec(
                (prop::collection::vec(coefficient.clone(), n), relation.clone(), -5i32..=15),
                m,
            ),
        )
            .prop_map(move |(maximise, offset, variables, constraints)| {
                let mut program = if maximise { Program::maximise("p") } else { Program::minimise("p") };
                program.offset = f64::from(offset);
                let ids: Vec<VariableId> = variables
                    .iter()
                    .enumerate()
                    .map(|(j, &(cost, width, kind))| {
                        let width = f64::from(width);
                        let name = format!("x{j}");
                        let x = match kind {
                            _ if integer => program.add_integer(name, 0.0, width),
                            0 => program.add_real(name, -width, width + 1.5),
                            1 => program.add_real(name, f64::NEG_INFINITY, f64::INFINITY),
                            2 => program.add_real(name, f64::NEG_INFINITY, width),
                            3 => program.add_real(name, -2.0, 0.0),
                            _ => program.add_real(name, 0.0, f64::INFINITY),
                        };
                        program.set_cost(x, f64::from(cost));
                        x
                    })
                    .collect();
                for (i, (row, relation, bound)) in constraints.into_iter().enumerate() {
                    let terms = ids.iter().zip(row).map(|(&x, a)| (x, f64::from(a)));
                    program.constrain(format!("c{i}"), terms, relation, f64::from(bound));
                }
                program
            })
    })
}

/// The bound that multipliers `y` of the constraints prove by themselves (weak duality), if their signs are right:
/// `offset + b y + Σ_j best of (c_j − a_j y) x_j over the bounds of x_j`.
fn proved_by(program: &Program, y: &[f64]) -> Option<f64> {
    let sign = if program.sense == Sense::Minimise { 1.0 } else { -1.0 };
    let mut reduced: Vec<f64> = program.variables().iter().map(|variable| variable.cost).collect();
    let mut bound = program.offset;
    for (constraint, &y) in program.constraints().iter().zip(y) {
        let wrong = match constraint.relation {
            Relation::AtLeast => sign * y < -NEAR,
            Relation::AtMost => sign * y > NEAR,
            Relation::Equal => false,
        };
        if wrong {
            return None;
        }
        bound += constraint.bound * y;
        constraint.terms.iter().for_each(|&(x, a)| reduced[x.index()] -= a * y);
    }
    for (variable, reduced) in program.variables().iter().zip(reduced) {
        let at = if sign * reduced > 0.0 { variable.lower } else { variable.upper };
        // A vanishing reduced cost times an infinite bound is rounding.
        if reduced.abs() > 1e-7 {
            bound += reduced * at;
        }
    }
    Some(bound)
}

/// The optimum over all whole points of 0..=3 boxes; `None` if no point is feasible.
fn enumerated(program: &Program) -> Option<f64> {
    let mut points = vec![vec![]];
    for variable in program.variables() {
        let values = || (variable.lower as i32..=variable.upper as i32).map(f64::from);
        points = points.iter().flat_map(|p| values().map(move |v| [p.as_slice(), &[v]].concat())).collect();
    }
    let feasible = points.iter().filter(|point| program.violation_at(point) == 0.0);
    let objectives = feasible.map(|point| program.objective_at(point));
    match program.sense {
        Sense::Minimise => objectives.min_by(f64::total_cmp),
        Sense::Maximise => objectives.max_by(f64::total_cmp),
    }
}

#[test]
fn linear_programs_are_solved_as_duality_says() {
    let mut runner = TestRunner::new_with_rng(
        Config::with_cases(1500),
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    let seen = [const { Cell::new(0) }; 3];
    runner
        .run(&programs(false), |program| {
            let first = solve_with(Backend::all()[0], &program);
            seen[match first.status {
                Status::Optimal => 0,
                Status::Infeasible => 1,
                Status::Unbounded => 2,
                other => panic!("{other:?} without a limit"),
            }]
            .update(|n| n + 1);
            for &backend in Backend::all() {
                let solved = solve_with(backend, &program);
                prop_assert_eq!(solved.status, first.status, "{}\n{}", backend, program.write_lp());
                if solved.status == Status::Optimal {
                    let objective = solved.objective.unwrap();
                    prop_assert!(program.violation_at(&solved.values) <= NEAR);
                    prop_assert!(near(objective, program.objective_at(&solved.values)));
                    let proved = proved_by(&program, &solved.duals);
                    prop_assert!(
                        proved.is_some_and(|bound| near(bound, objective)),
                        "{} duals {:?} prove {:?}, not {}\n{}",
                        backend,
                        solved.duals,
                        proved,
                        objective,
                        program.write_lp()
                    );
                    prop_assert!(near(solved.bound.unwrap(), objective));
                }
                // The dual program: same optimum, and infeasible where the program is unbounded.
                let dual = solve_with(backend, &program.dual());
                match first.status {
                    Status::Optimal => prop_assert!(near(dual.objective.unwrap(), first.objective.unwrap())),
                    Status::Unbounded => prop_assert_eq!(dual.status, Status::Infeasible),
                    _ => prop_assert_ne!(dual.status, Status::Optimal),
                }
            }
            Ok(())
        })
        .unwrap();
    assert!(seen.iter().all(|n| n.get() >= 100), "optimal, infeasible, unbounded: {seen:?}");
}

#[test]
fn integer_programs_are_solved_as_enumeration_says() {
    let mut runner = TestRunner::new_with_rng(
        Config::with_cases(2000),
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    let (optimal, fractional) = (Cell::new(0), Cell::new(0));
    runner
        .run(&programs(true), |program| {
            let truth = enumerated(&program);
            for &backend in Backend::all() {
                let solved = solve_with(backend, &program);
                match truth {
                    None => prop_assert_eq!(solved.status, Status::Infeasible),
                    Some(truth) => {
                        prop_assert_eq!(solved.status, Status::Optimal);
                        prop_assert!(near(solved.objective.unwrap(), truth), "{} {:?}", backend, solved);
                        prop_assert!(near(solved.bound.unwrap(), truth), "{} {:?}", backend, solved);
                        prop_assert!(program.violation_at(&solved.values) <= NEAR);
                        prop_assert!(solved.values.iter().all(|value| value.fract() == 0.0));
                        prop_assert!(solved.duals.is_empty());
                    }
                }
                let relaxed = solve_with(backend, &program.relaxed());
                if let (Some(truth), Some(relaxed), true) =
                    (truth, relaxed.objective, backend == Backend::default())
                {
                    optimal.update(|n| n + 1);
                    fractional.update(|n| n + i32::from(!near(truth, relaxed)));
                }
            }
            Ok(())
        })
        .unwrap();
    assert!(optimal.get() >= 300 && fractional.get() >= 50, "{optimal:?} optimal, {fractional:?} fractional");
}

/// `n` items into the least number of bins of 100, as assignment program: needs branching.
fn bin_packing(sizes: &[u32], bins: usize) -> Program {
    let mut program = Program::minimise("bin packing");
    let used: Vec<_> = (0..bins).map(|b| program.add_binary(format!("y[{b}]"))).collect();
    let placed: Vec<Vec<_>> = (0..sizes.len())
        .map(|i| (0..bins).map(|b| program.add_binary(format!("x[{i},{b}]"))).collect())
        .collect();
    for b in 0..bins {
        program.set_cost(used[b], 1.0);
        let load = sizes.iter().enumerate().map(|(i, &size)| (placed[i][b], f64::from(size)));
        program.constrain(format!("load[{b}]"), load.chain([(used[b], -100.0)]), Relation::AtMost, 0.0);
    }
    for (i, row) in placed.iter().enumerate() {
        program.constrain(format!("place[{i}]"), row.iter().map(|&x| (x, 1.0)), Relation::Equal, 1.0);
    }
    program
}

const SIZES: [u32; 12] = [51, 49, 48, 47, 44, 41, 38, 35, 31, 29, 27, 26];

#[test]
fn a_node_limit_leaves_a_true_bound() {
    let program = bin_packing(&SIZES, 6);
    for &backend in Backend::all() {
        for limit in [0, 1, 5, 70] {
            let options = SolveOptions { node_limit: Some(limit), ..SolveOptions::with(backend) };
            let solved = solve(&program, &options).unwrap();
            assert_eq!(solved, solve(&program, &options).unwrap(), "{backend} twice");
            // 466 units need 5 bins, and 5 suffice.
            assert!(solved.bound.is_none_or(|bound| bound <= 5.0 + NEAR), "{backend} {solved:?}");
            match solved.status {
                Status::Optimal => assert!(near(solved.objective.unwrap(), 5.0)),
                Status::Feasible => assert!(program.violation_at(&solved.values) <= NEAR),
                Status::Stopped => assert!(solved.values.is_empty()),
                other => panic!("{backend} says {other:?}"),
            }
            assert!(backend == Backend::Highs || solved.nodes <= limit, "{solved:?}");
        }
    }
}

#[test]
fn a_warm_start_is_taken_or_ignored() {
    let program = bin_packing(&SIZES, 6);
    for &backend in Backend::all() {
        let best = solve(&program, &SolveOptions { node_limit: Some(20_000), ..SolveOptions::with(backend) })
            .unwrap();
        assert!(near(best.objective.unwrap(), 5.0), "{backend} {best:?}");
        let limited = SolveOptions { node_limit: Some(0), ..SolveOptions::with(backend) };
        let started = SolveOptions { warm_start: Some(best.values.clone()), ..limited.clone() };
        assert!(near(solve(&program, &started).unwrap().objective.unwrap(), 5.0), "{backend}");
        let useless = SolveOptions { warm_start: Some(vec![0.0; best.values.len()]), ..limited };
        assert!(solve(&program, &useless).is_ok());
    }
}

/// A market split: four equations of 30 binaries, missed by as little as possible. Hard for any branch and bound.
fn market_split() -> Program {
    let mut program = Program::minimise("market split");
    let shops: Vec<_> = (0..30).map(|j| program.add_binary(format!("x[{j}]"))).collect();
    for i in 0..4u32 {
        let sizes: Vec<_> =
            (0..30u32).map(|j| f64::from((j * 37 + i * 59 + j * j * (i + 3) * 7) % 100)).collect();
        let misses = ["under", "over"].map(|way| program.add_real(format!("{way}[{i}]"), 0.0, f64::INFINITY));
        for miss in misses {
            program.set_cost(miss, 1.0);
        }
        let terms = shops.iter().copied().zip(sizes.iter().copied());
        let half = (sizes.iter().sum::<f64>() / 2.0).floor();
        program.constrain(
            format!("split[{i}]"),
            terms.chain([(misses[0], 1.0), (misses[1], -1.0)]),
            Relation::Equal,
            half,
        );
    }
    program
}

#[test]
fn stop_is_obeyed() {
    let program = market_split();
    for &backend in Backend::all() {
        let options = SolveOptions::with(backend);
        let at_once = solve_until(&program, &options, &|| true).unwrap();
        assert_eq!(at_once.status, Status::Stopped);
        let asked = std::sync::atomic::AtomicU32::new(0);
        let patience = || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) >= 3;
        let solved = solve_until(&program, &options, &patience).unwrap();
        let asked = asked.into_inner();
        assert!(asked > 3, "{backend} asked {asked} times");
        assert!(matches!(solved.status, Status::Stopped | Status::Feasible), "{backend} {solved:?}");
        assert!(solved.values.is_empty() == (solved.status == Status::Stopped), "{solved:?}");
        assert!(solved.values.is_empty() || program.violation_at(&solved.values) <= NEAR);
    }
}

#[test]
fn named_cases() {
    let free = |sense: fn(&'static str) -> Program| {
        let mut program = sense("p");
        let x = program.add_real("x", 0.0, f64::INFINITY);
        program.set_cost(x, 1.0);
        (program, x)
    };
    for &backend in Backend::all() {
        let status = |program: &Program| solve_with(backend, program).status;
        let (unbounded, _) = free(Program::maximise);
        assert_eq!(status(&unbounded), Status::Unbounded);
        let (mut infeasible, x) = free(Program::minimise);
        infeasible.constrain("c", [(x, 1.0)], Relation::AtMost, -1.0);
        assert_eq!(status(&infeasible), Status::Infeasible);
        // Both it and its dual are infeasible.
        let (mut both, x) = free(Program::maximise);
        let y = both.add_real("y", 0.0, f64::INFINITY);
        both.constrain("c", [(x, 1.0), (y, -1.0)], Relation::AtMost, -1.0);
        both.constrain("d", [(x, -1.0), (y, 1.0)], Relation::AtMost, -1.0);
        assert_eq!(status(&both), Status::Infeasible);
        // No whole number between 0.2 and 0.8; none above 2^31 either, but microlp says so itself.
        let mut nothing = Program::minimise("p");
        nothing.add_integer("x", 0.2, 0.8);
        assert_eq!(status(&nothing), Status::Infeasible);
        let mut vast = Program::minimise("p");
        let x = vast.add_integer("x", 5e9, 6e9);
        vast.set_cost(x, 1.0);
        match solve(&vast, &SolveOptions::with(backend)) {
            Ok(solved) => assert_eq!((backend, solved.objective), (Backend::Highs, Some(5e9))),
            Err(error) => {
                assert!(matches!(error, LpError::IntegerRange { .. }));
                assert_eq!(backend, Backend::Microlp);
            }
        }
        // No variables, no constraints, nothing but an offset.
        let mut empty = Program::maximise("p");
        empty.offset = 2.5;
        assert_eq!(solve_with(backend, &empty).objective, Some(2.5));
        empty.constrain("c", [], Relation::AtLeast, 1.0);
        assert_eq!(status(&empty), Status::Infeasible);
        let mut unconstrained = Program::minimise("p");
        let x = unconstrained.add_real("x", -3.0, 4.0);
        unconstrained.set_cost(x, 2.0);
        assert_eq!(solve_with(backend, &unconstrained).objective, Some(-6.0));
    }
}

#[test]
fn bad_options_are_refused() {
    let mut program = Program::minimise("p");
    program.add_binary("x");
    let options = SolveOptions::default;
    let refused = |options: SolveOptions| solve(&program, &options).is_err();
    assert!(!refused(options()));
    assert!(refused(SolveOptions { mip_gap: f64::NAN, ..options() }));
    assert!(refused(SolveOptions { mip_gap: -0.1, ..options() }));
    assert!(refused(SolveOptions { time_limit: Some(-1.0), ..options() }));
    assert!(refused(SolveOptions { warm_start: Some(vec![]), ..options() }));
    assert!(cfg!(feature = "highs") || refused(SolveOptions::with(Backend::Highs)));
}

#[test]
fn many_threads_at_once_give_the_same_bits() {
    let programs: Vec<_> = (4..8).map(|bins| bin_packing(&SIZES[..9], bins)).collect();
    for &backend in Backend::all() {
        let options = SolveOptions { node_limit: Some(200), ..SolveOptions::with(backend) };
        let answers = || programs.iter().map(|p| solve(p, &options).unwrap()).collect::<Vec<_>>();
        let expected = answers();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(answers)).collect();
            for thread in threads {
                assert_eq!(thread.join().unwrap(), expected);
            }
        });
    }
}

#[cfg(feature = "highs")]
#[test]
#[allow(unsafe_code)]
fn highs_reads_what_is_written() {
    let mut runner = TestRunner::new_with_rng(
        Config::with_cases(150),
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    let file = tempfile::Builder::new().suffix(".lp").tempfile().unwrap();
    let path = std::ffi::CString::new(file.path().to_str().unwrap()).unwrap();
    for integer in [false, true] {
        runner
            .run(&programs(integer), |program| {
                std::fs::write(file.path(), program.write_lp()).unwrap();
                // SAFETY: the model is created, used and destroyed here; all strings are NUL-terminated.
                let (status, objective) = unsafe {
                    let model = highs_sys::Highs_create();
                    highs_sys::Highs_setBoolOptionValue(model, c"output_flag".as_ptr(), 0);
                    highs_sys::Highs_setIntOptionValue(model, c"threads".as_ptr(), 1);
                    highs_sys::Highs_setStringOptionValue(model, c"presolve".as_ptr(), c"off".as_ptr());
                    assert_ne!(highs_sys::Highs_readModel(model, path.as_ptr()), highs_sys::STATUS_ERROR);
                    highs_sys::Highs_run(model);
                    let found =
                        (highs_sys::Highs_getModelStatus(model), highs_sys::Highs_getObjectiveValue(model));
                    highs_sys::Highs_destroy(model);
                    found
                };
                let solved = solve_with(Backend::Highs, &program);
                let optimal = solved.status == Status::Optimal;
                prop_assert_eq!(status == highs_sys::MODEL_STATUS_OPTIMAL, optimal, "{}", program.write_lp());
                prop_assert!(
                    !optimal || near(objective, solved.objective.unwrap()),
                    "{}",
                    program.write_lp()
                );
                Ok(())
            })
            .unwrap();
    }
}
