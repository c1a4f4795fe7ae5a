//! A linear or mixed-integer program as plain data.
//!
//! Minimise or maximise `offset + Σ cost_j x_j` subject to `Σ a_ij x_j {≥, ≤, =} bound_i`, `lower_j ≤ x_j ≤ upper_j`,
//! and `x_j` whole for integer variables.

use crate::error::LpError;

/// A variable of a [`Program`]: its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VariableId(pub(crate) usize);

/// A constraint of a [`Program`]: its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConstraintId(pub(crate) usize);

impl VariableId {
    /// The position in [`Program::variables`] and in the values of a solution.
    pub fn index(self) -> usize {
        self.0
    }
}

impl ConstraintId {
    /// The position in [`Program::constraints`] and in the duals of a solution.
    pub fn index(self) -> usize {
        self.0
    }
}

/// Whether the objective is minimised or maximised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sense {
    /// The least objective is best.
    Minimise,
    /// The greatest objective is best.
    Maximise,
}

/// How the left side of a constraint relates to its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Left side ≥ bound.
    AtLeast,
    /// Left side ≤ bound.
    AtMost,
    /// Left side = bound.
    Equal,
}

/// A variable: name, bounds, integrality, coefficient in the objective.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// Any text; [`Program::write_lp`] makes it a legal and unique name.
    pub name: String,
    /// Lower bound, or −∞.
    pub lower: f64,
    /// Upper bound, or +∞.
    pub upper: f64,
    /// Whether only whole values are allowed.
    pub integer: bool,
    /// Coefficient in the objective.
    pub cost: f64,
}

/// A constraint: `Σ coefficient · variable {≥, ≤, =} bound`.
#[derive(Clone, Debug, PartialEq)]
pub struct Constraint {
    /// Any text; [`Program::write_lp`] makes it a legal and unique name.
    pub name: String,
    /// Terms by increasing variable, each variable once, none zero.
    pub terms: Vec<(VariableId, f64)>,
    /// The relation.
    pub relation: Relation,
    /// The right side.
    pub bound: f64,
}

/// A linear or mixed-integer program.
///
/// ```
/// use routepack_lp::{Program, Relation};
///
/// let mut knapsack = Program::maximise("knapsack");
/// let apple = knapsack.add_integer("apple", 0.0, 3.0);
/// let melon = knapsack.add_binary("melon");
/// knapsack.set_cost(apple, 2.0);
/// knapsack.set_cost(melon, 5.0);
/// knapsack.constrain("weight", [(apple, 1.0), (melon, 4.0)], Relation::AtMost, 5.0);
///
/// assert_eq!(knapsack.objective_at(&[1.0, 1.0]), 7.0);
/// assert_eq!(knapsack.violation_at(&[3.0, 1.0]), 2.0);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// What the program is called in files.
    pub name: String,
    /// Minimise or maximise.
    pub sense: Sense,
    /// The constant in the objective.
    pub offset: f64,
    variables: Vec<Variable>,
    constraints: Vec<Constraint>,
}

impl Program {
    /// An empty program whose objective is minimised.
    pub fn minimise(name: impl Into<String>) -> Self {
        Self::new(name.into(), Sense::Minimise)
    }

    /// An empty program whose objective is maximised.
    pub fn maximise(name: impl Into<String>) -> Self {
        Self::new(name.into(), Sense::Maximise)
    }

    fn new(name: String, sense: Sense) -> Self {
        Self { name, sense, offset: 0.0, variables: Vec::new(), constraints: Vec::new() }
    }

    /// Adds a real variable with `lower ≤ x ≤ upper`; either may be infinite. Its cost is 0 until [`Self::set_cost`].
    pub fn add_real(&mut self, name: impl Into<String>, lower: f64, upper: f64) -> VariableId {
        self.add_variable(Variable { name: name.into(), lower, upper, integer: false, cost: 0.0 })
    }

    /// Adds a whole variable with `lower ≤ x ≤ upper`; either may be infinite.
    pub fn add_integer(&mut self, name: impl Into<String>, lower: f64, upper: f64) -> VariableId {
        self.add_variable(Variable { name: name.into(), lower, upper, integer: true, cost: 0.0 })
    }

    /// Adds a variable that is 0 or 1.
    pub fn add_binary(&mut self, name: impl Into<String>) -> VariableId {
        self.add_integer(name, 0.0, 1.0)
    }

    /// Adds a variable.
    pub fn add_variable(&mut self, variable: Variable) -> VariableId {
        self.variables.push(variable);
        VariableId(self.variables.len() - 1)
    }

    /// Sets a variable's coefficient in the objective.
    ///
    /// # Panics
    /// If the variable is of another, longer program.
    pub fn set_cost(&mut self, variable: VariableId, cost: f64) {
        self.variables[variable.0].cost = cost;
    }

    /// Adds the constraint `Σ terms {relation} bound`. Terms of one variable are summed, zeros dropped.
    pub fn constrain(
        &mut self,
        name: impl Into<String>,
        terms: impl IntoIterator<Item = (VariableId, f64)>,
        relation: Relation,
        bound: f64,
    ) -> ConstraintId {
        let mut sorted: Vec<_> = terms.into_iter().collect();
        sorted.sort_by_key(|&(variable, _)| variable);
        let mut terms: Vec<(VariableId, f64)> = Vec::with_capacity(sorted.len());
        for (variable, coefficient) in sorted {
            match terms.last_mut() {
                Some((last, sum)) if *last == variable => *sum += coefficient,
                _ => terms.push((variable, coefficient)),
            }
        }
        terms.retain(|&(_, coefficient)| coefficient != 0.0);
        self.constraints.push(Constraint { name: name.into(), terms, relation, bound });
        ConstraintId(self.constraints.len() - 1)
    }

    /// The variables, in the order of their addition.
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// The constraints, in the order of their addition.
    pub fn constraints(&self) -> &[Constraint] {
        &self.constraints
    }

    /// Whether some variable is integer.
    pub fn has_integers(&self) -> bool {
        self.variables.iter().any(|variable| variable.integer)
    }

    /// The same program with every variable real.
    #[must_use]
    pub fn relaxed(&self) -> Self {
        let mut relaxed = self.clone();
        for variable in &mut relaxed.variables {
            variable.integer = false;
        }
        relaxed
    }

    /// The objective at `values` (one a variable).
    ///
    /// # Panics
    /// If there are fewer values than variables.
    pub fn objective_at(&self, values: &[f64]) -> f64 {
        let costs = self.variables.iter().enumerate();
        self.offset + costs.map(|(j, variable)| variable.cost * values[j]).sum::<f64>()
    }

    /// The largest amount by which `values` (one a variable) break a constraint, a bound or integrality; 0 if none.
    ///
    /// # Panics
    /// If there are fewer values than variables.
    pub fn violation_at(&self, values: &[f64]) -> f64 {
        let variables = self.variables.iter().zip(values).flat_map(|(variable, &value)| {
            let fraction = if variable.integer { (value - value.round()).abs() } else { 0.0 };
            [variable.lower - value, value - variable.upper, fraction]
        });
        let constraints = self.constraints.iter().map(|constraint| {
            let left: f64 = constraint.terms.iter().map(|&(variable, a)| a * values[variable.0]).sum();
            match constraint.relation {
                Relation::AtLeast => constraint.bound - left,
                Relation::AtMost => left - constraint.bound,
                Relation::Equal => (left - constraint.bound).abs(),
            }
        });
        variables.chain(constraints).fold(0.0, f64::max)
    }

    /// Checks what a solver relies on: finite coefficients, bounds that do not cross, known variables.
    ///
    /// # Errors
    /// [`LpError::NotFinite`], [`LpError::CrossedBounds`] or [`LpError::IndexOutOfRange`], for the first fault found.
    pub fn validate(&self) -> Result<(), LpError> {
        let finite = |place: &str, name: &str, value: f64| {
            let place = || format!("{place} {name}");
            if value.is_finite() { Ok(()) } else { Err(LpError::NotFinite { place: place(), value }) }
        };
        finite("offset of", &self.name, self.offset)?;
        for Variable { name, lower, upper, cost, .. } in &self.variables {
            finite("cost of", name, *cost)?;
            // Negated, so that NaN is refused too.
            if !(lower <= upper && *lower < f64::INFINITY && *upper > f64::NEG_INFINITY) {
                return Err(LpError::CrossedBounds { name: name.clone(), lower: *lower, upper: *upper });
            }
        }
        let len = self.variables.len();
        for constraint in &self.constraints {
            finite("bound of", &constraint.name, constraint.bound)?;
            for &(variable, coefficient) in &constraint.terms {
                finite("coefficient in", &constraint.name, coefficient)?;
                if variable.0 >= len {
                    return Err(LpError::IndexOutOfRange { place: "variable", index: variable.0, len });
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Fault = fn(&mut Program);

    #[test]
    fn sums_repeated_terms_and_drops_zeros() {
        let mut program = Program::minimise("p");
        let (x, y) = (program.add_real("x", 0.0, 1.0), program.add_real("y", 0.0, 1.0));
        program.constrain("c", [(y, 2.0), (x, 1.0), (y, 1.0), (x, -1.0)], Relation::AtLeast, 1.0);
        assert_eq!(program.constraints()[0].terms, [(y, 3.0)]);
    }

    #[test]
    fn refuses_what_no_solver_should_see() {
        let base = {
            let mut program = Program::minimise("p");
            let x = program.add_real("x", 0.0, 1.0);
            program.constrain("c", [(x, 1.0)], Relation::AtLeast, 1.0);
            program
        };
        assert_eq!(base.validate(), Ok(()));
        let faults: [Fault; 8] = [
            |p| p.offset = f64::NAN,
            |p| p.variables[0].cost = f64::INFINITY,
            |p| p.variables[0].lower = 2.0,
            |p| p.variables[0].upper = f64::NAN,
            |p| {
                p.variables[0] =
                    Variable { lower: f64::INFINITY, upper: f64::INFINITY, ..p.variables[0].clone() }
            },
            |p| p.constraints[0].bound = f64::INFINITY,
            |p| p.constraints[0].terms[0].1 = f64::NAN,
            |p| p.constraints[0].terms[0].0 = VariableId(1),
        ];
        for (k, fault) in faults.iter().enumerate() {
            let mut program = base.clone();
            fault(&mut program);
            assert!(program.validate().is_err(), "fault {k} went unnoticed");
        }
    }
}
