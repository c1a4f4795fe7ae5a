//! Pricing by one table over rooms, many different patterns from each table.
//!
//! Problem: among the patterns of a [`PatternSpace`] find those worth more than a threshold, a pattern's value being
//! the weights of its items, less what cuts charge.
//! T_k(c, r) = largest value of a pattern of the k smallest types in room r with c places, cuts and pairs
//! kept apart ignored; copies of a type go in by doubling parts. Recovery walks from the largest type down wherever
//! T promises more than the threshold; every type is used a few times only per table, so that the patterns differ.
//! The walk observes cuts and pairs kept apart; without cuts, pairs and untabled places T is the exact maximum.
//! Complexity: O(Σ log copies · places · C/gcd) a table.
//! References: P. C. Gilmore, R. E. Gomory, Operations Research 11 (1963), doi:10.1287/opre.11.6.863;
//! many patterns a table: R. L. F. da Silva, R. C. S. Schouery, INFORMS J. on Computing (2025), repository 2023.0399.

use multiversion::multiversion;
use routepack_certificate::Cut;

use crate::pattern_space::PatternSpace;
use crate::types::Pattern;

/// Steps of a walk between questions whether to stop.
pub(crate) const ASK: u64 = 1 << 14;

/// No pattern here.
pub(crate) const NEVER: i64 = i64::MIN / 4;

/// What a pattern is worth.
#[derive(Debug, Clone)]
pub struct Prices<'a> {
    /// `[types]`, what one item is worth.
    pub weights: &'a [i64],
    /// What sets of items are charged.
    pub cuts: &'a [Cut],
}

/// How patterns are collected.
#[derive(Debug, Clone, Copy)]
pub struct Collect {
    /// Patterns must be worth more.
    pub threshold: i64,
    /// Patterns of one batch that may use a type, per item demanded; `None`: only the single best pattern is sought.
    pub usage: Option<u32>,
    /// Steps after which the walk ends.
    pub max_steps: u64,
}

/// What a walk found.
#[derive(Debug, Clone, Default)]
pub struct Collected {
    /// Patterns with their values.
    pub patterns: Vec<(Pattern, i64)>,
    /// Whether the walk saw everything: without `usage`, that no pattern is worth more than the best found.
    pub complete: bool,
}

/// The table of one set of prices.
///
/// Layer k is only asked about an empty bin, or about rooms that an item of the next larger type or of a still larger
/// one has left: each row holds the rooms up to capacity − that size, and last the capacity.
#[derive(Debug)]
pub struct PricingTable<'a> {
    space: &'a PatternSpace,
    /// Greatest common divisor of the sizes: rooms are counted in it.
    unit: u64,
    /// Room of an empty bin.
    capacity: usize,
    /// Counts of places, 0 to the limit; 1 where they are not tabled.
    planes: usize,
    /// `[types of the order + 1]`, cells of one row of the layer.
    lengths: Vec<usize>,
    /// `[types of the order + 1]`, where the layer begins.
    starts: Vec<usize>,
    /// `[layers][planes][length of the layer]`
    cells: Vec<i64>,
}

impl<'a> PricingTable<'a> {
    /// An empty table, or `None` if it would exceed so many bytes. `memory` is that of a former table.
    pub fn new(space: &'a PatternSpace, max_bytes: u64, memory: &mut Vec<i64>) -> Option<Self> {
        let sizes = space.order.iter().map(|&kind| space.sizes[kind as usize]);
        let unit = sizes.clone().fold(0, gcd).max(1);
        let capacity = space.capacity / unit;
        let lengths: Vec<u64> = sizes.map(|size| capacity - size / unit + 2).chain([1]).collect();
        let row: u64 = lengths.iter().try_fold(0, |sum: u64, &length| sum.checked_add(length))?;
        let fits = |planes: &u64| row.checked_mul(*planes).is_some_and(|cells| cells <= max_bytes / 8);
        let planes = space.places.map(|places| u64::from(places) + 1).filter(fits).or(Some(1).filter(fits))?;
        let starts = lengths.iter().scan(0, |end, length| {
            let start = *end;
            *end += (length * planes) as usize;
            Some(start)
        });
        let starts = starts.collect();
        let mut cells = std::mem::take(memory);
        cells.resize((row * planes) as usize, NEVER);
        let lengths = lengths.into_iter().map(|length| length as usize).collect();
        Some(Self {
            space,
            unit,
            capacity: capacity as usize,
            planes: planes as usize,
            lengths,
            starts,
            cells,
        })
    }

    /// Size of the table (bytes).
    pub fn bytes(&self) -> u64 {
        (self.cells.len() * size_of::<i64>()) as u64
    }

    /// Hands the memory on.
    pub(crate) fn into_memory(self) -> Vec<i64> {
        self.cells
    }

    /// Whether the largest value of [`PricingTable::build`] is that of a pattern, cuts apart.
    pub(crate) fn is_exact(&self) -> bool {
        (self.space.places.is_none() || self.planes > 1) && self.space.apart.iter().all(Vec::is_empty)
    }

    /// Fills the table and returns the largest value in it: no pattern is worth more, even before cuts. `None` if
    /// stopped; the table is of no use then.
    pub fn build(&mut self, prices: &Prices<'_>, stop: &(dyn Fn() -> bool + Sync)) -> Option<i64> {
        self.fill_base();
        let mut copied = Vec::new();
        for place in 0..self.space.order.len() {
            if stop() {
                return None;
            }
            let kind = self.space.order[place] as usize;
            let size = (self.space.sizes[kind] / self.unit) as usize;
            let rise = if self.planes > 1 { self.space.counts[kind] as usize } else { 0 };
            let (weight, copies) = (prices.weights[kind], self.space.copies[kind] as usize);
            let (length, next) = (self.lengths[place], self.lengths[place + 1]);
            let (before, after) = self.cells.split_at_mut(self.starts[place + 1]);
            let mut before = &before[self.starts[place]..];
            if copies > 1 {
                copied.clear();
                copied.extend_from_slice(before);
                add_copies(&mut copied, length, (size, rise, weight), copies - 1);
                before = &copied;
            }
            for count in 0..self.planes {
                let (stay, to) = (&before[count * length..][..length], &mut after[count * next..][..next]);
                let rooms = next - 1;
                let taken = rooms.min(size);
                to[..taken].copy_from_slice(&stay[..taken]);
                if let Some(from) = count.checked_sub(rise) {
                    let from = &before[from * length..][..length];
                    larger(&mut to[taken..rooms], &stay[taken..], from, weight);
                    to[rooms] = stay[length - 1].max(from[length - 2] + weight);
                } else {
                    to[taken..rooms].copy_from_slice(&stay[taken..rooms]);
                    to[rooms] = stay[length - 1];
                }
            }
        }
        self.cells.last().copied()
    }

    /// Layer 0: no items, the room is left empty.
    fn fill_base(&mut self) {
        let spare = self.space.capacity % self.unit;
        let length = self.lengths[0];
        for (place, cell) in self.cells[..length].iter_mut().enumerate() {
            let room = if place == length - 1 { self.capacity } else { place };
            let empty = room as u64 * self.unit + spare;
            *cell = if empty <= self.space.slack { 0 } else { NEVER };
        }
        for count in 1..self.planes {
            self.cells.copy_within(..length, count * length);
        }
    }

    /// Walks the table for patterns.
    pub fn collect(&self, prices: &Prices<'_>, how: Collect, stop: &(dyn Fn() -> bool + Sync)) -> Collected {
        let num_types = self.space.sizes.len();
        let mut cuts_of = vec![Vec::new(); num_types];
        for (cut, terms) in prices.cuts.iter().enumerate() {
            terms
                .multipliers
                .iter()
                .for_each(|&(kind, multiplier)| cuts_of[kind as usize].push((cut, multiplier)));
        }
        let mut walk = Walk {
            table: self,
            prices,
            how,
            stop,
            cuts_of,
            sums: vec![0; prices.cuts.len()],
            used: vec![0; num_types],
            steps: 0,
            taken: Vec::new(),
            found: Vec::new(),
        };
        let places = self.space.places.unwrap_or(u32::MAX);
        walk.descend(self.space.order.len(), self.capacity, places, 0);
        Collected { complete: walk.steps <= how.max_steps, patterns: walk.found }
    }

    fn bound(&self, layer: usize, room: usize, places: u32) -> i64 {
        let (plane, length) = (if self.planes > 1 { places as usize } else { 0 }, self.lengths[layer]);
        let place = if room == self.capacity { length - 1 } else { room };
        self.cells[self.starts[layer] + plane * length + place]
    }
}

struct Walk<'a> {
    table: &'a PricingTable<'a>,
    prices: &'a Prices<'a>,
    how: Collect,
    stop: &'a (dyn Fn() -> bool + Sync),
    /// `[types]`, (cut, multiplier)
    cuts_of: Vec<Vec<(usize, u32)>>,
    /// `[cuts]`, Σ multipliers taken.
    sums: Vec<u32>,
    /// `[types]`, patterns found that hold the type.
    used: Vec<u32>,
    steps: u64,
    /// (type, copies)
    taken: Vec<(u32, u32)>,
    found: Vec<(Pattern, i64)>,
}

impl Walk<'_> {
    /// Extends the pattern taken so far, worth `value`, by the `layer` smallest types.
    fn descend(&mut self, mut layer: usize, room: usize, places: u32, value: i64) {
        let (table, space) = (self.table, self.table.space);
        loop {
            self.steps += 1;
            if self.steps.is_multiple_of(ASK) && (self.stop)() {
                self.steps = u64::MAX / 2;
            }
            if self.steps > self.how.max_steps
                || value + table.bound(layer, room, places) <= self.how.threshold
            {
                return;
            }
            if layer == 0 {
                self.emit(value);
                return;
            }
            layer -= 1;
            let kind = space.order[layer] as usize;
            let size = (space.sizes[kind] / table.unit) as usize;
            let mut most = (space.copies[kind] as usize).min(room / size) as u32;
            most = most.min(places / space.counts[kind]);
            if self.how.usage.is_some_and(|usage| self.used[kind] >= usage * space.demands[kind]) {
                most = 0;
            }
            if most > 0 && self.taken.iter().any(|(other, _)| space.apart[kind].binary_search(other).is_ok())
            {
                most = 0;
            }
            for copies in (1..=most).rev() {
                let after = value + self.prices.weights[kind] * i64::from(copies) - self.charge(kind, copies);
                let (room, places) = (room - size * copies as usize, places - space.counts[kind] * copies);
                if after + table.bound(layer, room, places) <= self.how.threshold {
                    continue;
                }
                self.taken.push((kind as u32, copies));
                self.cuts_of[kind]
                    .iter()
                    .for_each(|&(cut, multiplier)| self.sums[cut] += multiplier * copies);
                self.descend(layer, room, places, after);
                self.cuts_of[kind]
                    .iter()
                    .for_each(|&(cut, multiplier)| self.sums[cut] -= multiplier * copies);
                self.taken.pop();
                if let Some(usage) = self.how.usage {
                    let over = |&(kind, _): &(u32, u32)| {
                        self.used[kind as usize] >= 2 * usage * space.demands[kind as usize]
                    };
                    if self.taken.iter().any(over) {
                        return;
                    }
                }
            }
        }
    }

    /// What cuts charge for so many copies more.
    fn charge(&self, kind: usize, copies: u32) -> i64 {
        let charges = self.cuts_of[kind].iter().map(|&(cut, multiplier)| {
            let (before, cut) = (self.sums[cut], &self.prices.cuts[cut]);
            cut.scale as i64
                * i64::from((before + multiplier * copies) / cut.denominator - before / cut.denominator)
        });
        charges.sum()
    }

    fn emit(&mut self, value: i64) {
        let items = self.taken.iter().flat_map(|&(kind, copies)| std::iter::repeat_n(kind, copies as usize));
        let mut pattern: Pattern = items.collect();
        pattern.sort_unstable();
        self.taken.iter().for_each(|&(kind, _)| self.used[kind as usize] += 1);
        if self.how.usage.is_none() {
            self.how.threshold = value;
            self.found.clear();
        }
        self.found.push((pattern, value));
    }
}

/// `to[r] = max(stay[r], from[r] + value)`
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512vl+avx512dq+avx2+bmi2",
    "x86_64+avx2+bmi2",
    "aarch64+neon"
))]
fn larger(to: &mut [i64], stay: &[i64], from: &[i64], value: i64) {
    to.iter_mut().zip(stay).zip(from).for_each(|((to, &stay), &from)| *to = stay.max(from + value));
}

/// `to[r] = max(to[r], from[r] + value)`
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512vl+avx512dq+avx2+bmi2",
    "x86_64+avx2+bmi2",
    "aarch64+neon"
))]
fn raise(to: &mut [i64], from: &[i64], value: i64) {
    to.iter_mut().zip(from).for_each(|(to, &from)| *to = (*to).max(from + value));
}

/// Adds up to so many copies of an item (size, places, weight) to all rows of a layer; the last cell of a row is the room
/// that is larger than the one before it by the item's size.
fn add_copies(layer: &mut [i64], length: usize, (size, rise, weight): (usize, usize, i64), copies: usize) {
    let (mut part, mut left) = (1, copies);
    while left > 0 {
        let (shift, value) = (size * part, weight * part as i64);
        for count in (0..layer.len() / length).rev() {
            let Some(from) = count.checked_sub(rise * part) else { continue };
            let (low, high) = layer.split_at_mut(count * length);
            let row = &mut high[..length];
            // The capacity is length − 2 + size.
            let source = (length - 2 + size).checked_sub(shift);
            let other = if rise > 0 { Some(&low[from * length..][..length]) } else { None };
            if let Some(source) = source {
                row[length - 1] = row[length - 1].max(other.unwrap_or(row)[source] + value);
            }
            let rooms = &mut row[..length - 1];
            match other {
                Some(other) if shift < rooms.len() => raise(&mut rooms[shift..], other, value),
                Some(_) => {}
                None => raise_within(rooms, shift, value),
            }
        }
        left -= part;
        part = (2 * part).min(left);
    }
}

/// `row[r] = max(row[r], row[r − shift] + value)`, right sides as they were before.
fn raise_within(row: &mut [i64], shift: usize, value: i64) {
    let mut end = row.len();
    while end > shift {
        let start = shift.max(end.saturating_sub(shift));
        let (from, to) = row.split_at_mut(start);
        raise(&mut to[..end - start], &from[start - shift..], value);
        end = start;
    }
}

pub(crate) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
