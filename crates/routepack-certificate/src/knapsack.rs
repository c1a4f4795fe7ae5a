//! Is every pattern worth at most T? The exact knapsack behind weights and leaves.
//!
//! Problem: types with size w, count c, weight p and at most `copies` copies in a bin; a pattern takes a copies with
//! C − slack ≤ Σ w a ≤ C and q − free ≤ Σ c a ≤ q. First Σ p a is bounded by a list of states (key, value) grown type
//! by type in decreasing order of p/w: of states with one key the best stays, a heavier one must be worth more where
//! nothing demands a load, and a state goes when even the fractional filling of its room leaves it at T or below.
//! Then, where cuts or types kept apart matter, a depth-first search walks the partial patterns whose bound by those
//! lists exceeds T. Complexity: O(Σ log(copies) · C · q) states at worst.
//! Reference: G. L. Nemhauser and Z. Ullmann, Discrete dynamic programming and capital allocation, Management
//! Science 15 (1969); G. B. Dantzig, Discrete-variable extremum problems, Operations Research 5 (1957).

use std::collections::VecDeque;
use std::iter::repeat_n;

use crate::limits::{CheckError, Meter};
use crate::{Cut, Leaf, Node, Statement};

/// No pattern may be worth more in absolute value, whatever it holds: |p|·C ≤ 2^60·w.
const MAX_VALUE: i128 = 1 << 60;

/// A partial pattern: its key (count · 2^bits + load, where C < 2^bits) and its value.
type State = (u64, i64);

/// `[kinds + 1]`, the states before each kind, if they are to be kept.
type Layers = Option<Vec<Vec<State>>>;

type Checking<T> = Result<T, CheckError>;

/// A type, as the knapsack sees it.
pub(crate) struct Kind {
    index: u32,
    size: u64,
    pub(crate) copies: u64,
    pub(crate) weight: i64,
    /// What one copy adds to the key of a pattern.
    pub(crate) key: u64,
}

/// The patterns of a node under given weights.
pub(crate) struct Patterns {
    /// In decreasing order of weight/size.
    pub(crate) kinds: Vec<Kind>,
    /// `[kinds + 1]`, (Σ copies·size, Σ copies·max(weight, 0)) of the kinds before.
    before: Vec<(u128, i128)>,
    /// Key of capacity and limit of counts; the latter is 0 (and so are all counts) where it can't matter.
    pub(crate) full: u64,
    /// The bits of a key that hold the load.
    mask: u64,
    /// What one count adds to a key.
    unit: u64,
    /// At most this much of a bin stays empty; C means any load will do.
    slack: u64,
    /// At most so many counts of a bin stay free (times the unit).
    free: u64,
}

/// What a leaf must show: that `bins` bins can't hold the items of a node.
pub(crate) struct Case<'a> {
    pub(crate) statement: &'a Statement,
    pub(crate) bins: u64,
    /// Whether patterns too light or too few for `bins` bins are left out.
    pub(crate) filled: bool,
    pub(crate) node: &'a Node,
    pub(crate) leaf: &'a Leaf,
}

impl Patterns {
    /// The patterns of a case that leave at most `waste` of the capacity empty and `places` counts free.
    pub(crate) fn new(case: &Case, waste: u128, places: u128) -> Checking<Self> {
        let &Case { statement, node, leaf, .. } = case;
        let (capacity, items) = (statement.capacity, statement.sizes.len() as u64);
        let mask = u64::MAX >> capacity.leading_zeros();
        let unit = mask.wrapping_add(1);
        let limit = statement.max_items.map_or(items, |limit| items.min(limit.into()));
        let ascending = || statement.types().into_iter().rev();
        let lightest = || ascending().flat_map(|(size, demand)| repeat_n(u128::from(size), demand as usize));
        let binds = items > limit && lightest().take(limit as usize + 1).sum::<u128>() <= capacity.into();
        let counts = if binds || places < limit.into() { limit } else { 0 };
        let bits = mask.count_ones() + (u64::BITS - counts.leading_zeros());
        if bits > u64::BITS {
            return Err(CheckError::NotChecked { resource: "bits of a key", limit: 64, needed: bits.into() });
        }
        let mut kinds = Vec::new();
        for (index, (&size, &demand)) in node.sizes.iter().zip(&node.demands).enumerate() {
            let count = u64::from(node.counts[index]).min(counts);
            let single = node.apart[index].binary_search(&(index as u32)).is_ok();
            let most = counts.checked_div(count).unwrap_or(u64::MAX).min(capacity / size);
            let copies = u64::from(demand).min(most).min(if single { 1 } else { u64::MAX });
            if copies > 0 {
                let (key, weight) = (count * unit + size, leaf.weights[index]);
                kinds.push(Kind { index: index as u32, size, copies, weight, key });
            }
        }
        kinds.sort_by(|a, b| {
            (i128::from(b.weight) * i128::from(a.size)).cmp(&(i128::from(a.weight) * i128::from(b.size)))
        });
        let mut before = vec![(0, 0)];
        for (place, kind) in kinds.iter().enumerate() {
            let (size, value): (u128, i128) = before[place];
            let gain = i128::from(kind.weight.max(0)) * i128::from(kind.copies);
            before.push((size + u128::from(kind.size) * u128::from(kind.copies), value + gain));
        }
        let (slack, free) = (waste.min(capacity.into()) as u64, unit * places.min(counts.into()) as u64);
        Ok(Self { kinds, before, full: counts * unit + capacity, mask, unit, slack, free })
    }

    /// Whether a pattern of this key takes another one of that key.
    pub(crate) fn takes(&self, key: u64, other: u64) -> bool {
        let left = self.full - other;
        key & self.mask <= left & self.mask && key & !self.mask <= left & !self.mask
    }

    /// The largest value of a pattern, cuts and types kept apart ignored, if it exceeds the threshold. Leaves in
    /// `layers` the states before each kind, values raised to the best of their window.
    pub(crate) fn sweep(&self, threshold: i128, layers: &mut Layers, meter: &mut Meter) -> Checking<Option<i64>> {
        let (mut threshold, mut best) = (threshold.clamp(-MAX_VALUE - 1, MAX_VALUE), None);
        let any_part = layers.is_none() && self.slack + self.free == self.full;
        let free = self.free.checked_div(self.unit).unwrap_or(0);
        meter.step(free as usize)?;
        meter.hold(16 * free as usize)?;
        let mut list: Vec<State> = (0..=free).map(|free| (free * self.unit, 0)).collect();
        for place in 0..=self.kinds.len() {
            self.prune(place, threshold, &mut list);
            if let Some(layers) = layers {
                meter.hold(size_of_val(&list[..]))?;
                layers.push(self.raise(&list));
            }
            let Some(kind) = self.kinds.get(place) else { break };
            let (mut left, mut copies) = (kind.copies, 1);
            while left > 0 {
                meter.step(1 + 2 * list.len())?;
                meter.hold(4 * size_of_val(&list[..]))?;
                let grown = self.grow(&list, kind, copies);
                meter.free(4 * size_of_val(&list[..]));
                list = grown;
                left -= copies;
                copies = left.min(2 * copies);
            }
            // Where every state is a pattern, the best so far is what is to be exceeded.
            let top = list.iter().map(|state| state.1).filter(|&value| any_part && i128::from(value) > threshold).max();
            (best, threshold) = (top.or(best), top.map_or(threshold, i128::from));
        }
        let whole = list.iter().filter(|state| self.full - state.0 <= self.slack);
        Ok(whole.map(|state| state.1).max().filter(|&value| i128::from(value) > threshold).or(best))
    }

    /// The list and the same with so many copies more, in order of keys, without the states that others make idle.
    fn grow(&self, list: &[State], kind: &Kind, copies: u64) -> Vec<State> {
        let (key, weight) = (kind.key * copies, kind.weight * copies as i64);
        let mut kept = list.iter().copied().peekable();
        let more = list.iter().filter(|state| self.takes(state.0, key));
        let mut more = more.map(|state| (state.0 + key, state.1 + weight)).peekable();
        let mut grown: Vec<State> = Vec::with_capacity(2 * list.len());
        loop {
            let next = match (kept.peek(), more.peek()) {
                (Some(a), Some(b)) if (a.0, b.1) <= (b.0, a.1) => kept.next(),
                (Some(_), None) => kept.next(),
                _ => more.next(),
            };
            let Some(state) = next else { return grown };
            let idle = |last: &State| {
                let light = self.slack == self.full & self.mask && (last.0 ^ state.0) <= self.mask;
                last.0 == state.0 || light && last.1 >= state.1
            };
            if !grown.last().is_some_and(idle) {
                grown.push(state);
            }
        }
    }

    /// Drops the states that can neither exceed the threshold nor fill a bin with the kinds from this place on.
    fn prune(&self, place: usize, threshold: i128, list: &mut Vec<State>) {
        let (end, (size, value)) = (self.kinds.len(), self.before[place]);
        let within = |to: usize, room: u128| self.before[to].0 - size <= room;
        let mut to = place;
        list.retain(|state| {
            let room = u128::from((self.full - state.0) & self.mask);
            if !within(to, room) || to < end && within(to + 1, room) {
                to = place + self.before[place..].partition_point(|before| before.0 - size <= room) - 1;
            }
            let missing = threshold + 1 - i128::from(state.1) - (self.before[to].1 - value);
            let left = (room + size - self.before[to].0) as i128;
            let part = |kind: &Kind| left * i128::from(kind.weight) >= missing * i128::from(kind.size);
            let promising = missing <= 0 || self.kinds.get(to).is_some_and(part);
            promising && room + size <= self.before[end].0 + u128::from(self.slack)
        });
    }

    /// The list, every value raised to the best of those with its count and at most `slack` less load.
    fn raise(&self, list: &[State]) -> Vec<State> {
        let mut best: VecDeque<State> = VecDeque::new();
        let raised = list.iter().map(|&(key, value)| {
            while best.back().is_some_and(|last| last.1 <= value) {
                best.pop_back();
            }
            best.push_back((key, value));
            while best[0].0 < key - self.slack.min(key & self.mask) {
                best.pop_front();
            }
            (key, best[0].1)
        });
        raised.collect()
    }

    /// Whether some pattern, cuts and types kept apart observed, has a value above the threshold.
    fn search(&self, case: &Case, threshold: i128, layers: &[Vec<State>], meter: &mut Meter) -> Checking<bool> {
        let mut cuts_of = vec![Vec::new(); case.node.sizes.len()];
        for cut in &case.leaf.cuts {
            cut.multipliers.iter().for_each(|&(index, _)| cuts_of[index as usize].push(cut));
        }
        let promising = |place: usize, key: u64, value: i128| {
            let left = self.full - key;
            let list = &layers[place][..];
            let last = list[..list.partition_point(|state| state.0 <= left)].last();
            let near = last.filter(|last| last.0 >= left - self.slack.min(left & self.mask));
            near.is_some_and(|last| value + i128::from(last.1) > threshold)
        };
        let mut open = vec![Partial { place: self.kinds.len(), key: 0, value: 0, taken: Vec::new() }];
        while let Some(Partial { mut place, key, value, taken }) = open.pop() {
            while promising(place, key, value) {
                meter.step(1 + taken.len())?;
                if place == 0 {
                    return Ok(true);
                }
                place -= 1;
                let kind = &self.kinds[place];
                let apart = &case.node.apart[kind.index as usize];
                if taken.iter().any(|taken| apart.binary_search(&taken.0).is_ok()) {
                    continue;
                }
                for copies in (1..=kind.copies).take_while(|copies| self.takes(key, kind.key * copies)) {
                    let mut value = value + i128::from(kind.weight) * i128::from(copies);
                    for cut in &cuts_of[kind.index as usize] {
                        meter.step(1 + taken.len())?;
                        let sum = taken.iter().map(|&taken| cut.part(taken)).sum::<u128>();
                        value -= cut.charge(sum + cut.part((kind.index, copies))) - cut.charge(sum);
                    }
                    let key = key + kind.key * copies;
                    meter.step(1)?;
                    if promising(place, key, value) {
                        let taken = [&taken[..], &[(kind.index, copies)]].concat();
                        open.push(Partial { place, key, value, taken });
                    }
                }
            }
        }
        Ok(false)
    }
}

/// A partial pattern of the search.
struct Partial {
    /// The kinds from this place on are decided.
    place: usize,
    key: u64,
    /// Weights less what the cuts charge so far: as a pattern grows they charge more, never less.
    value: i128,
    /// (type, copies).
    taken: Vec<(u32, u64)>,
}

impl Cut {
    /// What so many copies of a type add to Σ multiplier · a.
    fn part(&self, (index, copies): (u32, u64)) -> u128 {
        let place = self.multipliers.binary_search_by_key(&index, |pair| pair.0);
        place.map_or(0, |place| u128::from(self.multipliers[place].1) * u128::from(copies))
    }

    /// What the cut charges for such a sum.
    fn charge(&self, sum: u128) -> i128 {
        i128::from(self.scale) * (sum / u128::from(self.denominator)) as i128
    }

    /// What the cut charges for all items of the node, or `None` if it is malformed.
    fn charge_all(&self, node: &Node) -> Option<i128> {
        let known =
            self.multipliers.last()?.0 < node.sizes.len() as u32 && self.multipliers.is_sorted_by(|a, b| a.0 < b.0);
        let positive = self.scale > 0 && self.denominator > 0 && self.multipliers.iter().all(|pair| pair.1 > 0);
        let whole = |&(index, _): &(u32, u32)| self.part((index, node.demands[index as usize].into()));
        let fits = known && positive && i128::from(self.scale) <= MAX_VALUE;
        fits.then(|| self.charge(self.multipliers.iter().map(whole).sum())).filter(|&charge| charge <= 1 << 100)
    }
}

/// What a leaf's weights and cuts make of all items together, or what is wrong with them.
pub(crate) fn worth(case: &Case) -> Checking<i128> {
    let &Case { statement, node, leaf, .. } = case;
    if leaf.weights.len() != node.sizes.len() {
        return refuse("the weights are not as many as the types");
    }
    let mut worth: i128 = 0;
    for (index, &weight) in leaf.weights.iter().enumerate() {
        if i128::from(weight).abs() * i128::from(statement.capacity) > MAX_VALUE * i128::from(node.sizes[index]) {
            return refuse("a weight exceeds 2^60·size/capacity");
        }
        worth += i128::from(weight) * i128::from(node.demands[index]);
    }
    for cut in &leaf.cuts {
        let Some(charge) = cut.charge_all(node) else { return refuse("a cut has a figure or a type out of range") };
        worth -= charge;
    }
    Ok(worth)
}

/// Shows that `case.bins` bins can't hold the items of the case's node; there must be an item.
pub(crate) fn close(case: &Case, meter: &mut Meter) -> Checking<()> {
    let &Case { statement, bins, node, leaf, .. } = case;
    let (worth, items) = (worth(case)?, statement.sizes.len());
    let (mut waste, mut places) = (Some(u128::MAX), Some(u128::MAX));
    meter.step(items)?;
    if case.filled {
        waste = (u128::from(bins) * u128::from(statement.capacity)).checked_sub(statement.total());
        let limit = statement.max_items.map_or(u128::MAX, |limit| u128::from(bins) * items.min(limit as usize) as u128);
        places = limit.checked_sub(items as u128);
    }
    let (Some(waste), Some(places), 1..) = (waste, places, bins) else { return Ok(()) };
    let (patterns, threshold) = (Patterns::new(case, waste, places)?, (worth - 1).div_euclid(bins.into()));
    let plain = leaf.cuts.is_empty() && node.apart.iter().all(Vec::is_empty);
    let (held, mut layers) = (meter.held, if plain { None } else { Some(Vec::new()) });
    let mut exceeded = patterns.sweep(threshold, &mut layers, meter)?.is_some();
    if let (true, Some(layers)) = (exceeded, layers) {
        exceeded = patterns.search(case, threshold, &layers, meter)?;
    }
    meter.held = held;
    if exceeded { refuse("a bin can be worth too much for these weights") } else { Ok(()) }
}

fn refuse<T>(why: &str) -> Checking<T> {
    Err(CheckError::Invalid { line: 0, why: why.into() })
}
