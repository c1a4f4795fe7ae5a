//! The restricted master of column generation: cover every demand by columns at least cost.
//!
//! `min Σ_j c_j x_j` subject to `Σ_j a_ij x_j ≥ d_i` for every demand i (the cover constraints),
//! `Σ_j g_kj x_j {≥, ≤, =} r_k` for every cut k, `0 ≤ x_j ≤ u_j`.
//! Columns are added, bounded and removed, cuts added and removed, and each solve starts from the last basis.
//! The duals `π_i` and `σ_k` price a new column: its reduced cost is `c − Σ a_i π_i − Σ g_k σ_k`.
//! Reference: Gilmore and Gomory, A linear programming approach to the cutting-stock problem, Operations Research 9, 1961,
//! doi:10.1287/opre.9.6.849; cuts over patterns: Wei, Luo, Baldacci and Lim, INFORMS J. on Computing 32, 2020,
//! doi:10.1287/ijoc.2018.0867.

#[cfg(feature = "highs")]
mod highs;
mod microlp;

use crate::backend::Backend;
use crate::error::LpError;
use crate::program::Relation;

/// A column of the master: one pattern, what it costs and what it covers.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Cost of one unit.
    pub cost: f64,
    /// `(demand, units covered)`, each demand at most once.
    pub covers: Vec<(usize, f64)>,
    /// `(cut, coefficient)` for the cuts present when the column is added, each at most once.
    pub cuts: Vec<(usize, f64)>,
    /// At most so many units; ∞ for no limit, 0 to bar the column.
    pub upper: f64,
}

impl Column {
    /// A column without limit that is in no cut.
    pub fn new(cost: f64, covers: Vec<(usize, f64)>) -> Self {
        Self { cost, covers, cuts: Vec::new(), upper: f64::INFINITY }
    }
}

/// A constraint over the columns beside the cover constraints, for instance a rank-1 cut.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    /// `(column, coefficient)` for the columns present, each at most once; later columns bring their own coefficients.
    pub coefficients: Vec<(usize, f64)>,
    /// The relation.
    pub relation: Relation,
    /// The right side.
    pub bound: f64,
}

/// What the numbers of a [`MasterSolved`] mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MasterStatus {
    /// Objective and duals are those of an optimum, within 1e-9 as the solver measures it.
    Optimal,
    /// These columns can't meet the demands and cuts: there are no numbers.
    Infeasible,
    /// Some column has a negative cost and no limit: there are no numbers.
    Unbounded,
    /// `stop` ended the solve: there are no numbers.
    Stopped,
}

/// The outcome of [`CoverMaster::solve`]. Floating point: scale the duals to integers before any claim.
#[derive(Clone, Debug, PartialEq)]
pub struct MasterSolved {
    /// What the other fields mean; unless [`MasterStatus::Optimal`], they are zero and empty.
    pub status: MasterStatus,
    /// The least cost.
    pub objective: f64,
    /// π, one a demand, ≥ 0 (as far as floats go).
    pub duals: Vec<f64>,
    /// σ, one a cut: ≥ 0 for [`Relation::AtLeast`], ≤ 0 for [`Relation::AtMost`].
    pub cut_duals: Vec<f64>,
    /// Simplex iterations of this solve.
    pub iterations: u64,
}

impl MasterSolved {
    fn without_numbers(status: MasterStatus) -> Self {
        Self { status, objective: 0.0, duals: Vec::new(), cut_duals: Vec::new(), iterations: 0 }
    }
}

/// A basis of a [`CoverMaster`], see [`CoverMaster::basis`].
#[derive(Clone, Debug, Default)]
pub struct Basis(
    #[cfg(feature = "highs")] Option<highs::Basis>,
    #[cfg(not(feature = "highs"))] Option<std::convert::Infallible>,
);

/// What is known of a master whatever solves it.
#[derive(Debug)]
struct State {
    demands: Vec<f64>,
    columns: Vec<Column>,
    /// Relation and right side; the coefficients are in the columns.
    cuts: Vec<(Relation, f64)>,
}

/// What solves it.
#[derive(Debug)]
enum Engine {
    #[cfg(feature = "highs")]
    Highs(highs::Primal),
    Microlp(microlp::Dual),
}

/// Runs the same call on whichever engine there is.
macro_rules! engine {
    ($self:ident, $engine:ident => $call:expr) => {
        match &mut $self.engine {
            #[cfg(feature = "highs")]
            Engine::Highs($engine) => $call,
            Engine::Microlp($engine) => $call,
        }
    };
}

/// A restricted master that grows column by column. It is `Send`: solve different masters on different threads.
///
/// Demands can be made coverable from the start by columns of prohibitive cost (artificial columns): they are ordinary
/// columns, to be barred or removed once they are idle. Same calls, same bits, for one backend and version.
///
/// ```
/// use routepack_lp::{Backend, Column, CoverMaster};
///
/// // Bars of length 10 cut into 7 pieces of length 6 and 9 of length 4.
/// let mut master = CoverMaster::new(Backend::default(), &[7.0, 9.0])?;
/// master.add_columns(vec![Column::new(1.0, vec![(0, 1.0)]), Column::new(1.0, vec![(1, 2.0)])])?;
/// let solved = master.solve()?;
/// assert!((solved.objective - 11.5).abs() < 1e-9);
///
/// // The pattern 6 + 4 has reduced cost 1 − π_6 − π_4 = −0.5.
/// assert!((solved.duals[0] + solved.duals[1] - 1.5).abs() < 1e-9);
/// master.add_columns(vec![Column::new(1.0, vec![(0, 1.0), (1, 1.0)])])?;
/// assert!((master.solve()?.objective - 8.0).abs() < 1e-9);
/// assert!((master.values()?[2] - 7.0).abs() < 1e-9);
/// # Ok::<(), routepack_lp::LpError>(())
/// ```
#[derive(Debug)]
pub struct CoverMaster {
    state: State,
    engine: Engine,
    /// The outcome of the last solve, if nothing has changed since.
    solved: Option<MasterSolved>,
}

impl CoverMaster {
    /// A master with a cover constraint for every demand (units, not a share) and no columns.
    ///
    /// # Errors
    /// [`LpError::BackendMissing`], or [`LpError::NotFinite`] for a demand.
    pub fn new(backend: Backend, demands: &[f64]) -> Result<Self, LpError> {
        for &demand in demands {
            finite("demand", demand)?;
        }
        let engine = match backend {
            #[cfg(feature = "highs")]
            Backend::Highs => Engine::Highs(highs::Primal::new(demands)?),
            #[cfg(not(feature = "highs"))]
            Backend::Highs => return Err(LpError::BackendMissing { backend }),
            Backend::Microlp => Engine::Microlp(microlp::Dual::default()),
        };
        let state = State { demands: demands.to_vec(), columns: Vec::new(), cuts: Vec::new() };
        Ok(Self { state, engine, solved: None })
    }

    /// A copy in a solver of its own, which starts from the basis at hand.
    ///
    /// # Errors
    /// [`LpError::Solver`] if the solver fails.
    pub fn fork(&self) -> Result<Self, LpError> {
        let mut copy = Self::new(self.backend(), &self.state.demands)?;
        for &(relation, bound) in &self.state.cuts {
            copy.add_cut(&Cut { coefficients: Vec::new(), relation, bound })?;
        }
        copy.add_columns(self.state.columns.clone())?;
        copy.restore(&self.basis()?)?;
        Ok(copy)
    }

    /// The backend that solves it.
    pub fn backend(&self) -> Backend {
        match self.engine {
            #[cfg(feature = "highs")]
            Engine::Highs(_) => Backend::Highs,
            Engine::Microlp(_) => Backend::Microlp,
        }
    }

    /// The columns, in order; a column's position is its name.
    pub fn columns(&self) -> &[Column] {
        &self.state.columns
    }

    /// The demands.
    pub fn demands(&self) -> &[f64] {
        &self.state.demands
    }

    /// The number of cuts.
    pub fn num_cuts(&self) -> usize {
        self.state.cuts.len()
    }

    /// Appends columns.
    ///
    /// # Errors
    /// [`LpError::NotFinite`], [`LpError::IndexOutOfRange`] for a demand or cut that is not there,
    /// [`LpError::CrossedBounds`] for a negative limit. No column is added then.
    pub fn add_columns(&mut self, columns: Vec<Column>) -> Result<(), LpError> {
        for column in &columns {
            finite("cost of a column", column.cost)?;
            limit(column.upper)?;
            terms("demand of a column", &column.covers, self.state.demands.len())?;
            terms("cut of a column", &column.cuts, self.state.cuts.len())?;
        }
        engine!(self, engine => engine.add_columns(&self.state, &columns))?;
        self.state.columns.extend(columns);
        self.solved = None;
        Ok(())
    }

    /// Keeps the columns at the positions for which `keep` says so, and renumbers them in order. The basis survives if no
    /// removed column is in it (those of value 0 usually are not).
    ///
    /// # Errors
    /// [`LpError::Solver`] if the solver fails.
    pub fn retain_columns(&mut self, mut keep: impl FnMut(usize, &Column) -> bool) -> Result<(), LpError> {
        let delete: Vec<bool> =
            self.state.columns.iter().enumerate().map(|(j, column)| !keep(j, column)).collect();
        engine!(self, engine => engine.delete_columns(&delete))?;
        let mut deleted = delete.iter();
        self.state.columns.retain(|_| !deleted.next().expect("one mark a column"));
        self.solved = None;
        Ok(())
    }

    /// Limits a column to `0 ≤ x ≤ upper`: 0 bars it, ∞ frees it.
    ///
    /// # Errors
    /// [`LpError::IndexOutOfRange`], or [`LpError::CrossedBounds`] for a negative limit.
    pub fn limit_column(&mut self, column: usize, upper: f64) -> Result<(), LpError> {
        self.limit_columns(&[(column, upper)])
    }

    /// Limits columns, each named at most once: `(column, upper)`, see [`Self::limit_column`].
    ///
    /// # Errors
    /// As [`Self::limit_column`]; no column is changed then.
    pub fn limit_columns(&mut self, limits: &[(usize, f64)]) -> Result<(), LpError> {
        for &(column, upper) in limits {
            index("column", column, self.state.columns.len())?;
            limit(upper)?;
        }
        let mut limits = limits.to_vec();
        limits.retain(|&(column, upper)| self.state.columns[column].upper.to_bits() != upper.to_bits());
        limits.sort_unstable_by_key(|limit| limit.0);
        if limits.is_empty() {
            return Ok(());
        }
        limits.iter().for_each(|&(column, upper)| self.state.columns[column].upper = upper);
        let (columns, uppers): (Vec<_>, Vec<_>) = limits.into_iter().unzip();
        engine!(self, engine => engine.limit_columns(&columns, &uppers))?;
        self.solved = None;
        Ok(())
    }

    /// The basis at hand, to come back to after other bounds, demands, columns or cuts were tried.
    ///
    /// # Errors
    /// [`LpError::Solver`] if the solver fails.
    pub fn basis(&self) -> Result<Basis, LpError> {
        Ok(match &self.engine {
            #[cfg(feature = "highs")]
            Engine::Highs(primal) if !self.state.columns.is_empty() => Basis(Some(primal.basis()?)),
            _ => Basis::default(),
        })
    }

    /// Lets the next solve start from a basis this master had. Columns and cuts may have come since, none may have gone
    /// of those that were there. With microlp there is nothing to come back to.
    ///
    /// # Errors
    /// [`LpError::Solver`] if the solver fails.
    pub fn restore(&mut self, basis: &Basis) -> Result<(), LpError> {
        match (&mut self.engine, &basis.0) {
            #[cfg(feature = "highs")]
            (Engine::Highs(primal), Some(basis)) => {
                self.solved = None;
                primal.restore(basis)
            }
            _ => Ok(()),
        }
    }

    /// Changes what units of some columns cost: `(column, cost)`.
    ///
    /// # Errors
    /// [`LpError::IndexOutOfRange`] or [`LpError::NotFinite`]; no column is changed then.
    pub fn change_costs(&mut self, costs: &[(usize, f64)]) -> Result<(), LpError> {
        for &(column, cost) in costs {
            index("column", column, self.state.columns.len())?;
            finite("cost of a column", cost)?;
        }
        for &(column, cost) in costs {
            self.state.columns[column].cost = cost;
            engine!(self, engine => engine.change_cost(column, cost))?;
        }
        self.solved = None;
        Ok(())
    }

    /// Changes a demand, for instance to what is left when some columns are fixed.
    ///
    /// # Errors
    /// [`LpError::IndexOutOfRange`] or [`LpError::NotFinite`].
    pub fn change_demand(&mut self, demand: usize, units: f64) -> Result<(), LpError> {
        index("demand", demand, self.state.demands.len())?;
        finite("demand", units)?;
        self.state.demands[demand] = units;
        engine!(self, engine => engine.change_demand(demand, units))?;
        self.solved = None;
        Ok(())
    }

    /// Adds a cut and returns its position.
    ///
    /// # Errors
    /// [`LpError::NotFinite`], or [`LpError::IndexOutOfRange`] for a column that is not there.
    pub fn add_cut(&mut self, cut: &Cut) -> Result<usize, LpError> {
        finite("bound of a cut", cut.bound)?;
        terms("column of a cut", &cut.coefficients, self.state.columns.len())?;
        let position = self.state.cuts.len();
        engine!(self, engine => engine.add_cut(cut))?;
        for &(column, coefficient) in &cut.coefficients {
            self.state.columns[column].cuts.push((position, coefficient));
        }
        self.state.cuts.push((cut.relation, cut.bound));
        self.solved = None;
        Ok(position)
    }

    /// The right side of every cut.
    pub fn cut_bounds(&self) -> impl Iterator<Item = f64> {
        self.state.cuts.iter().map(|cut| cut.1)
    }

    /// Changes the right side of a cut, for instance to what is left when some columns are fixed.
    ///
    /// # Errors
    /// [`LpError::IndexOutOfRange`] or [`LpError::NotFinite`].
    pub fn change_cut(&mut self, cut: usize, bound: f64) -> Result<(), LpError> {
        index("cut", cut, self.state.cuts.len())?;
        finite("bound of a cut", bound)?;
        self.state.cuts[cut].1 = bound;
        let constraint = self.state.demands.len() + cut;
        engine!(self, engine => engine.change_cut(constraint, self.state.cuts[cut]))?;
        self.solved = None;
        Ok(())
    }

    /// Keeps the cuts at the positions for which `keep` says so, and renumbers them in order, in the columns too.
    ///
    /// # Errors
    /// [`LpError::Solver`] if the solver fails.
    pub fn retain_cuts(&mut self, keep: impl FnMut(usize) -> bool) -> Result<(), LpError> {
        let kept: Vec<bool> = (0..self.num_cuts()).map(keep).collect();
        engine!(self, engine => engine.delete_cuts(&self.state, &kept))?;
        let mut positions = vec![None; kept.len()];
        for (new, old) in (0..kept.len()).filter(|&k| kept[k]).enumerate() {
            positions[old] = Some(new);
        }
        for column in &mut self.state.columns {
            let moved = column.cuts.iter().filter_map(|&(k, coefficient)| Some((positions[k]?, coefficient)));
            column.cuts = moved.collect();
        }
        let mut marks = kept.iter();
        self.state.cuts.retain(|_| *marks.next().expect("one mark a cut"));
        self.solved = None;
        Ok(())
    }

    /// Solves the master from the last basis.
    ///
    /// # Errors
    /// [`LpError::Solver`] if the solver fails.
    pub fn solve(&mut self) -> Result<MasterSolved, LpError> {
        self.solve_until(&|| false)
    }

    /// Solves the master from the last basis, until `stop` says so. HiGHS asks between simplex iterations; microlp only
    /// between its steps, of which a first solve is one. `stop` must not panic: there is C++ between it and the caller.
    ///
    /// # Errors
    /// [`LpError::Solver`] if the solver fails.
    pub fn solve_until(&mut self, stop: &(dyn Fn() -> bool + Sync)) -> Result<MasterSolved, LpError> {
        let solved = if self.state.columns.is_empty() {
            self.without_columns()
        } else {
            engine!(self, engine => engine.solve(&self.state, stop))?
        };
        self.solved = Some(solved.clone());
        Ok(solved)
    }

    /// About the least cost: the objective after at most so many simplex iterations from the last basis (from which the
    /// next solve goes on), or the optimum with a backend that knows no such limit. Where columns were barred since the
    /// last optimum, it is a lower bound that grows with the iterations. ∞ if infeasible, `None` if there is no figure.
    ///
    /// # Errors
    /// [`LpError::Solver`] if the solver fails.
    pub fn value_within(
        &mut self,
        iterations: u32,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<f64>, LpError> {
        self.solved = None;
        match &mut self.engine {
            #[cfg(feature = "highs")]
            Engine::Highs(primal) if !self.state.columns.is_empty() => primal.value_within(iterations, stop),
            _ => {
                let _ = iterations;
                let solved = self.solve_until(stop)?;
                Ok(match solved.status {
                    MasterStatus::Optimal => Some(solved.objective),
                    MasterStatus::Infeasible => Some(f64::INFINITY),
                    _ => None,
                })
            }
        }
    }

    /// The values x of the columns at the optimum [`Self::solve`] found: free with HiGHS, a small linear program with
    /// microlp. Empty unless the last solve was optimal and nothing has changed since.
    ///
    /// # Errors
    /// [`LpError::Solver`] if the solver fails.
    pub fn values(&mut self) -> Result<Vec<f64>, LpError> {
        let Some(solved) = &self.solved else { return Ok(Vec::new()) };
        if solved.status != MasterStatus::Optimal || self.state.columns.is_empty() {
            return Ok(Vec::new());
        }
        match &self.engine {
            #[cfg(feature = "highs")]
            Engine::Highs(primal) => Ok(primal.values()),
            Engine::Microlp(_) => microlp::values(&self.state, solved),
        }
    }

    fn without_columns(&self) -> MasterSolved {
        let covered = self.state.demands.iter().all(|&demand| demand <= 0.0);
        let kept = self.state.cuts.iter().all(|&(relation, bound)| match relation {
            Relation::AtLeast => bound <= 0.0,
            Relation::AtMost => bound >= 0.0,
            Relation::Equal => bound == 0.0,
        });
        if !(covered && kept) {
            return MasterSolved::without_numbers(MasterStatus::Infeasible);
        }
        MasterSolved {
            duals: vec![0.0; self.state.demands.len()],
            cut_duals: vec![0.0; self.state.cuts.len()],
            ..MasterSolved::without_numbers(MasterStatus::Optimal)
        }
    }
}

impl Column {
    /// `c − Σ a_i π_i − Σ g_k σ_k`: by how much a unit of the column would change the optimum.
    ///
    /// # Panics
    /// If the column names a demand or cut beyond those of `solved`.
    pub fn reduced_cost(&self, solved: &MasterSolved) -> f64 {
        let covers = self.covers.iter().map(|&(i, a)| a * solved.duals[i]);
        let cuts = self.cuts.iter().map(|&(k, g)| g * solved.cut_duals[k]);
        self.cost - covers.sum::<f64>() - cuts.sum::<f64>()
    }
}

fn finite(place: &str, value: f64) -> Result<(), LpError> {
    if value.is_finite() { Ok(()) } else { Err(LpError::NotFinite { place: place.to_owned(), value }) }
}

fn limit(upper: f64) -> Result<(), LpError> {
    if upper >= 0.0 {
        Ok(())
    } else {
        Err(LpError::CrossedBounds { name: "column".to_owned(), lower: 0.0, upper })
    }
}

fn index(place: &'static str, index: usize, len: usize) -> Result<(), LpError> {
    if index < len { Ok(()) } else { Err(LpError::IndexOutOfRange { place, index, len }) }
}

fn terms(place: &'static str, terms: &[(usize, f64)], len: usize) -> Result<(), LpError> {
    terms.iter().try_for_each(|&(position, value)| {
        index(place, position, len)?;
        finite(place, value)
    })
}
