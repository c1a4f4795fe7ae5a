//! Pricing by one table over rooms, many different patterns from each table.
//!
//! Problem: among the patterns of a [`PatternSpace`] find those worth more than a threshold, a pattern's value being
//! the weights of its items, less what cuts charge, plus what a base function pays for its empty room.
//! T_k(c, r) = largest value of a pattern of the k smallest types in room r with c places, cuts and pairs
//! kept apart ignored; copies of a type go in by doubling parts. Recovery walks from the largest type down wherever
//! T promises more than the threshold; every type is used a few times only per table, so that the patterns differ.
//! The walk observes cuts and pairs kept apart; without cuts, pairs and untabled places T is the exact maximum.
//! Complexity: O(Σ log copies · places · C/gcd) a table.
//! References: P. C. Gilmore, R. E. Gomory, Operations Research 11 (1963), doi:10.1287/opre.11.6.863;
//! many patterns a table: R. L. F. da Silva, R. C. S. Schouery, INFORMS J. on Computing (2025), repository 2023.0399.

use routepack_certificate::Cut;

use crate::pattern_space::PatternSpace;
use crate::types::Pattern;

/// Steps of a walk between questions whether to stop.
pub(crate) const ASK: u64 = 1 << 14;

/// No pattern here.
pub(crate) const NEVER: i64 = i64::MIN / 4;

/// What a pattern is worth.
#[derive(Debug, Clone)]
pub(crate) struct Prices<'a> {
    /// `[types]`
    pub(crate) weights: &'a [i64],
    pub(crate) cuts: &'a [Cut],
    /// What a unit of empty room pays, times 2^32.
    pub(crate) room: u64,
}

/// How patterns are collected.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Collect {
    /// Patterns must be worth more.
    pub(crate) threshold: i64,
    /// Patterns of one batch that may use a type, per item demanded; `None`: only the single best pattern is sought.
    pub(crate) usage: Option<u32>,
    /// Steps after which the walk ends.
    pub(crate) max_steps: u64,
}

/// What a walk found.
#[derive(Debug, Clone, Default)]
pub(crate) struct Collected {
    /// Patterns with their values.
    pub(crate) patterns: Vec<(Pattern, i64)>,
    /// Whether the walk saw everything: without `usage`, that no pattern is worth more than the best found.
    pub(crate) complete: bool,
}

/// The table of one set of prices.
#[derive(Debug)]
pub(crate) struct PricingTable<'a> {
    space: &'a PatternSpace,
    /// Greatest common divisor of the sizes: rooms are counted in it.
    unit: u64,
    /// Rooms, 0 to capacity.
    width: usize,
    /// Counts of places, 0 to the limit; 1 where they are not tabled.
    planes: usize,
    /// `[types of the order + 1][planes][width]`
    layers: Vec<i64>,
}

impl<'a> PricingTable<'a> {
    /// An empty table, or `None` if it would exceed so many bytes. `memory` is that of a former table.
    pub(crate) fn new(space: &'a PatternSpace, max_bytes: u64, memory: &mut Vec<i64>) -> Option<Self> {
        let unit = space.order.iter().fold(0, |unit, &kind| gcd(unit, space.sizes[kind as usize])).max(1);
        let width = space.capacity / unit + 1;
        let cells = |planes: u64| width.checked_mul(planes)?.checked_mul(space.order.len() as u64 + 1);
        let fits = |planes: &u64| cells(*planes).is_some_and(|cells| cells <= max_bytes / 8);
        let planes = space.places.map(|places| u64::from(places) + 1).filter(fits).or(Some(1).filter(fits))?;
        let mut layers = std::mem::take(memory);
        layers.resize(cells(planes)? as usize, NEVER);
        Some(Self { space, unit, width: width as usize, planes: planes as usize, layers })
    }

    /// Hands the memory on.
    pub(crate) fn into_memory(self) -> Vec<i64> {
        self.layers
    }

    /// Whether the largest value of [`PricingTable::build`] is that of a pattern, cuts apart.
    pub(crate) fn is_exact(&self) -> bool {
        (self.space.places.is_none() || self.planes > 1) && self.space.apart.iter().all(Vec::is_empty)
    }

    /// Fills the table and returns the largest value in it: no pattern is worth more, even before cuts. `None` if
    /// stopped; the table is of no use then.
    pub(crate) fn build(&mut self, prices: &Prices<'_>, stop: &(dyn Fn() -> bool + Sync)) -> Option<i64> {
        let plane = self.width;
        let spare = self.space.capacity % self.unit;
        for (room, cell) in self.layers[..plane].iter_mut().enumerate() {
            let empty = room as u64 * self.unit + spare;
            let pays = (u128::from(prices.room) * u128::from(empty)) >> 32;
            *cell = if empty <= self.space.slack { pays as i64 } else { NEVER };
        }
        for count in 1..self.planes {
            self.layers.copy_within(..plane, count * plane);
        }
        let layer = plane * self.planes;
        for (place, &kind) in self.space.order.iter().enumerate() {
            if stop() {
                return None;
            }
            let kind = kind as usize;
            let (before, after) = self.layers.split_at_mut(layer * (place + 1));
            let (before, after) = (&before[layer * place..], &mut after[..layer]);
            let size = (self.space.sizes[kind] / self.unit) as usize;
            let rise = if self.planes > 1 { self.space.counts[kind] as usize } else { 0 };
            let copies = self.space.copies[kind] as usize;
            let (mut part, mut left) = (1, copies);
            while left > 0 {
                let value = prices.weights[kind] * part as i64;
                for count in (0..self.planes).rev() {
                    let (low, high) = after.split_at_mut(count * plane);
                    let to = &mut high[..plane];
                    let source = count.checked_sub(rise * part).map(|count| count * plane);
                    let shift = if source.is_some() { size * part } else { plane };
                    if left == copies {
                        to[..shift].copy_from_slice(&before[count * plane..][..shift]);
                        let from = &before[source.unwrap_or(0)..];
                        larger(&mut to[shift..], &before[count * plane + shift..], from, value);
                    } else if rise > 0 {
                        raise(&mut to[shift..], &low[source.unwrap_or(0)..], value);
                    } else {
                        raise_within(to, shift, value);
                    }
                }
                left -= part;
                part = (2 * part).min(left);
            }
        }
        self.layers.last().copied()
    }

    /// Walks the table for patterns.
    pub(crate) fn collect(
        &self,
        prices: &Prices<'_>,
        how: Collect,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Collected {
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
        walk.descend(self.space.order.len(), (self.space.capacity / self.unit) as usize, places, 0);
        Collected { complete: walk.steps <= how.max_steps, patterns: walk.found }
    }

    fn bound(&self, layer: usize, room: usize, places: u32) -> i64 {
        let plane = if self.planes > 1 { places as usize } else { 0 };
        self.layers[(layer * self.planes + plane) * self.width + room]
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
                self.emit(value + table.bound(0, room, places));
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
fn larger(to: &mut [i64], stay: &[i64], from: &[i64], value: i64) {
    to.iter_mut().zip(stay).zip(from).for_each(|((to, &stay), &from)| *to = stay.max(from + value));
}

/// `to[r] = max(to[r], from[r] + value)`
fn raise(to: &mut [i64], from: &[i64], value: i64) {
    to.iter_mut().zip(from).for_each(|(to, &from)| *to = (*to).max(from + value));
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
