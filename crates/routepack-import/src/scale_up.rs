//! Counts of fewer rows scaled up to more.
//!
//! Problem: counts of one layer sum to k · rows; find counts that sum to k · tokens in the same proportions, none
//! above tokens.
//! Method: largest remainders (Hamilton): every count gets the floor of its share, the rest goes to the largest
//! remainders, lower experts first. No share exceeds `tokens`, as no count exceeds `rows`; a share of `tokens` has no
//! remainder, so neither does its rounding.
//! Complexity: O(E log E) a layer.

/// Scales counts of one layer from `rows` to `tokens`, `0 < rows <= tokens`.
pub(crate) fn scale_up(counts: &mut [u32], rows: u32, tokens: u32) {
    let shares: Vec<u64> = counts.iter().map(|&count| u64::from(count) * u64::from(tokens)).collect();
    let total: u64 = shares.iter().sum();
    let mut left = total / u64::from(rows);
    for (count, share) in counts.iter_mut().zip(&shares) {
        *count = (share / u64::from(rows)) as u32;
        left -= u64::from(*count);
    }
    let mut by_remainder: Vec<usize> = (0..counts.len()).collect();
    by_remainder.sort_by_key(|&expert| std::cmp::Reverse(shares[expert] % u64::from(rows)));
    for &expert in by_remainder.iter().take(left as usize) {
        counts[expert] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_kept_and_ties_go_to_lower_experts() {
        let mut counts = [3, 1, 1, 1];
        scale_up(&mut counts, 3, 4);
        assert_eq!(counts, [4, 2, 1, 1]);
        let mut same = [3, 1, 1, 1];
        scale_up(&mut same, 3, 3);
        assert_eq!(same, [3, 1, 1, 1]);
    }
}
