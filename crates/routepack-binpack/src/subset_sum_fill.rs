//! Bins filled one after another, each as full as a few candidates allow.
//!
//! Problem: pack n items of m types into few bins of capacity C with at most q items each. A bin takes the largest
//! item left; while many more would still fit it takes the largest that fits; then a fullest subset of a window of W
//! candidates, half of them the largest that fit, half spread over the sizes. A bin may waste a share of what the bins
//! allowed can waste on average; within that, large candidates go first, so that small ones are left for the last bins. A
//! random stream makes the fill skip candidates, and several tries differ. A fill is given up as soon as the bins used
//! and the volume left exceed the bins allowed.
//! Complexity: O(bins · (W·C/64 + W log m)) with tables of [`crate::subset_sum`].
//! References: J. N. D. Gupta, J. C. Ho, Production Planning & Control 10 (1999), doi:10.1080/095372899232894 (MBS);
//! K. Fleszar, K. S. Hindi, Computers & OR 29 (2002), doi:10.1016/S0305-0548(00)00082-4 (MBS');
//! A. Caprara, U. Pferschy, Oper. Res. Lett. 32 (2004), doi:10.1016/j.orl.2003.10.007 (subset-sum fill).

use std::iter::once;

use routepack_anneal::Stream;

use crate::subset_sum::SubsetSum;
use crate::types::{Pattern, Types};

/// While more items than this would fit in the rest of a bin, the largest that fits is taken without a search.
const SEARCHED: u128 = 8;

/// How a fill chooses its candidates.
#[derive(Debug, Clone)]
pub struct FillTry {
    /// Candidates of one bin, W.
    pub window: usize,
    /// What a bin may waste, as a share of what the bins left can waste on average; 0: as little as possible.
    pub waste: f64,
    /// Chance that a candidate is passed over; 0 makes the fill deterministic.
    pub chance: f64,
    /// The random stream; untouched where `chance` is 0 and all candidates fit the window.
    pub stream: Stream,
}

/// Fills bins until all items are packed; `None` if more than `allowed` bins are needed or `stop` says so.
/// The patterns hold every item exactly once.
pub fn subset_sum_fill(
    types: &Types,
    attempt: FillTry,
    allowed: u64,
    stop: &(dyn Fn() -> bool + Sync),
) -> Option<Vec<Pattern>> {
    let mut filler = Filler::new(types, attempt);
    let mut bins = Vec::new();
    while filler.num_left > 0 {
        let needed = bins.len() as u128 + filler.volume.div_ceil(u128::from(types.capacity));
        let crowded = types
            .max_items
            .is_some_and(|limit| filler.num_left > (allowed - bins.len() as u64) * u64::from(limit));
        if needed > u128::from(allowed) || crowded || stop() {
            return None;
        }
        bins.push(filler.fill_one(allowed - bins.len() as u64));
    }
    Some(bins)
}

struct Filler<'a> {
    types: &'a Types,
    attempt: FillTry,
    tables: SubsetSum,
    /// `[types]` items left.
    left: Vec<u32>,
    /// `[types + 1]` a type at or after this one with items left, or nearer to it; the last stands for none.
    next: Vec<u32>,
    num_left: u64,
    volume: u128,
}

impl<'a> Filler<'a> {
    fn new(types: &'a Types, attempt: FillTry) -> Self {
        Self {
            types,
            attempt,
            tables: SubsetSum::default(),
            left: types.demands.clone(),
            next: (0..=types.len() as u32).collect(),
            num_left: types.num_items(),
            volume: types.total(),
        }
    }

    /// The first type from this one on with items left.
    fn from(&mut self, kind: usize) -> usize {
        let mut kind = kind as u32;
        while self.next[kind as usize] != kind {
            let further = self.next[self.next[kind as usize] as usize];
            self.next[kind as usize] = further;
            kind = further;
        }
        kind as usize
    }

    fn take(&mut self, kind: usize, bin: &mut Pattern) {
        bin.push(kind as u32);
        self.left[kind] -= 1;
        self.num_left -= 1;
        self.volume -= u128::from(self.types.sizes[kind]);
        if self.left[kind] == 0 {
            self.next[kind] = kind as u32 + 1;
        }
    }

    fn passes(&mut self) -> bool {
        self.attempt.chance > 0.0 && self.attempt.stream.unit() < self.attempt.chance
    }

    /// Fills a bin, the first of so many left.
    fn fill_one(&mut self, bins: u64) -> Pattern {
        let spare = u128::from(bins) * u128::from(self.types.capacity) - self.volume;
        let waste = (self.attempt.waste * spare as f64 / bins as f64) as u64;
        let (mut bin, mut room) = (Pattern::new(), self.types.capacity);
        let mut places = self.types.max_items.map_or(usize::MAX, |limit| limit as usize);
        let mut choice = self.from(0);
        loop {
            self.take(choice, &mut bin);
            room -= self.types.sizes[choice];
            places -= 1;
            let lightest = self.from(self.types.first_fitting(room));
            if lightest == self.types.len() || places == 0 {
                break;
            }
            if u128::from(room) * u128::from(self.num_left) <= SEARCHED * self.volume {
                self.search(lightest, room, waste, places, &mut bin);
                break;
            }
            choice = lightest;
            if self.passes() {
                choice = self.somewhere(lightest);
            }
        }
        bin.sort_unstable();
        bin
    }

    /// A random type from this one on with items left.
    fn somewhere(&mut self, first: usize) -> usize {
        let kind = first + self.attempt.stream.index(self.types.len() - first);
        let kind = self.from(kind);
        if kind < self.types.len() { kind } else { first }
    }

    /// Adds a subset of a window of the items from type `first` on.
    fn search(&mut self, first: usize, room: u64, waste: u64, places: usize, bin: &mut Pattern) {
        let window = self.window(first);
        let sizes: Vec<u64> = window.iter().map(|&kind| self.types.sizes[kind]).collect();
        let chance = self.attempt.chance;
        let mut passes = || chance > 0.0 && self.attempt.stream.unit() < chance;
        let chosen = self.tables.choose(&sizes, room, waste, places, &mut passes);
        chosen.into_iter().for_each(|place| self.take(window[place], bin));
    }

    /// At most W of the items left from type `first` on, as types in increasing order.
    fn window(&mut self, first: usize) -> Vec<usize> {
        let size = self.attempt.window;
        let mut window = Vec::with_capacity(size);
        let (mut kind, mut fits) = (first, true);
        while kind < self.types.len() && fits {
            fits = window.len() + self.left[kind] as usize <= size;
            window.extend(std::iter::repeat_n(kind, self.left[kind] as usize).take(size - window.len()));
            kind = self.from(kind + 1);
        }
        if fits {
            return window;
        }
        // Too many: the largest half, with gaps, and the rest spread over all.
        window.clear();
        let mut kind = first;
        while kind < self.types.len() && 2 * window.len() < size {
            let copies = (0..self.left[kind].min(size as u32)).filter(|_| !self.passes()).count();
            window.extend(std::iter::repeat_n(kind, copies).take(size / 2 - window.len()));
            kind = self.from(kind + 1);
        }
        let mut spread: Vec<usize> = (0..size - window.len()).map(|_| self.somewhere(first)).collect();
        spread.sort_unstable();
        let mut window: Vec<usize> = itertools::merge(window, spread).collect();
        // No more of a type than there are.
        let mut same = 0;
        let mut before = None;
        window.retain(|&kind| {
            same = if before == Some(kind) { same + 1 } else { 1 };
            before = Some(kind);
            same <= self.left[kind]
        });
        window
    }
}

/// The tries of a search, endless: the first deterministic, then ever other windows and chances.
pub fn fill_tries(seed: &Stream, window: usize) -> impl Iterator<Item = FillTry> + use<> {
    let random = (1_u64..).map({
        let seed = seed.clone();
        move |number| {
            let waste = [0.0, 0.9, 0.5, 1.5][(number % 4) as usize];
            let chance = [0.1, 0.3, 0.02, 0.5, 0.2][(number % 5) as usize];
            let window = [window, window / 2, 3 * window / 2][(number % 3) as usize];
            FillTry { window, waste, chance, stream: seed.child(number) }
        }
    });
    once(FillTry { window, waste: 0.9, chance: 0.0, stream: seed.child(0) }).chain(random)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use routepack_certificate::Statement;

    use super::*;

    proptest! {
        #[test]
        fn every_try_packs_every_item(
            sizes in prop::collection::vec(1_u64..=60, 1..80), limit in prop::option::of(1_u32..6), window in 1_usize..20,
        ) {
            let mut statement = Statement::bins(sizes, 60);
            statement.max_items = limit;
            let types = Types::new(&statement).unwrap();
            for attempt in fill_tries(&Stream::new(3), window).take(4) {
                let bins = subset_sum_fill(&types, attempt, u64::from(u32::MAX), &|| false).unwrap();
                types.hand_out(&bins);
                prop_assert!(bins.iter().all(|bin| types.load(bin) <= 60 && bin.len() as u64 <= types.places()));
            }
        }
    }

    #[test]
    fn fills_what_decreasing_orders_miss() {
        // FFD and BFD need three bins.
        let types = Types::new(&Statement::bins(vec![6, 5, 5, 4, 4, 4, 3, 3, 3, 3], 20)).unwrap();
        let attempt = fill_tries(&Stream::new(0), 40).next().unwrap();
        assert_eq!(subset_sum_fill(&types, attempt, 2, &|| false).unwrap().len(), 2);
        let attempt = fill_tries(&Stream::new(0), 40).next().unwrap();
        assert_eq!(subset_sum_fill(&types, attempt.clone(), 1, &|| false), None);
        assert_eq!(subset_sum_fill(&types, attempt, 2, &|| true), None);
    }
}
