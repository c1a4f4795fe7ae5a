//! The ladder of temperatures.
//!
//! Problem: choose temperatures T₀ > T₁ > … from hot, where the chains move freely, to cold, where they hardly move,
//! in at most K rungs.
//! Method: *even* rungs are equidistant in ln β (geometric) or in β (linear), β = 1/T. *Adaptive* rungs (a culling
//! target is given) take the step for which resampling is expected to replace that fraction of the population, found
//! by bisection, since it grows with the step: rungs gather where the energy distribution changes fast. A step is never
//! more than four even ones, and never so little that the rest could not be done in four times even ones: the ladder
//! always ends at its coldest temperature, in at most K rungs.
//! Measured ends: T at which the chains, at the starting states, would accept a given share of the rise in energy
//! proposed to them, Σ Δ e^(−Δ/T) / Σ Δ, by bisection too. A proposal that lowers the energy counts as its reverse.
//! Complexity: O(R) a rung, times 50 exponentials a replica for adaptive ones.
//! References: L. Yu. Barash, M. Weigel, M. Borovský, W. Janke and L. N. Shchur, GPU accelerated population annealing
//! algorithm, Comput. Phys. Commun. 220, 2017, doi 10.1016/j.cpc.2017.06.020 (overlap as the target); C. Amey and
//! J. Machta, Analysis and optimization of population annealing, Phys. Rev. E 97, 033301, 2018, doi
//! 10.1103/PhysRevE.97.033301 (culling fraction); W. Ben-Ameur, Computing the initial temperature of simulated
//! annealing, Comput. Optim. Appl. 29, 2004, doi 10.1023/B:COAP.0000044187.23143.bd (measured ends).
//! Deviations: the bounds on adaptive steps; Ben-Ameur takes the share of the uphill proposals instead of the rise they
//! propose, which many tiny changes drag to temperatures far below those that matter.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::elementary::{exp, ln};
use crate::error::AnnealError;
use crate::resample::culled_fraction;

/// Adaptive steps are at most this many even ones.
const WIDEST_STEP: f64 = 4.0;
/// Energy changes up to this are none: the inverse of a temperature that heeds them would overflow.
const NO_CHANGE: f64 = 1e-300;
/// Halvings of a bisection.
const HALVINGS: u32 = 50;

/// Where the temperatures begin and end, and how they are spaced where nothing says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Ladder {
    /// Geometric, between temperatures measured on the starting states.
    Measured {
        /// Share of the proposed rise in energy that is accepted at the hottest temperature; in (0, 1).
        hot_acceptance: f64,
        /// The same at the coldest; in (0, `hot_acceptance`].
        cold_acceptance: f64,
    },
    /// Geometric, between given temperatures.
    Geometric {
        /// First temperature, in units of the energy; finite.
        hottest: f64,
        /// Last temperature; above 0.
        coldest: f64,
    },
    /// Equidistant in inverse temperature; may begin at 0, infinite temperature.
    LinearBeta {
        /// First inverse temperature; at least 0.
        from: f64,
        /// Last inverse temperature; finite.
        to: f64,
    },
}

impl Default for Ladder {
    fn default() -> Self {
        Self::Measured { hot_acceptance: 0.3, cold_acceptance: 0.001 }
    }
}

impl Ladder {
    /// Checks the ends.
    ///
    /// # Errors
    /// [`AnnealError::Option`] names the end that can't be.
    pub fn validate(&self) -> Result<(), AnnealError> {
        let check = |option, value, holds: bool, rule| {
            if holds { Ok(()) } else { Err(AnnealError::Option { option, value, rule }) }
        };
        match *self {
            Self::Measured { hot_acceptance: hot, cold_acceptance: cold } => {
                check("ladder.hot_acceptance", hot, 0.0 < hot && hot < 1.0, "it must lie between 0 and 1")?;
                check(
                    "ladder.cold_acceptance",
                    cold,
                    0.0 < cold && cold <= hot,
                    "it must lie between 0 and hot_acceptance",
                )
            }
            Self::Geometric { hottest, coldest } => {
                check(
                    "ladder.hottest",
                    hottest,
                    hottest.is_finite() && hottest > 0.0,
                    "it must be positive and finite",
                )?;
                check(
                    "ladder.coldest",
                    coldest,
                    (f64::MIN_POSITIVE..=hottest).contains(&coldest),
                    "it must lie between 0 and hottest",
                )
            }
            Self::LinearBeta { from, to } => {
                check("ladder.to", to, to.is_finite() && to >= 0.0, "it must be at least 0 and finite")?;
                check("ladder.from", from, 0.0 <= from && from <= to, "it must lie between 0 and to")
            }
        }
    }

    /// Whether the ends must be measured.
    pub(crate) fn is_measured(&self) -> bool {
        matches!(self, Self::Measured { .. })
    }

    /// The rungs: at most `temperatures`, adaptive if a culling target is given. `changes` are sampled energy changes,
    /// heeded only by a measured ladder.
    pub(crate) fn build(&self, temperatures: u32, culling: Option<f64>, changes: &[f64]) -> Rungs {
        let (spacing, from, to) = match *self {
            Self::Measured { hot_acceptance, cold_acceptance } => {
                let hottest = measure_temperature(changes, hot_acceptance);
                let coldest = measure_temperature(changes, cold_acceptance);
                (Spacing::Geometric, 1.0 / hottest, 1.0 / coldest)
            }
            Self::Geometric { hottest, coldest } => (Spacing::Geometric, 1.0 / hottest, 1.0 / coldest),
            Self::LinearBeta { from, to } => (Spacing::Linear, from, to),
        };
        let length = spacing.coordinate(to) - spacing.coordinate(from);
        let even = length / f64::from(temperatures.saturating_sub(1).max(1));
        Rungs { spacing, beta: from, last: to, even, culling, left: temperatures - 1 }
    }
}

/// The temperature at which the chains accept that share of the rise proposed to them: Σ Δ e^(−Δ/T) = share · Σ Δ over
/// the sizes Δ of the changes. 1 if none changes anything: temperature does not matter then.
fn measure_temperature(changes: &[f64], share: f64) -> f64 {
    let sizes: Vec<f64> =
        changes.iter().map(|change| change.abs()).filter(|size| *size > NO_CHANGE).collect();
    if sizes.is_empty() {
        return 1.0;
    }
    // Relative to the greatest, so that no sum overflows.
    let greatest = sizes.iter().copied().fold(0.0, f64::max);
    let least = sizes.iter().copied().fold(greatest, f64::min);
    let proposed: f64 = sizes.iter().map(|size| size / greatest).sum();
    let accepted = |beta: f64| -> f64 { sizes.iter().map(|size| size / greatest * exp(-beta * size)).sum() };
    // The share lies between those of the least and the greatest change, so ln β lies between theirs.
    let (mut low, mut high) = (ln(-ln(share) / greatest), ln(-ln(share) / least));
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        if accepted(exp(middle)) > share * proposed { low = middle } else { high = middle }
    }
    exp(-0.5 * (low + high))
}

/// In which coordinate even rungs are equidistant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spacing {
    /// ln β.
    Geometric,
    /// β.
    Linear,
}

impl Spacing {
    fn coordinate(self, beta: f64) -> f64 {
        match self {
            Self::Geometric => ln(beta),
            Self::Linear => beta,
        }
    }

    fn beta(self, coordinate: f64) -> f64 {
        match self {
            Self::Geometric => exp(coordinate),
            Self::Linear => coordinate,
        }
    }
}

/// A ladder on its way down.
#[derive(Clone, Debug)]
pub(crate) struct Rungs {
    spacing: Spacing,
    beta: f64,
    last: f64,
    /// An even step, in the coordinate of the spacing.
    even: f64,
    culling: Option<f64>,
    /// Rungs that may still follow.
    left: u32,
}

impl Rungs {
    /// Inverse temperature of this rung.
    pub(crate) fn beta(&self) -> f64 {
        self.beta
    }

    /// Steps to the next rung, for a population of those energies, and tells the step in inverse temperature; none
    /// from the last rung.
    pub(crate) fn descend(&mut self, energies: &[f64]) -> Option<f64> {
        if self.left == 0 || self.beta >= self.last {
            return None;
        }
        let here = self.spacing.coordinate(self.beta);
        let widest = WIDEST_STEP * self.even;
        let to_go = self.spacing.coordinate(self.last) - here;
        let step = match self.culling {
            None => self.even,
            Some(target) => {
                let narrowest = (to_go - f64::from(self.left - 1) * widest).max(0.0);
                self.adapt(energies, target, here, narrowest, widest.min(to_go))
            }
        };
        self.left -= 1;
        // A remainder of rounding is no rung of its own.
        let arrived = self.left == 0 || to_go - step <= 1e-9 * self.even;
        let next = if arrived { self.last } else { self.spacing.beta(here + step).min(self.last) };
        let change = next - self.beta;
        self.beta = next;
        Some(change)
    }

    /// The step between `narrowest` and `widest` that replaces `target` of the population.
    fn adapt(&self, energies: &[f64], target: f64, here: f64, narrowest: f64, widest: f64) -> f64 {
        let culled = |step: f64| culled_fraction(energies, self.spacing.beta(here + step) - self.beta);
        if culled(widest) <= target {
            return widest;
        }
        let (mut low, mut high) = (narrowest, widest);
        for _ in 0..HALVINGS {
            let middle = 0.5 * (low + high);
            if culled(middle) <= target { low = middle } else { high = middle }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(one: f64, other: f64) -> bool {
        (one - other).abs() <= 1e-9 * other.abs()
    }

    /// The inverse temperatures for energies that stay the same all the way.
    fn climb_down(ladder: Ladder, temperatures: u32, culling: Option<f64>, energies: &[f64]) -> Vec<f64> {
        let mut rungs = ladder.build(temperatures, culling, &[]);
        let mut betas = vec![rungs.beta()];
        while let Some(step) = rungs.descend(energies) {
            assert!(close(betas[betas.len() - 1] + step, rungs.beta()));
            betas.push(rungs.beta());
        }
        betas
    }

    const GEOMETRIC: Ladder = Ladder::Geometric { hottest: 100.0, coldest: 0.01 };
    const LINEAR: Ladder = Ladder::LinearBeta { from: 0.0, to: 2.0 };

    #[test]
    fn even_ladders() {
        let geometric = climb_down(GEOMETRIC, 5, None, &[0.0]);
        assert_eq!(geometric.len(), 5);
        assert!(geometric.iter().zip([0.01, 0.1, 1.0, 10.0, 100.0]).all(|(ours, beta)| close(*ours, beta)));
        let linear = climb_down(LINEAR, 5, None, &[0.0]);
        assert!(linear.iter().zip([0.0, 0.5, 1.0, 1.5, 2.0]).all(|(ours, beta)| (ours - beta).abs() < 1e-12));
        assert_eq!(linear.len(), 5);
        assert_eq!(climb_down(LINEAR, 1, None, &[0.0]).len(), 1);
        assert_eq!(climb_down(Ladder::LinearBeta { from: 1.0, to: 1.0 }, 9, None, &[0.0]).len(), 1);
    }

    #[test]
    fn adaptive_ladders_end_at_the_end_whatever_the_energies() {
        let flat: Vec<f64> = vec![5.0; 10];
        let mild: Vec<f64> = (0..10).map(f64::from).collect();
        let steep: Vec<f64> = (0..10).map(|i| 1e9 * f64::from(i)).collect();
        for (ladder, last) in [(GEOMETRIC, 1.0 / 0.01), (LINEAR, 2.0)] {
            for temperatures in [2, 3, 10, 41] {
                for culling in [0.001, 0.1, 0.9] {
                    for energies in [&flat, &mild, &steep] {
                        let betas = climb_down(ladder, temperatures, Some(culling), energies);
                        assert_eq!(betas[betas.len() - 1].to_bits(), f64::to_bits(last));
                        assert!(betas.len() <= temperatures as usize);
                        assert!(betas.is_sorted());
                    }
                }
            }
        }
        // Flat energies: the widest steps, four even ones. Steep ones: all rungs are used.
        assert_eq!(climb_down(LINEAR, 41, Some(0.1), &flat).len(), 11);
        assert_eq!(climb_down(LINEAR, 41, Some(0.1), &steep).len(), 41);
    }

    #[test]
    fn measured_temperatures() {
        let share = |changes: &[f64], t: f64| {
            changes.iter().map(|d| d * (-d / t).exp()).sum::<f64>() / changes.iter().sum::<f64>()
        };
        let mixed = [1.0, 2.0, 7.5, 100.0];
        for acceptance in [0.9, 0.3, 0.001] {
            assert!(close(measure_temperature(&[3.0, -3.0, 0.0], acceptance), -3.0 / f64::ln(acceptance)));
            let temperature = measure_temperature(&mixed, acceptance);
            assert!((share(&mixed, temperature) - acceptance).abs() < 1e-9, "{temperature}");
        }
        assert_eq!(measure_temperature(&[0.0, 0.0], 0.3).to_bits(), f64::to_bits(1.0));
        assert_eq!(measure_temperature(&[], 0.3).to_bits(), f64::to_bits(1.0));
        // A thousand tiny changes beside a hundred large ones leave the temperature where the large ones need it.
        let tiny: Vec<f64> = [vec![1e-6; 1000], vec![5.0; 100]].concat();
        let (with, without) = (measure_temperature(&tiny, 0.001), measure_temperature(&[5.0], 0.001));
        assert!(with < without && with > 0.9 * without, "{with} {without}");
        // Extremes of the number range.
        assert!(measure_temperature(&[1e-290, 1e308, 1e308], 0.3).is_finite());
    }
}
