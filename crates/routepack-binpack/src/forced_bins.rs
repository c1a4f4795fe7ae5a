//! Bins that may be filled for good before the search for K bins begins.
//!
//! Problem: K bins waste W = K·C − V in all, so no bin wastes more. An item and one of size C less its own may share a bin.
//! An item with two others that fill a bin may have it if no set of other items, without such as the two, fits beside the
//! item, wastes at most W and is larger than each of the two: whatever else is there has one of the two in it and the
//! rest of it changes places with the other, or it changes places with one as a whole. The checker knows the rule as
//! `fill` (README of routepack-certificate, 4.3).
//! Method: totals of sets are bits, layer by layer, so one set beside the item can be read off; one of the two must be in
//! it, which leaves few pairs to try. Items by decreasing size, again as long as some bin is filled. It takes apart what was
//! put together from smaller instances bin by bin (A. Caprara, M. Dell'Amico, J. C. Díaz-Díaz, M. Iori, R. Rizzi,
//! Mathematical Programming 150 (2015), doi:10.1007/s10107-014-0791-z), and leaves those.
//! Complexity: O(bins filled · types · log(demand) · C/64), limited by words in all and in one look.
//! Reference: S. Martello, P. Toth, Knapsack Problems (1990), ch. 8. Deviation: only sets within the waste count.

use crate::types::{Pattern, Types};

/// Most words of bits in one look, 32 MiB: where capacities are wider, only pairs of items that fill a bin are found.
const LOOK: u64 = 1 << 22;

/// Bins of two or three items, each leading with the item that needs it, that some packing into `bins` bins has if there is
/// any. `types` may have demands of 0. More items than bins are left over. `words`: of bits that all looks may fill.
pub(crate) fn forced_bins(
    types: &Types,
    bins: u64,
    words: u64,
    stop: &(dyn Fn() -> bool + Sync),
) -> Vec<Pattern> {
    let waste = (u128::from(bins) * u128::from(types.capacity)).checked_sub(types.total());
    let (Some(waste), None) = (waste, types.max_items) else { return Vec::new() };
    let mut left = Left {
        types,
        demands: types.demands.clone(),
        waste: waste.min(types.capacity.into()) as u64,
        layers: Vec::new(),
        words,
    };
    let (mut filled, mut items) = (Vec::new(), types.num_items());
    let large = types.sizes.partition_point(|&size| size >= types.capacity.div_ceil(3));
    loop {
        let before = filled.len();
        for kind in 0..large as u32 {
            while left.demands[kind as usize] > 0 && !stop() {
                let Some(bin) = left.bin_of(kind) else { break };
                items -= bin.len() as u64;
                if items < bins - filled.len() as u64 {
                    return filled;
                }
                bin.iter().for_each(|&kind| left.demands[kind as usize] -= 1);
                filled.push(bin);
            }
        }
        if filled.len() == before || left.words == 0 || stop() {
            return filled;
        }
    }
}

/// What is left of the items.
struct Left<'a> {
    types: &'a Types,
    demands: Vec<u32>,
    /// At most this much of a bin stays empty.
    waste: u64,
    /// The bits of totals, layer by layer; kept for their memory.
    layers: Vec<u64>,
    /// Words that may still be filled.
    words: u64,
}

impl Left<'_> {
    /// The bin that an item of this type may have for good.
    fn bin_of(&mut self, kind: u32) -> Option<Pattern> {
        let room = self.types.capacity - self.types.sizes[kind as usize];
        self.demands[kind as usize] -= 1;
        let others = self.others(room);
        self.demands[kind as usize] += 1;
        others.map(|others| [&[kind][..], &others].concat())
    }

    /// One or two items that fill the room, as no others need it.
    fn others(&mut self, room: u64) -> Option<Pattern> {
        if let Some(other) = self.of_size(room) {
            return Some(vec![other]);
        }
        // Without a set that fills the room there are no two items that do, and one of two that may must be in it.
        let mut full = self.set_within(room, room, &[])?;
        full.dedup();
        full.into_iter().find_map(|one| {
            self.demands[one as usize] -= 1;
            let other = self.of_size(room - self.types.sizes[one as usize]);
            self.demands[one as usize] += 1;
            let pair = [one, other?];
            let above = pair.map(|kind| self.types.sizes[kind as usize] + 1).into_iter().max();
            let least = room.saturating_sub(self.waste).max(above.unwrap_or(0));
            // With words at their end nobody knows.
            let free = self.set_within(least, room, &pair).is_none() && self.words > 0;
            free.then(|| pair.to_vec())
        })
    }

    fn of_size(&self, size: u64) -> Option<u32> {
        let kind = self.types.sizes.binary_search_by(|other| size.cmp(other)).ok()?;
        (self.demands[kind] > 0).then_some(kind as u32)
    }

    /// A set of items, none of the types `without`, with a total in `least..=room`, in order of types; none, too, where words
    /// end, and then there are 0.
    fn set_within(&mut self, least: u64, room: u64, without: &[u32]) -> Option<Pattern> {
        let width = (room / 64) as usize + 1;
        let fitting = self.types.first_fitting(room) as u32..self.types.len() as u32;
        let kinds = fitting.rev().filter(|kind| !without.contains(kind));
        let mut parts = Vec::new();
        for kind in kinds {
            let size = self.types.sizes[kind as usize];
            let (mut left, mut copies) = (u64::from(self.demands[kind as usize]).min(room / size), 1);
            while left > 0 {
                parts.push((kind, copies));
                left -= copies;
                copies = left.min(2 * copies);
            }
        }
        let needed = (width * (parts.len() + 1)) as u64;
        self.words = if needed > LOOK { 0 } else { self.words.saturating_sub(needed) };
        if self.words == 0 {
            return None;
        }
        self.layers.clear();
        self.layers.resize(needed as usize, 0);
        self.layers[0] = 1;
        for (place, &(kind, copies)) in parts.iter().enumerate() {
            let (before, after) = self.layers[width * place..].split_at_mut(width);
            widen(before, &mut after[..width], self.types.sizes[kind as usize] * copies);
        }
        let layer = |place: usize| &self.layers[width * place..width * (place + 1)];
        let has = |place: usize, total: u64| layer(place)[(total / 64) as usize] >> (total % 64) & 1 > 0;
        let mut total = (least..=room).rev().find(|&total| has(parts.len(), total))?;
        let mut set = Pattern::new();
        for (place, &(kind, copies)) in parts.iter().enumerate().rev() {
            if !has(place, total) {
                total -= self.types.sizes[kind as usize] * copies;
                set.extend((0..copies).map(|_| kind));
            }
        }
        Some(set)
    }
}

/// Totals with so much more or without it.
fn widen(before: &[u64], after: &mut [u64], size: u64) {
    let (far, near) = ((size / 64) as usize, size % 64);
    after.copy_from_slice(before);
    if near == 0 {
        after[far..].iter_mut().zip(before).for_each(|(after, &before)| *after |= before);
    } else {
        after[far] |= before[0] << near;
        let pairs = before.windows(2).map(|pair| pair[1] << near | pair[0] >> (64 - near));
        after[far + 1..].iter_mut().zip(pairs).for_each(|(after, more)| *after |= more);
    }
}

#[cfg(test)]
mod tests {
    use routepack_anneal::Stream;
    use routepack_certificate::Statement;

    use super::*;

    fn forced(sizes: Vec<u64>, capacity: u64, bins: u64) -> Vec<Vec<u64>> {
        let types = Types::new(&Statement::bins(sizes, capacity)).unwrap();
        let of = |bin: Pattern| bin.into_iter().map(|kind| types.sizes[kind as usize]).collect();
        forced_bins(&types, bins, 1 << 30, &|| false).into_iter().map(of).collect()
    }

    #[test]
    fn bins_are_forced_where_nothing_else_fits() {
        // 13 can be with 4 and 3 only.
        assert_eq!(forced(vec![14, 6, 13, 4, 3, 11, 11, 10, 8], 20, 4), [vec![14, 6], vec![13, 4, 3]]);
        // With a 7 it can be with that, and then 4 and 3 are for others.
        assert_eq!(forced(vec![14, 6, 13, 4, 3, 11, 11, 11, 7], 20, 4), [vec![14, 6], vec![13, 7]]);
        // As 2 may be wasted, 6 alone may be with 13, but nothing else with 11 than 6 or 3.
        assert_eq!(forced(vec![13, 4, 3, 11, 11, 10, 6], 20, 3), [[11, 6, 3]]);
        // A bin for every item is no question.
        assert!(forced(vec![14, 6], 20, 1).is_empty());
    }

    #[test]
    fn wide_capacities_are_not_looked_at() {
        let unit = 1 << 26;
        let sizes = [14, 6, 13, 4, 3, 11, 11, 10, 8].map(|size| size * unit).to_vec();
        assert_eq!(forced(sizes, 20 * unit, 4), [[14 * unit, 6 * unit]]);
    }

    /// Every forced bin is one that the checker takes.
    #[test]
    fn the_checker_fills_forced_bins_for_good() {
        use routepack_certificate::{Certificate, Leaf, Limits, Proof, TreeNode, check};
        let (mut pairs, mut triples) = (0, 0);
        for seed in 0..2000 {
            let mut stream = Stream::new(seed);
            let mut sizes = Vec::new();
            for _ in 0..4 + stream.below(5) {
                let first = 30 + stream.below(60);
                let second = 1 + stream.below(99 - first);
                sizes.extend([first, second, 100 - first - second].into_iter().filter(|&size| size > 0));
            }
            sizes.extend((0..stream.below(3)).map(|_| 1 + stream.below(20)));
            let bins = sizes.iter().sum::<u64>().div_ceil(100);
            let statement = Statement::bins(sizes, 100);
            let types = Types::new(&statement).unwrap();
            let filled = forced_bins(&types, bins, 1 << 30, &|| false);
            pairs += filled.iter().filter(|bin| bin.len() == 2).count();
            triples += filled.iter().filter(|bin| bin.len() == 3).count();
            let size = |&kind: &u32| types.sizes[kind as usize];
            let fills = filled.iter().map(|bin| TreeNode::Fill(bin.iter().map(size).collect()));
            let tree = fills.chain([TreeNode::Leaf(Leaf::default())]).collect();
            let proof = Some(Proof::Tree(tree));
            let certificate = Certificate { cells_at_least: Some(bins + 1), proof, ..Certificate::default() };
            let refused = check(&statement, &certificate, &Limits::default()).unwrap_err().to_string();
            assert_eq!(
                refused,
                format!("line {}: the weights are not as many as the types", 11 + filled.len())
            );
        }
        assert!(pairs > 1000 && triples > 500, "{pairs} {triples}");
    }
}
