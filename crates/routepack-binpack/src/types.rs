//! Items of equal size are interchangeable: one type each.

use routepack_certificate::Statement;

use crate::error::{PackError, validate};

/// A set of items that share a bin, as types: indices in increasing order (sizes decreasing), one entry per item.
pub type Pattern = Vec<u32>;

/// The items of a [`Statement`], grouped by size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Types {
    /// Largest total size of one bin.
    pub capacity: u64,
    /// Most items in one bin; `None` also where the statement's limit can never bind.
    pub max_items: Option<u32>,
    /// `[types]`, distinct sizes, decreasing.
    pub sizes: Vec<u64>,
    /// `[types]`, items of that size, at least 1.
    pub demands: Vec<u32>,
    /// `[types][demand]`, the items of that size, increasing.
    pub members: Vec<Vec<u32>>,
}

impl Types {
    /// Groups the items of a statement.
    ///
    /// # Errors
    /// The item or the figure that makes the statement meaningless.
    pub fn new(statement: &Statement) -> Result<Self, PackError> {
        validate(statement)?;
        let mut order: Vec<u32> = (0..statement.sizes.len() as u32).collect();
        order.sort_by_key(|&item| std::cmp::Reverse(statement.sizes[item as usize]));
        let mut types = Self {
            capacity: statement.capacity,
            max_items: None,
            sizes: Vec::new(),
            demands: Vec::new(),
            members: Vec::new(),
        };
        for equal in order.chunk_by(|&a, &b| statement.sizes[a as usize] == statement.sizes[b as usize]) {
            types.sizes.push(statement.sizes[equal[0] as usize]);
            types.demands.push(equal.len() as u32);
            types.members.push(equal.to_vec());
        }
        types.max_items = statement.max_items.filter(|&limit| u64::from(limit) < types.most_items());
        Ok(types)
    }

    /// Some of the types with other demands, without members; and which they are. `demands`: (type, items).
    pub(crate) fn part(&self, demands: impl Iterator<Item = (u32, u32)>) -> (Self, Vec<u32>) {
        let (kinds, demands): (Vec<u32>, Vec<u32>) = demands.filter(|&(_, demand)| demand > 0).unzip();
        let sizes = kinds.iter().map(|&kind| self.sizes[kind as usize]).collect();
        let part =
            Self { capacity: self.capacity, max_items: self.max_items, sizes, demands, members: Vec::new() };
        (part, kinds)
    }

    /// What is left without the items of some bins, types without items left out, without members.
    pub(crate) fn without(&self, bins: &[Pattern]) -> Self {
        let mut left = self.demands.clone();
        bins.iter().flatten().for_each(|&kind| left[kind as usize] -= 1);
        self.part((0..).zip(left)).0
    }

    /// The sizes of all items, decreasing.
    pub(crate) fn all_sizes(&self) -> Vec<u64> {
        let types = self.sizes.iter().zip(&self.demands);
        types.flat_map(|(&size, &demand)| std::iter::repeat_n(size, demand as usize)).collect()
    }

    /// Patterns of other types as those of these, by size; without patterns that have other sizes.
    pub(crate) fn renumbered(&self, others: &Self, patterns: &[Pattern]) -> Vec<Pattern> {
        let number = |&kind: &u32| {
            let size = others.sizes[kind as usize];
            self.sizes.binary_search_by(|other| size.cmp(other)).ok().map(|kind| kind as u32)
        };
        patterns.iter().filter_map(|pattern| pattern.iter().map(number).collect()).collect()
    }

    /// Number of types.
    pub fn len(&self) -> usize {
        self.sizes.len()
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.sizes.is_empty()
    }

    /// Number of items.
    pub fn num_items(&self) -> u64 {
        self.demands.iter().map(|&demand| u64::from(demand)).sum()
    }

    /// Total size of all items.
    pub fn total(&self) -> u128 {
        self.sizes
            .iter()
            .zip(&self.demands)
            .map(|(&size, &demand)| u128::from(size) * u128::from(demand))
            .sum()
    }

    /// Σ demand · weight, for `weights` of all types.
    pub fn total_weight(&self, weights: &[u64]) -> u128 {
        weights
            .iter()
            .zip(&self.demands)
            .map(|(&weight, &demand)| u128::from(weight) * u128::from(demand))
            .sum()
    }

    /// The most items that fit in one bin by size alone: the smallest ones.
    pub fn most_items(&self) -> u64 {
        let (mut room, mut most) = (self.capacity, 0);
        for (&size, &demand) in self.sizes.iter().zip(&self.demands).rev() {
            let fitting = (room / size).min(u64::from(demand));
            room -= fitting * size;
            most += fitting;
            if fitting < u64::from(demand) {
                break;
            }
        }
        most
    }

    /// Most items in one bin, by the limit or by size, whichever is less.
    pub fn places(&self) -> u64 {
        self.max_items.map_or_else(|| self.most_items(), u64::from)
    }

    /// The first type of that size or less; the number of types if there is none.
    pub fn first_fitting(&self, room: u64) -> usize {
        self.sizes.partition_point(|&size| size > room)
    }

    /// Total size of a pattern.
    pub fn load(&self, pattern: &[u32]) -> u64 {
        pattern.iter().map(|&kind| self.sizes[kind as usize]).sum()
    }

    /// Hands the items out to patterns that hold every type exactly as often as demanded. Bins keep the order of
    /// the patterns; the items of one size go out in increasing order.
    ///
    /// # Panics
    /// If the patterns do not hold every item exactly once.
    pub fn hand_out(&self, patterns: &[Pattern]) -> Vec<Vec<u32>> {
        let mut next = vec![0; self.len()];
        let bins = patterns.iter().map(|pattern| {
            let items = pattern.iter().map(|&kind| {
                next[kind as usize] += 1;
                self.members[kind as usize][next[kind as usize] - 1]
            });
            items.collect()
        });
        let bins = bins.collect();
        assert!(
            next.iter().zip(&self.demands).all(|(&given, &demand)| given == demand as usize),
            "a packing holds every item once"
        );
        bins
    }

    /// The patterns of bins of items: the inverse of [`Types::hand_out`].
    pub fn patterns_of(&self, bins: &[Vec<u32>]) -> Vec<Pattern> {
        let mut type_of = vec![0; self.num_items() as usize];
        for (kind, members) in self.members.iter().enumerate() {
            members.iter().for_each(|&item| type_of[item as usize] = kind as u32);
        }
        let patterns = bins.iter().map(|bin| {
            let mut pattern: Pattern = bin.iter().map(|&item| type_of[item as usize]).collect();
            pattern.sort_unstable();
            pattern
        });
        patterns.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_hands_out() {
        let types = Types::new(&Statement::bins(vec![3, 7, 3, 5, 7], 10)).unwrap();
        assert_eq!((&types.sizes[..], &types.demands[..]), (&[7, 5, 3][..], &[2, 1, 2][..]));
        assert_eq!(types.members, [vec![1, 4], vec![3], vec![0, 2]]);
        let bins = types.hand_out(&[vec![0, 2], vec![1], vec![0, 2]]);
        assert_eq!(bins, [vec![1, 0], vec![3], vec![4, 2]]);
        assert_eq!(types.patterns_of(&bins), [vec![0, 2], vec![1], vec![0, 2]]);
    }

    #[test]
    fn a_limit_that_cannot_bind_is_dropped() {
        let mut statement = Statement::bins(vec![3, 3, 3, 9], 10);
        assert_eq!(Types::new(&statement).unwrap().most_items(), 3);
        statement.max_items = Some(3);
        assert_eq!(Types::new(&statement).unwrap().max_items, None);
        statement.max_items = Some(2);
        assert_eq!(Types::new(&statement).unwrap().max_items, Some(2));
    }
}
