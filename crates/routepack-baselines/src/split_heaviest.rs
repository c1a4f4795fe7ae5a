//! Equalising: split the bin with most tokens in two by alternating units, until there are enough bins.
//!
//! The rule of slime, miles and prime-rl (split the largest bin that holds at least two units), with alternation as in
//! DESIGN §1.4. O(bins²) in the worst case, on tens of bins.

use std::cmp::Reverse;

/// Splits until there are `target` bins; more bins than that are left alone.
///
/// # Errors
/// The number of units, when there are fewer than `target`.
pub(crate) fn split_heaviest(bins: &mut Vec<Vec<u32>>, target: usize, sizes: &[u64]) -> Result<(), usize> {
    let tokens = |bin: &Vec<u32>| bin.iter().map(|&unit| sizes[unit as usize]).sum::<u64>();
    while bins.len() < target {
        let heaviest = (0..bins.len())
            .filter(|&bin| bins[bin].len() >= 2)
            .max_by_key(|&bin| (tokens(&bins[bin]), Reverse(bin)))
            .ok_or_else(|| bins.iter().map(Vec::len).sum::<usize>())?;
        let units = std::mem::take(&mut bins[heaviest]);
        let (even, odd): (Vec<_>, Vec<_>) =
            units.into_iter().enumerate().partition(|(place, _)| place % 2 == 0);
        bins[heaviest] = even.into_iter().map(|(_, unit)| unit).collect();
        bins.push(odd.into_iter().map(|(_, unit)| unit).collect());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_the_heaviest_by_alternation() {
        let sizes = [5, 4, 3, 2, 9];
        let mut bins = vec![vec![0, 1, 2, 3], vec![4]];
        assert_eq!(split_heaviest(&mut bins, 3, &sizes), Ok(()));
        assert_eq!(bins, [vec![0, 2], vec![4], vec![1, 3]]);
        assert_eq!(split_heaviest(&mut bins, 6, &sizes), Err(5));
    }
}
