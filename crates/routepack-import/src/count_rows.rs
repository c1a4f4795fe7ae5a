//! Expert choices of consecutive rows added to counts.
//!
//! Problem: rows of routes `[rows, layers, k]` in some integer type; add each to counts `[MoE layers, E]`, but only if
//! its k ids of every `MoE` layer are different and below E; stop at the first row that is not so.
//! Method: rows are taken in blocks that stay in the cache. Every row is loaded into 16-bit ids (an id that does not fit
//! becomes one above every expert) and checked as a whole with vectors: largest id; every group compared with its own
//! rotations by 1 to k/2, which meet every pair; several groups at once, in constant patterns the compiler turns into
//! shuffles. Then the valid rows of the block are scattered, a few layers of all rows at a time, so that the counts being
//! incremented stay in the L1 cache. Ids of one group are different and layers differ along a row, so no increment waits
//! for the one before it.
//! Complexity: O(rows · layers · k · (1 + k/2 / vector width)).
//! Dispatch: `multiversion` picks the instruction set at run time; everything is integers.

#![expect(clippy::inline_always, reason = "bodies must be inlined into every instruction set's version")]

use std::ops::Range;

use multiversion::multiversion;

use crate::Dtype;
use crate::valid_row::is_valid;

/// An id above every expert.
const NO_EXPERT: u16 = u16::MAX;

/// Ids of a block of rows; 2 bytes each.
const BLOCK_IDS: usize = 1 << 15;
/// Counts incremented at once; 4 bytes each.
const COUNTS_AT_ONCE: usize = 6144;

/// Which ids of a row are counted, and where.
pub(crate) struct RowPlan {
    /// Experts chosen per layer.
    pub(crate) top_k: usize,
    /// Experts E.
    pub(crate) experts: usize,
    /// Ids of one recorded row, all layers.
    pub(crate) row_ids: usize,
    /// Positions of the ids of `MoE` layers in a row, ascending.
    pub(crate) routed: Vec<Range<usize>>,
    /// Positions of the ids of dense layers.
    pub(crate) dense: Vec<Range<usize>>,
    /// Logical expert of every slot, `[MoE layers · slots]`, where ids are physical.
    pub(crate) phys2log: Option<Vec<u16>>,
}

/// Counts rows from the first on; returns how many were counted before the first that is none. `block` is room to work in.
pub(crate) fn count_rows(
    plan: &RowPlan,
    dtype: Dtype,
    bytes: &[u8],
    block: &mut Vec<u16>,
    counts: &mut [u32],
) -> usize {
    let stride = plan.row_ids * dtype.width();
    let ids = plan.routed.iter().map(Range::len).sum::<usize>();
    let rows = (BLOCK_IDS / ids).max(1);
    block.resize(rows * ids, 0);
    let mut counted = 0;
    for bytes in bytes.chunks(rows * stride) {
        let valid = count_block(plan, dtype, bytes, block, counts);
        counted += valid;
        if valid * stride < bytes.len() {
            break;
        }
    }
    counted
}

/// Loads and checks the rows of a block one by one, then counts those before the first that is none.
#[multiversion(targets("x86_64+avx2+bmi2", "aarch64+neon"))]
fn count_block(plan: &RowPlan, dtype: Dtype, bytes: &[u8], block: &mut [u16], counts: &mut [u32]) -> usize {
    let width = dtype.width();
    let ids = plan.routed.iter().map(Range::len).sum::<usize>();
    let mut valid = 0;
    for (bytes, row) in bytes.chunks_exact(plan.row_ids * width).zip(block.chunks_exact_mut(ids)) {
        let mut rest = &mut row[..];
        for routed in &plan.routed {
            let (now, later) = rest.split_at_mut(routed.len());
            load(dtype, &bytes[routed.start * width..routed.end * width], now);
            rest = later;
        }
        if let Some(phys2log) = &plan.phys2log {
            to_logical(row, plan, phys2log);
        }
        let blank = |dense: &Range<usize>| is_blank(&bytes[dense.start * width..dense.end * width]);
        if !plan.dense.iter().all(blank) || !is_valid(row, plan.top_k, plan.experts) {
            break;
        }
        valid += 1;
    }
    scatter_block(&block[..valid * ids], [ids, plan.top_k], plan.experts, counts);
    valid
}

/// Whether all bytes are 0 or all are 255: what producers put where there are no routes.
#[inline(always)]
fn is_blank(bytes: &[u8]) -> bool {
    let or = bytes.iter().fold(0, |or, byte| or | byte);
    let and = bytes.iter().fold(255, |and, byte| and & byte);
    or == 0 || and == 255
}

#[inline(always)]
fn to_logical(row: &mut [u16], plan: &RowPlan, phys2log: &[u16]) {
    let layers = row.len() / plan.top_k;
    let slots = phys2log.len() / layers;
    for (ids, experts) in row.chunks_exact_mut(plan.top_k).zip(phys2log.chunks_exact(slots)) {
        for id in ids {
            *id = experts.get(usize::from(*id)).copied().unwrap_or(NO_EXPERT);
        }
    }
}

/// Loads ids of any type; those that do not fit 15 bits become [`NO_EXPERT`] or stay above every expert.
#[inline(always)]
fn load(dtype: Dtype, bytes: &[u8], row: &mut [u16]) {
    macro_rules! each {
        ($type:ty, $narrow:expr) => {
            for (id, bytes) in row.iter_mut().zip(bytes.chunks_exact(size_of::<$type>())) {
                *id = $narrow(<$type>::from_le_bytes(bytes.try_into().expect("chunks of the width")));
            }
        };
    }
    match dtype {
        Dtype::U8 => each!(u8, u16::from),
        Dtype::I8 => each!(i8, |id| i16::from(id) as u16),
        Dtype::U16 => each!(u16, |id| id),
        Dtype::I16 => each!(i16, |id| id as u16),
        Dtype::U32 => each!(u32, |id: u32| id.min(u32::from(NO_EXPERT)) as u16),
        Dtype::I32 => each!(i32, |id| (id as u32).min(u32::from(NO_EXPERT)) as u16),
        Dtype::U64 => each!(u64, |id: u64| id.min(u64::from(NO_EXPERT)) as u16),
        Dtype::I64 => each!(i64, |id| (id as u64).min(u64::from(NO_EXPERT)) as u16),
    }
}

/// Adds valid rows to the counts, some layers at a time: as many as have their counts in the L1 cache.
#[inline(always)]
fn scatter_block(block: &[u16], [row_ids, top_k]: [usize; 2], experts: usize, counts: &mut [u32]) {
    let layers = (COUNTS_AT_ONCE / experts).max(1);
    for (tile, counts) in counts.chunks_mut(layers * experts).enumerate() {
        let from = tile * layers * top_k;
        let end = (from + layers * top_k).min(row_ids);
        for row in block.chunks_exact(row_ids) {
            match top_k {
                8 => scatter::<8>(&row[from..end], experts, counts),
                _ => {
                    for (ids, counts) in
                        row[from..end].chunks_exact(top_k).zip(counts.chunks_exact_mut(experts))
                    {
                        ids.iter().for_each(|&id| increment(counts, id));
                    }
                }
            }
        }
    }
}

/// Adds groups of K to the counts of their layers.
#[inline(always)]
fn scatter<const K: usize>(row: &[u16], experts: usize, counts: &mut [u32]) {
    for (ids, counts) in row.as_chunks::<K>().0.iter().zip(counts.chunks_exact_mut(experts)) {
        for &id in ids {
            increment(counts, id);
        }
    }
}

/// Wraps only beyond 2^32 rows of one sample, more than a sample has.
#[inline(always)]
fn increment(counts: &mut [u32], id: u16) {
    if let Some(count) = counts.get_mut(usize::from(id)) {
        *count = count.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks and tiles of layers change nothing: counts as one by one, and a refused row leaves no trace.
    #[test]
    fn blocks_and_tiles_count_like_single_ids() {
        for (layers, top_k, experts, dense) in
            [(7, 8, 4000, 0), (40, 8, 300, 1), (3, 3, 9, 2), (1, 8, 32768, 0)]
        {
            let recorded = layers + dense;
            let plan = RowPlan {
                top_k,
                experts,
                row_ids: recorded * top_k,
                routed: std::iter::once(dense * top_k..recorded * top_k).collect(),
                dense: std::iter::once(0..dense * top_k).filter(|dense| !dense.is_empty()).collect(),
                phys2log: None,
            };
            let rows = 2 * BLOCK_IDS / (layers * top_k) + 5;
            let id = |row: usize, layer: usize, choice: usize| (row * 31 + layer * 7 + choice) % experts;
            for bad in [None, Some(0), Some(rows / 2), Some(rows - 1)] {
                let (mut bytes, mut expected) = (Vec::new(), vec![0u32; layers * experts]);
                for row in 0..rows {
                    bytes.resize(bytes.len() + 4 * dense * top_k, 0);
                    for layer in 0..layers {
                        for choice in 0..top_k {
                            let broken = bad == Some(row) && layer + 1 == layers && choice + 1 == top_k;
                            let id = if broken { experts } else { id(row, layer, choice) };
                            bytes.extend((id as i32).to_le_bytes());
                            if bad.is_none_or(|bad| row < bad) {
                                expected[layer * experts + id] += 1;
                            }
                        }
                    }
                }
                let mut counts = vec![0; layers * experts];
                let counted = count_rows(&plan, Dtype::I32, &bytes, &mut Vec::new(), &mut counts);
                assert_eq!(counted, bad.unwrap_or(rows));
                assert_eq!(counts, expected);
            }
        }
    }

    #[test]
    fn ids_that_do_not_fit_never_become_experts() {
        let mut row = [0u16; 2];
        for (dtype, bytes) in [
            (Dtype::I8, [(-1i8) as u8, (-128i8) as u8].to_vec()),
            (Dtype::I16, [(-1i16).to_le_bytes(), (-32768i16).to_le_bytes()].concat()),
            (Dtype::I32, [(-1i32).to_le_bytes(), (65537i32).to_le_bytes()].concat()),
            (Dtype::U32, [u32::MAX.to_le_bytes(), 65536u32.to_le_bytes()].concat()),
            (Dtype::I64, [(-5i64).to_le_bytes(), (1i64 << 32).to_le_bytes()].concat()),
            (Dtype::U64, [u64::MAX.to_le_bytes(), (1u64 << 16).to_le_bytes()].concat()),
        ] {
            load(dtype, &bytes, &mut row);
            assert!(row.iter().all(|&id| usize::from(id) >= crate::MAX_EXPERTS), "{dtype:?} {row:?}");
        }
    }
}
