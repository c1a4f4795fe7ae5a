//! Fewer types: neighbouring sizes taken for one.
//!
//! Problem: m sizes in at most g groups of neighbours, each group as large as its largest member (a packing of the
//! grouped items is one of the items) or as small as its smallest (weights for the groups are weights for the members, and
//! no bin is worth more), so that little volume is gained or lost by it. Groups are made greedily from the largest size
//! down, each as long as what it changes stays within a share of the total; the least share that gives at most g groups
//! is found by bisection.
//! Complexity: O(m log V).
//! Reference: W. Fernandez de la Vega, G. S. Lueker, Combinatorica 1 (1981), doi:10.1007/BF02579456. Deviation: groups
//! of equal change instead of equal number.

use std::iter::repeat_n;
use std::ops::Range;

use routepack_certificate::Proof;

use crate::bound::Bound;
use crate::first_fit_decreasing::first_fit_decreasing;
use crate::types::{Pattern, Types};

/// Which member stands for its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// The largest.
    Up,
    /// The smallest.
    Down,
}

/// Types in groups.
#[derive(Debug, Clone)]
pub(crate) struct Grouping {
    /// One type a group, without members.
    pub(crate) grouped: Types,
    /// `[groups]`, the types of each.
    pub(crate) groups: Vec<Range<usize>>,
}

impl Grouping {
    /// At most so many groups; every type its own where there are no more types than that.
    pub(crate) fn new(types: &Types, most: usize, rounding: Rounding) -> Self {
        let largest = types.sizes.first().copied().unwrap_or(0);
        let (mut low, mut high) = (0, u128::from(largest) * u128::from(types.num_items()));
        while low < high {
            let middle = low + (high - low) / 2;
            if groups(types, middle, rounding).len() <= most { high = middle } else { low = middle + 1 }
        }
        let groups = groups(types, low, rounding);
        let stands = |group: &Range<usize>| match rounding {
            Rounding::Up => types.sizes[group.start],
            Rounding::Down => types.sizes[group.end - 1],
        };
        let grouped = Types {
            capacity: types.capacity,
            max_items: types.max_items,
            sizes: groups.iter().map(stands).collect(),
            demands: groups.iter().map(|group| types.demands[group.clone()].iter().sum()).collect(),
            members: Vec::new(),
        };
        Self { grouped, groups }
    }

    /// A first-fit decreasing packing of the groups.
    pub(crate) fn first_fit_decreasing(&self) -> Vec<Pattern> {
        let demands = self.grouped.demands.iter().zip(0_u32..);
        let kinds: Vec<u32> = demands.flat_map(|(&demand, kind)| repeat_n(kind, demand as usize)).collect();
        let sizes: Vec<u64> = kinds.iter().map(|&kind| self.grouped.sizes[kind as usize]).collect();
        let bins = first_fit_decreasing(&sizes, self.grouped.capacity, self.grouped.max_items);
        bins.iter().map(|bin| bin.iter().map(|&item| kinds[item as usize]).collect()).collect()
    }

    /// The bound for the types that one for the groups is; the groups are rounded down.
    pub(crate) fn spell_out_bound(&self, bound: Bound) -> Bound {
        let Proof::Weights(weights) = &bound.proof else { return bound };
        let spelt = self.groups.iter().zip(weights);
        let spelt = spelt.flat_map(|(group, &weight)| repeat_n(weight, group.len()));
        Bound { proof: Proof::Weights(spelt.collect()), ..bound }
    }

    /// The packing of the types that a packing of the groups stands for; the groups are rounded up.
    pub(crate) fn spell_out(&self, types: &Types, bins: &[Pattern]) -> Vec<Pattern> {
        let mut left = types.demands.clone();
        let mut next: Vec<usize> = self.groups.iter().map(|group| group.start).collect();
        let mut spell = |&group: &u32| {
            let next = &mut next[group as usize];
            while left[*next] == 0 {
                *next += 1;
            }
            left[*next] -= 1;
            *next as u32
        };
        let spelt = bins.iter().map(|bin| {
            let mut bin: Pattern = bin.iter().map(&mut spell).collect();
            bin.sort_unstable();
            bin
        });
        spelt.collect()
    }
}

/// The groups that each change the total size by at most so much.
fn groups(types: &Types, change: u128, rounding: Rounding) -> Vec<Range<usize>> {
    let mut groups = Vec::new();
    let mut start = 0;
    while start < types.len() {
        let (mut end, mut changed, mut items) = (start, 0, 0);
        while end < types.len() {
            let (size, demand) = (types.sizes[end], u128::from(types.demands[end]));
            changed += match rounding {
                Rounding::Up => u128::from(types.sizes[start] - size) * demand,
                Rounding::Down => u128::from(types.sizes[end.max(1) - 1] - size) * items,
            };
            if changed > change {
                break;
            }
            items += demand;
            end += 1;
        }
        groups.push(start..end);
        start = end;
    }
    groups
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use routepack_certificate::Statement;

    use super::*;

    proptest! {
        #[test]
        fn groups_stand_for_their_members(
            sizes in prop::collection::vec(1_u64..=200, 1..120), most in 1_usize..40, limit in prop::option::of(1_u32..6),
        ) {
            let types = Types::new(&Statement { max_items: limit, ..Statement::bins(sizes, 200) }).unwrap();
            for rounding in [Rounding::Up, Rounding::Down] {
                let grouping = Grouping::new(&types, most, rounding);
                prop_assert!(grouping.grouped.len() <= most);
                prop_assert!(types.len() > most || grouping.grouped.sizes == types.sizes);
                prop_assert!(grouping.groups.iter().cloned().flatten().eq(0..types.len()));
                prop_assert!(grouping.grouped.sizes.is_sorted_by(|a, b| a > b));
                prop_assert_eq!(grouping.grouped.num_items(), types.num_items());
                let bins = grouping.first_fit_decreasing();
                prop_assert!(bins.iter().all(|bin| grouping.grouped.load(bin) <= 200));
                if rounding == Rounding::Up {
                    let spelt = grouping.spell_out(&types, &bins);
                    types.hand_out(&spelt);
                    prop_assert!(spelt.iter().all(|bin| types.load(bin) <= 200 && bin.len() as u64 <= types.places()));
                }
            }
        }
    }

    #[test]
    fn equal_change_rather_than_equal_number() {
        let types = Types::new(&Statement::bins(vec![100, 99, 98, 50, 20, 19, 18], 100)).unwrap();
        let grouping = Grouping::new(&types, 3, Rounding::Down);
        assert_eq!(grouping.groups, [0..3, 3..4, 4..7]);
        assert_eq!(grouping.grouped.sizes, [98, 50, 18]);
    }
}
