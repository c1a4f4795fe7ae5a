//! The Metropolis rule.
//!
//! Problem: accept a proposed energy change Δ at temperature T with probability min(1, e^(−Δ/T)), so that a symmetric
//! choice of proposals leaves the Boltzmann distribution as it is.
//! Method: compare a random fraction with e^(−Δ/T); two cheap bounds of the exponential, 1 − x and 1/(1 + x + x²/2),
//! decide most cases without it. Complexity: constant; no random number is drawn for Δ ≤ 0.
//! Reference: N. Metropolis, A. W. Rosenbluth, M. N. Rosenbluth, A. H. Teller and E. Teller, Equation of state
//! calculations by fast computing machines, J. Chem. Phys. 21, 1953, doi 10.1063/1.1699114.

use crate::elementary;
use crate::stream::Stream;

/// Whether a change of the energy by `change` is accepted at `temperature` (from 0, where nothing that raises the
/// energy is, to infinity, where everything is).
#[inline]
pub fn accepts(change: f64, temperature: f64, stream: &mut Stream) -> bool {
    if change <= 0.0 {
        return true;
    }
    let x = change / temperature;
    let fraction = stream.unit();
    if fraction < 1.0 - x {
        return true;
    }
    if fraction * (1.0 + x * (1.0 + 0.5 * x)) >= 1.0 {
        return false;
    }
    fraction < elementary::exp(-x)
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // exact values are meant
mod tests {
    use super::*;

    #[test]
    fn acceptance_follows_the_exponential() {
        let mut stream = Stream::new(1);
        for x in [0.01, 0.3, 1.0, 2.5, 6.0] {
            let n = 100_000;
            let accepted = (0..n).filter(|_| accepts(3.0 * x, 3.0, &mut stream)).count() as f64;
            let p = f64::exp(-x);
            let sd = (f64::from(n) * p * (1.0 - p)).sqrt();
            assert!((accepted - f64::from(n) * p).abs() < 5.0 * sd, "{x}: {accepted}");
        }
    }

    #[test]
    fn the_shortcuts_decide_as_the_exponential_does() {
        let mut stream = Stream::new(2);
        for i in 0..100_000 {
            let change = f64::from(i) * 1e-4;
            let fraction = stream.clone().unit();
            assert_eq!(
                accepts(change, 1.0, &mut stream),
                change == 0.0 || fraction < elementary::exp(-change)
            );
        }
    }

    #[test]
    fn extreme_temperatures() {
        let mut stream = Stream::new(3);
        for _ in 0..1000 {
            assert!(accepts(-1.0, 0.0, &mut stream));
            assert!(accepts(0.0, 0.0, &mut stream));
            assert!(!accepts(1e-9, 0.0, &mut stream));
            assert!(accepts(1e9, f64::INFINITY, &mut stream));
            assert!(!accepts(f64::INFINITY, 1.0, &mut stream));
            assert!(!accepts(f64::NAN, 1.0, &mut stream));
        }
    }
}
