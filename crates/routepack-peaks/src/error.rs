//! Why a demand cannot be laid out for the kernels.

use thiserror::Error;

/// The instance leaves the range the kernels are exact in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PeaksError {
    /// A full row of one shard could load a rank with 2^32 routed rows or more.
    #[error(
        "loads leave 32 bits: {slots} DP slots per shard × {capacity} tokens per cell × top-{top_k} = {bound} routed \
         rows in one row of one shard, expected below 2^32"
    )]
    LoadOverflow {
        /// DP slots of one EDP shard, |`D_g`|.
        slots: usize,
        /// Usable tokens of a cell.
        capacity: u32,
        /// Experts chosen per token.
        top_k: u32,
        /// Their product.
        bound: u128,
    },
    /// The placement is not one of this instance's model.
    #[error("placement has {found} {what}, the instance has {expected}")]
    Placement {
        /// What is counted.
        what: &'static str,
        /// Number found.
        found: usize,
        /// Number expected.
        expected: usize,
    },
}
