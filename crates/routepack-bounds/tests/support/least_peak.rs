//! The least largest rank load of a layer by brute force: shared by the tests of bounds and of placements.

/// The least peak over every way to deal `loads` to ranks of equal slots.
pub(crate) fn least_peak(loads: &[u64], ranks: usize) -> u64 {
    fn deal(loads: &[u64], sums: &mut [u64], used: &mut [usize], slots: usize, best: &mut u64) {
        let Some((&load, rest)) = loads.split_first() else {
            *best = (*best).min(sums.iter().copied().max().unwrap_or(0));
            return;
        };
        for rank in 0..sums.len() {
            if used[rank] < slots && sums[rank] + load < *best {
                used[rank] += 1;
                sums[rank] += load;
                deal(rest, sums, used, slots, best);
                sums[rank] -= load;
                used[rank] -= 1;
            }
            if used[rank] == 0 {
                break; // empty ranks are alike
            }
        }
    }
    let mut best = u64::MAX;
    deal(loads, &mut vec![0; ranks], &mut vec![0; ranks], loads.len() / ranks, &mut best);
    best
}
