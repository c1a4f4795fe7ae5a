//! The bounds of one division.
//!
//! Problem: fewest bins of capacity C with at most q items each. n items of total size V need ⌈V/C⌉ bins by volume
//! and ⌈n/q⌉ by count. Complexity: O(m).
//! Reference: S. Martello, P. Toth, Knapsack Problems, 1990, ch. 8 (there L1).

use routepack_certificate::Proof;

use crate::bound::Bound;
use crate::types::Types;

/// ⌈total size / capacity⌉.
pub fn volume_bound(types: &Types) -> Bound {
    let cells = types.total().div_ceil(u128::from(types.capacity)) as u64;
    Bound { cells, proof: Proof::Volume, method: "volume".into() }
}

/// ⌈items / most items in a bin⌉; `None` where the statement's limit can't bind.
pub fn count_bound(types: &Types) -> Option<Bound> {
    let limit = types.max_items?;
    let cells = types.num_items().div_ceil(u64::from(limit));
    Some(Bound { cells, proof: Proof::Count, method: "count".into() })
}

#[cfg(test)]
mod tests {
    use routepack_certificate::Statement;

    use super::*;

    #[test]
    fn sums_past_64_bits() {
        let half = 1_u64 << 62;
        let types = Types::new(&Statement::bins(vec![half; 9], half)).unwrap();
        assert_eq!(volume_bound(&types).cells, 9);
        assert_eq!(count_bound(&types), None);
    }

    #[test]
    fn counts() {
        let statement = Statement { max_items: Some(3), ..Statement::bins(vec![1; 10], 100) };
        let types = Types::new(&statement).unwrap();
        assert_eq!((volume_bound(&types).cells, count_bound(&types).unwrap().cells), (1, 4));
    }
}
