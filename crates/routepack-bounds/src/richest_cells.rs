//! Bound on what the most valuable cells of a layout can be worth together.
//!
//! Problem: cells of at most C' tokens and q units; A(j) ≥ the total value Σ φ of any j of them, every unit used once.
//! Symbols: unit u has tokens t_u and value φ_u; dual feasible functions f with Σ f(t_u) ≤ C' over the units of any cell:
//! for ε ≤ C'/2, f_ε(t) = C' if t > C' − ε, 0 if t < ε, else t; and, if q limits the units of a cell, ⌊C'/q⌋.
//! Bound: for all weights w ≥ 0, A(j) = j·C'·Σ_k w_k + Σ_u (φ_u − Σ_k w_k·f_k(t_u))⁺.
//! Proof: let X be the units of j cells. Σ_X φ ≤ Σ_X Σ_k w_k·f_k + Σ_X (φ − Σ_k w_k·f_k)⁺, and Σ_X f_k ≤ j·C'. A cell with a
//! unit longer than C' − ε has no other unit of ε or more, so f_ε sums to C' there; elsewhere it is at most t. ∎
//! The weights come from a projected subgradient descent in floating point, rounded to multiples of 2^−20; the bound is
//! then computed in integers. Basic operations in a fixed order only, so every machine gets the same.
//! Complexity: O(iterations·n·K) per j, at most [`ITERATIONS`].
//! References: S. Fekete and J. Schepers, Math. Program. 91, 2001, doi 10.1007/s101070100243 (f_ε); B. T. Polyak, USSR
//! Comput. Math. Math. Phys. 9(3), 1969, doi 10.1016/0041-5553(69)90035-4.

/// Functions f_ε with ε = k·C'/(2·[`STEPS`]), k = 0 … STEPS.
const STEPS: u64 = 16;
/// Iterations per j.
const ITERATIONS: u64 = 120;
/// Evaluations of one unit's weighted functions in all; fewer iterations where there are many units and cells.
const EVALUATIONS: u64 = 1 << 23;
/// Binary places of the weights.
const PLACES: u32 = 20;

/// One unit as this bound sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Valued {
    pub(crate) tokens: u64,
    pub(crate) charge: u64,
}

/// Units, and the functions of every unit.
#[derive(Debug)]
pub(crate) struct RichestCells {
    units: Vec<Valued>,
    /// f_k(t_u), `[functions][units]`.
    values: Vec<Vec<u64>>,
    /// The same in floating point.
    floats: Vec<Vec<f64>>,
    capacity: u64,
    iterations: u64,
}

impl RichestCells {
    /// For cells of `capacity` tokens and at most `max_units` units; `worth` will be asked `times` times.
    pub(crate) fn new(units: Vec<Valued>, capacity: u64, max_units: Option<u64>, times: usize) -> Self {
        let of_unit = |step: u64, tokens: u64| {
            let epsilon = step * capacity / (2 * STEPS);
            match tokens {
                tokens if tokens > capacity - epsilon => capacity,
                tokens if tokens < epsilon => 0,
                tokens => tokens,
            }
        };
        let mut values: Vec<Vec<u64>> =
            (0..=STEPS).map(|step| units.iter().map(|unit| of_unit(step, unit.tokens)).collect()).collect();
        values.extend(max_units.map(|limit| vec![capacity / limit.max(1); units.len()]));
        let floats = values.iter().map(|of| of.iter().map(|&value| value as f64).collect()).collect();
        let iterations = EVALUATIONS / (units.len().max(1) * times.max(1)) as u64;
        Self { units, values, floats, capacity, iterations: iterations.min(ITERATIONS) }
    }

    /// A(j): no `count` cells of a layout are worth more together.
    pub(crate) fn worth(&self, count: usize) -> u128 {
        let weights: Vec<u128> = self
            .weigh(count)
            .into_iter()
            .map(|weight| (weight * f64::from(1u32 << PLACES)).round() as u128)
            .collect();
        let all = weights.iter().fold(0u128, |sum, &weight| sum.saturating_add(weight));
        let cells = (count as u128 * u128::from(self.capacity)).saturating_mul(all);
        let excess = self.units.iter().enumerate().map(|(unit, valued)| {
            let priced = self.values.iter().zip(&weights).fold(0u128, |sum, (of, &weight)| {
                sum.saturating_add(u128::from(of[unit]).saturating_mul(weight))
            });
            (u128::from(valued.charge) << PLACES).saturating_sub(priced)
        });
        // A worth is an integer; where numbers leave 128 bits the bound is no bound at all, far above any total.
        excess.fold(cells, u128::saturating_add) >> PLACES
    }

    /// Weights that make A(j) small.
    fn weigh(&self, count: usize) -> Vec<f64> {
        let cells = count as f64 * self.capacity as f64;
        let charges: Vec<f64> = self.units.iter().map(|unit| unit.charge as f64).collect();
        let mut weights = vec![0.0; self.values.len()];
        weights[0] = self.marginal_price(count);
        let scale = weights[0];
        let (mut best, mut least) = (weights.clone(), f64::INFINITY);
        for iteration in 0..self.iterations {
            // Function by function over all units, which vector instructions take in one go; the sums of a slope are of
            // integers, so their order does not matter.
            let mut excess = charges.clone();
            for (of, &weight) in self.floats.iter().zip(&weights) {
                excess.iter_mut().zip(of).for_each(|(excess, value)| *excess -= value * weight);
            }
            let counted: Vec<u64> =
                excess.iter().map(|&excess| if excess > 0.0 { u64::MAX } else { 0 }).collect();
            let bound =
                excess.iter().fold(cells * weights.iter().sum::<f64>(), |sum, excess| sum + excess.max(0.0));
            let slope = |of: &Vec<u64>| {
                cells
                    - of.iter().zip(&counted).map(|(&value, &mask)| value & mask).fold(0, u64::wrapping_add)
                        as f64
            };
            let gradient: Vec<f64> = self.values.iter().map(slope).collect();
            if bound < least {
                least = bound;
                best.clone_from(&weights);
            }
            let norm = gradient.iter().map(|slope| slope * slope).sum::<f64>().sqrt();
            if norm == 0.0 {
                break;
            }
            let step = scale / (2.0 + iteration as f64 / 4.0) / norm;
            weights
                .iter_mut()
                .zip(&gradient)
                .for_each(|(weight, slope)| *weight = (*weight - step * slope).max(0.0));
        }
        best
    }

    /// The ratio φ/t at which units, the richest per token first, fill `count` cells.
    fn marginal_price(&self, count: usize) -> f64 {
        let mut order: Vec<(f64, u64)> = self
            .units
            .iter()
            .filter(|unit| unit.tokens > 0)
            .map(|unit| (unit.charge as f64 / unit.tokens as f64, unit.tokens))
            .collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut left = count as u64 * self.capacity;
        for (ratio, tokens) in order {
            if tokens > left {
                return ratio;
            }
            left -= tokens;
        }
        0.0
    }
}
