//! A program solved by microlp, the pure-Rust stand-in.
//!
//! microlp has no duals, so those of a linear program come from solving its dual. It cannot be interrupted, so an
//! integer program is searched in batches of nodes, always of the same size: the answer does not depend on `stop`'s patience.

use std::time::Duration;

use microlp::{ComparisonOp, Error, OptimizationDirection, Problem, SolveOutcome, TerminationReason};

use super::{SolveOptions, Solved, Status};
use crate::backend::Backend;
use crate::error::LpError;
use crate::program::{Program, Relation, Sense, Variable};

/// Nodes between two questions to `stop`.
const BATCH: u64 = 64;

pub(super) fn solve(
    program: &Program,
    options: &SolveOptions,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Solved, LpError> {
    let mut problem = Problem::new(match program.sense {
        Sense::Minimise => OptimizationDirection::Minimize,
        Sense::Maximise => OptimizationDirection::Maximize,
    });
    let mut handles = Vec::with_capacity(program.variables().len());
    for variable in program.variables() {
        handles.push(if variable.integer {
            let (lower, upper) = whole_bounds(variable)?;
            if lower > upper {
                return Ok(Solved::without_values(Status::Infeasible));
            }
            problem.add_integer_var(variable.cost, (lower, upper))
        } else {
            problem.add_var(variable.cost, (variable.lower, variable.upper))
        });
    }
    for constraint in program.constraints() {
        let terms = constraint.terms.iter().map(|&(variable, a)| (handles[variable.index()], a));
        problem.add_constraint(terms.collect::<Vec<_>>(), comparison(constraint.relation), constraint.bound);
    }

    let mut batch = microlp::SolveOptions::default();
    batch.mip_gap = options.mip_gap;
    batch.time_limit = options.time_limit.map(Duration::from_secs_f64);
    batch.warm_start = options
        .warm_start
        .as_ref()
        .map(|values| handles.iter().copied().zip(values.iter().copied()).collect());
    let limit = options.node_limit.unwrap_or(u64::MAX);
    batch.node_limit = Some(BATCH.min(limit));

    let mut outcome = problem.solve_with(batch);
    while let Ok(unfinished) = &outcome
        && unfinished.termination_reason() == TerminationReason::NodeLimit
    {
        let nodes = unfinished.stats().nodes_solved;
        if nodes >= limit || stop() {
            break;
        }
        let mut settings = microlp::ResumeOptions::default();
        let elapsed = unfinished.stats().elapsed;
        settings.time_limit = options.time_limit.map(|s| Duration::from_secs_f64(s).saturating_sub(elapsed));
        settings.node_limit = Some(BATCH.min(limit - nodes));
        settings.mip_gap = Some(options.mip_gap);
        outcome = outcome.and_then(|unfinished| unfinished.resume_with(settings));
    }

    let mut solved = read(program, outcome, &handles)?;
    if options.duals && solved.status == Status::Optimal && !program.has_integers() {
        solved.duals = duals(program, options, stop)?;
    }
    Ok(solved)
}

/// Reads microlp's outcome.
fn read(
    program: &Program,
    outcome: Result<SolveOutcome, Error>,
    handles: &[microlp::Variable],
) -> Result<Solved, LpError> {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(Error::Infeasible) => return Ok(Solved::without_values(Status::Infeasible)),
        Err(Error::Unbounded) => return Ok(Solved::without_values(Status::Unbounded)),
        Err(error) => return Err(failed(program, &error.to_string())),
    };
    let stats = outcome.stats();
    let Some(solution) = outcome.solution() else {
        let bound = stats.best_bound.filter(|bound| bound.is_finite()).map(|bound| bound + program.offset);
        return Ok(Solved { nodes: stats.nodes_solved, bound, ..Solved::without_values(Status::Stopped) });
    };
    let status = match solution.termination_reason() {
        TerminationReason::ProvenOptimal | TerminationReason::MipGap => Status::Optimal,
        _ => Status::Feasible,
    };
    Ok(Solved {
        bound: stats.best_bound.map(|bound| bound + program.offset),
        values: handles.iter().map(|&handle| solution.var_value(handle)).collect(),
        nodes: stats.nodes_solved,
        ..Solved::without_values(status)
    })
}

/// The duals of a linear program that has an optimum, from its dual program.
fn duals(
    program: &Program,
    options: &SolveOptions,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<f64>, LpError> {
    let dual = program.dual();
    let count = program.constraints().len();
    if dual.variables().is_empty() {
        return Ok(vec![0.0; count]);
    }
    let options = SolveOptions { duals: false, warm_start: None, time_limit: None, ..options.clone() };
    let mut solved = solve(&dual, &options, stop)?;
    if solved.status != Status::Optimal {
        return Err(failed(program, &format!("its dual is {:?} though it has an optimum", solved.status)));
    }
    solved.values.truncate(count);
    Ok(solved.values)
}

pub(crate) fn comparison(relation: Relation) -> ComparisonOp {
    match relation {
        Relation::AtLeast => ComparisonOp::Ge,
        Relation::AtMost => ComparisonOp::Le,
        Relation::Equal => ComparisonOp::Eq,
    }
}

/// The whole numbers between the bounds of an integer variable; infinite bounds become the largest there are.
fn whole_bounds(variable: &Variable) -> Result<(i32, i32), LpError> {
    let whole = |value: f64, infinite: i32| {
        if value.is_infinite() {
            Ok(infinite)
        } else if value >= f64::from(i32::MIN) && value <= f64::from(i32::MAX) {
            Ok(value as i32)
        } else {
            Err(LpError::IntegerRange { name: variable.name.clone(), value, backend: Backend::Microlp })
        }
    };
    Ok((whole(variable.lower.ceil(), i32::MIN)?, whole(variable.upper.floor(), i32::MAX)?))
}

fn failed(program: &Program, message: &str) -> LpError {
    LpError::Solver { backend: Backend::Microlp, message: format!("{message}, on {}", program.name) }
}
