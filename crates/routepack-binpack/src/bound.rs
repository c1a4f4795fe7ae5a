//! A lower bound on the number of bins, with what proves it.

use routepack_certificate::Proof;

use crate::types::Types;

/// "At least `cells` bins are necessary", and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// So many bins are necessary.
    pub cells: u64,
    /// The proof that one bin fewer is not enough.
    pub proof: Proof,
    /// The method in words, for people.
    pub method: String,
}

/// Weights are scaled down to sums per bin of at most 2 to this, well within what a certificate may hold.
const LARGEST_BITS: u32 = 57;

impl Bound {
    /// No claim.
    pub(crate) fn none() -> Self {
        Self { cells: 0, proof: Proof::Volume, method: "nothing".into() }
    }

    /// The bound of weights of which no pattern holds more than `most`: ⌈Σ demand · weight / most⌉.
    ///
    /// `weights`: `[types]`; they and `most` are shifted down together where they are too large, which keeps them
    /// valid: Σ⌊p/2^s⌋ ≤ ⌊(Σp)/2^s⌋.
    pub fn by_weights(types: &Types, weights: Vec<u128>, most: u128, method: impl Into<String>) -> Self {
        let shift = (u128::BITS - most.leading_zeros()).saturating_sub(LARGEST_BITS);
        let weights: Vec<u64> = weights.into_iter().map(|weight| (weight >> shift) as u64).collect();
        let cells = types.total_weight(&weights).div_ceil((most >> shift).max(1)) as u64;
        Self { cells, proof: Proof::Weights(weights), method: method.into() }
    }
}
