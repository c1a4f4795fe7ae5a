//! Packings into K bins of what comes apart bin by bin once an item or two are set aside.
//!
//! Problem: an item may not have two others for good (forced_bins.rs) because a set of others fits instead of the two. With
//! some item of that set aside it may, and so on. Instances put together bin by bin from a small one, of which one item
//! was cut in two before (M. Delorme, M. Iori, S. Martello, European Journal of Operational Research 255 (2016),
//! doi:10.1016/j.ejor.2016.04.030: "augmented IRUP"), come apart once the two pieces are aside.
//! Method: of every set that is in the way one item is set aside, at most [`ASIDE`] in all, and bins are filled as long as
//! the rule says how. Where few bins are left, these are decided with what was set aside. Nothing is proved where all fail.
//! Complexity: O(w · s^ASIDE) fillings, w sets of s types that are in the way; limited by words of bits.
//! Reference: W. D. Harvey, M. L. Ginsberg, Limited discrepancy search, IJCAI 1995.

use std::collections::HashSet;

use crate::error::PackError;
use crate::forced_bins::Left;
use crate::types::{Pattern, Types};

/// Most items set aside.
const ASIDE: usize = 2;
/// So few bins are decided as they are.
pub(crate) const FEW: u64 = 12;

/// A packing, if there is one.
pub(crate) type Found = Result<Option<Vec<Pattern>>, PackError>;

/// Packs the rest, given the bins filled so far.
pub(crate) type PackRest<'a> = dyn FnMut(&[Pattern]) -> Found + 'a;

/// A packing into `bins` bins, if all but a few come apart. `words`: of bits that all looks may fill.
///
/// # Errors
/// Those of `pack_rest`.
pub(crate) fn set_aside(
    types: &Types,
    bins: u64,
    words: u64,
    pack_rest: &mut PackRest<'_>,
    stop: &(dyn Fn() -> bool + Sync),
) -> Found {
    let Some(left) = Left::new(types, bins, words) else { return Ok(None) };
    let mut aside = Aside { left, kinds: Pattern::new(), seen: HashSet::new(), pack_rest, stop };
    aside.take_apart()
}

/// What is set aside, item by item.
struct Aside<'a> {
    kinds: Pattern,
    /// The others.
    left: Left<'a>,
    /// What was set aside before, in order of types.
    seen: HashSet<Pattern>,
    pack_rest: &'a mut PackRest<'a>,
    stop: &'a (dyn Fn() -> bool + Sync),
}

impl Aside<'_> {
    /// Fills what can be filled; then every set that is in the way loses an item.
    fn take_apart(&mut self) -> Found {
        let mut key = self.kinds.clone();
        key.sort_unstable();
        if !self.seen.insert(key) {
            return Ok(None);
        }
        let (demands, filled) = (self.left.demands.clone(), self.left.filled.len());
        self.left.fill(self.stop);
        let mut found = None;
        if self.left.bins_left() <= FEW {
            found = (self.pack_rest)(&self.left.filled)?;
        }
        if found.is_none() && self.kinds.len() < ASIDE {
            found = self.set_aside_for_any()?;
        }
        self.left.demands = demands;
        self.left.filled.truncate(filled);
        Ok(found)
    }

    /// For every large item that is left.
    fn set_aside_for_any(&mut self) -> Found {
        for large in self.left.large() {
            if self.left.demands[large as usize] > 0 {
                let found = self.set_aside_for(large)?;
                if found.is_some() || self.over() {
                    return Ok(found);
                }
            }
        }
        Ok(None)
    }

    /// Sets items aside until a large one may have two others for good.
    fn set_aside_for(&mut self, large: u32) -> Found {
        let room = self.left.room(large);
        let (full, pairs) = self.left.without_one(large, |left| {
            let full = left.full(room);
            let pairs = left.pairs(&full, room);
            (full, pairs)
        });
        for pair in pairs {
            let found = self.set_aside_for_pair(large, pair)?;
            if found.is_some() || self.over() {
                return Ok(found);
            }
        }
        self.set_aside_each(full, &mut |aside| aside.set_aside_for(large))
    }

    /// Sets items aside until a large one may have these two for good.
    fn set_aside_for_pair(&mut self, large: u32, pair: [u32; 2]) -> Found {
        let room = self.left.room(large);
        match self.left.without_one(large, |left| left.instead_of(pair, room)) {
            Some(mut instead) => {
                instead.dedup();
                self.set_aside_each(instead, &mut |aside| aside.set_aside_for_pair(large, pair))
            }
            None => self.take_apart(),
        }
    }

    /// Goes on with each of these types set aside in turn, the smallest first: a piece fits where its item does not.
    fn set_aside_each(&mut self, kinds: Pattern, go_on: &mut dyn FnMut(&mut Self) -> Found) -> Found {
        if self.kinds.len() == ASIDE {
            return Ok(None);
        }
        for kind in kinds.into_iter().rev() {
            self.left.demands[kind as usize] -= 1;
            self.kinds.push(kind);
            let found = go_on(self)?;
            self.kinds.pop();
            self.left.demands[kind as usize] += 1;
            if found.is_some() || self.over() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Whether words, or time, are at their end.
    fn over(&self) -> bool {
        self.left.words == 0 || (self.stop)()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use routepack_anneal::Stream;
    use routepack_certificate::Statement;

    use super::*;
    use crate::forced_bins::forced_bins;

    /// Twenty bins of three items, none of which is so for good: beside every first item one of the pieces fits with the
    /// second item of the next bin. One bin has the pieces. Bins hold 40 units.
    pub(crate) fn put_together(unit: u64, pieces: &[u64], stream: &mut Stream) -> (Vec<u64>, Vec<[u64; 3]>) {
        let step = unit / 10;
        let second: Vec<u64> =
            (0..20).map(|bin| 8 * unit + bin * step + 1 + 2 * stream.below(step / 2)).collect();
        let bin = |number: usize| {
            let piece = unit * pieces[number * pieces.len() / 20];
            // The last bin has instead what the first bin of its piece has, with 2 units.
            let other = second[21 - 20 / pieces.len()] + 2 * unit;
            let room = second.get(number + 1).unwrap_or(&other) + piece;
            [40 * unit - room, second[number], room - second[number]]
        };
        let bins: Vec<[u64; 3]> = (0..20).map(bin).collect();
        // Four items in a bin are never so for good.
        let rest = 40 - 15 - 2 - pieces.iter().sum::<u64>();
        let last = pieces.iter().copied().chain([rest, 15, 2]).map(|size| size * unit);
        (bins.iter().flatten().copied().chain(last).collect(), bins)
    }

    #[test]
    fn what_a_piece_holds_together_comes_apart() {
        for pieces in [&[1][..], &[1, 3]] {
            let (mut stuck, mut apart) = (0, 0);
            for seed in 0..8 {
                let (sizes, mut bins) = put_together(1 << 14, pieces, &mut Stream::new(seed));
                let types = Types::new(&Statement::bins(sizes, 40 << 14)).unwrap();
                let number = 21;
                let filled = forced_bins(&types, number, u64::MAX, &|| false).len();
                stuck += u32::from(number - filled as u64 > FEW);
                let mut all_filled = |filled: &[Pattern]| Ok((filled.len() >= 20).then(|| filled.to_vec()));
                if let Some(filled) = set_aside(&types, number, u64::MAX, &mut all_filled, &|| false).unwrap()
                {
                    let sizes = |bin: &Pattern| bin.iter().map(|&kind| types.sizes[kind as usize]).collect();
                    let mut filled: Vec<Vec<u64>> = filled.iter().map(sizes).collect();
                    filled.iter_mut().for_each(|bin| bin.sort_unstable());
                    bins.iter_mut().for_each(|bin| bin.sort_unstable());
                    apart += u32::from(bins.iter().all(|bin| filled.contains(&bin.to_vec())));
                }
            }
            assert!(stuck >= 6 && apart >= 6, "{pieces:?} {stuck} {apart}");
        }
    }

    /// 60 may have 25 and 15, but the set met first is 20, 18 and 2, and no two items fill its room with one of them.
    #[test]
    fn an_item_of_a_set_without_a_pair_is_set_aside_too() {
        let types = Types::new(&Statement::bins(vec![60, 60, 25, 15, 20, 18, 2], 100)).unwrap();
        assert!(forced_bins(&types, 2, 1 << 20, &|| false).is_empty());
        let mut any_filled = |filled: &[Pattern]| Ok((!filled.is_empty()).then(|| filled.to_vec()));
        let filled = set_aside(&types, 2, 1 << 20, &mut any_filled, &|| false).unwrap().unwrap();
        let sizes: Vec<u64> = filled[0].iter().map(|&kind| types.sizes[kind as usize]).collect();
        assert_eq!((filled.len(), &sizes[..1], sizes.iter().sum::<u64>()), (1, &[60][..], 100));
    }

    /// A rest that can't be packed does not end the search, every rest has its items, and nothing stays filled or aside.
    #[test]
    fn a_search_that_fails_leaves_all_as_it_was() {
        let (mut tens, mut twenties) = (0, 0);
        for seed in 0..4 {
            let (sizes, _) = put_together(1 << 11, &[1, 3], &mut Stream::new(seed));
            let types = Types::new(&Statement::bins(sizes, 40 << 11)).unwrap();
            let mut calls = Vec::new();
            let mut refuse = |filled: &[Pattern]| {
                let of = |kind: u32| filled.iter().flatten().filter(|&&other| other == kind).count();
                assert!(
                    (0..types.len() as u32).all(|kind| of(kind) <= types.demands[kind as usize] as usize)
                );
                calls.push(filled.len());
                Ok(None)
            };
            let left = Left::new(&types, 21, 100_000_000).unwrap();
            let seen = HashSet::new();
            let pack_rest: &mut PackRest<'_> = &mut refuse;
            let mut aside = Aside { kinds: Pattern::new(), left, seen, pack_rest, stop: &|| false };
            assert_eq!(aside.take_apart().unwrap(), None);
            assert!(
                aside.left.demands == types.demands && aside.left.filled.is_empty() && aside.kinds.is_empty()
            );
            // With one piece aside half of the bins are filled; the other piece comes next.
            tens += usize::from(calls[0] == 10);
            twenties += usize::from(calls[..3].contains(&20));
        }
        assert!(tens >= 3 && twenties >= 3, "{tens} {twenties}");
    }
}
