//! Two small systems with known answers, to learn from and to test against theory.

mod ising_ring;
mod partitioning;

pub use ising_ring::{IsingRing, Spins};
pub use partitioning::{Partitioning, Sides};
