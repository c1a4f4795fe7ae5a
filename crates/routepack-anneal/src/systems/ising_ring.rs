//! The Ising ring.
//!
//! Problem: N spins sᵢ = ±1 on a ring with energy E = −Σ sᵢ sᵢ₊₁. Its sums are known in closed form: with
//! t = tanh β, Z = (2 cosh β)^N (1 + t^N) and ⟨E⟩ = −N (t + t^(N−1)) / (1 + t^N).
//! Chain: flips of random spins, Metropolis rule. Complexity: O(1) a flip, N flips a sweep.
//! Reference: E. Ising, Beitrag zur Theorie des Ferromagnetismus, Z. Phys. 31, 1925, doi 10.1007/BF02980577.

use crate::metropolis::accepts;
use crate::stream::Stream;
use crate::system::{Record, System};

/// A ring of ferromagnetic Ising spins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IsingRing {
    num_spins: usize,
}

/// A configuration of the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spins {
    spins: Vec<i8>,
    energy: i64,
}

impl IsingRing {
    /// The ring of that many spins.
    ///
    /// # Panics
    /// If there are fewer than 2.
    pub fn new(num_spins: usize) -> Self {
        assert!(num_spins >= 2, "a ring of {num_spins} spins has no neighbours");
        Self { num_spins }
    }

    /// A uniformly random configuration: equilibrium at infinite temperature.
    pub fn draw(&self, stream: &mut Stream) -> Spins {
        let spins: Vec<i8> = (0..self.num_spins).map(|_| if stream.below(2) == 0 { 1 } else { -1 }).collect();
        let energy = (0..spins.len()).map(|i| -i64::from(spins[i] * spins[(i + 1) % spins.len()])).sum();
        Spins { spins, energy }
    }

    /// The exact mean energy at inverse temperature `beta`.
    pub fn mean_energy(&self, beta: f64) -> f64 {
        let (t, n) = (beta.tanh(), self.num_spins as i32);
        -f64::from(n) * (t + t.powi(n - 1)) / (1.0 + t.powi(n))
    }

    /// ln Z at inverse temperature `beta`, exact.
    pub fn log_partition(&self, beta: f64) -> f64 {
        let n = self.num_spins as i32;
        f64::from(n) * (2.0 * beta.cosh()).ln() + beta.tanh().powi(n).ln_1p()
    }

    fn flip_change(&self, state: &Spins, i: usize) -> i64 {
        let (left, right) = ((i + self.num_spins - 1) % self.num_spins, (i + 1) % self.num_spins);
        2 * i64::from(state.spins[i]) * i64::from(state.spins[left] + state.spins[right])
    }
}

impl System for IsingRing {
    type State = Spins;
    type Score = i64;
    type Snapshot = Vec<i8>;
    const MOVE_KINDS: &'static [&'static str] = &["flip"];
    const KEEPS_BOLTZMANN: bool = true;

    fn energy(&self, state: &Spins) -> f64 {
        state.energy as f64
    }

    fn score(&self, state: &Spins) -> i64 {
        state.energy
    }

    fn snapshot(&self, state: &Spins) -> Vec<i8> {
        state.spins.clone()
    }

    fn sample_change(&self, state: &mut Spins, stream: &mut Stream) -> f64 {
        self.flip_change(state, stream.index(self.num_spins)) as f64
    }

    fn sweep(&self, state: &mut Spins, temperature: f64, stream: &mut Stream, record: &mut Record<Self>) {
        for _ in 0..self.num_spins {
            let i = stream.index(self.num_spins);
            let change = self.flip_change(state, i);
            record.propose(0);
            if accepts(change as f64, temperature, stream) {
                state.spins[i] = -state.spins[i];
                state.energy += change;
                record.accept(0, change as f64);
            }
        }
    }
}
