//! The dual of a linear program, as a program.
//!
//! For `min offset + c x`, `A x {≥, ≤, =} b`, `l ≤ x ≤ u` it is
//! `max offset + b y + Σ l_j p_j − Σ u_j q_j` with `Σ_i a_ij y_i + p_j − q_j = c_j` for every j, `p, q ≥ 0`,
//! `y_i ≥ 0` for ≥, `≤ 0` for ≤, free for =; `p_j` (`q_j`) exists only if `l_j` (`u_j`) is finite, and where that bound
//! is 0 it is the slack of an inequality. For `max` the roles and signs swap, so that a dual is always the rate of change of
//! the optimum per unit of a constraint's bound.
//! Reference: any textbook, for instance Bertsimas and Tsitsiklis, Introduction to Linear Optimization, 1997, ch. 4.

use crate::program::{Program, Relation, Sense, VariableId};

impl Program {
    /// The dual of the program's linear relaxation. Its first variables are the duals of the constraints, in their order.
    ///
    /// If either has an optimum, so has the other, and the objectives are equal.
    ///
    /// ```
    /// use routepack_lp::{Program, Relation};
    ///
    /// let mut diet = Program::minimise("diet");
    /// let bread = diet.add_real("bread", 0.0, f64::INFINITY);
    /// diet.set_cost(bread, 3.0);
    /// diet.constrain("energy", [(bread, 2.0)], Relation::AtLeast, 8.0);
    ///
    /// let dual = diet.dual(); // maximise 8 energy, 2 energy ≤ 3
    /// assert_eq!(dual.objective_at(&[1.5]), diet.objective_at(&[4.0]));
    /// assert_eq!(dual.violation_at(&[1.5]), 0.0);
    /// ```
    #[must_use]
    pub fn dual(&self) -> Self {
        let name = format!("dual of {}", self.name);
        let (mut dual, sign) = match self.sense {
            Sense::Minimise => (Self::maximise(name), 1.0),
            Sense::Maximise => (Self::minimise(name), -1.0),
        };
        dual.offset = self.offset;
        let mut columns = vec![Vec::new(); self.variables().len()];
        for constraint in self.constraints() {
            let (lower, upper) = match (constraint.relation, self.sense) {
                (Relation::Equal, _) => (f64::NEG_INFINITY, f64::INFINITY),
                (Relation::AtLeast, Sense::Minimise) | (Relation::AtMost, Sense::Maximise) => {
                    (0.0, f64::INFINITY)
                }
                (Relation::AtMost, Sense::Minimise) | (Relation::AtLeast, Sense::Maximise) => {
                    (f64::NEG_INFINITY, 0.0)
                }
            };
            let y = dual.add_real(constraint.name.clone(), lower, upper);
            dual.set_cost(y, constraint.bound);
            for &(variable, coefficient) in &constraint.terms {
                columns[variable.index()].push((y, coefficient));
            }
        }
        for (variable, mut terms) in self.variables().iter().zip(columns) {
            // Multiplier of a finite bound other than 0; a bound of 0 leaves an inequality.
            let mut multiplier = |bound: f64, name: &str, direction: f64| -> Option<(VariableId, f64)> {
                let priced = bound.is_finite() && bound != 0.0;
                priced.then(|| {
                    let p = dual.add_real(format!("{name} {}", variable.name), 0.0, f64::INFINITY);
                    dual.set_cost(p, direction * bound);
                    (p, direction)
                })
            };
            terms.extend(multiplier(variable.lower, "lower", sign));
            terms.extend(multiplier(variable.upper, "upper", -sign));
            let relation = match (variable.lower == 0.0, variable.upper == 0.0, self.sense) {
                (true, true, _) => continue,
                (true, _, Sense::Minimise) | (_, true, Sense::Maximise) => Relation::AtMost,
                (true, _, Sense::Maximise) | (_, true, Sense::Minimise) => Relation::AtLeast,
                (false, false, _) => Relation::Equal,
            };
            dual.constrain(variable.name.clone(), terms, relation, variable.cost);
        }
        dual
    }
}
