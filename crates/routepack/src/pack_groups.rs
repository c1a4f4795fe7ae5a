//! Units into cells under two limits: tokens, and samples where atomic groups differ in size.
//!
//! Problem: U units of `t_u` tokens and `k_u` samples, fewest cells of at most C tokens and q samples each.
//! Method: first fit, units in descending order of a·t/C + b·k/q; first the larger of the two shares, then their sum,
//! then drawn weights a, b with noise, for so many tries; the first packing with fewest cells is kept.
//! Complexity: O(tries · U · cells). Reference: Panigrahy, Talwar, Uyeda and Wieder, Heuristics for vector bin packing,
//! 2011 (dot-product and sum orders); the drawn orders are ours. No bound comes from here.

use routepack_anneal::Stream;
use routepack_problem::Instance;

/// One unit and what it takes of a cell.
struct Unit {
    index: u32,
    tokens: u64,
    samples: u64,
}

/// A cell being filled.
#[derive(Default)]
struct Cell {
    units: Vec<u32>,
    tokens: u64,
    samples: u64,
}

/// Units of every cell; at most `aim` cells end the search early.
pub(crate) fn pack_groups(
    instance: &Instance,
    limit: u32,
    aim: u64,
    tries: u32,
    stream: &Stream,
    stop: &(dyn Fn() -> bool + Sync),
) -> Vec<Vec<u32>> {
    let recorded = instance.num_units() - instance.num_dummies();
    let mut units: Vec<Unit> = (0..recorded)
        .map(|unit| Unit {
            index: unit as u32,
            tokens: instance.unit_tokens(unit),
            samples: instance.unit(unit).len() as u64,
        })
        .collect();
    let (capacity, limit) = (u64::from(instance.cell_capacity()), u64::from(limit));
    // Shares of a cell times C·q.
    let shares = |unit: &Unit| {
        (u128::from(unit.tokens) * u128::from(limit), u128::from(unit.samples) * u128::from(capacity))
    };
    let mut fill = |key: &mut dyn FnMut(&Unit) -> u128| {
        units.sort_by_key(|unit| unit.index);
        units.sort_by_cached_key(|unit| std::cmp::Reverse(key(unit)));
        first_fit(&units, capacity, limit)
    };
    let mut best = fill(&mut |unit| shares(unit).0.max(shares(unit).1));
    let mut offer = |bins: Vec<Vec<u32>>| {
        if bins.len() < best.len() {
            best = bins;
        }
        best.len() as u64 <= aim
    };
    let mut reached = offer(fill(&mut |unit| shares(unit).0 + shares(unit).1));
    for attempt in 0..tries {
        if reached || stop() {
            break;
        }
        let mut stream = stream.child(attempt.into());
        let (a, b) = (u128::from(stream.below(17)), u128::from(stream.below(17)));
        let noise = 8 << (attempt % 8);
        reached = offer(fill(&mut |unit| {
            let (tokens, samples) = shares(unit);
            (a * tokens + b * samples) * u128::from(64 + stream.below(noise))
        }));
    }
    best
}

/// Every unit into the first cell that has room for its tokens and samples.
fn first_fit(units: &[Unit], capacity: u64, limit: u64) -> Vec<Vec<u32>> {
    let mut cells: Vec<Cell> = Vec::new();
    for unit in units {
        let fits =
            |cell: &Cell| cell.tokens + unit.tokens <= capacity && cell.samples + unit.samples <= limit;
        let place = cells.iter().position(fits).unwrap_or_else(|| {
            cells.push(Cell::default());
            cells.len() - 1
        });
        let cell = &mut cells[place];
        cell.units.push(unit.index);
        cell.tokens += unit.tokens;
        cell.samples += unit.samples;
    }
    cells
        .into_iter()
        .map(|mut cell| {
            cell.units.sort_unstable();
            cell.units
        })
        .collect()
}
