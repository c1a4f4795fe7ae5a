//! Does every pattern have a value of at most T? The exact knapsack behind every leaf.
//!
//! Problem: types t with size w, count c, at most `copies` in a bin, weight p; a pattern takes a_t copies,
//! C − slack ≤ Σ w a ≤ C and q − `count_slack` ≤ Σ c a ≤ q. First Σ p a is bounded by lists of undominated states
//! (load, value), one list for every count, types in decreasing order of p/w, a state dropped when even the
//! fractional filling of its room stays at T. Then, where cuts or pairs kept apart matter, a depth-first search walks
//! the partial patterns whose bound by these lists exceeds T. Complexity: O(Σ log copies · C · q) states at worst.
//! Reference: G. L. Nemhauser and Z. Ullmann, Discrete dynamic programming and capital allocation, Management
//! Science 15 (1969); the bound on what remains is G. B. Dantzig's (1957).

use std::collections::VecDeque;

use crate::limits::{CheckError, Limits, Meter};
use crate::{Cut, Leaf, Node, Statement};

/// No pattern may be worth more than this in absolute value, whatever it holds: |p|·C ≤ 2^60·w.
const MAX_VALUE: i128 = 1 << 60;

/// (load, value): a partial pattern.
type State = (u64, i64);

/// One type, as the knapsack sees it.
struct Kind {
    /// Index of the type at the node.
    index: u32,
    size: u64,
    count: usize,
    copies: u64,
    weight: i64,
}

/// The patterns of a node under given weights.
struct Patterns {
    /// In decreasing order of weight/size.
    kinds: Vec<Kind>,
    /// (Σ copies·size, Σ copies·max(weight, 0)) of the kinds before this one.
    before: Vec<(u128, i128)>,
    capacity: u64,
    /// At most this much of a bin stays empty; the capacity means no lower limit.
    slack: u64,
    /// Most counts in a bin; 0 where counts don't matter, and then all counts are 0.
    max_count: usize,
    /// At most so many counts fewer.
    count_slack: usize,
}

impl Patterns {
    /// The patterns of this node when exactly `bins` bins are used (`None`: any number), or `None` if there are none.
    fn new(statement: &Statement, bins: Option<u64>, node: &Node, weights: &[i64]) -> Option<Self> {
        let capacity = statement.capacity;
        let (mut slack, mut max_count, mut count_slack) = (capacity, 0, 0);
        if let Some(bins) = bins {
            let waste = (u128::from(capacity) * u128::from(bins)).checked_sub(statement.total())?;
            slack = waste.min(u128::from(capacity)) as u64;
        }
        if let Some(limit) = statement.max_items.map(|limit| (limit as usize).min(statement.sizes.len())) {
            let free =
                bins.map_or(Some(limit), |bins| (bins as usize * limit).checked_sub(statement.sizes.len()))?;
            if free < limit || most_items(statement) > limit {
                (max_count, count_slack) = (limit, free.min(limit));
            }
        }
        let mut kinds = Vec::new();
        for (index, (&size, &demand)) in node.sizes.iter().zip(&node.demands).enumerate() {
            let count = if max_count > 0 { node.counts[index] as usize } else { 0 };
            let alone = node.apart[index].binary_search(&(index as u32)).is_ok();
            let mut copies = u64::from(demand).min(capacity / size).min(if alone { 1 } else { u64::MAX });
            if count > 0 {
                copies = copies.min((max_count / count) as u64);
            }
            if copies > 0 {
                kinds.push(Kind { index: index as u32, size, count, copies, weight: weights[index] });
            }
        }
        let rank = |a: &Kind, b: &Kind| {
            (i128::from(b.weight) * i128::from(a.size)).cmp(&(i128::from(a.weight) * i128::from(b.size)))
        };
        kinds.sort_by(rank);
        let mut before = vec![(0, 0)];
        for (place, kind) in kinds.iter().enumerate() {
            let (size, value): (u128, i128) = before[place];
            let gain = i128::from(kind.weight.max(0)) * i128::from(kind.copies);
            before.push((size + u128::from(kind.size) * u128::from(kind.copies), value + gain));
        }
        Some(Self { kinds, before, capacity, slack, max_count, count_slack })
    }

    /// The largest value of a pattern, cuts and pairs kept apart ignored, if it exceeds the threshold. Leaves in
    /// `layers` the lists of states before each kind, values raised to the best of their window.
    fn sweep(
        &self,
        threshold: i128,
        mut layers: Option<&mut Vec<Vec<Vec<State>>>>,
        meter: &mut Meter,
    ) -> Result<Option<i64>, CheckError> {
        let threshold = threshold.clamp(-MAX_VALUE - 1, MAX_VALUE);
        let start = |count| if count <= self.count_slack { vec![(0, 0)] } else { Vec::new() };
        let mut lists: Vec<Vec<State>> = (0..=self.max_count).map(start).collect();
        let mut held = 0;
        for place in 0..=self.kinds.len() {
            lists.iter_mut().for_each(|list| self.prune(place, threshold, list));
            if let Some(layers) = layers.as_deref_mut() {
                meter.hold(lists.iter().map(|list| size_of_val(&list[..]) + 24).sum())?;
                layers.push(lists.iter().map(|list| self.raise(list)).collect());
            }
            let Some(kind) = self.kinds.get(place) else { break };
            let (mut left, mut take) = (kind.copies, 1);
            while left > 0 {
                let (size, weight, count) =
                    (kind.size * take, kind.weight * take as i64, kind.count * take as usize);
                let mut grown: Vec<Vec<State>> = Vec::with_capacity(lists.len());
                let mut made = 0;
                for (place, list) in lists.iter().enumerate() {
                    let from = place.checked_sub(count).map_or(&[][..], |from| &lists[from]);
                    let from = &from[..from.partition_point(|state| state.0 <= self.capacity - size)];
                    made += (list.len() + from.len()) * size_of::<State>();
                    meter.step(list.len() + from.len())?;
                    meter.hold((list.len() + from.len()) * size_of::<State>())?;
                    grown.push(merge(list, from, size, weight, self.slack == self.capacity));
                }
                lists = grown;
                meter.free(std::mem::replace(&mut held, made));
                left -= take;
                take = (2 * take).min(left);
            }
        }
        meter.free(held);
        let complete = lists[self.max_count].iter().filter(|state| self.capacity - state.0 <= self.slack);
        Ok(complete.map(|state| state.1).max().filter(|&value| i128::from(value) > threshold))
    }

    /// Drops the states that can neither exceed the threshold nor fill a bin with the kinds from this place on.
    fn prune(&self, place: usize, threshold: i128, list: &mut Vec<State>) {
        let Some(first) = list.first() else { return };
        let (size, value) = self.before[place];
        let room = u128::from(self.capacity - first.0);
        let mut end = self.before.partition_point(|before| before.0 <= size + room) - 1;
        let rest = self.before[self.kinds.len()].0 - size;
        list.retain(|state| {
            let room = u128::from(self.capacity - state.0);
            while self.before[end].0 - size > room {
                end -= 1;
            }
            let missing = threshold - i128::from(state.1) - (self.before[end].1 - value) + 1;
            let left = (room - (self.before[end].0 - size)) as i128;
            let reaches = missing <= 0
                || self
                    .kinds
                    .get(end)
                    .is_some_and(|kind| left * i128::from(kind.weight) >= missing * i128::from(kind.size));
            reaches && room <= rest + u128::from(self.slack)
        });
    }

    /// The list with every value raised to the largest among the states at most `slack` lighter.
    fn raise(&self, list: &[State]) -> Vec<State> {
        let mut best: VecDeque<State> = VecDeque::new();
        let raised = list.iter().map(|&state| {
            while best.back().is_some_and(|last| last.1 <= state.1) {
                best.pop_back();
            }
            best.push_back(state);
            while best[0].0 < state.0.saturating_sub(self.slack) {
                best.pop_front();
            }
            (state.0, best[0].1)
        });
        raised.collect()
    }

    /// A bound on what the states of this layer add to a partial pattern with so much room and so many counts left.
    fn bound(&self, layer: &[Vec<State>], room: u64, counts: usize) -> Option<i64> {
        let list = &layer[counts];
        let last = list[..list.partition_point(|state| state.0 <= room)].last()?;
        (room - last.0 <= self.slack).then_some(last.1)
    }

    /// Whether some pattern, cuts and pairs kept apart observed, has a value above the threshold.
    fn search(
        &self,
        threshold: i128,
        layers: &[Vec<Vec<State>>],
        node: &Node,
        leaf: &Leaf,
        meter: &mut Meter,
    ) -> Result<bool, CheckError> {
        let mut cuts_of = vec![Vec::new(); node.sizes.len()];
        for cut in &leaf.cuts {
            cut.multipliers.iter().for_each(|&(index, _)| cuts_of[index as usize].push(cut));
        }
        let whole = Partial {
            place: self.kinds.len(),
            room: self.capacity,
            counts: self.max_count,
            value: 0,
            taken: Vec::new(),
        };
        let mut open = vec![whole];
        while let Some(partial) = open.pop() {
            let promising = |place: usize, room, counts, value| {
                self.bound(&layers[place], room, counts)
                    .is_some_and(|bound| value + i128::from(bound) > threshold)
            };
            let mut place = partial.place;
            while promising(place, partial.room, partial.counts, partial.value) {
                meter.step(1)?;
                if place == 0 {
                    return Ok(true);
                }
                place -= 1;
                let kind = &self.kinds[place];
                if partial
                    .taken
                    .iter()
                    .any(|&(index, _)| node.apart[kind.index as usize].binary_search(&index).is_ok())
                {
                    continue;
                }
                for copies in 1..=kind.copies {
                    let (Some(room), Some(counts)) = (
                        partial.room.checked_sub(kind.size * copies),
                        partial.counts.checked_sub(kind.count * copies as usize),
                    ) else {
                        break;
                    };
                    meter.step(1 + cuts_of[kind.index as usize].len() * (1 + partial.taken.len()))?;
                    let mut value = partial.value + i128::from(kind.weight) * i128::from(copies);
                    for cut in &cuts_of[kind.index as usize] {
                        let sum: u128 = partial.taken.iter().map(|&taken| cut.part(taken)).sum();
                        value -= cut.charge(sum + cut.part((kind.index, copies))) - cut.charge(sum);
                    }
                    if promising(place, room, counts, value) {
                        let taken = [&partial.taken[..], &[(kind.index, copies)]].concat();
                        open.push(Partial { place, room, counts, value, taken });
                    }
                }
            }
        }
        Ok(false)
    }
}

/// A partial pattern of the search: copies of the kinds from `place` on are chosen.
struct Partial {
    place: usize,
    room: u64,
    counts: usize,
    /// Weights less what the cuts charge so far; cuts charge more as a pattern grows, never less.
    value: i128,
    /// (type, copies).
    taken: Vec<(u32, u64)>,
}

/// Merges two lists in order of load, the second shifted by (size, weight); of states of one load the best stays,
/// and where only the best matter every heavier state must be worth more.
fn merge(one: &[State], other: &[State], size: u64, weight: i64, dominated: bool) -> Vec<State> {
    let mut merged: Vec<State> = Vec::with_capacity(one.len() + other.len());
    let (mut i, mut j) = (0, 0);
    loop {
        let shifted = other.get(j).map(|state| (state.0 + size, state.1 + weight));
        let state = match (one.get(i).copied(), shifted) {
            (None, None) => return merged,
            (Some(a), Some(b)) if (b.0, a.1) < (a.0, b.1) => b,
            (Some(a), _) => a,
            (None, Some(b)) => b,
        };
        if one.get(i) == Some(&state) {
            i += 1
        } else {
            j += 1
        }
        if merged.last().is_none_or(|last| last.0 < state.0 && !(dominated && last.1 >= state.1)) {
            merged.push(state);
        }
    }
}

/// The most items that any bin can hold.
fn most_items(statement: &Statement) -> usize {
    let (mut room, mut items) = (statement.capacity, 0);
    for (size, demand) in statement.types().into_iter().rev() {
        let copies = u64::from(demand).min(room / size);
        room -= copies * size;
        items += copies as usize;
    }
    items
}

impl Cut {
    fn part(&self, (index, copies): (u32, u64)) -> u128 {
        let found = self.multipliers.binary_search_by_key(&index, |pair| pair.0);
        found.map_or(0, |place| u128::from(self.multipliers[place].1) * u128::from(copies))
    }

    fn charge(&self, sum: u128) -> i128 {
        i128::from(self.scale) * (sum / u128::from(self.denominator)) as i128
    }
}

/// The weight of all items of a node, or what is wrong with the weights.
fn total_weight(statement: &Statement, node: &Node, weights: &[i64]) -> Result<i128, &'static str> {
    if weights.len() != node.sizes.len() {
        return Err("the weights are not as many as the types");
    }
    let mut total = 0;
    for ((&weight, &size), &demand) in weights.iter().zip(&node.sizes).zip(&node.demands) {
        if i128::from(weight).abs() * i128::from(statement.capacity) > MAX_VALUE * i128::from(size) {
            return Err("a weight exceeds 2^60·size/capacity");
        }
        total += i128::from(weight) * i128::from(demand);
    }
    Ok(total)
}

/// Why this leaf does not close its case, if it does not. `windowed`: exactly `bins` bins are filled.
pub(crate) fn flaw(
    statement: &Statement,
    bins: u64,
    node: &Node,
    leaf: &Leaf,
    windowed: bool,
    meter: &mut Meter,
) -> Result<Option<&'static str>, CheckError> {
    meter.step(node.sizes.len())?;
    let total = match total_weight(statement, node, &leaf.weights) {
        Ok(total) => total,
        Err(why) => return Ok(Some(why)),
    };
    let mut charges: i128 = 0;
    for cut in &leaf.cuts {
        let increasing = cut.multipliers.is_sorted_by(|a, b| a.0 < b.0);
        let known = cut
            .multipliers
            .iter()
            .all(|&(index, multiplier)| (index as usize) < node.sizes.len() && multiplier > 0);
        if !increasing
            || !known
            || cut.denominator == 0
            || cut.scale == 0
            || i128::from(cut.scale) > MAX_VALUE
        {
            return Ok(Some(
                "a cut needs increasing types of this node and positive figures, its scale at most 2^60",
            ));
        }
        let parts =
            cut.multipliers.iter().map(|&(index, _)| cut.part((index, node.demands[index as usize].into())));
        charges += cut.charge(parts.sum());
        if charges > 1 << 100 {
            return Ok(Some("the cuts charge more than 2^100"));
        }
    }
    if bins == 0 {
        return Ok(None);
    }
    let Some(patterns) = Patterns::new(statement, windowed.then_some(bins), node, &leaf.weights) else {
        return Ok(None);
    };
    let threshold = (total - charges - 1).div_euclid(i128::from(bins));
    let held = meter.held;
    let plain = leaf.cuts.is_empty() && node.apart.iter().all(Vec::is_empty);
    let mut layers = Vec::new();
    let mut exceeded = patterns.sweep(threshold, (!plain).then_some(&mut layers), meter)?.is_some();
    if exceeded && !plain {
        exceeded = patterns.search(threshold, &layers, node, leaf, meter)?;
    }
    meter.held = held;
    Ok(exceeded.then_some("the total does not exceed what so many patterns can be worth"))
}

/// Checks that a leaf closes a case of the proof that `bins` bins are not enough: what a prover asks before it writes
/// the leaf down.
///
/// # Errors
/// [`CheckError::Invalid`] (line 0) if it does not, [`CheckError::NotChecked`] past a limit.
pub fn check_leaf(
    statement: &Statement,
    bins: u64,
    node: &Node,
    leaf: &Leaf,
    limits: &Limits,
) -> Result<(), CheckError> {
    match flaw(statement, bins, node, leaf, true, &mut Meter::new(limits))? {
        None => Ok(()),
        Some(why) => Err(CheckError::Invalid { line: 0, why: why.into() }),
    }
}

/// The largest total weight of the items of one bin: M of the "weights" rule. `weights`: `[types]`, one for every
/// distinct size in decreasing order. With it, at least ⌈Σ demand · weight / M⌉ bins are necessary.
///
/// # Errors
/// [`CheckError::Invalid`] (line 0) for weights that a certificate can't hold, [`CheckError::NotChecked`] past a limit.
pub fn max_pattern_value(statement: &Statement, weights: &[u64], limits: &Limits) -> Result<u64, CheckError> {
    statement.validate()?;
    let (node, mut meter) = (Node::root(statement), Meter::new(limits));
    let weights: Vec<i64> = weights.iter().map(|&weight| i64::try_from(weight).unwrap_or(i64::MAX)).collect();
    total_weight(statement, &node, &weights)
        .map_err(|why| CheckError::Invalid { line: 0, why: why.into() })?;
    let patterns = Patterns::new(statement, None, &node, &weights)
        .expect("without a number of bins nothing is excluded");
    let (mut room, mut counts, mut greedy) = (patterns.capacity, patterns.max_count as u64, 0);
    for kind in &patterns.kinds {
        let places = counts.checked_div(kind.count as u64).unwrap_or(u64::MAX);
        let copies = kind.copies.min(room / kind.size).min(places);
        room -= copies * kind.size;
        counts -= copies * kind.count as u64;
        greedy += kind.weight * copies as i64;
    }
    let better = patterns.sweep(greedy.into(), None, &mut meter)?;
    Ok(better.unwrap_or(greedy).unsigned_abs())
}
