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

use std::collections::HashMap;
use std::ops::Range;

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
    Left::new(types, bins, words).map_or_else(Vec::new, |mut left| {
        left.fill(stop);
        left.filled
    })
}

/// Totals `least..=room` of sets, without two types.
type Look = (u64, u64, Option<[u32; 2]>);

/// What is left of the items.
pub(crate) struct Left<'a> {
    types: &'a Types,
    pub(crate) demands: Vec<u32>,
    /// Bins filled for good.
    pub(crate) filled: Vec<Pattern>,
    bins: u64,
    /// At most this much of a bin stays empty.
    waste: u64,
    /// Sets found, by what was looked for: found again while there are their items.
    known: HashMap<Look, Vec<Pattern>>,
    /// The bits of totals, layer by layer; kept for their memory.
    layers: Vec<u64>,
    /// Words that may still be filled; an item of a set looked at again counts as one.
    pub(crate) words: u64,
}

impl<'a> Left<'a> {
    /// All items; `None` where the rule says nothing: more volume than the bins have, or a limit of items.
    pub(crate) fn new(types: &'a Types, bins: u64, words: u64) -> Option<Self> {
        let waste = (u128::from(bins) * u128::from(types.capacity)).checked_sub(types.total())?;
        let waste = waste.min(types.capacity.into()) as u64;
        let demands = types.demands.clone();
        types.max_items.is_none().then(|| Self {
            types,
            demands,
            filled: Vec::new(),
            bins,
            waste,
            known: HashMap::new(),
            layers: Vec::new(),
            words,
        })
    }

    /// Bins that are left.
    pub(crate) fn bins_left(&self) -> u64 {
        self.bins - self.filled.len() as u64
    }

    /// Types of at least a third of a bin: what bins are filled for.
    pub(crate) fn large(&self) -> Range<u32> {
        0..self.types.sizes.partition_point(|&size| size >= self.types.capacity.div_ceil(3)) as u32
    }

    /// Fills bins as long as the rule says how.
    pub(crate) fn fill(&mut self, stop: &(dyn Fn() -> bool + Sync)) {
        let mut items: u64 = self.demands.iter().map(|&demand| u64::from(demand)).sum();
        loop {
            let before = self.filled.len();
            for kind in self.large() {
                while self.demands[kind as usize] > 0 && !stop() {
                    let Some(bin) = self.bin_of(kind) else { break };
                    items -= bin.len() as u64;
                    if items < self.bins_left() {
                        return;
                    }
                    bin.iter().for_each(|&kind| self.demands[kind as usize] -= 1);
                    self.filled.push(bin);
                }
            }
            if self.filled.len() == before || self.words == 0 || stop() {
                return;
            }
        }
    }

    /// What there is to see with one item less.
    pub(crate) fn without_one<T>(&mut self, kind: u32, look: impl FnOnce(&mut Self) -> T) -> T {
        self.demands[kind as usize] -= 1;
        let seen = look(self);
        self.demands[kind as usize] += 1;
        seen
    }

    /// The room beside an item.
    pub(crate) fn room(&self, kind: u32) -> u64 {
        self.types.capacity - self.types.sizes[kind as usize]
    }

    /// The bin that an item of this type may have for good.
    fn bin_of(&mut self, kind: u32) -> Option<Pattern> {
        let room = self.room(kind);
        let others = self.without_one(kind, |left| left.others(room))?;
        Some([&[kind][..], &others].concat())
    }

    /// One or two items that fill the room, as no others need it.
    fn others(&mut self, room: u64) -> Option<Pattern> {
        if let Some(other) = self.of_size(room) {
            return Some(vec![other]);
        }
        let full = self.full(room);
        let pairs = self.pairs(&full, room);
        // With words at their end nobody knows.
        let pair = pairs.into_iter().find(|&pair| self.instead_of(pair, room).is_none() && self.words > 0)?;
        Some(pair.to_vec())
    }

    /// A set that fills the room, as types: a pair which may have it for good has one of them.
    pub(crate) fn full(&mut self, room: u64) -> Pattern {
        let mut full = self.set_within(room, room, None).unwrap_or_default();
        full.dedup();
        full
    }

    /// Pairs that fill the room with one of these.
    pub(crate) fn pairs(&mut self, full: &[u32], room: u64) -> Vec<[u32; 2]> {
        let other = |left: &mut Self, one: u32| left.of_size(room - left.types.sizes[one as usize]);
        let pair = |&one: &u32| Some([one, self.without_one(one, |left| other(left, one))?]);
        full.iter().filter_map(pair).collect()
    }

    /// A set of others for whose sake the pair may not have the room for good.
    pub(crate) fn instead_of(&mut self, pair: [u32; 2], room: u64) -> Option<Pattern> {
        let above = pair.map(|kind| self.types.sizes[kind as usize] + 1).into_iter().max();
        self.set_within(room.saturating_sub(self.waste).max(above.unwrap_or(0)), room, Some(pair))
    }

    fn of_size(&self, size: u64) -> Option<u32> {
        let kind = self.types.sizes.binary_search_by(|other| size.cmp(other)).ok()?;
        (self.demands[kind] > 0).then_some(kind as u32)
    }

    /// A set of items, none of the types `without`, with a total in `least..=room`, in order of types; none, too, where words
    /// end, and then there are 0.
    fn set_within(&mut self, least: u64, room: u64, without: Option<[u32; 2]>) -> Option<Pattern> {
        let mut seen = 0;
        let known = self.known.get(&(least, room, without)).and_then(|sets| {
            let mut sets = sets.iter().inspect(|set| seen += set.len() as u64);
            sets.find(|set| self.holds(set)).cloned()
        });
        self.words = self.words.saturating_sub(seen);
        if known.is_some() {
            return known;
        }
        let set = self.look(least, room, without)?;
        self.known.entry((least, room, without)).or_default().push(set.clone());
        Some(set)
    }

    /// Whether a set is left.
    fn holds(&self, set: &[u32]) -> bool {
        set.chunk_by(|a, b| a == b).all(|equal| self.demands[equal[0] as usize] as usize >= equal.len())
    }

    /// A set by the bits of all totals.
    fn look(&mut self, least: u64, room: u64, without: Option<[u32; 2]>) -> Option<Pattern> {
        let width = (room / 64) as usize + 1;
        let fitting = self.types.first_fitting(room) as u32..self.types.len() as u32;
        let kinds = fitting.rev().filter(|kind| without.is_none_or(|pair| !pair.contains(kind)));
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
        let needed = (width as u64).saturating_mul(parts.len() as u64 + 1);
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
        // 512 layers of 2^55 words and one more: the product is no number of 64 bits.
        let sizes = (1..512).chain([1 << 61]).collect();
        assert!(forced(sizes, 1 << 62, 2).is_empty());
    }

    #[test]
    fn what_is_found_again_has_its_price() {
        // Beside 12 there are 8 = 7 + 1 = 5 + 3.
        let types = Types::new(&Statement::bins(vec![12, 7, 5, 3, 1], 20)).unwrap();
        let mut left = Left::new(&types, 2, 1000).unwrap();
        let first = left.full(8);
        let words = left.words;
        assert_eq!(left.full(8), first);
        // The two items of the set; a look has five words.
        assert_eq!(left.words, words - 2);
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
