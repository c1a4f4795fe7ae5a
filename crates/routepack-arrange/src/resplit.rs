//! Splitting two cells anew, exactly.
//!
//! Problem: two cells of a block and up to [`FREE`] units in them that may change sides (the others stay); find the split
//! that minimises first A of the block, Σ_s max(rest_s, φ_a, φ_b), then Σ_s max(φ_a, φ_b), within the limits of a cell.
//! Method: all 2^(k−1) splits in the order of a Gray code, so that one unit changes sides at a time.
//! Complexity: O(2^k·kinds).
//! Reference: F. Gray, US patent 2 632 058, 1953; pairwise exact re-splitting in number partitioning follows
//! M. Dell'Amico and S. Martello, INFORMS J. Comput. 7(2), 1995, doi 10.1287/ijoc.7.2.191 (multi-exchange idea).

use crate::units::Units;

/// Units that change sides at most.
pub(crate) const FREE: usize = 14;

/// Sums of one cell.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) tokens: u32,
    pub(crate) samples: u32,
    pub(crate) units: u32,
    /// φ by kind.
    pub(crate) attention: Vec<u64>,
}

impl Load {
    pub(crate) fn empty(kinds: usize) -> Self {
        Self { tokens: 0, samples: 0, units: 0, attention: vec![0; kinds] }
    }

    pub(crate) fn add(&mut self, units: &Units, unit: usize) {
        self.tokens += units.tokens[unit];
        self.samples += units.samples[unit];
        self.units += 1;
        for (sum, &cost) in self.attention.iter_mut().zip(units.attention(unit)) {
            *sum += cost;
        }
    }

    pub(crate) fn remove(&mut self, units: &Units, unit: usize) {
        self.tokens -= units.tokens[unit];
        self.samples -= units.samples[unit];
        self.units -= 1;
        for (sum, &cost) in self.attention.iter_mut().zip(units.attention(unit)) {
            *sum -= cost;
        }
    }
}

/// The best split of the units at `places` (positions in `members`), of which the first [`FREE`] may change sides:
/// those with whether each goes to the second cell. `None` if no split beats the present one.
pub(crate) fn resplit(
    units: &Units,
    members: &[u32],
    places: &[usize],
    cell_of: &[u32],
    [a, b]: [usize; 2],
    loads: &[Load],
    rest: &[u64],
) -> Option<Vec<(usize, bool)>> {
    match rest.len() {
        1 => resplit_of::<1>(units, members, places, cell_of, [a, b], loads, rest),
        2 => resplit_of::<2>(units, members, places, cell_of, [a, b], loads, rest),
        _ => resplit_of::<16>(units, members, places, cell_of, [a, b], loads, rest),
    }
}

#[derive(Clone, Copy)]
struct Side<const K: usize> {
    tokens: i64,
    samples: i64,
    units: i64,
    attention: [i64; K],
}

impl<const K: usize> Side<K> {
    fn of(load: &Load) -> Self {
        let mut attention = [0; K];
        for (to, &from) in attention.iter_mut().zip(&load.attention) {
            *to = from as i64;
        }
        Self {
            tokens: i64::from(load.tokens),
            samples: i64::from(load.samples),
            units: i64::from(load.units),
            attention,
        }
    }

    /// This side after `sign` times a unit came.
    #[inline]
    fn step(&mut self, unit: &Self, sign: i64) {
        self.tokens = self.tokens.wrapping_add(sign.wrapping_mul(unit.tokens));
        self.samples = self.samples.wrapping_add(sign.wrapping_mul(unit.samples));
        self.units = self.units.wrapping_add(sign);
        for kind in 0..K {
            self.attention[kind] = self.attention[kind].wrapping_add(sign.wrapping_mul(unit.attention[kind]));
        }
    }
}

fn resplit_of<const K: usize>(
    units: &Units,
    members: &[u32],
    places: &[usize],
    cell_of: &[u32],
    [a, b]: [usize; 2],
    loads: &[Load],
    rest: &[u64],
) -> Option<Vec<(usize, bool)>> {
    let free = &places[..places.len().min(FREE)];
    let mut rests = [0i64; K];
    for (to, &from) in rests.iter_mut().zip(rest) {
        *to = from as i64;
    }
    let sides: Vec<Side<K>> = free
        .iter()
        .map(|&place| {
            let mut load = Load::empty(units.kinds);
            load.add(units, members[place] as usize);
            Side::of(&load)
        })
        .collect();
    let mut at_a = Side::<K>::of(&loads[a]);
    let at_b = Side::<K>::of(&loads[b]);
    let mut both = at_a;
    both.tokens += at_b.tokens;
    both.samples += at_b.samples;
    both.units += at_b.units;
    for kind in 0..K {
        both.attention[kind] += at_b.attention[kind];
    }
    let value = |at_a: &Side<K>| {
        let (mut charged, mut own) = (0i64, 0i64);
        for kind in 0..K {
            let largest = at_a.attention[kind].max(both.attention[kind].wrapping_sub(at_a.attention[kind]));
            own = own.wrapping_add(largest);
            charged = charged.wrapping_add(largest.max(rests[kind]));
        }
        (charged, own)
    };
    let (capacity, max_samples) = (i64::from(units.capacity), i64::from(units.max_samples));
    let mut signs: Vec<i64> =
        free.iter().map(|&place| if cell_of[place] as usize == a { -1 } else { 1 }).collect();
    let mut best = value(&at_a);
    let mut found = None;
    let mut flipped = 0u32;
    for step in 1u32..1 << free.len() {
        let bit = step.trailing_zeros() as usize;
        at_a.step(&sides[bit], signs[bit]);
        signs[bit] = -signs[bit];
        flipped ^= 1 << bit;
        let (tokens_b, samples_b) =
            (both.tokens.wrapping_sub(at_a.tokens), both.samples.wrapping_sub(at_a.samples));
        if at_a.tokens > capacity || tokens_b > capacity {
            continue;
        }
        let value = value(&at_a);
        if value < best
            && at_a.samples <= max_samples
            && samples_b <= max_samples
            && at_a.units > 0
            && at_a.units < both.units
        {
            best = value;
            found = Some(flipped);
        }
    }
    let flipped = found?;
    Some(
        free.iter()
            .enumerate()
            .map(|(bit, &place)| (place, (cell_of[place] as usize == b) != (flipped >> bit & 1 == 1)))
            .collect(),
    )
}
