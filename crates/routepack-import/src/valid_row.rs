//! Whether a row's groups of k ids are different experts.
//!
//! Problem: for every group of k ids, all below E and no two the same.
//! Method: every pair of a group meets in a rotation of the group by up to ⌊k/2⌋ places; several groups are compared at
//! once, so that the compiler makes vector instructions of it.
//! Complexity: O(k) comparisons an id.

#![expect(clippy::inline_always, reason = "bodies must be inlined into every instruction set's version")]

/// Whether every group of a row has different ids below E.
#[inline(always)]
pub(crate) fn is_valid(row: &[u16], top_k: usize, experts: usize) -> bool {
    below(row, experts)
        && match top_k {
            1 => true,
            2 => are_different::<2, 16>(row),
            4 => are_different::<4, 16>(row),
            6 => are_different::<6, 24>(row),
            8 => are_different::<8, 16>(row),
            10 => are_different::<10, 10>(row),
            _ => row.chunks_exact(top_k).all(all_different),
        }
}

/// Whether the ids of every group of K are different, compared N at a time.
#[inline(always)]
fn are_different<const K: usize, const N: usize>(row: &[u16]) -> bool {
    let mut same = [0u16; N];
    let wide = row.chunks_exact(N);
    let rest = wide.remainder();
    for ids in wide {
        let ids: &[u16; N] = ids.try_into().expect("chunks of N");
        // Rotations up to K/2 meet every pair of a group; a larger one repeats a smaller.
        compare_rotated::<K, N, 1>(ids, &mut same);
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
    same == [0; N] && rest.chunks_exact(K).all(all_different)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Every k has its own code; all must see the same rows as good.
    #[test]
    fn every_pair_of_a_group_is_compared() {
        for top_k in 1..=12usize {
            let (layers, experts) = (5, 40);
            let good: Vec<u16> = (0..layers * top_k).map(|at| (at % top_k * 3) as u16).collect();
            assert!(is_valid(&good, top_k, experts));
            for layer in 0..layers {
                for first in 0..top_k {
                    for second in 0..top_k {
                        let mut ids = good.clone();
                        ids[layer * top_k + second] = ids[layer * top_k + first];
                        assert_eq!(
                            is_valid(&ids, top_k, experts),
                            first == second,
                            "{top_k} {first} {second}"
                        );
                    }
                }
                for wrong in [40, 41, u16::MAX] {
                    let mut ids = good.clone();
                    ids[layer * top_k] = wrong;
                    assert!(!is_valid(&ids, top_k, experts), "{top_k} {wrong}");
                }
            }
        }
    }
}
