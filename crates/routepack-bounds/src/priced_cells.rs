//! A sharper bound on what the most valuable cells of a layout can be worth together, where cells and units are few.
//!
//! Problem: as in [`crate::richest_cells`]: A(j) ≥ the total value Σ φ of any j cells of at most C' tokens, every unit
//! used once. How many units a cell may hold is left out.
//! Symbols: unit u has tokens t_u and value φ_u; a price π_u ≥ 0 for using it; g the grain, in tokens.
//! Bound: for all prices, A(j) = Σ_u π_u + j·K(π), K(π) = the largest Σ (φ_u − π_u) of a set of units with
//! Σ ⌊t_u/g⌋ ≤ ⌊C'/g⌋. Proof: the units X of j cells are worth Σ_X π + Σ over the cells of Σ (φ − π) ≤ Σ_u π_u + j·K(π);
//! rounding down lets no cell out. ∎ It is the Lagrangian dual of "every unit once"; its least value is that of the linear
//! program over all cells.
//! Method: a proximal bundle. The cells found so far give a lower model Σ_u π_u + j·max_i (value_i − π(cell_i)) of A; its
//! least point near the best prices so far is found on the weights of the cells, two of them exchanging weight at a time;
//! a knapsack there gives new cells. First with tokens rounded up to coarse pieces, whose cells are cells indeed, then
//! with the bound's own. All of this is in floating point, basic operations in a fixed order, so every machine gets the
//! same; then the prices are rounded and one knapsack in integers decides.
//! Complexity: O(n·C'/g) a knapsack, at most [`KNAPSACK_STEPS`]; [`FINE`] of them and [`COARSE`] of an eighth, each with
//! [`EXCHANGES`] looks at the cells found. Skipped where units or cells are many.
//! References: A. M. Geoffrion, Lagrangean relaxation for integer programming, Math. Programming Study 2, 1974,
//! doi 10.1007/BFb0120690; K. C. Kiwiel, Proximity control in bundle methods for convex nondifferentiable minimization,
//! Math. Programming 46, 1990, doi 10.1007/BF01585731.

use crate::richest_cells::Valued;

/// Units times pieces of a cell: more, and the pieces grow.
const KNAPSACK_STEPS: u64 = 1 << 22;
/// With fewer pieces than this the rounding costs more than prices bring.
const FEWEST_PIECES: u64 = 1 << 10;
/// More units than this are not priced.
const MOST_UNITS: usize = 1 << 12;
/// More cells than this are not priced: the others' maxima then matter more than theirs.
const MOST_CELLS: usize = 128;
/// Pieces of the bound in one of the coarse search.
const PIECES_IN_COARSE: u64 = 8;
/// Coarse knapsacks at most.
const COARSE: usize = 30;
/// Knapsacks in the bound's own pieces at most.
const FINE: usize = 20;
/// Cells taken from one knapsack.
const CELLS_A_TIME: usize = 4;
/// Exchanges of weight for one set of prices.
const EXCHANGES: usize = 200;
/// Times the step is made longer before the search gives up.
const WIDENINGS: usize = 2;
/// A model this close to A, relatively, has nothing left to say.
const CLOSE: f64 = 1e-6;

/// Units of a cell, ascending, and their value.
struct Cell {
    value: f64,
    units: Vec<usize>,
}

/// Sizes of units in pieces, and of a cell.
struct Pieces {
    sizes: Vec<usize>,
    room: usize,
}

/// The search for prices.
struct Bundle {
    /// φ.
    values: Vec<f64>,
    /// j.
    count: f64,
    cells: Vec<Cell>,
    /// One a cell, Σ = 1.
    weights: Vec<f64>,
    /// Σ of the weights of the cells a unit is in.
    used: Vec<f64>,
    /// The best prices so far.
    centre: Vec<f64>,
    /// How far prices move for a unit that no cell uses.
    step: f64,
}

/// A(j) for j = `count` cells of `capacity` tokens, if it is worth computing. `per_token`: φ/t at which the cells fill.
pub(crate) fn worth(units: &[Valued], capacity: u64, count: usize, per_token: f64) -> Option<u128> {
    let grain = (units.len() as u64).saturating_mul(capacity).div_ceil(KNAPSACK_STEPS).max(1);
    let sum = units.iter().try_fold(0u64, |sum, unit| sum.checked_add(unit.charge));
    // Where no tokens are lost, few pieces are as good as many.
    let precise = grain == 1 || capacity / grain >= FEWEST_PIECES;
    if count == 0 || count > MOST_CELLS || units.len() > MOST_UNITS || !precise || sum.is_none() {
        return None;
    }
    let mut units: Vec<Valued> = units.iter().filter(|unit| unit.tokens <= capacity).copied().collect();
    units.sort_unstable_by_key(|unit| (unit.tokens, unit.charge));
    let fine = Pieces::new(&units, capacity, grain, |tokens| tokens / grain);
    let coarse = grain * PIECES_IN_COARSE;
    let mut bundle = Bundle::new(&units, capacity, count, per_token);
    bundle.descend(&Pieces::new(&units, capacity, coarse, |tokens| tokens.div_ceil(coarse)), COARSE);
    bundle.descend(&fine, FINE);
    let prices: Vec<u64> =
        units.iter().zip(&bundle.centre).map(|(unit, &price)| (price as u64).min(unit.charge)).collect();
    Some(priced(&units, &fine, count, &prices))
}

/// Σ π + j·K(π).
fn priced(units: &[Valued], pieces: &Pieces, count: usize, prices: &[u64]) -> u128 {
    let mut best = vec![0u64; pieces.room + 1];
    for ((unit, &price), &size) in units.iter().zip(prices).zip(&pieces.sizes) {
        let value = unit.charge - price;
        for room in (size..=pieces.room).rev() {
            best[room] = best[room].max(best[room - size] + value);
        }
    }
    prices.iter().map(|&price| u128::from(price)).sum::<u128>()
        + count as u128 * u128::from(best[pieces.room])
}

impl Pieces {
    fn new(units: &[Valued], capacity: u64, grain: u64, of: impl Fn(u64) -> u64) -> Self {
        let sizes = units.iter().map(|unit| of(unit.tokens) as usize).collect();
        Self { sizes, room: (capacity / grain) as usize }
    }
}

impl Bundle {
    /// Prices beyond `per_token`, and cells filled with what is worth most per token.
    fn new(units: &[Valued], capacity: u64, count: usize, per_token: f64) -> Self {
        let values: Vec<f64> = units.iter().map(|unit| unit.charge as f64).collect();
        let centre =
            units.iter().map(|unit| (unit.charge as f64 - per_token * unit.tokens as f64).max(0.0)).collect();
        let ratio = |unit: usize| values[unit] / units[unit].tokens.max(1) as f64;
        let mut order: Vec<usize> = (0..units.len()).collect();
        order.sort_by(|&a, &b| ratio(b).total_cmp(&ratio(a)).then(a.cmp(&b)));
        let mut bundle = Self {
            count: count as f64,
            cells: Vec::new(),
            weights: vec![1.0 / count as f64; count],
            used: vec![0.0; units.len()],
            centre,
            step: 0.0,
            values,
        };
        for _ in 0..count {
            let mut left = capacity;
            let mut cell = Vec::new();
            order.retain(|&unit| {
                let fits = units[unit].tokens <= left;
                if fits {
                    left -= units[unit].tokens;
                    cell.push(unit);
                }
                !fits
            });
            cell.sort_unstable();
            cell.iter().for_each(|&unit| bundle.used[unit] = 1.0 / count as f64);
            bundle
                .cells
                .push(Cell { value: cell.iter().map(|&unit| bundle.values[unit]).sum(), units: cell });
        }
        bundle
    }

    /// Moves `centre` to better prices, with as many knapsacks as said.
    fn descend(&mut self, pieces: &Pieces, knapsacks: usize) {
        let centre = self.centre.clone();
        let mut best = self.look(pieces, &centre);
        let found: f64 = self.cells[..self.count as usize].iter().map(|cell| cell.value).sum();
        self.step = (best - found).max(best * CLOSE) / (10.0 * self.count);
        let (mut left, mut widened) = (knapsacks, 0);
        while left > 1 {
            let prices = self.model_prices(best);
            let expected = best - self.bound(&prices);
            if expected <= best * CLOSE {
                // Nothing near the centre; farther away there may be.
                if widened == WIDENINGS {
                    break;
                }
                widened += 1;
                self.step *= 4.0;
                continue;
            }
            (left, widened) = (left - 1, 0);
            let bound = self.look(pieces, &prices);
            if bound < best {
                if best - bound > expected / 2.0 {
                    self.step *= 1.5;
                }
                best = bound;
                self.centre = prices;
            } else if bound - best > expected {
                self.step *= 0.5;
            }
        }
    }

    /// The model of A at these prices.
    fn bound(&self, prices: &[f64]) -> f64 {
        let most = self.cells.iter().map(|cell| cell.excess(prices)).fold(0.0, f64::max);
        prices.iter().sum::<f64>() + self.count * most
    }

    /// A at these prices, after the cells that a knapsack finds there have joined.
    fn look(&mut self, pieces: &Pieces, prices: &[f64]) -> f64 {
        for units in self.knapsack(pieces, prices) {
            if self.cells.iter().all(|cell| cell.units != units) {
                self.cells.push(Cell { value: units.iter().map(|&unit| self.values[unit]).sum(), units });
                self.weights.push(0.0);
            }
        }
        self.bound(prices)
    }

    /// Prices of least model value plus squared distance from the centre over 2·step: those that the weights imply,
    /// π = (centre − step·(1 − j·used))⁺, with the weights of greatest dual value.
    fn model_prices(&mut self, best: f64) -> Vec<f64> {
        let (step, count) = (self.step, self.count);
        let price = |centre: f64, used: f64| (centre - step * (1.0 - count * used)).max(0.0);
        let mut prices: Vec<f64> =
            self.centre.iter().zip(&self.used).map(|(&centre, &used)| price(centre, used)).collect();
        for _ in 0..EXCHANGES {
            let (mut gains, mut loses) = ((f64::NEG_INFINITY, 0), (f64::INFINITY, 0));
            for (index, cell) in self.cells.iter().enumerate() {
                let excess = cell.excess(&prices);
                if excess > gains.0 {
                    gains = (excess, index);
                }
                if self.weights[index] > 0.0 && excess < loses.0 {
                    loses = (excess, index);
                }
            }
            let difference = gains.0 - loses.0;
            if difference * count <= best * CLOSE / 10.0 {
                break;
            }
            let (to, from) = (&self.cells[gains.1].units, &self.cells[loses.1].units);
            let shared = to.iter().filter(|unit| from.contains(unit)).count();
            let apart = (to.len() + from.len() - 2 * shared).max(1);
            let moved = (difference / (step * count * apart as f64)).min(self.weights[loses.1]);
            self.weights[gains.1] += moved;
            self.weights[loses.1] -= moved;
            to.iter().for_each(|&unit| self.used[unit] += moved);
            from.iter().for_each(|&unit| self.used[unit] -= moved);
            for &unit in to.iter().chain(from) {
                prices[unit] = price(self.centre[unit], self.used[unit]);
            }
        }
        prices
    }

    /// The richest cell, and others that are the richest with another longest unit; best first.
    fn knapsack(&self, pieces: &Pieces, prices: &[f64]) -> Vec<Vec<usize>> {
        let width = pieces.room + 1;
        let excess = |unit: usize| (self.values[unit] - prices[unit]) as f32;
        let items: Vec<usize> = (0..self.values.len())
            .filter(|&unit| excess(unit) > 0.0 && pieces.sizes[unit] <= pieces.room)
            .collect();
        let (mut old, mut new) = (vec![0f32; width], vec![0f32; width]);
        let mut taken = vec![0u8; width * items.len()];
        let mut longest = Vec::with_capacity(items.len());
        for (index, (&unit, taken)) in items.iter().zip(taken.chunks_exact_mut(width)).enumerate() {
            let (size, value) = (pieces.sizes[unit], excess(unit));
            longest.push((old[pieces.room - size] + value, index));
            // No later unit fits beside one of more than half a cell.
            if 2 * size > pieces.room {
                continue;
            }
            new[..size].copy_from_slice(&old[..size]);
            let rows = new[size..].iter_mut().zip(&mut taken[size..]).zip(&old).zip(&old[size..]);
            for (((new, taken), &without), &kept) in rows {
                let with = without + value;
                *taken = u8::from(with > kept);
                *new = if with > kept { with } else { kept };
            }
            std::mem::swap(&mut old, &mut new);
        }
        longest.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        longest.truncate(CELLS_A_TIME);
        let cell = |last: usize| {
            let mut room = pieces.room - pieces.sizes[items[last]];
            let mut units = vec![items[last]];
            for index in (0..last).rev() {
                if taken[index * width + room] == 1 {
                    room -= pieces.sizes[items[index]];
                    units.push(items[index]);
                }
            }
            units.reverse();
            units
        };
        longest.into_iter().map(|(_, last)| cell(last)).collect()
    }
}

impl Cell {
    /// What the cell is worth beyond the prices of its units.
    fn excess(&self, prices: &[f64]) -> f64 {
        self.value - self.units.iter().map(|&unit| prices[unit]).sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::richest_cells::RichestCells;
    use proptest::prelude::*;

    /// The most that cells can be worth, by trying all.
    fn richest(units: &[Valued], capacity: u64, count: usize) -> u128 {
        fn deal(units: &[Valued], left: &mut [u64], sum: u128, best: &mut u128) {
            *best = sum.max(*best);
            let Some((unit, rest)) = units.split_first() else { return };
            for cell in 0..left.len() {
                if left[cell] >= unit.tokens {
                    left[cell] -= unit.tokens;
                    deal(rest, left, sum + u128::from(unit.charge), best);
                    left[cell] += unit.tokens;
                }
            }
            deal(rest, left, sum, best);
        }
        let mut best = 0;
        deal(units, &mut vec![capacity; count], 0, &mut best);
        best
    }

    proptest! {
        /// A(j) holds at any prices, whatever the grain, and at those found.
        #[test]
        fn no_cells_are_worth_more(
            capacity in 5u64..60,
            count in 1usize..=3,
            drawn in prop::collection::vec((1u64..60, 0u64..1000, any::<bool>(), 0u64..1000), 1..=9),
            grain in 1u64..=9,
        ) {
            let charge = |tokens: u64, charge: u64, square: bool| if square { tokens * tokens } else { charge };
            let units: Vec<Valued> = drawn
                .iter()
                .map(|&(tokens, value, square, _)| Valued { tokens, charge: charge(tokens, value, square) })
                .filter(|unit| unit.tokens <= capacity)
                .collect();
            let most = richest(&units, capacity, count);
            let per_token = RichestCells::new(units.clone(), capacity, None, 1).marginal_price(count);
            let found = worth(&units, capacity, count, per_token).expect("few units");
            prop_assert!(found >= most, "{found} below {most}: {units:?}");
            let prices: Vec<u64> =
                units.iter().zip(&drawn).map(|(unit, drawn)| drawn.3.min(unit.charge)).collect();
            let pieces = Pieces::new(&units, capacity, grain, |tokens| tokens / grain);
            let any = priced(&units, &pieces, count, &prices);
            prop_assert!(any >= most, "{any} below {most}: {units:?} at {prices:?}, {grain} a piece");
        }
    }

    /// Units of squared cost that fill cells badly: prices come close to the best, functions of tokens do not.
    #[test]
    fn prices_beat_functions() {
        let units: Vec<Valued> = [90, 71, 66, 62, 58, 45, 44, 41, 37, 35, 33, 28, 21, 9, 8, 5]
            .map(|tokens| Valued { tokens, charge: tokens * tokens })
            .to_vec();
        for count in 2..=4 {
            let functions = RichestCells::new(units.clone(), 100, None, 1);
            let (old, new) =
                (functions.worth(count), worth(&units, 100, count, functions.marginal_price(count)));
            assert!(new.expect("few units") < old, "{count} cells: {new:?}, by functions {old}");
        }
    }
}
