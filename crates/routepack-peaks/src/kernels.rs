//! Kernels: what two blocks cost after an exchange, without changing anything.
//!
//! Problem: a block holds loads W\[l,p\] and costs `Σ_l Γ_l · max_p W[l,p]`. Given two blocks a and b, the demand of a
//! unit that leaves a for b and the demand of one that comes back, find both new costs.
//! Method: layers are cut into chunks of [`LANES`] and laid out `[chunk][rank][LANES]`, so that one pass over memory in
//! order keeps the running maxima of a chunk in registers; an exchange of demands is one wrapping difference, added to
//! a and taken from b. A relocation is an exchange with a unit of zeros. Everything is integers: neither the order of
//! evaluation nor the width of the vectors can change a bit of the result.
//! Complexity: O(L·P), reading 12 bytes per layer and rank with 16-bit demands, 16 with 32-bit ones; bound by memory
//! bandwidth where the demands do not fit the caches.
//! Dispatch: `multiversion` compiles each kernel for several instruction sets and picks one at run time. The 32-bit
//! kernels stop at AVX2: the compiler's AVX-512 code for them was measured 3 to 5 times slower.
//!
//! Additions wrap; they are exact because every load of a feasible layout stays below 2^32 (checked when the demand is
//! built) and every cost below 2^62 (checked when the instance is charged).

#![expect(
    clippy::inline_always,
    reason = "bodies must be inlined into every instruction set's version of a kernel"
)]

use multiversion::multiversion;

use crate::tile::{TileRoom, tile_u16, tile_u32};

/// Layers per chunk.
pub(crate) const LANES: usize = 16;

/// One demand or load per lane.
pub(crate) type Chunk<T> = [T; LANES];

/// A demand of one unit on one rank and layer, in routed rows: 16 bits where they suffice, else 32.
pub(crate) trait Rows: Copy + Default + Send + Sync + TryFrom<u32> {
    /// The demand as a load.
    fn widen(self) -> u32;
    /// Costs of a and b after `leaves` went from a to b and `comes` from b to a; demands `[chunk · rank]`.
    fn exchange(blocks: Blocks<'_>, leaves: &[Chunk<Self>], comes: &[Chunk<Self>]) -> [u64; 2];
    /// The same where padding goes to fixed experts.
    fn padded_exchange(
        blocks: Blocks<'_>,
        leaves: &[Chunk<Self>],
        comes: &[Chunk<Self>],
        pads: PadShift<'_>,
    ) -> [u64; 2];
    /// Costs of every exchange of one of `leaves` for one of `comes`, `[leaves, comes]`: see [`crate::tile`].
    fn tile(
        blocks: Blocks<'_>,
        leaves: &[&[Chunk<Self>]],
        comes: &[&[Chunk<Self>]],
        room: &mut TileRoom,
        costs: &mut [[u64; 2]],
    );
}

macro_rules! rows {
    ($type:ty, $exchange:ident, $padded_exchange:ident, $tile:ident) => {
        impl Rows for $type {
            #[inline(always)]
            fn widen(self) -> u32 {
                u32::from(self)
            }

            #[inline]
            fn exchange(blocks: Blocks<'_>, leaves: &[Chunk<Self>], comes: &[Chunk<Self>]) -> [u64; 2] {
                $exchange(blocks, leaves, comes)
            }

            #[inline]
            fn padded_exchange(
                blocks: Blocks<'_>,
                leaves: &[Chunk<Self>],
                comes: &[Chunk<Self>],
                pads: PadShift<'_>,
            ) -> [u64; 2] {
                $padded_exchange(blocks, leaves, comes, pads)
            }

            #[inline]
            fn tile(
                blocks: Blocks<'_>,
                leaves: &[&[Chunk<Self>]],
                comes: &[&[Chunk<Self>]],
                room: &mut TileRoom,
                costs: &mut [[u64; 2]],
            ) {
                $tile(blocks, leaves, comes, room, costs);
            }
        }
    };
}

rows!(u16, exchange_u16, padded_exchange_u16, tile_u16);
rows!(u32, exchange_u32, padded_exchange_u32, tile_u32);

/// What a kernel reads beside the demands.
#[derive(Clone, Copy)]
pub(crate) struct Blocks<'a> {
    /// EP ranks P.
    pub(crate) ranks: usize,
    /// Loads of a, `[chunk · rank]`.
    pub(crate) a: &'a [Chunk<u32>],
    /// Loads of b, `[chunk · rank]`.
    pub(crate) b: &'a [Chunk<u32>],
    /// Γ.
    pub(crate) weights: &'a Weights,
}

/// Γ of every layer.
#[derive(Clone, Debug)]
pub(crate) enum Weights {
    /// The same for all layers, whose number of chunks follows; lanes behind the last layer carry no load.
    Same(u64, usize),
    /// `[chunk]`; 0 on lanes behind the last layer.
    ByLayer(Vec<Chunk<u64>>),
}

impl Weights {
    /// Weights of the layers given, for values of that many chunks.
    pub(crate) fn new(by_layer: &[u64], chunks: usize) -> Self {
        match by_layer {
            [first, others @ ..] if others.iter().all(|weight| weight == first) => Self::Same(*first, chunks),
            _ => {
                let mut weights = vec![[0; LANES]; chunks];
                for (layer, &weight) in by_layer.iter().enumerate() {
                    weights[layer / LANES][layer % LANES] = weight;
                }
                Self::ByLayer(weights)
            }
        }
    }

    pub(crate) fn of(&self, layer: usize) -> u64 {
        match self {
            Self::Same(weight, _) => *weight,
            Self::ByLayer(weights) => weights[layer / LANES][layer % LANES],
        }
    }

    pub(crate) fn chunks(&self) -> usize {
        match self {
            Self::Same(_, chunks) => *chunks,
            Self::ByLayer(weights) => weights.len(),
        }
    }
}

/// Padding that goes to fixed experts.
#[derive(Clone, Copy)]
pub(crate) struct PadShift<'a> {
    /// Pad experts, `[chunk · rank]`.
    pub(crate) experts: &'a [Chunk<u32>],
    /// Padding tokens that a and b gain, modulo 2^32.
    pub(crate) gains: [u32; 2],
}

#[inline(always)]
fn gain<T: Rows>(leaves: &Chunk<T>, comes: &Chunk<T>) -> Chunk<u32> {
    let mut gain = [0; LANES];
    for lane in 0..LANES {
        gain[lane] = comes[lane].widen().wrapping_sub(leaves[lane].widen());
    }
    gain
}

#[inline(always)]
fn raise_by_sum(peaks: &mut Chunk<u32>, loads: &Chunk<u32>, gain: &Chunk<u32>) {
    for lane in 0..LANES {
        peaks[lane] = peaks[lane].max(loads[lane].wrapping_add(gain[lane]));
    }
}

#[inline(always)]
fn raise_by_difference(peaks: &mut Chunk<u32>, loads: &Chunk<u32>, gain: &Chunk<u32>) {
    for lane in 0..LANES {
        peaks[lane] = peaks[lane].max(loads[lane].wrapping_sub(gain[lane]));
    }
}

/// `Σ_lane weight · peak` of one chunk.
#[inline(always)]
pub(crate) fn charge(peaks: &Chunk<u32>, weights: &Weights, chunk: usize) -> u64 {
    let mut cost = 0u64;
    match weights {
        Weights::Same(weight, _) => {
            for peak in peaks {
                cost = cost.wrapping_add(u64::from(*peak));
            }
            cost.wrapping_mul(*weight)
        }
        Weights::ByLayer(weights) => {
            for lane in 0..LANES {
                cost = cost.wrapping_add(u64::from(peaks[lane]).wrapping_mul(weights[chunk][lane]));
            }
            cost
        }
    }
}

#[inline(always)]
fn exchange_body<T: Rows>(blocks: Blocks<'_>, leaves: &[Chunk<T>], comes: &[Chunk<T>]) -> [u64; 2] {
    let Blocks { ranks, a, b, weights } = blocks;
    let mut costs = [0u64; 2];
    let loads = a.chunks_exact(ranks).zip(b.chunks_exact(ranks));
    let demands = leaves.chunks_exact(ranks).zip(comes.chunks_exact(ranks));
    for (chunk, ((a, b), (leaves, comes))) in loads.zip(demands).enumerate() {
        let (mut peaks_a, mut peaks_b) = ([0; LANES], [0; LANES]);
        for ((a, b), (leaves, comes)) in a.iter().zip(b).zip(leaves.iter().zip(comes)) {
            let gain = gain(leaves, comes);
            raise_by_sum(&mut peaks_a, a, &gain);
            raise_by_difference(&mut peaks_b, b, &gain);
        }
        costs[0] = costs[0].wrapping_add(charge(&peaks_a, weights, chunk));
        costs[1] = costs[1].wrapping_add(charge(&peaks_b, weights, chunk));
    }
    costs
}

/// [`exchange_body`] where padding goes to fixed experts.
#[inline(always)]
fn padded_exchange_body<T: Rows>(
    blocks: Blocks<'_>,
    leaves: &[Chunk<T>],
    comes: &[Chunk<T>],
    pads: PadShift<'_>,
) -> [u64; 2] {
    let Blocks { ranks, a, b, weights } = blocks;
    let mut costs = [0u64; 2];
    for chunk in 0..weights.chunks() {
        let (mut peaks_a, mut peaks_b) = ([0; LANES], [0; LANES]);
        for place in chunk * ranks..(chunk + 1) * ranks {
            let (a, b, experts) = (&a[place], &b[place], &pads.experts[place]);
            let gain = gain(&leaves[place], &comes[place]);
            let (mut with_a, mut with_b) = ([0; LANES], [0; LANES]);
            for lane in 0..LANES {
                with_a[lane] = a[lane].wrapping_add(pads.gains[0].wrapping_mul(experts[lane]));
                with_b[lane] = b[lane].wrapping_add(pads.gains[1].wrapping_mul(experts[lane]));
            }
            raise_by_sum(&mut peaks_a, &with_a, &gain);
            raise_by_difference(&mut peaks_b, &with_b, &gain);
        }
        costs[0] = costs[0].wrapping_add(charge(&peaks_a, weights, chunk));
        costs[1] = costs[1].wrapping_add(charge(&peaks_b, weights, chunk));
    }
    costs
}

#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512vl+avx512dq+avx2+bmi2",
    "x86_64+avx2+bmi2",
    "aarch64+neon"
))]
fn exchange_u16(blocks: Blocks<'_>, leaves: &[Chunk<u16>], comes: &[Chunk<u16>]) -> [u64; 2] {
    exchange_body(blocks, leaves, comes)
}

#[multiversion(targets("x86_64+avx2+bmi2", "aarch64+neon"))]
fn exchange_u32(blocks: Blocks<'_>, leaves: &[Chunk<u32>], comes: &[Chunk<u32>]) -> [u64; 2] {
    exchange_body(blocks, leaves, comes)
}

#[multiversion(targets("x86_64+avx2+bmi2", "aarch64+neon"))]
fn padded_exchange_u16(
    blocks: Blocks<'_>,
    leaves: &[Chunk<u16>],
    comes: &[Chunk<u16>],
    pads: PadShift<'_>,
) -> [u64; 2] {
    padded_exchange_body(blocks, leaves, comes, pads)
}

#[multiversion(targets("x86_64+avx2+bmi2", "aarch64+neon"))]
fn padded_exchange_u32(
    blocks: Blocks<'_>,
    leaves: &[Chunk<u32>],
    comes: &[Chunk<u32>],
    pads: PadShift<'_>,
) -> [u64; 2] {
    padded_exchange_body(blocks, leaves, comes, pads)
}

/// The cost of one block as it stands.
#[multiversion(targets("x86_64+avx2+bmi2", "aarch64+neon"))]
pub(crate) fn block_cost(ranks: usize, loads: &[Chunk<u32>], weights: &Weights) -> u64 {
    let mut cost = 0u64;
    for (chunk, loads) in loads.chunks_exact(ranks).enumerate() {
        let mut peaks = [0u32; LANES];
        for loads in loads {
            for lane in 0..LANES {
                peaks[lane] = peaks[lane].max(loads[lane]);
            }
        }
        cost = cost.wrapping_add(charge(&peaks, weights, chunk));
    }
    cost
}
