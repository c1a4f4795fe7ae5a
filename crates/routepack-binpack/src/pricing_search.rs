//! Pricing by depth-first search, for capacities too wide for a table.
//!
//! Problem: as for [`crate::pricing_table`]. Types in decreasing order of weight per size; a partial pattern is
//! dropped when the fractional filling of its room does not reach the threshold. Copies are tried from many to few.
//! Complexity: exponential at worst, so the steps are limited; where a bin holds few items, or the sizes are few, it is
//! fast at any capacity.
//! References: G. B. Dantzig, Operations Research 5 (1957), doi:10.1287/opre.5.2.266 (the bound);
//! S. Martello, P. Toth, Knapsack Problems, 1990, ch. 2 and 3.

use crate::pattern_space::PatternSpace;
use crate::pricing_table::{ASK, Collect, Collected, Prices};

/// Walks the patterns that are worth more than the threshold.
pub(crate) fn search_patterns(
    space: &PatternSpace,
    prices: &Prices<'_>,
    how: Collect,
    stop: &(dyn Fn() -> bool + Sync),
) -> Collected {
    let mut order: Vec<u32> = space
        .order
        .iter()
        .copied()
        .filter(|&kind| prices.weights[kind as usize] > 0 || space.slack < space.capacity)
        .collect();
    let density =
        |kind: u32| (i128::from(prices.weights[kind as usize]), i128::from(space.sizes[kind as usize]));
    order.sort_by(|&a, &b| (density(b).0 * density(a).1).cmp(&(density(a).0 * density(b).1)).then(a.cmp(&b)));
    let mut rest = vec![0_u128; order.len() + 1];
    for (place, &kind) in order.iter().enumerate().rev() {
        rest[place] = rest[place + 1]
            + u128::from(space.sizes[kind as usize]) * u128::from(space.copies[kind as usize]);
    }
    let num_types = space.sizes.len();
    let mut cuts_of = vec![Vec::new(); num_types];
    for (cut, terms) in prices.cuts.iter().enumerate() {
        terms
            .multipliers
            .iter()
            .for_each(|&(kind, multiplier)| cuts_of[kind as usize].push((cut, multiplier)));
    }
    let mut search = Search {
        space,
        prices,
        how,
        stop,
        order,
        rest,
        cuts_of,
        sums: vec![0; prices.cuts.len()],
        used: vec![0; num_types],
        steps: 0,
        taken: Vec::new(),
        found: Vec::new(),
    };
    search.descend(0, space.capacity, space.places.unwrap_or(u32::MAX), 0);
    Collected { complete: search.steps <= how.max_steps, patterns: search.found }
}

struct Search<'a> {
    space: &'a PatternSpace,
    prices: &'a Prices<'a>,
    how: Collect,
    stop: &'a (dyn Fn() -> bool + Sync),
    order: Vec<u32>,
    /// `[places of the order + 1]`, total size of all copies from there on.
    rest: Vec<u128>,
    cuts_of: Vec<Vec<(usize, u32)>>,
    sums: Vec<u32>,
    used: Vec<u32>,
    steps: u64,
    taken: Vec<(u32, u32)>,
    found: Vec<(Vec<u32>, i64)>,
}

impl Search<'_> {
    /// What the types from `place` on can add at most to a pattern with so much room.
    fn bound(&self, place: usize, mut room: u64) -> i128 {
        let mut value = 0;
        for &kind in &self.order[place..] {
            let (size, weight) =
                (self.space.sizes[kind as usize], i128::from(self.prices.weights[kind as usize]));
            if weight <= 0 {
                break;
            }
            let copies = (room / size).min(u64::from(self.space.copies[kind as usize]));
            value += weight * i128::from(copies);
            room -= size * copies;
            if copies < u64::from(self.space.copies[kind as usize]) {
                return value + (weight * i128::from(room)).div_euclid(i128::from(size)) + 1;
            }
        }
        value
    }

    fn descend(&mut self, mut place: usize, room: u64, places: u32, value: i128) {
        loop {
            self.steps += 1;
            if self.steps.is_multiple_of(ASK) && (self.stop)() {
                self.steps = u64::MAX / 2;
            }
            let reaches = u128::from(room) <= self.rest[place] + u128::from(self.space.slack);
            if self.steps > self.how.max_steps
                || !reaches
                || value + self.bound(place, room) <= i128::from(self.how.threshold)
            {
                return;
            }
            if place == self.order.len() || places == 0 {
                self.emit(room, value);
                return;
            }
            let kind = self.order[place] as usize;
            place += 1;
            let size = self.space.sizes[kind];
            let mut most = (room / size).min(u64::from(self.space.copies[kind])) as u32;
            most = most.min(places / self.space.counts[kind]);
            if self.how.usage.is_some_and(|usage| self.used[kind] >= usage * self.space.demands[kind])
                || self.taken.iter().any(|(other, _)| self.space.apart[kind].binary_search(other).is_ok())
            {
                most = 0;
            }
            for copies in (1..=most).rev() {
                let after = value + i128::from(self.prices.weights[kind]) * i128::from(copies)
                    - self.charge(kind, copies);
                self.taken.push((kind as u32, copies));
                self.cuts_of[kind]
                    .iter()
                    .for_each(|&(cut, multiplier)| self.sums[cut] += multiplier * copies);
                self.descend(
                    place,
                    room - size * u64::from(copies),
                    places - self.space.counts[kind] * copies,
                    after,
                );
                self.cuts_of[kind]
                    .iter()
                    .for_each(|&(cut, multiplier)| self.sums[cut] -= multiplier * copies);
                self.taken.pop();
                if let Some(usage) = self.how.usage {
                    let over = |&(kind, _): &(u32, u32)| {
                        self.used[kind as usize] >= 2 * usage * self.space.demands[kind as usize]
                    };
                    if self.taken.iter().any(over) {
                        return;
                    }
                }
            }
        }
    }

    fn charge(&self, kind: usize, copies: u32) -> i128 {
        let charges = self.cuts_of[kind].iter().map(|&(cut, multiplier)| {
            let (before, cut) = (self.sums[cut], &self.prices.cuts[cut]);
            let more = (before + multiplier * copies) / cut.denominator - before / cut.denominator;
            i128::from(cut.scale) * i128::from(more)
        });
        charges.sum()
    }

    fn emit(&mut self, room: u64, value: i128) {
        let value = value as i64;
        if value <= self.how.threshold || room > self.space.slack {
            return;
        }
        let items = self.taken.iter().flat_map(|&(kind, copies)| std::iter::repeat_n(kind, copies as usize));
        let mut pattern: Vec<u32> = items.collect();
        pattern.sort_unstable();
        self.taken.iter().for_each(|&(kind, _)| self.used[kind as usize] += 1);
        if self.how.usage.is_none() {
            self.how.threshold = value;
            self.found.clear();
        }
        self.found.push((pattern, value));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use routepack_certificate::{Cut, Node, Statement};

    use super::*;
    use crate::pricing_table::{NEVER, PricingTable};

    /// All patterns of the space with their values, by counting through copies.
    fn brute(space: &PatternSpace, prices: &Prices<'_>) -> Vec<(Vec<u32>, i64)> {
        let mut patterns: Vec<Vec<u32>> = vec![Vec::new()];
        for kind in 0..space.sizes.len() {
            let grown = patterns.iter().flat_map(|pattern| {
                let copies = 0..=space.copies[kind] as usize;
                copies.map(move |copies| [pattern.clone(), vec![kind as u32; copies]].concat())
            });
            patterns = grown.collect();
        }
        patterns.retain(|pattern| space.holds(pattern));
        let value = |pattern: &Vec<u32>| {
            let weights: i64 = pattern.iter().map(|&kind| prices.weights[kind as usize]).sum();
            let charges = prices.cuts.iter().map(|cut| {
                let terms = pattern
                    .iter()
                    .flat_map(|kind| cut.multipliers.iter().filter(move |term| term.0 == *kind));
                let sum: u32 = terms.map(|term| term.1).sum();
                cut.scale as i64 * i64::from(sum / cut.denominator)
            });
            weights - charges.sum::<i64>()
        };
        patterns
            .into_iter()
            .map(|pattern| (value(&pattern), pattern))
            .map(|(value, pattern)| (pattern, value))
            .collect()
    }

    proptest! {
        #[test]
        fn both_ways_find_what_brute_force_finds(
            sizes in prop::collection::vec(2_u64..12, 1..8), slack in 0_u64..21, unit in 1_u64..4,
            places in prop::option::of(1_u32..4), limit_table: bool, parted in prop::option::of((0_u32..8, 0_u32..8)),
            weights in prop::collection::vec(0_i64..50, 8), threshold in 0_i64..120,
            cut in prop::option::of((1_u64..20, 1_u32..4, prop::collection::btree_map(0_u32..8, 1_u32..3, 1..4))),
        ) {
            let statement = Statement::bins(sizes.iter().map(|size| size * unit).collect(), 20 * unit);
            let mut node = Node::root(&statement);
            if let Some((i, j)) = parted && node.may_join(i, j, &statement) {
                node.part(i, j);
            }
            let space = PatternSpace::of_node(&node, 20 * unit, slack, places);
            let num_types = space.sizes.len();
            let cuts: Vec<Cut> = cut.into_iter().filter_map(|(scale, denominator, multipliers)| {
                let multipliers: Vec<_> = multipliers.into_iter().filter(|term| (term.0 as usize) < num_types).collect();
                (!multipliers.is_empty()).then_some(Cut { scale, denominator, multipliers })
            }).collect();
            let prices = Prices { weights: &weights[..num_types], cuts: &cuts };
            let all = brute(&space, &prices);
            let best = all.iter().map(|pattern| pattern.1).max().filter(|&best| best > threshold);
            let single = Collect { threshold, usage: None, max_steps: 1_000_000 };
            let many = Collect { usage: Some(2), ..single };
            let mut table = PricingTable::new(&space, if limit_table { 1500 } else { 1 << 20 }, &mut Vec::new());
            let top = table.as_mut().map(|table| table.build(&prices, &|| false).unwrap());
            if let (Some(table), Some(top)) = (&table, top) {
                prop_assert!(all.iter().all(|pattern| pattern.1 <= top));
                if table.is_exact() && cuts.is_empty() {
                    prop_assert_eq!(all.iter().map(|pattern| pattern.1).max(), Some(top).filter(|&top| top > NEVER / 2));
                }
            }
            for how in [single, many] {
                let walked = table.as_ref().map(|table| table.collect(&prices, how, &|| false));
                for found in walked.into_iter().chain([search_patterns(&space, &prices, how, &|| false)]) {
                    prop_assert!(found.complete);
                    for pattern in &found.patterns {
                        prop_assert!(all.contains(pattern) && pattern.1 > threshold);
                    }
                    let found_best = found.patterns.iter().map(|pattern| pattern.1).max();
                    prop_assert_eq!(found_best.is_some(), best.is_some());
                    if how.usage.is_none() {
                        prop_assert_eq!(found_best, best);
                    }
                }
            }
        }
    }
}
