//! Rich cells: what is charged anyway beside a long unit is used.
//!
//! Problem: a block of m cells is charged Σ_s max(Σφ\[s\] / m, λ\[s\]) at least, λ its longest unit's φ. Where λ paces, the other
//! cells hold attention for nothing, up to m·λ, as far as their capacity goes: have blocks that pay for theirs give up as
//! much of it as fits, so that the shortfall Σ_b Σ_s max(0, m·λ − Σφ) of the paced blocks is least.
//! Method: ruin and recreate. The units that pace stay. Two or three cells are emptied; one after the other takes what is
//! worth most within its capacity (a knapsack, exactly) of the units thrown out and of the longest and the shortest ones
//! that are in no paced block, some of which are left out at random. What raises no shortfall is kept. In the end, who is
//! left over goes to the blocks that gave, longest first to where most room is, and their units are dealt to their cells
//! anew, each to the cell with the least attention that has room; kept if all blocks together are charged less. One slot
//! group only: with several, shards come out unlike each other, which costs more than is gained.
//! Complexity: O([`OFFERED`]·C) a knapsack, [`STEPS_PER_UNIT`] steps a unit of the window in all.
//! References: R. Bellman, Dynamic Programming, 1957 (knapsack); G. Schrimpf et al., Record breaking optimization results
//! using the ruin and recreate principle, J. Comput. Phys. 159, 2000, doi 10.1006/jcph.1999.6413.

use std::cmp::Reverse;

use routepack_anneal::Stream;

use crate::resplit::Load;
use crate::units::Units;

/// Steps of knapsacks in all, per unit of the window.
const STEPS_PER_UNIT: usize = 400_000;
/// Cells emptied at once: this many, or one more.
const EMPTIED: usize = 2;
/// Units offered beside those thrown out: the longest that are free, and the shortest, to fill up with.
const OFFERED: [usize; 2] = [60, 40];
/// One in so many of the units is left out.
const LEFT_OUT: usize = 4;
/// Tokens that knapsacks tell apart; more are counted in larger pieces, rounded up.
const PIECES: u32 = 1 << 13;
/// No window is charged as much.
const MOST: u64 = 1 << 62;

/// Moves attention to where it is free; the cell of every unit then.
pub(crate) fn fill_rich_cells(
    units: &Units,
    cell_of: &[u32],
    stream: &mut Stream,
    stop: &(dyn Fn() -> bool + Sync),
) -> Vec<u32> {
    let before = Blocks::new(units, cell_of);
    let paced: Vec<usize> = (0..units.num_blocks()).filter(|&block| before.is_paced(block)).collect();
    let mut knapsacks = Knapsacks::new(&before, &paced);
    if units.groups > 1 || paced.len() == units.num_blocks() || knapsacks.cells.is_empty() {
        return cell_of.to_vec();
    }
    let mut left = STEPS_PER_UNIT * units.num_units();
    while left > 0 && !stop() {
        left = left.saturating_sub(knapsacks.refill(stream));
    }
    match before.settle(&paced, knapsacks.cells) {
        Some(after) if after.charge() < before.charge() => after.cells_of_units(),
        _ => cell_of.to_vec(),
    }
}

/// Units by cell.
struct Blocks<'a> {
    units: &'a Units,
    cells: Vec<Vec<u32>>,
}

impl<'a> Blocks<'a> {
    fn new(units: &'a Units, cell_of: &[u32]) -> Self {
        let mut cells = vec![Vec::new(); units.num_cells()];
        for (unit, &cell) in (0u32..).zip(cell_of) {
            cells[cell as usize].push(unit);
        }
        Self { units, cells }
    }

    fn cells_of_units(&self) -> Vec<u32> {
        let mut cell_of = vec![0; self.units.num_units()];
        for (cell, members) in (0u32..).zip(&self.cells) {
            members.iter().for_each(|&unit| cell_of[unit as usize] = cell);
        }
        cell_of
    }

    fn members(&self, block: usize) -> impl Iterator<Item = u32> {
        self.cells[self.units.cells_of(block)].iter().flatten().copied()
    }

    /// The longest unit of a block in a kind.
    fn longest(&self, block: usize, kind: usize) -> u32 {
        let key = |&unit: &u32| (self.units.attention(unit as usize)[kind], Reverse(unit));
        self.members(block).max_by_key(key).expect("cells are nonempty")
    }

    /// m·λ and Σφ of a block, by kind.
    fn paces(&self, block: usize) -> impl Iterator<Item = (u64, u64)> {
        (0..self.units.kinds).map(move |kind| {
            let of = |unit: u32| self.units.attention(unit as usize)[kind];
            let longest = of(self.longest(block, kind));
            let least = longest.saturating_mul(self.units.slots_per_group as u64).min(MOST);
            (least, self.members(block).map(of).sum())
        })
    }

    fn is_paced(&self, block: usize) -> bool {
        self.paces(block).any(|(longest, sum)| sum < longest)
    }

    /// m times what all blocks are charged at least.
    fn charge(&self) -> u64 {
        let blocks = (0..self.units.num_blocks()).flat_map(|block| self.paces(block));
        blocks.fold(0, |all: u64, (longest, sum)| all.saturating_add(longest.max(sum)))
    }

    /// The same with these cells of paced blocks, and what they leave over in the others; `None` if it does not fit there
    /// at once.
    fn settle(&self, paced: &[usize], filled: Vec<Knapsack>) -> Option<Self> {
        let units = self.units;
        let mut after = Self { units, cells: self.cells.clone() };
        for Knapsack { cell, stays, filled, .. } in filled {
            after.cells[cell] = [stays, filled].concat();
        }
        let mut is_inside = vec![false; units.num_units()];
        for unit in paced.iter().flat_map(|&block| after.members(block)) {
            is_inside[unit as usize] = true;
        }
        let mut over: Vec<u32> = paced
            .iter()
            .flat_map(|&block| self.members(block))
            .filter(|&unit| !is_inside[unit as usize])
            .collect();
        over.sort_by_key(|&unit| (Reverse(units.tokens[unit as usize]), unit));
        let payers = (0..units.num_blocks()).filter(|block| !paced.contains(block));
        let tokens = |unit: u32| u64::from(units.tokens[unit as usize]);
        let mut held: Vec<(u64, usize, Vec<u32>)> = payers
            .map(|payer| {
                let kept: Vec<u32> = self.members(payer).filter(|&unit| !is_inside[unit as usize]).collect();
                (kept.iter().map(|&unit| tokens(unit)).sum(), payer, kept)
            })
            .collect();
        for unit in over {
            let roomiest = held.iter_mut().min_by_key(|(sum, payer, _)| (*sum, *payer)).expect("some pay");
            roomiest.0 += tokens(unit);
            roomiest.2.push(unit);
        }
        for (_, payer, members) in held {
            // Who gave and got nothing keeps its cells.
            if !self.members(payer).eq(members.iter().copied()) {
                after.cells[units.cells_of(payer)].clone_from_slice(&deal(units, members)?);
            }
        }
        after.cells.iter().all(|cell| !cell.is_empty()).then_some(after)
    }
}

/// Cells of one block that hold these units, if that is found at once.
fn deal(units: &Units, mut members: Vec<u32>) -> Option<Vec<Vec<u32>>> {
    members.sort_by_key(|&unit| (Reverse(units.tokens[unit as usize]), unit));
    let mut loads = vec![Load::empty(units.kinds); units.slots_per_group];
    let mut cells = vec![Vec::new(); units.slots_per_group];
    for unit in members {
        let (tokens, samples) = (units.tokens[unit as usize], units.samples[unit as usize]);
        let fits = |load: &Load| {
            load.tokens + tokens <= units.capacity && load.samples + samples <= units.max_samples
        };
        let cell = (0..cells.len())
            .filter(|&cell| fits(&loads[cell]))
            .min_by_key(|&cell| (loads[cell].attention.iter().sum::<u64>(), cell))?;
        loads[cell].add(units, unit as usize);
        cells[cell].push(unit);
    }
    Some(cells)
}

/// A cell of a paced block.
struct Knapsack {
    cell: usize,
    /// Place of its block among the paced ones.
    block: usize,
    /// Units that stay, and their sums.
    stays: Vec<u32>,
    load: Load,
    /// The others.
    filled: Vec<u32>,
}

/// The cells of paced blocks, and the units to fill them with.
struct Knapsacks<'a> {
    units: &'a Units,
    cells: Vec<Knapsack>,
    /// m·λ − Σφ of every paced block, `[blocks, kinds]`; what is below nothing is lost.
    shortfall: Vec<i64>,
    /// λ, `[blocks, kinds]`.
    longest: Vec<u64>,
    /// Units of no paced block, the longest first.
    free: Vec<u32>,
}

impl<'a> Knapsacks<'a> {
    fn new(blocks: &Blocks<'a>, paced: &[usize]) -> Self {
        let units = blocks.units;
        let mut these =
            Self { units, cells: Vec::new(), shortfall: Vec::new(), longest: Vec::new(), free: Vec::new() };
        let mut is_free = vec![true; units.num_units()];
        for (place, &block) in paced.iter().enumerate() {
            let pacing: Vec<u32> = (0..units.kinds).map(|kind| blocks.longest(block, kind)).collect();
            for (kind, &unit) in pacing.iter().enumerate() {
                these.longest.push(units.attention(unit as usize)[kind]);
            }
            these.shortfall.extend(blocks.paces(block).map(|(longest, sum)| longest as i64 - sum as i64));
            for cell in units.cells_of(block) {
                blocks.cells[cell].iter().for_each(|&unit| is_free[unit as usize] = false);
                let (stays, filled): (Vec<u32>, Vec<u32>) =
                    blocks.cells[cell].iter().partition(|unit| pacing.contains(unit));
                let mut load = Load::empty(units.kinds);
                stays.iter().for_each(|&unit| load.add(units, unit as usize));
                if load.tokens < units.capacity {
                    these.cells.push(Knapsack { cell, block: place, stays, load, filled });
                }
            }
        }
        these.free = (0..units.num_units() as u32).filter(|&unit| is_free[unit as usize]).collect();
        these.sort_free();
        these
    }

    fn sort_free(&mut self) {
        let cost = |unit: u32| self.units.attention(unit as usize).iter().sum::<u64>();
        self.free.sort_by_key(|&unit| (Reverse(cost(unit)), unit));
    }

    /// Fills some cells of one block anew; the steps it took.
    fn refill(&mut self, stream: &mut Stream) -> usize {
        let block = self.cells[stream.index(self.cells.len())].block;
        let mut emptied: Vec<usize> =
            (0..self.cells.len()).filter(|&place| self.cells[place].block == block).collect();
        stream.shuffle(&mut emptied);
        emptied.truncate(EMPTIED + stream.index(2));

        let before = (self.lost(), self.shortfall.clone(), self.free.clone());
        let filled: Vec<Vec<u32>> =
            emptied.iter().map(|&place| std::mem::take(&mut self.cells[place].filled)).collect();
        for thrown_out in &filled {
            self.charge(block, thrown_out, 1);
            self.free.extend(thrown_out);
        }
        self.sort_free();
        let mut steps = 0;
        for &place in &emptied {
            let offered = self.offer(block, stream);
            steps += (offered.len() + 1) * PIECES.min(self.units.capacity) as usize;
            let taken = self.take_richest(place, &offered);
            self.free.retain(|unit| !taken.contains(unit));
            self.charge(block, &taken, -1);
            self.cells[place].filled = taken;
        }
        let is_empty =
            |&place: &usize| self.cells[place].stays.is_empty() && self.cells[place].filled.is_empty();
        if self.lost() > before.0 || emptied.iter().any(is_empty) {
            emptied.iter().zip(filled).for_each(|(&place, filled)| self.cells[place].filled = filled);
            (_, self.shortfall, self.free) = before;
        }
        steps
    }

    /// What is short in all.
    fn lost(&self) -> i128 {
        self.shortfall.iter().map(|&short| i128::from(short.max(0))).sum()
    }

    /// Adds φ of some units to the shortfall of a block, or takes it off.
    fn charge(&mut self, block: usize, members: &[u32], sign: i64) {
        let kinds = self.units.kinds;
        for &unit in members {
            let costs = self.units.attention(unit as usize);
            let short = self.shortfall[block * kinds..][..kinds].iter_mut();
            short.zip(costs).for_each(|(short, &cost)| *short += sign * cost as i64);
        }
    }

    /// Some of the free units that do not pace a block: the longest and the shortest.
    fn offer(&self, block: usize, stream: &mut Stream) -> Vec<u32> {
        let longest = &self.longest[block * self.units.kinds..][..self.units.kinds];
        let fits = |unit: &u32| {
            self.units.attention(*unit as usize).iter().zip(longest).all(|(cost, most)| cost <= most)
        };
        let mut offered: Vec<u32> = self.free.iter().copied().filter(fits).collect();
        let [long, short] = OFFERED;
        if offered.len() > long + short {
            offered.drain(long..offered.len() - short);
        }
        offered.retain(|_| stream.index(LEFT_OUT) > 0);
        offered
    }

    /// Those of the units offered that a cell takes and that are worth most where its block is short.
    fn take_richest(&self, place: usize, offered: &[u32]) -> Vec<u32> {
        let (units, Knapsack { block, load, .. }) = (self.units, &self.cells[place]);
        let short = &self.shortfall[block * units.kinds..][..units.kinds];
        let worth = |unit: u32| -> u64 {
            let costs = units.attention(unit as usize).iter().zip(short);
            costs.map(|(&cost, &short)| cost.min(short.max(0) as u64)).sum()
        };
        let piece = units.capacity.div_ceil(PIECES);
        let room = ((units.capacity - load.tokens) / piece) as usize;
        let size = |unit: u32| (units.tokens[unit as usize].div_ceil(piece) as usize).min(room + 1);
        let (mut best, mut next) = (vec![0u64; room + 1], vec![0u64; room + 1]);
        let mut takes = vec![false; offered.len() * (room + 1)];
        for (&unit, takes) in offered.iter().zip(takes.chunks_exact_mut(room + 1)) {
            let (size, worth) = (size(unit), worth(unit));
            next.copy_from_slice(&best);
            let rooms = next[size..].iter_mut().zip(&mut takes[size..]).zip(&best);
            for ((next, takes), &without_its_size) in rooms {
                let with = without_its_size + worth;
                *takes = with > *next;
                *next = with.max(*next);
            }
            std::mem::swap(&mut best, &mut next);
        }
        let (mut filled, mut samples) = (room, load.samples);
        let mut taken = Vec::new();
        for (&unit, takes) in offered.iter().zip(takes.chunks_exact(room + 1)).rev() {
            let more = units.samples[unit as usize];
            if takes[filled] && samples + more <= units.max_samples {
                filled -= size(unit);
                samples += more;
                taken.push(unit);
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use routepack_problem::{Batch, Instance, Setting};

    use super::*;
    use crate::alike::tests::{filled, flaw};
    use crate::support::recipes;

    /// Two rows of two slots; the cell beside the long sample has room for two that the other row pays for.
    #[test]
    fn a_cell_beside_a_long_unit_takes_what_is_worth_most() {
        let lengths = vec![100, 10, 20, 30, 60, 40, 20, 15, 10];
        let instance =
            Instance::single(Batch::from_lengths(lengths), &Setting::new(2, 2, 100)).expect("valid");
        let units = Units::without_demand(&instance, 2).expect("enough units");
        let filled = fill_rich_cells(&units, &[0, 1, 1, 1, 2, 2, 3, 3, 3], &mut Stream::new(1), &|| false);
        let in_cell = |cell: u32| -> Vec<u32> {
            let inside = (0..units.num_units()).filter(|&unit| filled[unit] == cell);
            inside.map(|unit| units.tokens[unit]).collect()
        };
        assert_eq!((in_cell(0), in_cell(1)), (vec![100], vec![60, 40]));
    }

    /// The cell with less attention has no room for the last unit; nor has the other.
    #[test]
    fn cells_are_dealt_within_their_capacity() {
        for (last, fits) in [(10, true), (20, false)] {
            let batch = Batch::from_lengths(vec![90, 30, 30, 30, last]);
            let instance = Instance::single(batch, &Setting::new(2, 2, 100)).expect("valid");
            let units = Units::without_demand(&instance, 1).expect("enough units");
            assert_eq!(deal(&units, (0..5).collect()).is_some(), fits);
        }
    }

    /// Cells full of tokens or samples, a row that a long sample paces: more attention is beside it than before.
    #[test]
    fn what_paces_is_made_use_of() {
        let gains = |seed: u64| {
            let (instance, units, first) = filled(seed);
            let filled = fill_rich_cells(&units, &first, &mut Stream::new(seed), &|| false);
            assert_eq!(flaw(&instance, &units, &filled), None);
            let charge = |cell_of: &[u32]| Blocks::new(&units, cell_of).charge();
            charge(&filled) < charge(&first)
        };
        let seeds = 0..8;
        assert!(seeds.filter(|&seed| gains(seed)).count() >= 4, "cells are full, but not so full");
    }

    proptest! {
        #[test]
        fn layouts_stay_feasible_and_are_charged_no_more(recipe in recipes(12)) {
            let case = recipe.build();
            let units = Units::without_demand(&case.instance, recipe.rows).expect("as many units as cells");
            let first = units.cells_of_units(&case.instance, &case.first);
            let looks = std::sync::atomic::AtomicUsize::new(0);
            let stop = || looks.fetch_add(1, std::sync::atomic::Ordering::Relaxed) >= 50;
            let filled = fill_rich_cells(&units, &first, &mut Stream::new(recipe.seed), &stop);
            prop_assert_eq!(flaw(&case.instance, &units, &filled), None);
            let charge = |cell_of: &[u32]| Blocks::new(&units, cell_of).charge();
            prop_assert!(charge(&filled) <= charge(&first));
        }
    }
}
