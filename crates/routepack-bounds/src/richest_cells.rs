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
//! Units sorted by tokens fall into classes: in one, f_ε(t) = t for the same ε and 0, or C', for the others, so the price
//! Σ_k w_k·f_k(t) of all its units is one linear function of t.
//! Complexity: O(iterations·(n + K²)) per j, at most [`ITERATIONS`].
//! References: S. Fekete and J. Schepers, Math. Program. 91, 2001, doi 10.1007/s101070100243 (f_ε); B. T. Polyak, USSR
//! Comput. Math. Math. Phys. 9(3), 1969, doi 10.1016/0041-5553(69)90035-4.

use std::ops::Range;

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

/// Units of about equal length, for which the same functions are t, and the others 0 or, beyond C'/2, C'.
#[derive(Debug)]
struct Class {
    /// Positions of the units.
    units: Range<usize>,
    /// Functions below this one are t.
    cut: usize,
    /// Whether the functions from `cut` on are C'.
    full: bool,
}

/// What a class adds to the functions' sums over the units that are worth more than their price.
#[derive(Clone, Copy, Default)]
struct Excess {
    /// Σ of worth beyond price.
    value: f64,
    units: u64,
    tokens: u64,
}

/// Units in classes.
#[derive(Debug)]
pub(crate) struct RichestCells {
    /// Ascending by tokens.
    units: Vec<Valued>,
    classes: Vec<Class>,
    /// The units' tokens, again in floating point, and their charges.
    tokens: Vec<u64>,
    sizes: Vec<f64>,
    charges: Vec<f64>,
    /// Charge per token and tokens, the largest ratio first.
    richest: Vec<(f64, u64)>,
    capacity: u64,
    /// C'/q, the function that limits the units of a cell.
    share: Option<u64>,
    iterations: u64,
}

impl RichestCells {
    /// For cells of `capacity` tokens and at most `max_units` units; `worth` will be asked `times` times.
    pub(crate) fn new(mut units: Vec<Valued>, capacity: u64, max_units: Option<u64>, times: usize) -> Self {
        units.sort_unstable_by_key(|unit| (unit.tokens, unit.charge));
        let of_unit = |tokens: u64| {
            let epsilons = (0..=STEPS).map(|step| step * capacity / (2 * STEPS));
            let full = tokens > capacity / 2;
            (
                epsilons.filter(|&epsilon| epsilon <= if full { capacity - tokens } else { tokens }).count(),
                full,
            )
        };
        let mut classes: Vec<Class> = Vec::new();
        for (position, unit) in units.iter().enumerate() {
            let (cut, full) = of_unit(unit.tokens);
            match classes.last_mut() {
                Some(class) if (class.cut, class.full) == (cut, full) => class.units.end += 1,
                _ => classes.push(Class { units: position..position + 1, cut, full }),
            }
        }
        let mut richest: Vec<(f64, u64)> = units
            .iter()
            .filter(|unit| unit.tokens > 0)
            .map(|unit| (unit.charge as f64 / unit.tokens as f64, unit.tokens))
            .collect();
        richest.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let iterations = EVALUATIONS / (units.len().max(1) * times.max(1)) as u64;
        Self {
            tokens: units.iter().map(|unit| unit.tokens).collect(),
            sizes: units.iter().map(|unit| unit.tokens as f64).collect(),
            charges: units.iter().map(|unit| unit.charge as f64).collect(),
            units,
            classes,
            richest,
            capacity,
            share: max_units.map(|limit| capacity / limit.max(1)),
            iterations: iterations.min(ITERATIONS),
        }
    }

    fn num_functions(&self) -> usize {
        STEPS as usize + 1 + usize::from(self.share.is_some())
    }

    /// A(j): no `count` cells of a layout are worth more together.
    pub(crate) fn worth(&self, count: usize) -> u128 {
        let weights: Vec<u128> = self
            .weigh(count)
            .into_iter()
            .map(|weight| (weight * f64::from(1u32 << PLACES)).round() as u128)
            .collect();
        let sum = |weights: &[u128]| weights.iter().fold(0u128, |sum, &weight| sum.saturating_add(weight));
        let (steps, limit) = weights.split_at(STEPS as usize + 1);
        let shared = sum(limit).saturating_mul(u128::from(self.share.unwrap_or(0)));
        // A worth is an integer; where numbers leave 128 bits the bound is no bound at all, far above any total.
        let mut worth = (count as u128 * u128::from(self.capacity)).saturating_mul(sum(&weights));
        for Class { units, cut, full } in &self.classes {
            let (per_token, rest) = (sum(&steps[..*cut]), sum(&steps[*cut..]));
            let filled = if *full { rest.saturating_mul(u128::from(self.capacity)) } else { 0 };
            let fixed = filled.saturating_add(shared);
            for unit in &self.units[units.clone()] {
                let price = per_token.saturating_mul(u128::from(unit.tokens)).saturating_add(fixed);
                worth = worth.saturating_add((u128::from(unit.charge) << PLACES).saturating_sub(price));
            }
        }
        worth >> PLACES
    }

    /// Weights that make A(j) small.
    fn weigh(&self, count: usize) -> Vec<f64> {
        let cells = count as f64 * self.capacity as f64;
        let mut weights = vec![0.0; self.num_functions()];
        weights[0] = self.marginal_price(count);
        let scale = weights[0];
        let (mut best, mut least) = (weights.clone(), f64::INFINITY);
        for iteration in 0..self.iterations {
            let excesses: Vec<Excess> =
                self.classes.iter().map(|class| self.excess(class, &weights)).collect();
            let bound =
                excesses.iter().fold(cells * weights.iter().sum::<f64>(), |sum, excess| sum + excess.value);
            let gradient: Vec<f64> =
                (0..weights.len()).map(|function| cells - self.used(function, &excesses) as f64).collect();
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

    /// What the units of a class are worth beyond their price.
    fn excess(&self, class: &Class, weights: &[f64]) -> Excess {
        const LANES: usize = 8;
        let (steps, limit) = weights.split_at(STEPS as usize + 1);
        let per_token: f64 = steps[..class.cut].iter().sum();
        let mut fixed = limit.iter().sum::<f64>() * self.share.unwrap_or(0) as f64;
        if class.full {
            fixed += steps[class.cut..].iter().sum::<f64>() * self.capacity as f64;
        }
        // Sums in lanes: one order on every machine, which vector instructions take in one go.
        let (mut values, mut counts, mut sums) = ([0.0; LANES], [0u64; LANES], [0u64; LANES]);
        let mut add = |lane: usize, charge: f64, size: f64, tokens: u64| {
            let excess = charge - (size * per_token + fixed);
            let mask = if excess > 0.0 { u64::MAX } else { 0 };
            values[lane] += excess.max(0.0);
            counts[lane] += mask & 1;
            sums[lane] += mask & tokens;
        };
        let (charges, last_charges) = self.charges[class.units.clone()].as_chunks::<LANES>();
        let (sizes, last_sizes) = self.sizes[class.units.clone()].as_chunks::<LANES>();
        let (tokens, last_tokens) = self.tokens[class.units.clone()].as_chunks::<LANES>();
        for ((charges, sizes), tokens) in charges.iter().zip(sizes).zip(tokens) {
            for lane in 0..LANES {
                add(lane, charges[lane], sizes[lane], tokens[lane]);
            }
        }
        for (lane, ((&charge, &size), &tokens)) in
            last_charges.iter().zip(last_sizes).zip(last_tokens).enumerate()
        {
            add(lane, charge, size, tokens);
        }
        Excess { value: values.iter().sum(), units: counts.iter().sum(), tokens: sums.iter().sum() }
    }

    /// Σ of a function over the units that are worth more than their price.
    fn used(&self, function: usize, excesses: &[Excess]) -> u64 {
        let of_class = |(class, excess): (&Class, &Excess)| match function {
            limit if limit > STEPS as usize => excess.units * self.share.unwrap_or(0),
            step if step < class.cut => excess.tokens,
            _ if class.full => excess.units * self.capacity,
            _ => 0,
        };
        self.classes.iter().zip(excesses).map(of_class).sum()
    }

    /// The ratio φ/t at which units, the richest per token first, fill `count` cells.
    pub(crate) fn marginal_price(&self, count: usize) -> f64 {
        let mut left = count as u64 * self.capacity;
        for &(ratio, tokens) in &self.richest {
            if tokens > left {
                return ratio;
            }
            left -= tokens;
        }
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The functions of the header, one unit at a time.
    fn function(step: u64, tokens: u64, capacity: u64) -> u64 {
        let epsilon = step * capacity / (2 * STEPS);
        match tokens {
            tokens if tokens > capacity - epsilon => capacity,
            tokens if tokens < epsilon => 0,
            tokens => tokens,
        }
    }

    #[test]
    fn classes_are_the_functions() {
        for capacity in [1, 2, 7, 31, 32, 33, 100, 4096] {
            let units = (1..=capacity).map(|tokens| Valued { tokens, charge: tokens * 7 % 13 }).collect();
            let richest = RichestCells::new(units, capacity, Some(3), 1);
            let positions: Vec<usize> =
                richest.classes.iter().flat_map(|class| class.units.clone()).collect();
            assert_eq!(positions, (0..richest.units.len()).collect::<Vec<_>>());
            for class in &richest.classes {
                for unit in &richest.units[class.units.clone()] {
                    for step in 0..=STEPS {
                        let of_class = match step {
                            step if (step as usize) < class.cut => unit.tokens,
                            _ if class.full => capacity,
                            _ => 0,
                        };
                        let expected = function(step, unit.tokens, capacity);
                        assert_eq!(of_class, expected, "{unit:?} of {capacity}, function {step}");
                    }
                }
            }
        }
    }

    /// A(j) of any weights holds for the richest cells there are, found by trying all.
    #[test]
    fn no_cells_are_worth_more() {
        let mut state = 1u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for round in 0..60 {
            let capacity = 5 + draw(60);
            let limit = (round % 2 == 1).then(|| 1 + draw(3));
            let units: Vec<Valued> =
                (0..9).map(|_| Valued { tokens: 1 + draw(capacity), charge: draw(1000) }).collect();
            let richest = RichestCells::new(units.clone(), capacity, limit, 1);
            let of = |set: usize, value: &dyn Fn(&Valued) -> u64| {
                (0..units.len())
                    .filter(|&unit| set >> unit & 1 == 1)
                    .map(|unit| value(&units[unit]))
                    .sum::<u64>()
            };
            let fits = |set: &usize| {
                of(*set, &|unit| unit.tokens) <= capacity
                    && limit.is_none_or(|limit| u64::from(set.count_ones()) <= limit)
            };
            let cells: Vec<usize> = (0..1 << units.len()).filter(fits).collect();
            let worth = |set: usize| u128::from(of(set, &|unit| unit.charge));
            let one = cells.iter().map(|&cell| worth(cell)).max().unwrap_or(0);
            let pairs = cells.iter().flat_map(|&a| cells.iter().map(move |&b| (a, b)));
            let two = pairs.filter(|(a, b)| a & b == 0).map(|(a, b)| worth(a) + worth(b)).max().unwrap_or(0);
            assert!(richest.worth(1) >= one && richest.worth(2) >= two, "{units:?} in {capacity}, {limit:?}");
        }
    }
}
