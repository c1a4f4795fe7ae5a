//! Solving a program from scratch, with either backend.

#[cfg(feature = "highs")]
mod highs;
mod microlp;

use crate::backend::Backend;
use crate::error::LpError;
use crate::program::{Program, Relation};

/// How to solve a [`Program`]. With the same options and no `time_limit` the same program gives the same bits.
#[derive(Clone, Debug, PartialEq)]
pub struct SolveOptions {
    /// The solver.
    pub backend: Backend,
    /// Branch-and-bound nodes after which to stop: the limit to prefer, for it is reproducible.
    pub node_limit: Option<u64>,
    /// Seconds after which to stop: the answer then depends on the machine.
    pub time_limit: Option<f64>,
    /// Relative distance (incumbent − bound) / incumbent at which an integer program counts as solved.
    pub mip_gap: f64,
    /// HiGHS' random seed. microlp has none.
    pub seed: u32,
    /// A feasible solution (one value a variable) to start an integer program from; useless ones are ignored.
    pub warm_start: Option<Vec<f64>>,
    /// Whether to return the duals of a linear program: free with HiGHS, a second solve with microlp.
    pub duals: bool,
}

impl Default for SolveOptions {
    fn default() -> Self {
        Self {
            backend: Backend::default(),
            node_limit: None,
            time_limit: None,
            mip_gap: 0.0,
            seed: 0,
            warm_start: None,
            duals: false,
        }
    }
}

impl SolveOptions {
    /// The defaults with a given backend.
    pub fn with(backend: Backend) -> Self {
        Self { backend, ..Self::default() }
    }

    /// Checks the options against the program.
    ///
    /// # Errors
    /// [`LpError::BackendMissing`], [`LpError::NotFinite`] for a gap or time limit that is negative or not a number,
    /// [`LpError::WrongLength`] for a warm start of the wrong length.
    pub fn validate(&self, program: &Program) -> Result<(), LpError> {
        if !self.backend.is_available() {
            return Err(LpError::BackendMissing { backend: self.backend });
        }
        for (place, value) in [("mip_gap", self.mip_gap), ("time_limit", self.time_limit.unwrap_or(0.0))] {
            if !(value.is_finite() && value >= 0.0) {
                return Err(LpError::NotFinite { place: place.to_owned(), value });
            }
        }
        let expected = program.variables().len();
        match &self.warm_start {
            Some(values) if values.len() != expected => {
                Err(LpError::WrongLength { place: "warm_start", len: values.len(), expected })
            }
            _ => Ok(()),
        }
    }
}

/// What the numbers of a [`Solved`] mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// `values` are feasible and, within the solver's tolerances and `mip_gap`, optimal.
    Optimal,
    /// `values` are feasible; a limit or `stop` ended the search. `bound`, if any, is the solver's.
    Feasible,
    /// No feasible values exist, says the solver.
    Infeasible,
    /// Feasible values exist and the objective has no limit, says the solver.
    Unbounded,
    /// A limit or `stop` ended the search before feasible values were found; this says nothing about the program.
    Stopped,
}

/// A solver's answer. All of it is floating point and none of it is a proof: the caller recomputes what it claims.
#[derive(Clone, Debug, PartialEq)]
pub struct Solved {
    /// What the other fields mean.
    pub status: Status,
    /// The objective at `values`, offset included; `None` without values.
    pub objective: Option<f64>,
    /// The solver's bound on the optimum (from below when minimising, from above when maximising), if it has one.
    pub bound: Option<f64>,
    /// One value a variable, integer variables rounded to whole numbers; empty without values.
    pub values: Vec<f64>,
    /// One dual a constraint: the rate of change of the optimum per unit of the constraint's bound. Filled for an optimal
    /// linear program solved with `duals`, else empty.
    pub duals: Vec<f64>,
    /// Branch-and-bound nodes solved; 0 for a linear program. Backends count differently.
    pub nodes: u64,
}

impl Solved {
    fn without_values(status: Status) -> Self {
        Self { status, objective: None, bound: None, values: Vec::new(), duals: Vec::new(), nodes: 0 }
    }
}

/// Solves a program.
///
/// ```
/// use routepack_lp::{Program, Relation, SolveOptions, Status, solve};
///
/// let mut program = Program::maximise("two products");
/// let x = program.add_real("x", 0.0, f64::INFINITY);
/// let y = program.add_real("y", 0.0, f64::INFINITY);
/// program.set_cost(x, 3.0);
/// program.set_cost(y, 5.0);
/// program.constrain("steel", [(x, 3.0), (y, 2.0)], Relation::AtMost, 18.0);
/// program.constrain("hours", [(y, 2.0)], Relation::AtMost, 12.0);
///
/// let solved = solve(&program, &SolveOptions { duals: true, ..SolveOptions::default() })?;
/// assert_eq!(solved.status, Status::Optimal);
/// assert!((solved.objective.unwrap() - 36.0).abs() < 1e-9);
/// assert!((solved.duals[1] - 1.5).abs() < 1e-9); // an hour more would earn 1.5
/// # Ok::<(), routepack_lp::LpError>(())
/// ```
///
/// # Errors
/// Those of [`Program::validate`] and [`SolveOptions::validate`]; [`LpError::IntegerRange`] from microlp;
/// [`LpError::Solver`] if the solver fails. A limit is no error.
pub fn solve(program: &Program, options: &SolveOptions) -> Result<Solved, LpError> {
    solve_until(program, options, &|| false)
}

/// Solves a program until `stop` says so; the best solution so far is returned then.
///
/// `stop` is asked between steps of HiGHS (simplex iterations, nodes), and between batches of nodes of microlp, which
/// cannot be stopped inside a linear program. It must not panic: there is C++ between it and the caller.
///
/// # Errors
/// Those of [`solve`].
pub fn solve_until(
    program: &Program,
    options: &SolveOptions,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Solved, LpError> {
    program.validate()?;
    options.validate(program)?;
    if program.variables().is_empty() {
        return Ok(constant(program));
    }
    if stop() {
        return Ok(Solved::without_values(Status::Stopped));
    }
    let mut solved = match options.backend {
        #[cfg(feature = "highs")]
        Backend::Highs => highs::solve(program, options, stop)?,
        #[cfg(not(feature = "highs"))]
        Backend::Highs => return Err(LpError::BackendMissing { backend: Backend::Highs }),
        Backend::Microlp => microlp::solve(program, options, stop)?,
    };
    for (value, variable) in solved.values.iter_mut().zip(program.variables()) {
        if variable.integer {
            *value = value.round();
        }
    }
    if !solved.values.is_empty() {
        solved.objective = Some(program.objective_at(&solved.values));
    }
    Ok(solved)
}

/// The answer for a program without variables.
fn constant(program: &Program) -> Solved {
    let holds = program.constraints().iter().all(|constraint| match constraint.relation {
        Relation::AtLeast => 0.0 >= constraint.bound,
        Relation::AtMost => 0.0 <= constraint.bound,
        Relation::Equal => constraint.bound == 0.0,
    });
    if !holds {
        return Solved::without_values(Status::Infeasible);
    }
    Solved {
        objective: Some(program.offset),
        bound: Some(program.offset),
        duals: vec![0.0; program.constraints().len()],
        ..Solved::without_values(Status::Optimal)
    }
}
