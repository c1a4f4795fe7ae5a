//! Expert choices of consecutive rows added to counts.
//!
//! Problem: rows of routes `[rows, layers, k]` in some integer type; add each to counts `[MoE layers, E]`, but only if
//! its k ids of every `MoE` layer are different and below E; stop at the first row that is not so.
//! Method: a row is loaded into 16-bit ids (an id that does not fit becomes one above every expert), checked as a
//! whole with vectors (largest id; every group compared with its own rotations by 1 to k/2, which meet every pair;
//! several groups at once, in constant patterns the compiler turns into shuffles), and only then scattered. Ids of one group are different and layers differ along a row, so no increment waits for
//! the one before it.
//! Complexity: O(rows · layers · k · (1 + k/2 / vector width)); the counts of one sample stay in the L1 or L2 cache.
//! Dispatch: `multiversion` picks the instruction set at run time; everything is integers.

#![expect(clippy::inline_always, reason = "bodies must be inlined into every instruction set's version")]

use std::ops::Range;

use multiversion::multiversion;

use crate::Dtype;

/// An id above every expert.
const NO_EXPERT: u16 = u16::MAX;

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

/// Counts rows from the first on; returns how many were counted before the first that is none.
pub(crate) fn count_rows(
    plan: &RowPlan,
    dtype: Dtype,
    bytes: &[u8],
    row: &mut Vec<u16>,
    counts: &mut [u32],
) -> usize {
    let width = dtype.width();
    row.resize(plan.routed.iter().map(Range::len).sum(), 0);
    for (rows, bytes) in bytes.chunks_exact(plan.row_ids * width).enumerate() {
        if plan.dense.iter().any(|dense| !is_blank(&bytes[dense.start * width..dense.end * width])) {
            return rows;
        }
        let mut rest = &mut row[..];
        for routed in &plan.routed {
            let (now, later) = rest.split_at_mut(routed.len());
            load(dtype, &bytes[routed.start * width..routed.end * width], now);
            rest = later;
        }
        if let Some(phys2log) = &plan.phys2log {
            to_logical(row, plan, phys2log);
        }
        if !tally(row, plan.top_k, plan.experts, counts) {
            return rows;
        }
    }
    bytes.len() / (plan.row_ids * width)
}

/// Whether all bytes are 0 or all are 255: what producers put where there are no routes.
fn is_blank(bytes: &[u8]) -> bool {
    let or = bytes.iter().fold(0, |or, byte| or | byte);
    let and = bytes.iter().fold(255, |and, byte| and & byte);
    or == 0 || and == 255
}

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

/// Adds one row to the counts if every group has different ids below E.
#[multiversion(targets("x86_64+avx2+bmi2", "aarch64+neon"))]
fn tally(row: &[u16], top_k: usize, experts: usize, counts: &mut [u32]) -> bool {
    match top_k {
        1 => tally_groups::<1, 1>(row, experts, counts),
        2 => tally_groups::<2, 16>(row, experts, counts),
        4 => tally_groups::<4, 16>(row, experts, counts),
        6 => tally_groups::<6, 24>(row, experts, counts),
        8 => tally_groups::<8, 16>(row, experts, counts),
        10 => tally_groups::<10, 10>(row, experts, counts),
        _ => {
            let valid = below(row, experts) && row.chunks_exact(top_k).all(all_different);
            if valid {
                for (ids, counts) in row.chunks_exact(top_k).zip(counts.chunks_exact_mut(experts)) {
                    scatter(ids, counts);
                }
            }
            valid
        }
    }
}

/// The same for groups of K, compared N ids at a time.
#[inline(always)]
fn tally_groups<const K: usize, const N: usize>(row: &[u16], experts: usize, counts: &mut [u32]) -> bool {
    let mut same = [0u16; N];
    let wide = row.chunks_exact(N);
    let rest = wide.remainder();
    for ids in wide {
        let ids: &[u16; N] = ids.try_into().expect("chunks of N");
        // Rotations up to K/2 meet every pair of a group; a larger one repeats a smaller.
        if K > 1 {
            compare_rotated::<K, N, 1>(ids, &mut same);
        }
        if K > 3 {
            compare_rotated::<K, N, 2>(ids, &mut same);
        }
        if K > 5 {
            compare_rotated::<K, N, 3>(ids, &mut same);
        }
        if K > 7 {
            compare_rotated::<K, N, 4>(ids, &mut same);
        }
        if K > 9 {
            compare_rotated::<K, N, 5>(ids, &mut same);
        }
    }
    let valid = below(row, experts) && same == [0; N] && rest.chunks_exact(K).all(all_different);
    if valid {
        for (ids, counts) in row.chunks_exact(K).zip(counts.chunks_exact_mut(experts)) {
            let ids: &[u16; K] = ids.try_into().expect("chunks of K");
            scatter(ids, counts);
        }
    }
    valid
}

/// Marks the ids that equal the one R places on in their group of K, in a circle.
#[inline(always)]
fn compare_rotated<const K: usize, const N: usize, const R: usize>(ids: &[u16; N], same: &mut [u16; N]) {
    let rotated: [u16; N] = std::array::from_fn(|at| ids[at / K * K + (at + R) % K]);
    for at in 0..N {
        same[at] |= if ids[at] == rotated[at] { u16::MAX } else { 0 };
    }
}

#[inline(always)]
fn below(row: &[u16], experts: usize) -> bool {
    usize::from(row.iter().fold(0, |most, &id| most.max(id))) < experts
}

#[inline(always)]
fn all_different(ids: &[u16]) -> bool {
    ids.iter().enumerate().all(|(position, id)| !ids[..position].contains(id))
}

/// Wraps only beyond 2^32 rows of one sample, more than a sample has.
#[inline(always)]
fn scatter(ids: &[u16], counts: &mut [u32]) {
    for &id in ids {
        if let Some(count) = counts.get_mut(usize::from(id)) {
            *count = count.wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every k has its own code; all must see the same rows as good.
    #[test]
    fn every_pair_of_a_group_is_compared() {
        for top_k in 1..=12usize {
            let (layers, experts) = (5, 40);
            let good: Vec<u16> = (0..layers * top_k).map(|at| (at % top_k * 3) as u16).collect();
            let mut counts = vec![0; layers * experts];
            assert!(tally(&good, top_k, experts, &mut counts));
            assert_eq!(counts.iter().sum::<u32>() as usize, layers * top_k);
            for layer in 0..layers {
                for first in 0..top_k {
                    for second in 0..top_k {
                        let mut ids = good.clone();
                        ids[layer * top_k + second] = ids[layer * top_k + first];
                        let before = counts.clone();
                        assert_eq!(
                            tally(&ids, top_k, experts, &mut counts),
                            first == second,
                            "{top_k} {first} {second}"
                        );
                        if first != second {
                            assert_eq!(counts, before, "a refused row leaves no trace");
                        }
                    }
                }
                for wrong in [40, 41, u16::MAX] {
                    let mut ids = good.clone();
                    ids[layer * top_k] = wrong;
                    assert!(!tally(&ids, top_k, experts, &mut counts), "{top_k} {wrong}");
                }
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
