//! The master through its dual, with microlp: columns of the master are constraints of the dual, and those microlp can add
//! to a solved program and go on from.
//!
//! `max Σ d_i π_i + Σ r_k σ_k − Σ u_j ω_j` subject to `Σ_i a_ij π_i + Σ_k g_kj σ_k − ω_j ≤ c_j` for every column j,
//! `π, ω ≥ 0`, σ signed by its cut; `ω_j` exists only where `u_j` is finite. Columns that the duals at hand price out
//! (no negative reduced cost) are left out until a solution violates them, so a batch costs few steps.
//! Whatever else changes (limits, demands, cuts, removals) starts the dual anew.

use microlp::{ComparisonOp, Error, OptimizationDirection, Problem, Solution, SolveOutcome, Variable};

use super::{Column, Cut, MasterSolved, MasterStatus, State};
use crate::backend::Backend;
use crate::error::LpError;
use crate::program::{Program, Relation};
use crate::solve::{SolveOptions, Status, solve};

/// A reduced cost above −TOLERANCE is none.
const TOLERANCE: f64 = 1e-9;

/// The dual, solved for the constraints of some of the columns.
#[derive(Debug)]
struct Warm {
    solution: Solution,
    covers: Vec<Variable>,
    cuts: Vec<Variable>,
    /// Columns not yet constraints.
    waiting: Vec<usize>,
    /// Simplex iterations already told.
    counted: u64,
}

#[derive(Debug, Default)]
pub(super) struct Dual {
    warm: Option<Warm>,
}

#[allow(clippy::unnecessary_wraps)] // the other engine may fail here
impl Dual {
    pub(super) fn add_columns(&mut self, state: &State, columns: &[Column]) -> Result<(), LpError> {
        if columns.iter().any(|column| column.upper.is_finite()) {
            self.warm = None;
        }
        if let Some(warm) = &mut self.warm {
            warm.waiting.extend((state.columns.len()..).take(columns.len()));
        }
        Ok(())
    }

    pub(super) fn delete_columns(&mut self, _: &[bool]) -> Result<(), LpError> {
        self.forget()
    }

    pub(super) fn limit_columns(&mut self, _: &[usize], _: &[f64]) -> Result<(), LpError> {
        self.forget()
    }

    pub(super) fn change_cost(&mut self, _: usize, _: f64) -> Result<(), LpError> {
        self.forget()
    }

    pub(super) fn change_demand(&mut self, _: usize, _: f64) -> Result<(), LpError> {
        self.forget()
    }

    pub(super) fn add_cut(&mut self, _: &Cut) -> Result<(), LpError> {
        self.forget()
    }

    pub(super) fn change_cut(&mut self, _: usize, _: (Relation, f64)) -> Result<(), LpError> {
        self.forget()
    }

    pub(super) fn delete_cuts(&mut self, _: &State, _: &[bool]) -> Result<(), LpError> {
        self.forget()
    }

    fn forget(&mut self) -> Result<(), LpError> {
        self.warm = None;
        Ok(())
    }

    pub(super) fn solve(
        &mut self,
        state: &State,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<MasterSolved, LpError> {
        if let Some(warm) = self.warm.take()
            && let Ok(solved) = self.grow(state, warm, stop)
        {
            return Ok(solved);
        }
        // Nothing to go on from, or microlp lost its way.
        if stop() {
            return Ok(MasterSolved::without_numbers(MasterStatus::Stopped));
        }
        match build(state).and_then(|warm| self.grow(state, warm, stop)) {
            Ok(solved) => Ok(solved),
            Err(Error::Unbounded) => Ok(MasterSolved::without_numbers(MasterStatus::Infeasible)),
            Err(Error::Infeasible) => Ok(MasterSolved::without_numbers(without_optimum(state)?)),
            Err(error) => Err(failed(&error.to_string())),
        }
    }

    /// Adds the waiting columns the duals violate, worst first, until they violate none.
    fn grow(
        &mut self,
        state: &State,
        mut warm: Warm,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<MasterSolved, Error> {
        let counted = warm.counted;
        loop {
            let mut solved = warm.read();
            let prices = warm.waiting.iter().map(|&j| state.columns[j].reduced_cost(&solved)).enumerate();
            let worst =
                prices.min_by(|(_, a), (_, b)| a.total_cmp(b)).filter(|&(_, price)| price < -TOLERANCE);
            let Some((place, _)) = worst else {
                // microlp counts the pivots of all solves so far.
                warm.counted = solved.iterations;
                solved.iterations -= counted;
                self.warm = Some(warm);
                return Ok(solved);
            };
            if stop() {
                self.warm = Some(warm);
                return Ok(MasterSolved::without_numbers(MasterStatus::Stopped));
            }
            let column = &state.columns[warm.waiting.swap_remove(place)];
            let terms = warm.terms(column);
            let outcome = warm.solution.add_constraint(terms, ComparisonOp::Le, column.cost)?;
            warm.solution = solution(outcome)?;
        }
    }
}

/// Values of the columns at an optimum with the given duals.
pub(super) fn values(state: &State, solved: &MasterSolved) -> Result<Vec<f64>, LpError> {
    // An optimum uses no column of positive reduced cost, unless its own limit makes it dear.
    let near = 1e-7 * (1.0 + solved.objective.abs());
    let tight =
        |j: &usize| state.columns[*j].upper.is_finite() || state.columns[*j].reduced_cost(solved) <= 1e-7;
    let all = 0..state.columns.len();
    for chosen in [all.clone().filter(tight).collect::<Vec<_>>(), all.collect()] {
        let found = solve(&primal(state, &chosen), &SolveOptions::with(Backend::Microlp))?;
        if found.status == Status::Optimal
            && (found.objective.unwrap_or(f64::INFINITY) - solved.objective).abs() <= near
        {
            let mut values = vec![0.0; state.columns.len()];
            for (&j, value) in chosen.iter().zip(found.values) {
                values[j] = value;
            }
            return Ok(values);
        }
    }
    Err(failed("master and dual have different optima"))
}

impl Warm {
    fn read(&self) -> MasterSolved {
        let value = |&variable: &Variable| self.solution.var_value(variable);
        MasterSolved {
            status: MasterStatus::Optimal,
            objective: self.solution.objective(),
            duals: self.covers.iter().map(value).collect(),
            cut_duals: self.cuts.iter().map(value).collect(),
            iterations: self.solution.stats().lp_iterations,
        }
    }

    fn terms(&self, column: &Column) -> Vec<(Variable, f64)> {
        let covers = column.covers.iter().map(|&(i, a)| (self.covers[i], a));
        covers.chain(column.cuts.iter().map(|&(k, g)| (self.cuts[k], g))).collect()
    }
}

/// The dual with all columns, solved cold.
fn build(state: &State) -> Result<Warm, Error> {
    let mut dual = Problem::new(OptimizationDirection::Maximize);
    let covers: Vec<_> = state.demands.iter().map(|&d| dual.add_var(d, (0.0, f64::INFINITY))).collect();
    let cuts = state.cuts.iter().map(|&(relation, bound)| {
        let (lower, upper) = match relation {
            Relation::AtLeast => (0.0, f64::INFINITY),
            Relation::AtMost => (f64::NEG_INFINITY, 0.0),
            Relation::Equal => (f64::NEG_INFINITY, f64::INFINITY),
        };
        dual.add_var(bound, (lower, upper))
    });
    let cuts: Vec<_> = cuts.collect();
    for column in &state.columns {
        let mut terms: Vec<_> = column.covers.iter().map(|&(i, a)| (covers[i], a)).collect();
        terms.extend(column.cuts.iter().map(|&(k, g)| (cuts[k], g)));
        if column.upper.is_finite() {
            terms.push((dual.add_var(-column.upper, (0.0, f64::INFINITY)), -1.0));
        }
        dual.add_constraint(terms, ComparisonOp::Le, column.cost);
    }
    Ok(Warm { solution: solution(dual.solve()?)?, covers, cuts, waiting: Vec::new(), counted: 0 })
}

fn solution(outcome: SolveOutcome) -> Result<Solution, Error> {
    outcome.into_solution().map_err(|_| Error::InternalError("stopped without a limit".to_owned()))
}

/// The master over some of its columns, as a program.
fn primal(state: &State, chosen: &[usize]) -> Program {
    let mut program = Program::minimise("cover master");
    let mut covers = vec![Vec::new(); state.demands.len()];
    let mut cuts = vec![Vec::new(); state.cuts.len()];
    for &j in chosen {
        let column = &state.columns[j];
        let x = program.add_real(format!("x[{j}]"), 0.0, column.upper);
        program.set_cost(x, column.cost);
        column.covers.iter().for_each(|&(i, a)| covers[i].push((x, a)));
        column.cuts.iter().for_each(|&(k, g)| cuts[k].push((x, g)));
    }
    for (i, terms) in covers.into_iter().enumerate() {
        program.constrain(format!("cover[{i}]"), terms, Relation::AtLeast, state.demands[i]);
    }
    for (k, terms) in cuts.into_iter().enumerate() {
        program.constrain(format!("cut[{k}]"), terms, state.cuts[k].0, state.cuts[k].1);
    }
    program
}

/// Why a master whose dual is infeasible has no optimum.
fn without_optimum(state: &State) -> Result<MasterStatus, LpError> {
    let mut free =
        State { demands: state.demands.clone(), columns: state.columns.clone(), cuts: state.cuts.clone() };
    free.columns.iter_mut().for_each(|column| column.cost = 0.0);
    let all: Vec<_> = (0..free.columns.len()).collect();
    let found = solve(&primal(&free, &all), &SolveOptions::with(Backend::Microlp))?;
    Ok(if found.status == Status::Optimal { MasterStatus::Unbounded } else { MasterStatus::Infeasible })
}

fn failed(message: &str) -> LpError {
    LpError::Solver { backend: Backend::Microlp, message: format!("{message}, on a master") }
}
