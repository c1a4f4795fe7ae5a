//! Bounds on the attention cost of one kind, summed over rows and slot groups.
//!
//! Problem: N row-groups (R rows × slot groups) of m cells each; every unit u (tokens t, charge φ) in one cell of at
//! most C' tokens, no cell empty; M_b = the largest cell value (Σ φ) of row-group b. Bound Σ_b M_b from below.
//! Symbols: c_1 ≥ c_2 ≥ … the cell values of a layout; K the units no two of which fit one cell.
//!
//! 1. *Average*: a maximum is at least the mean of its m cells: Σ_b M_b ≥ ⌈Σφ/m⌉.
//! 2. *Integrality*: the m(k−1)+1 most valuable cells lie in at least k row-groups, so the k-th largest M is at least
//!    c_{m(k−1)+1}, and c_j ≥ f_j for each of: (a) if at most h units of a set fit one cell, the h(j−1)+1 most valuable
//!    of the set lie in at least j cells, so f_j = the (h(j−1)+1)-th largest φ of the set (sets: t > C'/(h+1); K for
//!    h = 1; every unit where a cell holds at most h samples); (b) the cells from the j-th on hold a unit each, so
//!    f_j = the (N·m−j+1)-th smallest φ. Bound: F = Σ_k f_{m(k−1)+1}, f the largest of them.
//! 3. *Levelled*: no cell is worth more than some a: a cell with unit i of K at most φ_i + fill(C'−t_i), one without at
//!    most fill(C'), fill(c) = ⌊c · the largest φ/t outside K⌋. Then Σ_b m·M_b = Σφ + Σ over cells of (M_b − value) ≥
//!    Σφ + Σ (M_b − a)⁺. Sorted, the M_b (each m times) are at least the f above (each m times), and a sum of (x − y)⁺
//!    over a matching of two multisets is least when both are sorted (convexity). So
//!    Σ_b M_b ≥ ⌈(Σφ + Σ_j (f_{m⌈j/m⌉−m+1} − a_j)⁺)/m⌉, both sorted descending.
//!
//! 4. *Prefix*: with A(j) ≥ the value of any j cells ([`crate::richest_cells`]), the cells outside the k row-groups of
//!    largest M are worth Σφ − A(m·k) at least, so their maxima sum to T_k = (Σφ − A(m·k))/m, and the largest of these
//!    N − k is at least T_k/(N − k): another f for it. Hence Σ_b M_b ≥ Σ_{i ≤ k} F_i + T_k for every k. The A(m·k) of the
//!    best k is the least of that and, where it is affordable, of the one by prices of units ([`crate::priced_cells`]).
//!
//! No layout exists if K outnumbers the cells, or cells the units; any number is then a bound.
//! Complexity: O(n log n + n·16) per kind, O(log N) bounds A(j) beyond 32, and at most [`MAX_PRICED`] by prices.
//! Reference: DESIGN §1.3; 2(a) for h > 1, 2(b), 3 and 4 are derived here.

use rayon::prelude::*;
use routepack_problem::Instance;

use crate::peak_bounds::saturate;
use crate::priced_cells;
use crate::richest_cells::{RichestCells, Valued};

/// Sets of units of which at most h fit one cell are tried for h up to this.
const MAX_PER_CELL: u64 = 16;

/// A(j) is computed for the first j one by one, so many times units at most, where that leaves 4 or more.
const MAX_POINT_UNITS: usize = 1 << 19;

/// Bounds A(j) by prices per kind, at most.
const MAX_PRICED: usize = 2;

/// Lower bounds on Σ over rows and slot groups of the slowest slot's charge, one attention kind, in scaled integers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttentionBound {
    /// ⌈total/m⌉.
    pub average: u64,
    /// Units that cannot share a cell occupy several row-groups.
    pub integrality: u64,
    /// Average plus what the slots beside a heavy unit cannot fill.
    pub levelled: u64,
    /// The richest cells hold only so much; the others must carry the rest.
    pub prefix: u64,
}

impl AttentionBound {
    /// The largest of the four.
    pub fn best(&self) -> u64 {
        self.average.max(self.integrality).max(self.levelled).max(self.prefix)
    }
}

/// Units of an instance as this bound sees them.
struct Unit {
    tokens: u64,
    charge: u64,
    /// Whether no two of the units so marked fit one cell.
    alone: bool,
}

/// The bounds of every attention kind, `[kinds]`, for layouts of R = `rows` rows; one part of the DP slot's tokens.
///
/// Prices of units take most of the time, tens of milliseconds; [`quick_attention_bounds`] do without.
pub fn attention_bounds(instance: &Instance, rows: usize) -> Vec<AttentionBound> {
    bound_kinds(instance, rows, MAX_PRICED)
}

/// [`attention_bounds`] without prices of units: never above those, and within milliseconds.
pub fn quick_attention_bounds(instance: &Instance, rows: usize) -> Vec<AttentionBound> {
    bound_kinds(instance, rows, 0)
}

fn bound_kinds(instance: &Instance, rows: usize, max_priced: usize) -> Vec<AttentionBound> {
    let topology = instance.topology();
    let width = topology.slots_per_shard();
    let groups = rows * topology.num_groups();
    let capacity = u64::from(instance.cell_capacity());
    let max_samples = instance.setting().packing.max_samples;
    let alone = conflicting_units(instance);
    (0..instance.charges().num_kinds())
        .map(|kind| {
            let mut units: Vec<Unit> = (0..instance.num_units())
                .map(|unit| Unit {
                    tokens: instance.unit_tokens(unit),
                    charge: unit_charge(instance, unit, kind),
                    alone: alone[unit],
                })
                .collect();
            units.sort_unstable_by_key(|unit| std::cmp::Reverse((unit.charge, unit.tokens, unit.alone)));
            let total: u128 = units.iter().map(|unit| u128::from(unit.charge)).sum();
            let heavy = cell_values(&units, capacity, max_samples, width, groups);
            let unfilled = unfilled(&units, capacity, width, &heavy);
            AttentionBound {
                average: saturate(total.div_ceil(width as u128)),
                integrality: saturate(heavy.iter().map(|&value| u128::from(value)).sum()),
                prefix: saturate(prefix(&units, capacity, max_samples, width, &heavy, total, max_priced)),
                levelled: saturate((total + unfilled).div_ceil(width as u128)),
            }
        })
        .collect()
}

/// Marks a largest-first set of units no two of which fit one cell: all if a cell holds one sample, else every unit
/// of more than half a cell and one more if it does not fit beside the smallest of them.
pub(crate) fn conflicting_units(instance: &Instance) -> Vec<bool> {
    let n = instance.num_units();
    if instance.setting().packing.max_samples == Some(1) {
        return vec![true; n];
    }
    let capacity = u64::from(instance.cell_capacity());
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by_key(|&unit| std::cmp::Reverse(instance.unit_tokens(unit)));
    let mut alone = vec![false; n];
    let mut previous = capacity;
    for unit in order {
        let tokens = instance.unit_tokens(unit);
        // The two smallest of the set, hence any two, are together longer than a cell.
        if tokens + previous <= capacity {
            break;
        }
        alone[unit] = true;
        previous = tokens;
    }
    alone
}

fn unit_charge(instance: &Instance, unit: usize, kind: usize) -> u64 {
    instance.unit(unit).iter().map(|&sample| instance.charges().attention(sample as usize)[kind]).sum()
}

/// f at j = 1, m+1, 2m+1, …: lower bounds on the most valuable cell of the k-th row-group, descending, `[groups]`.
fn cell_values(
    units: &[Unit],
    capacity: u64,
    max_samples: Option<u32>,
    width: usize,
    groups: usize,
) -> Vec<u64> {
    let cells = width * groups;
    // (b): the smallest charges, as every cell holds a unit.
    let mut values: Vec<u64> = (0..groups)
        .map(|group| {
            let from_below = cells - group * width;
            units.len().checked_sub(from_below).map_or(0, |index| units[index].charge)
        })
        .collect();
    // (a): sets of which at most h fit one cell, most valuable first.
    for h in 1..=MAX_PER_CELL {
        let all = max_samples.is_some_and(|limit| u64::from(limit) <= h);
        let set =
            units.iter().filter(|unit| all || unit.tokens * (h + 1) > capacity || (h == 1 && unit.alone));
        for (value, unit) in values.iter_mut().zip(set.step_by(h as usize * width)) {
            *value = (*value).max(unit.charge);
        }
    }
    values
}

/// Σ_j (f_j − a_j)⁺: what cannot be filled beside the heavy cells.
fn unfilled(units: &[Unit], capacity: u64, width: usize, heavy: &[u64]) -> u128 {
    let (charge, tokens) = units
        .iter()
        .filter(|unit| !unit.alone)
        .map(|unit| (u128::from(unit.charge), u128::from(unit.tokens)))
        .max_by(|a, b| (a.0 * b.1).cmp(&(b.0 * a.1)))
        .unwrap_or((0, 1));
    let fill = |space: u64| u128::from(space) * charge / tokens;
    let mut at_most: Vec<u128> = units
        .iter()
        .filter(|unit| unit.alone)
        .map(|unit| u128::from(unit.charge) + fill(capacity - unit.tokens))
        .collect();
    at_most.resize((width * heavy.len()).max(at_most.len()), fill(capacity));
    at_most.sort_unstable_by(|a, b| b.cmp(a));
    at_most
        .chunks(width)
        .zip(heavy)
        .flat_map(|(cells, &value)| cells.iter().map(move |&cell| u128::from(value).saturating_sub(cell)))
        .sum()
}

/// `max_k Σ_{i ≤ k} F_i + T_k`.
fn prefix(
    units: &[Unit],
    capacity: u64,
    max_samples: Option<u32>,
    width: usize,
    heavy: &[u64],
    total: u128,
    max_priced: usize,
) -> u128 {
    let valued: Vec<Valued> =
        units.iter().map(|unit| Valued { tokens: unit.tokens, charge: unit.charge }).collect();
    let points = points(heavy.len(), units.len());
    let richest = RichestCells::new(valued.clone(), capacity, max_samples.map(u64::from), points.len());
    let mut worths: Vec<u128> =
        points.par_iter().map(|&k| if k == 0 { 0 } else { richest.worth(width * k) }).collect();
    let (mut best, mut at) = best_prefix(&points, &worths, width, heavy, total);
    // Prices of units for the A that decides, and for the one that decides then.
    for _ in 0..max_priced {
        let count = width * points[at];
        match priced_cells::worth(&valued, capacity, count, richest.marginal_price(count)) {
            Some(worth) if worth < worths[at] => worths[at] = worth,
            _ => break,
        }
        let priced = at;
        (best, at) = best_prefix(&points, &worths, width, heavy, total);
        if at == priced {
            break;
        }
    }
    best
}

/// The best bound over k, and the point whose A it rests on.
fn best_prefix(points: &[usize], worths: &[u128], width: usize, heavy: &[u64], total: u128) -> (u128, usize) {
    let (mut best, mut at, mut before) = (0, 0, 0u128);
    for (k, &value) in heavy.iter().enumerate() {
        let point = points.partition_point(|&point| point < k);
        let tail = total.saturating_sub(worths[point]).div_ceil(width as u128);
        if before + tail > best {
            (best, at) = (before + tail, point);
        }
        before += u128::from(value).max(tail.div_ceil((heavy.len() - k) as u128));
    }
    (best.max(before), at)
}

/// Where A is computed, ascending from 0 to `groups` − 1: everywhere if that is cheap, else ever more sparsely. Between
/// two points the next serves, as more cells are worth no less.
fn points(groups: usize, num_units: usize) -> Vec<usize> {
    let dense = (MAX_POINT_UNITS / num_units.max(1)).clamp(4, 32);
    let last = groups - 1;
    let mut points: Vec<usize> = (0..groups.min(dense)).collect();
    while let Some(&point) = points.last().filter(|&&point| point < last) {
        points.push((point + (2 * point / dense).max(1)).min(last));
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_few_and_reach_the_end() {
        for groups in [1, 2, 7, 63, 64, 65, 1000, 4096, 1 << 16] {
            for units in [1, 100, 10_000, 1 << 20] {
                let points = points(groups, units);
                assert!(points.is_sorted_by(|a, b| a < b), "{points:?}");
                assert_eq!((points[0], points[points.len() - 1]), (0, groups - 1));
                assert!(points.len() <= 200, "{} points for {groups} groups", points.len());
                if groups <= 32 && units <= 1000 {
                    assert_eq!(points.len(), groups);
                }
            }
        }
    }

    /// Samples of more than half a cell fill the cells one by one; sorted, they are grouped at least cost, which is known.
    #[test]
    fn many_cells_are_bounded_by_the_known_optimum() {
        use routepack_problem::{Batch, Setting};
        for (groups, least) in [(40, 100), (150, 51), (400, 99), (400, 60)] {
            let lengths: Vec<u32> =
                (0..2 * groups).map(|sample| least + sample * 31 % (101 - least)).collect();
            let instance =
                Instance::single(Batch::from_lengths(lengths), &Setting::new(2, 2, 100)).expect("valid");
            let mut charges: Vec<u64> =
                (0..instance.num_units()).map(|unit| unit_charge(&instance, unit, 0)).collect();
            charges.sort_unstable_by(|a, b| b.cmp(a));
            let optimum: u64 = charges.iter().step_by(2).sum();
            let bound = attention_bounds(&instance, groups as usize)[0];
            assert_eq!(bound.best(), optimum, "{groups} groups, {bound:?}");
        }
    }
}
