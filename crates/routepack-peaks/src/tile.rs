//! Tiles: every exchange of one of a few units of a block for one of a few of another, at once.
//!
//! Problem: the costs of two blocks a and b after any of I units of a and any of J units of b changed places, alone.
//! Method: a single exchange reads four operands and uses each once, so it is bound by memory. Here, chunk by chunk, a − p_i
//! and b + p_i are made once for every i and stay in the first-level cache, and so do the chunks of the p_j. Integers throughout: the costs are those of single exchanges, bit for bit.
//! Complexity: O(I·J·L·P) additions, but only I + J demands and two blocks are read from memory, [`SIDE`] units of a side at
//! a time.

#![expect(
    clippy::inline_always,
    reason = "bodies must be inlined into every instruction set's version of a kernel"
)]

use multiversion::multiversion;

use crate::demand::{Demand, Values};
use crate::kernels::{Blocks, Chunk, LANES, Rows, charge};
use crate::loads::Loads;
use crate::pads::Pads;

/// Units of two blocks that may change places, one of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile<'a> {
    /// The block of the first units.
    pub from: usize,
    /// The other block.
    pub to: usize,
    /// Units of `from`.
    pub leaves: &'a [u32],
    /// Units of `to`.
    pub comes: &'a [u32],
}

/// Room for the sums of a tile, kept between calls.
#[derive(Clone, Debug, Default)]
pub struct TileRoom {
    /// a − p_i and b + p_i of one chunk, `[rank]`.
    bases: Vec<[Chunk<u32>; 2]>,
}

impl Demand {
    /// X of both blocks in one share after each exchange of a tile, `[leaves, comes]`; nothing changes. Where padding is
    /// charged by what a cell holds this is not known: see [`Demand::charges_padding`].
    ///
    /// # Panics
    /// Both blocks are the same, there is no such block or unit, `costs` has another length, or padding is charged.
    pub fn tile_costs(
        &self,
        loads: &Loads,
        share: usize,
        tile: &Tile<'_>,
        room: &mut TileRoom,
        costs: &mut [[u64; 2]],
    ) {
        assert!(matches!(self.pads, Pads::None), "tiles know nothing of padding");
        match &self.values {
            Values::Narrow(values) => self.tile_costs_of(values, loads, share, tile, room, costs),
            Values::Wide(values) => self.tile_costs_of(values, loads, share, tile, room, costs),
        }
    }

    fn tile_costs_of<T: Rows>(
        &self,
        values: &[Chunk<T>],
        loads: &Loads,
        share: usize,
        tile: &Tile<'_>,
        room: &mut TileRoom,
        costs: &mut [[u64; 2]],
    ) {
        assert_ne!(tile.from, tile.to, "a tile is between two blocks");
        assert_eq!(costs.len(), tile.leaves.len() * tile.comes.len(), "[leaves, comes]");
        let of = |unit: u32| &values[self.range(Some(unit as usize), share)];
        let blocks = self.blocks(loads, share, [tile.from, tile.to]);
        let mut rows = costs.chunks_mut((tile.comes.len() * SIDE).max(1));
        for leaves in tile.leaves.chunks(SIDE) {
            let rows = rows.next().unwrap_or_default();
            let mut of_leaves: [&[Chunk<T>]; SIDE] = [&[]; SIDE];
            of_leaves.iter_mut().zip(leaves).for_each(|(slot, &unit)| *slot = of(unit));
            for (first, comes) in tile.comes.chunks(SIDE).enumerate() {
                let mut of_comes: [&[Chunk<T>]; SIDE] = [&[]; SIDE];
                of_comes.iter_mut().zip(comes).for_each(|(slot, &unit)| *slot = of(unit));
                let mut found = [[0; 2]; SIDE * SIDE];
                let found = &mut found[..leaves.len() * comes.len()];
                T::tile(blocks, &of_leaves[..leaves.len()], &of_comes[..comes.len()], room, found);
                for (row, found) in rows.chunks_mut(tile.comes.len()).zip(found.chunks(comes.len())) {
                    row[first * SIDE..][..found.len()].copy_from_slice(found);
                }
            }
        }
    }
}

/// Units of a side that are evaluated together.
const SIDE: usize = 8;

#[inline(always)]
fn tile_body<T: Rows>(
    blocks: Blocks<'_>,
    leaves: &[&[Chunk<T>]],
    comes: &[&[Chunk<T>]],
    room: &mut TileRoom,
    costs: &mut [[u64; 2]],
) {
    let Blocks { ranks, a, b, weights } = blocks;
    costs.fill([0; 2]);
    room.bases.resize(ranks, [[0; LANES]; 2]);
    for chunk in 0..weights.chunks() {
        let places = chunk * ranks..(chunk + 1) * ranks;
        let (a, b) = (&a[places.clone()], &b[places.clone()]);
        for (leaves, costs) in leaves.iter().zip(costs.chunks_exact_mut(comes.len())) {
            for rank in 0..ranks {
                let (a, b, leaves) = (&a[rank], &b[rank], &leaves[chunk * ranks + rank]);
                let (mut base_a, mut base_b) = ([0; LANES], [0; LANES]);
                for lane in 0..LANES {
                    base_a[lane] = a[lane].wrapping_sub(leaves[lane].widen());
                    base_b[lane] = b[lane].wrapping_add(leaves[lane].widen());
                }
                room.bases[rank] = [base_a, base_b];
            }
            for (comes, cost) in comes.iter().zip(costs) {
                let (mut peaks_a, mut peaks_b) = ([0u32; LANES], [0u32; LANES]);
                // Indexed, not zipped: the checks keep the compiler from vectorizing over ranks instead of lanes.
                for rank in 0..ranks {
                    let [base_a, base_b] = &room.bases[rank];
                    let comes = &comes[chunk * ranks + rank];
                    raise_by_sum(&mut peaks_a, base_a, comes);
                    raise_by_difference(&mut peaks_b, base_b, comes);
                }
                cost[0] = cost[0].wrapping_add(charge(&peaks_a, weights, chunk));
                cost[1] = cost[1].wrapping_add(charge(&peaks_b, weights, chunk));
            }
        }
    }
}

#[inline(always)]
fn raise_by_sum<T: Rows>(peaks: &mut Chunk<u32>, base: &Chunk<u32>, comes: &Chunk<T>) {
    for lane in 0..LANES {
        peaks[lane] = peaks[lane].max(base[lane].wrapping_add(comes[lane].widen()));
    }
}

#[inline(always)]
fn raise_by_difference<T: Rows>(peaks: &mut Chunk<u32>, base: &Chunk<u32>, comes: &Chunk<T>) {
    for lane in 0..LANES {
        peaks[lane] = peaks[lane].max(base[lane].wrapping_sub(comes[lane].widen()));
    }
}

#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512vl+avx512dq+avx2+bmi2",
    "x86_64+avx2+bmi2",
    "aarch64+neon"
))]
pub(crate) fn tile_u16(
    blocks: Blocks<'_>,
    leaves: &[&[Chunk<u16>]],
    comes: &[&[Chunk<u16>]],
    room: &mut TileRoom,
    costs: &mut [[u64; 2]],
) {
    tile_body(blocks, leaves, comes, room, costs);
}

#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512vl+avx512dq+avx2+bmi2",
    "x86_64+avx2+bmi2",
    "aarch64+neon"
))]
pub(crate) fn tile_u32(
    blocks: Blocks<'_>,
    leaves: &[&[Chunk<u32>]],
    comes: &[&[Chunk<u32>]],
    room: &mut TileRoom,
    costs: &mut [[u64; 2]],
) {
    tile_body(blocks, leaves, comes, room, costs);
}
