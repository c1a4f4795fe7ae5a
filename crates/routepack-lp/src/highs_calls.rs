//! Every unsafe call into HiGHS: a model that keeps its basis, the stop callback, and figures the safe crate leaves out.
//!
//! Threads: HiGHS' scheduler is thread-local and its first use on a thread fixes the number of threads there, so every
//! model of this crate asks for [`THREADS`]. Callers parallelise over programs, not inside one.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};

use highs_sys::{HighsCallbackDataIn, HighsCallbackDataOut, HighsInt, STATUS_ERROR};

use crate::backend::Backend;
use crate::error::LpError;

/// The only number of threads a model ever asks for.
pub(crate) const THREADS: i32 = 1;

/// A question asked between steps of the solver; `true` stops it.
pub(crate) type Stop<'a> = &'a (dyn Fn() -> bool + Sync);

/// The version of the linked library, for instance `1.15.1`.
pub(crate) fn version() -> String {
    // SAFETY: returns a pointer to a static, NUL-terminated string.
    unsafe { CStr::from_ptr(highs_sys::Highs_version()) }.to_string_lossy().into_owned()
}

/// The error for a call that HiGHS refused.
pub(crate) fn failed(call: &str) -> LpError {
    let hint = "(if another part of this process solves with HiGHS on this thread, it must use threads = 1)";
    LpError::Solver { backend: Backend::Highs, message: format!("{call} failed {hint}") }
}

fn accept(status: HighsInt, call: &str) -> Result<(), LpError> {
    if status == STATUS_ERROR { Err(failed(call)) } else { Ok(()) }
}

fn size(len: usize) -> HighsInt {
    HighsInt::try_from(len).expect("a model has fewer than 2^31 variables, constraints and coefficients")
}

fn mask(delete: &[bool]) -> Vec<HighsInt> {
    delete.iter().map(|&delete| HighsInt::from(delete)).collect()
}

/// The number of branch-and-bound nodes of the last solve.
pub(crate) fn node_count(model: &mut highs::SolvedModel) -> u64 {
    let mut nodes = 0i64;
    // SAFETY: the pointer is that of a live model, the name is NUL-terminated, `nodes` outlives the call.
    unsafe {
        highs_sys::Highs_getInt64InfoValue(model.as_mut_ptr(), c"mip_node_count".as_ptr(), &raw mut nodes)
    };
    u64::try_from(nodes).unwrap_or(0)
}

/// The callback HiGHS calls between steps; `user` is a `*const Stop`.
unsafe extern "C" fn ask(
    _: c_int,
    _: *const c_char,
    _: *const HighsCallbackDataOut,
    answer: *mut HighsCallbackDataIn,
    user: *mut c_void,
) {
    // SAFETY: `user` is the pointer `with_stop` passed, which is alive while HiGHS runs.
    let stop = unsafe { *user.cast::<Stop<'_>>() };
    if stop() && !answer.is_null() {
        // SAFETY: HiGHS passes a writable struct for the duration of the call.
        unsafe { (*answer).user_interrupt = 1 };
    }
}

/// Makes the model at `pointer` ask `stop` while `run` runs it, and not afterwards.
///
/// # Safety
/// `pointer` is a live HiGHS model, and still is while `run` runs; it may be destroyed by then.
pub(crate) unsafe fn with_stop<T>(
    pointer: *mut c_void,
    stop: Stop<'_>,
    run: impl FnOnce() -> T,
) -> Result<T, LpError> {
    let user: *const Stop<'_> = &raw const stop;
    // SAFETY: the model is live; `user` points to this frame, which outlives `run`. After `run` the model
    // is never run again before its next `with_stop` replaces the pointer, see `Model::run`.
    unsafe {
        accept(highs_sys::Highs_setCallback(pointer, Some(ask), user.cast_mut().cast()), "setCallback")?;
        for kind in [
            highs_sys::kHighsCallbackSimplexInterrupt,
            highs_sys::kHighsCallbackIpmInterrupt,
            highs_sys::kHighsCallbackMipInterrupt,
        ] {
            accept(highs_sys::Highs_startCallback(pointer, kind), "startCallback")?;
        }
    }
    Ok(run())
}

/// A linear program inside HiGHS that keeps its basis from one run to the next.
#[derive(Debug)]
pub(crate) struct Model(*mut c_void);

// SAFETY: a HiGHS model owns its memory and has no thread affinity; what is thread-local (the scheduler) is made anew on
// the thread that runs. The pointer is never shared: all calls that change the model take `&mut self`.
unsafe impl Send for Model {}

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: the pointer came from Highs_create and is destroyed once.
        unsafe { highs_sys::Highs_destroy(self.0) }
    }
}

impl Model {
    /// An empty model: silent, simplex without presolve, the strategy chosen by the basis (primal where it is primal
    /// feasible, as after adding columns; else dual, as after adding cuts), feasible within 1e-9.
    pub(crate) fn new() -> Result<Self, LpError> {
        // SAFETY: no arguments; null is checked by the first option, which fails on it.
        let model = Self(unsafe { highs_sys::Highs_create() });
        if model.0.is_null() {
            return Err(failed("create"));
        }
        // SAFETY: the model is live, names and values are NUL-terminated.
        unsafe {
            let highs = model.0;
            accept(highs_sys::Highs_setBoolOptionValue(highs, c"output_flag".as_ptr(), 0), "output_flag")?;
            for (name, value) in [(c"threads", THREADS), (c"simplex_strategy", 0)] {
                accept(highs_sys::Highs_setIntOptionValue(highs, name.as_ptr(), value), "option")?;
            }
            for (name, value) in [(c"solver", c"simplex"), (c"presolve", c"off"), (c"parallel", c"off")] {
                accept(
                    highs_sys::Highs_setStringOptionValue(highs, name.as_ptr(), value.as_ptr()),
                    "option",
                )?;
            }
            for name in [c"primal_feasibility_tolerance", c"dual_feasibility_tolerance"] {
                accept(highs_sys::Highs_setDoubleOptionValue(highs, name.as_ptr(), 1e-9), "tolerance")?;
            }
        }
        Ok(model)
    }

    /// Numbers of columns and of constraints.
    pub(crate) fn shape(&self) -> (usize, usize) {
        // SAFETY: the model is live.
        let (columns, constraints) =
            unsafe { (highs_sys::Highs_getNumCol(self.0), highs_sys::Highs_getNumRow(self.0)) };
        (columns as usize, constraints as usize)
    }

    /// Adds the constraint `lower ≤ Σ terms ≤ upper`; terms name columns by position.
    pub(crate) fn add_constraint(
        &mut self,
        lower: f64,
        upper: f64,
        terms: &[(usize, f64)],
    ) -> Result<(), LpError> {
        let columns: Vec<_> = terms.iter().map(|&(column, _)| size(column)).collect();
        let values: Vec<_> = terms.iter().map(|&(_, value)| value).collect();
        let (columns, values, len) = (columns.as_ptr(), values.as_ptr(), size(terms.len()));
        // SAFETY: both arrays have `len` entries and outlive the call; HiGHS checks the positions.
        accept(unsafe { highs_sys::Highs_addRow(self.0, lower, upper, len, columns, values) }, "addRow")
    }

    /// Adds columns `(cost, upper, terms)` with lower bound 0; terms name constraints by position.
    pub(crate) fn add_columns<T: Iterator<Item = (usize, f64)>>(
        &mut self,
        columns: impl Iterator<Item = (f64, f64, T)>,
    ) -> Result<(), LpError> {
        let (mut costs, mut uppers) = (Vec::new(), Vec::new());
        let (mut starts, mut positions, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for (cost, upper, terms) in columns {
            costs.push(cost);
            uppers.push(upper);
            starts.push(size(positions.len()));
            for (position, value) in terms {
                positions.push(size(position));
                values.push(value);
            }
        }
        let lowers = vec![0.0; costs.len()];
        // SAFETY: costs, lowers, uppers and starts have one entry a column; positions and values one a coefficient; all outlive
        // the call; HiGHS checks the positions.
        let status = unsafe {
            highs_sys::Highs_addCols(
                self.0,
                size(costs.len()),
                costs.as_ptr(),
                lowers.as_ptr(),
                uppers.as_ptr(),
                size(values.len()),
                starts.as_ptr(),
                positions.as_ptr(),
                values.as_ptr(),
            )
        };
        accept(status, "addCols")
    }

    /// Deletes the marked columns; the others close up. `delete` has one entry a column.
    pub(crate) fn delete_columns(&mut self, delete: &[bool]) -> Result<(), LpError> {
        assert_eq!(delete.len(), self.shape().0, "one mark a column");
        // SAFETY: the mask has one entry a column, is writable and outlives the call.
        accept(unsafe { highs_sys::Highs_deleteColsByMask(self.0, mask(delete).as_mut_ptr()) }, "deleteCols")
    }

    /// Deletes the marked constraints; the others close up. `delete` has one entry a constraint.
    pub(crate) fn delete_constraints(&mut self, delete: &[bool]) -> Result<(), LpError> {
        assert_eq!(delete.len(), self.shape().1, "one mark a constraint");
        // SAFETY: the mask has one entry a constraint, is writable and outlives the call.
        accept(unsafe { highs_sys::Highs_deleteRowsByMask(self.0, mask(delete).as_mut_ptr()) }, "deleteRows")
    }

    /// Sets `0 ≤ column ≤ upper` for some columns.
    pub(crate) fn bound_columns(&mut self, columns: &[usize], uppers: &[f64]) -> Result<(), LpError> {
        assert_eq!(columns.len(), uppers.len(), "one limit a column");
        let (positions, lowers): (Vec<_>, Vec<_>) = columns.iter().map(|&column| (size(column), 0.0)).unzip();
        let (len, positions) = (size(columns.len()), positions.as_ptr());
        // SAFETY: the three arrays have `len` entries and outlive the call; HiGHS checks the positions.
        let status = unsafe {
            highs_sys::Highs_changeColsBoundsBySet(self.0, len, positions, lowers.as_ptr(), uppers.as_ptr())
        };
        accept(status, "changeColsBounds")
    }

    /// Sets the cost of a column.
    pub(crate) fn change_cost(&mut self, column: usize, cost: f64) -> Result<(), LpError> {
        // SAFETY: the model is live; HiGHS checks the position.
        accept(unsafe { highs_sys::Highs_changeColCost(self.0, size(column), cost) }, "changeColCost")
    }

    /// The state of every column and of every constraint in the basis, as HiGHS numbers them.
    pub(crate) fn basis(&self) -> Result<(Vec<HighsInt>, Vec<HighsInt>), LpError> {
        let (columns, constraints) = self.shape();
        let mut states = (vec![0; columns], vec![0; constraints]);
        // SAFETY: the arrays have the lengths HiGHS just told and outlive the call.
        let status =
            unsafe { highs_sys::Highs_getBasis(self.0, states.0.as_mut_ptr(), states.1.as_mut_ptr()) };
        accept(status, "getBasis")?;
        Ok(states)
    }

    /// Starts the next run from this basis: one state a column and a constraint.
    pub(crate) fn set_basis(
        &mut self,
        columns: &[HighsInt],
        constraints: &[HighsInt],
    ) -> Result<(), LpError> {
        assert_eq!((columns.len(), constraints.len()), self.shape(), "one state each");
        // SAFETY: the arrays have one entry a column and a constraint and outlive the call.
        let status = unsafe { highs_sys::Highs_setBasis(self.0, columns.as_ptr(), constraints.as_ptr()) };
        accept(status, "setBasis")
    }

    /// Sets the bounds of a constraint.
    pub(crate) fn bound_constraint(
        &mut self,
        constraint: usize,
        lower: f64,
        upper: f64,
    ) -> Result<(), LpError> {
        // SAFETY: the model is live; HiGHS checks the position.
        let status = unsafe { highs_sys::Highs_changeRowBounds(self.0, size(constraint), lower, upper) };
        accept(status, "changeRowBounds")
    }

    /// Forgets basis and solution, so that the next run starts cold.
    pub(crate) fn forget(&mut self) -> Result<(), LpError> {
        // SAFETY: the model is live.
        accept(unsafe { highs_sys::Highs_clearSolver(self.0) }, "clearSolver")
    }

    /// Sets the most simplex iterations of a run; `None` for no limit.
    pub(crate) fn limit_iterations(&mut self, limit: Option<u32>) -> Result<(), LpError> {
        let limit = limit.map_or(HighsInt::MAX, |limit| HighsInt::try_from(limit).unwrap_or(HighsInt::MAX));
        let name = c"simplex_iteration_limit".as_ptr();
        // SAFETY: the model is live, the name is NUL-terminated.
        accept(unsafe { highs_sys::Highs_setIntOptionValue(self.0, name, limit) }, "simplex_iteration_limit")
    }

    /// The objective of the last run.
    pub(crate) fn objective(&self) -> f64 {
        // SAFETY: the model is live.
        unsafe { highs_sys::Highs_getObjectiveValue(self.0) }
    }

    /// Solves from the basis at hand, asking `stop` between iterations; returns the model status of HiGHS.
    pub(crate) fn run(&mut self, stop: Stop<'_>) -> Result<HighsInt, LpError> {
        let highs = self.0;
        // SAFETY: the model is live throughout, and this is the only place that runs it.
        let status = unsafe { with_stop(highs, stop, || highs_sys::Highs_run(highs)) }?;
        accept(status, "run")?;
        // SAFETY: the model is live.
        Ok(unsafe { highs_sys::Highs_getModelStatus(highs) })
    }

    /// The objective, the columns' values, the constraints' duals and the simplex iterations of the last run.
    pub(crate) fn solution(&self) -> (f64, Vec<f64>, Vec<f64>, u64) {
        let (columns, constraints) = self.shape();
        let (mut values, mut reduced) = (vec![0.0; columns], vec![0.0; columns]);
        let (mut lefts, mut duals) = (vec![0.0; constraints], vec![0.0; constraints]);
        let mut iterations: HighsInt = 0;
        // SAFETY: the four arrays have the lengths HiGHS just told and outlive the calls, as does `iterations`.
        let objective = unsafe {
            highs_sys::Highs_getSolution(
                self.0,
                values.as_mut_ptr(),
                reduced.as_mut_ptr(),
                lefts.as_mut_ptr(),
                duals.as_mut_ptr(),
            );
            let name = c"simplex_iteration_count".as_ptr();
            highs_sys::Highs_getIntInfoValue(self.0, name, &raw mut iterations);
            self.objective()
        };
        (objective, values, duals, u64::try_from(iterations).unwrap_or(0))
    }
}
