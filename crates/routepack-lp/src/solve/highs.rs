//! A program solved by HiGHS: modelled with `good_lp`, run as a `highs` model, since `good_lp` returns no bound.

use good_lp::{Expression, ProblemVariables, SolverModel, variable};
use highs::{HighsModelStatus, HighsSolutionStatus, SolvedModel};

use super::{SolveOptions, Solved, Status};
use crate::backend::Backend;
use crate::error::LpError;
use crate::highs_calls::{Stop, THREADS, failed, node_count, with_stop};
use crate::program::{Program, Relation, Sense};

pub(super) fn solve(program: &Program, options: &SolveOptions, stop: Stop<'_>) -> Result<Solved, LpError> {
    let mut model = run(program, options, stop, Presolve::Choose)?;
    let mut status = model.status();
    if status == HighsModelStatus::UnboundedOrInfeasible {
        // Presolve saw that there is no optimum, not why: a program without objective is infeasible or solved.
        let mut indifferent = program.clone();
        for id in (0..program.variables().len()).map(crate::program::VariableId) {
            indifferent.set_cost(id, 0.0);
        }
        model = run(&indifferent, options, stop, Presolve::Off)?;
        status = match model.status() {
            HighsModelStatus::Optimal => HighsModelStatus::Unbounded,
            other => other,
        };
    }
    let has_values = model.primal_solution_status() == HighsSolutionStatus::Feasible;
    let status = match status {
        HighsModelStatus::Optimal => Status::Optimal,
        HighsModelStatus::Infeasible => Status::Infeasible,
        HighsModelStatus::Unbounded => Status::Unbounded,
        HighsModelStatus::ReachedTimeLimit
        | HighsModelStatus::ReachedIterationLimit
        | HighsModelStatus::ReachedSolutionLimit
        | HighsModelStatus::ReachedInterrupt
        | HighsModelStatus::ReachedMemoryLimit => {
            if has_values {
                Status::Feasible
            } else {
                Status::Stopped
            }
        }
        other => {
            let message = format!("status {other:?} on {}", program.name);
            return Err(LpError::Solver { backend: Backend::Highs, message });
        }
    };
    Ok(answer(program, options, status, &mut model))
}

/// Reads the answer out of a model that has run.
fn answer(program: &Program, options: &SolveOptions, status: Status, model: &mut SolvedModel) -> Solved {
    let mut solved = Solved::without_values(status);
    if program.has_integers() {
        solved.nodes = node_count(model);
    }
    if matches!(status, Status::Infeasible | Status::Unbounded) {
        return solved;
    }
    if program.has_integers() {
        let bound = model.double_info_value(c"mip_dual_bound").ok();
        solved.bound = bound.filter(|bound| bound.is_finite()).map(|bound| bound + program.offset);
    }
    if status == Status::Stopped {
        return solved;
    }
    let solution = model.get_solution();
    solved.values = solution.columns().to_vec();
    if status == Status::Optimal && !program.has_integers() {
        solved.bound = Some(program.objective_at(&solved.values));
        if options.duals {
            solved.duals = solution.dual_rows().to_vec();
        }
    }
    solved
}

#[derive(Clone, Copy)]
enum Presolve {
    Choose,
    Off,
}

/// Models and runs a program.
fn run(
    program: &Program,
    options: &SolveOptions,
    stop: Stop<'_>,
    presolve: Presolve,
) -> Result<SolvedModel, LpError> {
    let mut model = build(program)?;
    model.make_quiet();
    let set = |done: Result<(), highs::TrySetOptionError>, name: &str| done.map_err(|_| failed(name));
    set(model.try_set_option("threads", THREADS), "threads")?;
    set(model.try_set_option("parallel", "off"), "parallel")?;
    set(model.try_set_option("random_seed", (options.seed & 0x7fff_ffff) as i32), "random_seed")?;
    set(model.try_set_option("mip_rel_gap", options.mip_gap), "mip_rel_gap")?;
    if let Presolve::Off = presolve {
        set(model.try_set_option("presolve", "off"), "presolve")?;
    }
    if let Some(seconds) = options.time_limit {
        set(model.try_set_option("time_limit", seconds), "time_limit")?;
    }
    if program.has_integers() {
        let nodes = options.node_limit.unwrap_or(u64::MAX);
        set(
            model.try_set_option("mip_max_nodes", i32::try_from(nodes).unwrap_or(i32::MAX)),
            "mip_max_nodes",
        )?;
        if let Some(values) = &options.warm_start {
            // HiGHS completes or drops what is infeasible.
            model.try_set_solution(Some(values), None, None, None).map_err(|_| failed("setSolution"))?;
        }
    } else {
        set(model.try_set_option("solver", "simplex"), "solver")?;
        for tolerance in ["primal_feasibility_tolerance", "dual_feasibility_tolerance"] {
            set(model.try_set_option(tolerance, 1e-9), tolerance)?;
        }
    }
    let pointer = model.as_mut_ptr();
    // SAFETY: the model lives on in the result, or is dropped by `try_solve` after the run; the callback's data is not
    // used once it has run, since a `SolvedModel` here is read and dropped.
    #[allow(unsafe_code)]
    let ran = unsafe { with_stop(pointer, stop, || model.try_solve()) }?;
    ran.map_err(|_| failed("run"))
}

/// The program as a HiGHS model, by way of `good_lp`. The offset is left out: `good_lp` drops it.
fn build(program: &Program) -> Result<highs::Model, LpError> {
    let mut variables = ProblemVariables::new();
    let mut objective = Expression::with_capacity(program.variables().len());
    let mut handles = Vec::with_capacity(program.variables().len());
    for part in program.variables() {
        let definition = variable().min(part.lower).max(part.upper);
        let handle = variables.add(if part.integer { definition.integer() } else { definition });
        objective.add_mul(part.cost, handle);
        handles.push(handle);
    }
    let unsolved = match program.sense {
        Sense::Minimise => variables.minimise(objective),
        Sense::Maximise => variables.maximise(objective),
    };
    let mut problem = unsolved.using(good_lp::solvers::highs::highs);
    for constraint in program.constraints() {
        let mut left = Expression::with_capacity(constraint.terms.len());
        for &(variable, coefficient) in &constraint.terms {
            left.add_mul(coefficient, handles[variable.index()]);
        }
        problem.add_constraint(match constraint.relation {
            Relation::AtLeast => left.geq(constraint.bound),
            Relation::AtMost => left.leq(constraint.bound),
            Relation::Equal => left.eq(constraint.bound),
        });
    }
    problem
        .try_into_inner()
        .map_err(|error| LpError::Solver { backend: Backend::Highs, message: error.to_string() })
}
