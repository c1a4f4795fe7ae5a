//! The master as a linear program inside HiGHS that keeps its basis. Constraints: first the demands, then the cuts.

use super::{Column, Cut, MasterSolved, MasterStatus, State};
use crate::backend::Backend;
use crate::error::LpError;
use crate::highs_calls::{Model, Stop};
use crate::program::Relation;

const BASIC: highs_sys::HighsInt = highs_sys::kHighsBasisStatusBasic;

#[derive(Debug)]
pub(super) struct Primal(Model);

/// States of columns and constraints.
#[derive(Debug, Clone)]
pub(super) struct Basis {
    columns: Vec<highs_sys::HighsInt>,
    constraints: Vec<highs_sys::HighsInt>,
}

impl Primal {
    pub(super) fn new(demands: &[f64]) -> Result<Self, LpError> {
        let mut model = Model::new()?;
        for &demand in demands {
            model.add_constraint(demand, f64::INFINITY, &[])?;
        }
        Ok(Self(model))
    }

    pub(super) fn add_columns(&mut self, state: &State, columns: &[Column]) -> Result<(), LpError> {
        let covers = state.demands.len();
        self.0.add_columns(columns.iter().map(|column| {
            let cuts = column.cuts.iter().map(move |&(cut, coefficient)| (covers + cut, coefficient));
            (column.cost, column.upper, column.covers.iter().copied().chain(cuts))
        }))
    }

    pub(super) fn delete_columns(&mut self, delete: &[bool]) -> Result<(), LpError> {
        self.0.delete_columns(delete)
    }

    pub(super) fn limit_columns(&mut self, columns: &[usize], uppers: &[f64]) -> Result<(), LpError> {
        self.0.bound_columns(columns, uppers)
    }

    pub(super) fn change_cost(&mut self, column: usize, cost: f64) -> Result<(), LpError> {
        self.0.change_cost(column, cost)
    }

    pub(super) fn basis(&self) -> Result<Basis, LpError> {
        let (columns, constraints) = self.0.basis()?;
        // A column that is not basic rests at 0, also when its limit changes.
        let rests = |state| if state == BASIC { BASIC } else { highs_sys::kHighsBasisStatusLower };
        Ok(Basis { columns: columns.into_iter().map(rests).collect(), constraints })
    }

    /// Columns and cuts that came after the basis rest, or are basic.
    pub(super) fn restore(&mut self, basis: &Basis) -> Result<(), LpError> {
        let (columns, constraints) = self.0.shape();
        let mut all = basis.clone();
        all.columns.resize(columns, highs_sys::kHighsBasisStatusLower);
        all.constraints.resize(constraints, BASIC);
        self.0.set_basis(&all.columns, &all.constraints)
    }

    pub(super) fn change_demand(&mut self, demand: usize, units: f64) -> Result<(), LpError> {
        self.0.bound_constraint(demand, units, f64::INFINITY)
    }

    pub(super) fn add_cut(&mut self, cut: &Cut) -> Result<(), LpError> {
        let (lower, upper) = sides(cut.relation, cut.bound);
        self.0.add_constraint(lower, upper, &cut.coefficients)
    }

    /// `constraint`: the cut's place behind the cover constraints.
    pub(super) fn change_cut(
        &mut self,
        constraint: usize,
        (relation, bound): (Relation, f64),
    ) -> Result<(), LpError> {
        let (lower, upper) = sides(relation, bound);
        self.0.bound_constraint(constraint, lower, upper)
    }

    pub(super) fn delete_cuts(&mut self, state: &State, kept: &[bool]) -> Result<(), LpError> {
        let covers = std::iter::repeat_n(false, state.demands.len());
        self.0.delete_constraints(&covers.chain(kept.iter().map(|&kept| !kept)).collect::<Vec<_>>())
    }

    pub(super) fn solve(&mut self, state: &State, stop: Stop<'_>) -> Result<MasterSolved, LpError> {
        let mut status = self.0.run(stop)?;
        if read(status).is_none() {
            // A basis it can't go on from: once more, from none.
            self.0.forget()?;
            status = self.0.run(stop)?;
        }
        match read(status) {
            Some(MasterStatus::Optimal) => {
                let (objective, _, mut duals, iterations) = self.0.solution();
                let cut_duals = duals.split_off(state.demands.len());
                Ok(MasterSolved { status: MasterStatus::Optimal, objective, duals, cut_duals, iterations })
            }
            Some(status) => Ok(MasterSolved::without_numbers(status)),
            None => Err(LpError::Solver {
                backend: Backend::Highs,
                message: format!("status {status} on a master"),
            }),
        }
    }

    /// The objective after at most so many iterations; `None` if stopped or failing.
    pub(super) fn value_within(&mut self, iterations: u32, stop: Stop<'_>) -> Result<Option<f64>, LpError> {
        self.0.limit_iterations(Some(iterations))?;
        let status = self.0.run(stop);
        self.0.limit_iterations(None)?;
        Ok(match status? {
            highs_sys::MODEL_STATUS_OPTIMAL | highs_sys::MODEL_STATUS_REACHED_ITERATION_LIMIT => {
                Some(self.0.objective())
            }
            highs_sys::MODEL_STATUS_INFEASIBLE => Some(f64::INFINITY),
            _ => None,
        })
    }

    pub(super) fn values(&self) -> Vec<f64> {
        self.0.solution().1
    }
}

/// The meaning of a HiGHS model status; `None` for failures.
fn read(status: highs_sys::HighsInt) -> Option<MasterStatus> {
    match status {
        highs_sys::MODEL_STATUS_OPTIMAL => Some(MasterStatus::Optimal),
        highs_sys::MODEL_STATUS_INFEASIBLE => Some(MasterStatus::Infeasible),
        highs_sys::MODEL_STATUS_UNBOUNDED => Some(MasterStatus::Unbounded),
        highs_sys::MODEL_STATUS_REACHED_INTERRUPT => Some(MasterStatus::Stopped),
        _ => None,
    }
}

/// What a constraint is at least and at most.
fn sides(relation: Relation, bound: f64) -> (f64, f64) {
    match relation {
        Relation::AtLeast => (bound, f64::INFINITY),
        Relation::AtMost => (f64::NEG_INFINITY, bound),
        Relation::Equal => (bound, bound),
    }
}
