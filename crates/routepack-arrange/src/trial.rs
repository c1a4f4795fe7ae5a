//! Moves, and what trying one finds out; nothing changes until it is made.
//!
//! Complexity of a trial: O(kinds) for attention, as each block remembers its three largest cells per kind, and one
//! kernel call of O(L·P) per share if two blocks are involved.

use routepack_peaks::{Exchange, SetExchange, SetSums};
use routepack_problem::Score;

use crate::grid::Grid;
use crate::units::Units;

/// A move: units change cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    /// A unit goes to another cell.
    Relocate {
        /// The unit.
        unit: usize,
        /// Where it goes.
        cell: usize,
    },
    /// Two units of different cells change places.
    Swap {
        /// One unit.
        first: usize,
        /// The other.
        second: usize,
    },
}

/// What a feasible move would do: filled by [`Grid::try_attention`] and [`Grid::try_experts`], made by [`Grid::make`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Trial {
    pub(crate) leaves: usize,
    pub(crate) comes: Option<usize>,
    pub(crate) cells: [usize; 2],
    pub(crate) blocks: [usize; 2],
    /// A of both blocks afterwards, or a stage's part of it; the same block twice if only one is involved.
    pub(crate) attention: [u64; 2],
    /// X of both blocks afterwards, with the levels of their units, per share.
    pub(crate) expert: Vec<[u64; 2]>,
    pub(crate) pad_tokens: [u64; 2],
    /// Whether sets of units change places instead of `leaves` and `comes`.
    pub(crate) of_sets: bool,
    /// Units that leave the first cell for the second, and those that come back.
    pub(crate) sets: [Vec<u32>; 2],
    pub(crate) sums: SetSums,
    /// Units of both cells, kept between draws of sets.
    pub(crate) drawn_from: [Vec<u32>; 2],
}

impl Trial {
    /// Change of A over both blocks.
    #[inline]
    pub(crate) fn attention_change(&self, grid: &Grid) -> i64 {
        let [a, b] = self.blocks;
        let change = self.attention[0].wrapping_sub(grid.block_attention[a]) as i64;
        if a == b { change } else { change + self.attention[1].wrapping_sub(grid.block_attention[b]) as i64 }
    }

    /// Changes of J of both blocks in a share, if they are two; of the one block and 0, else.
    #[inline]
    pub(crate) fn changes(&self, units: &Units, grid: &Grid, share: usize) -> [i64; 2] {
        let change = |side: usize| {
            let after = self.attention[side] + self.expert[share][side];
            after.wrapping_sub(grid.row_cost(units, self.blocks[side], share)) as i64
        };
        if self.blocks[0] == self.blocks[1] { [change(0), 0] } else { [change(0), change(1)] }
    }

    pub(crate) fn blocks(&self) -> [usize; 2] {
        self.blocks
    }

    /// Units that leave the first cell (side 0) or the second (side 1).
    pub(crate) fn leaving(&self, side: usize) -> impl Iterator<Item = usize> + '_ {
        let single = match side {
            _ if self.of_sets => None,
            0 => Some(self.leaves),
            _ => self.comes,
        };
        let set: &[u32] = if self.of_sets { &self.sets[side] } else { &[] };
        single.into_iter().chain(set.iter().map(|&unit| unit as usize))
    }

    /// Padded tokens, and padding tokens among them, of the units that leave a side.
    pub(crate) fn tokens_and_pads(&self, units: &Units, side: usize) -> (u32, u64) {
        self.leaving(side).fold((0, 0), |(tokens, pads), unit| {
            (tokens + units.tokens[unit], pads + u64::from(units.pads[unit]))
        })
    }
}

impl Grid {
    /// Evaluates a move without making it; false if it is infeasible or moves nothing.
    #[cfg(test)]
    pub(crate) fn try_move(&self, units: &Units, candidate: Move, trial: &mut Trial) -> bool {
        let feasible = self.try_attention(units, candidate, trial);
        if feasible {
            self.try_experts(units, trial);
        }
        feasible
    }

    /// Feasibility of a move and attention after it, without making it; false if it is infeasible or moves nothing.
    #[inline]
    pub(crate) fn try_attention(&self, units: &Units, candidate: Move, trial: &mut Trial) -> bool {
        let (i, a, j, b) = match candidate {
            Move::Relocate { unit, cell } => (unit, self.cell_of[unit] as usize, None, cell),
            Move::Swap { first, second } => {
                (first, self.cell_of[first] as usize, Some(second), self.cell_of[second] as usize)
            }
        };
        if a == b || !self.fits(units, i, a, j, b) {
            return false;
        }
        self.try_anyway(units, [i, a, b], j, trial);
        true
    }

    /// Attention after unit i leaves cell a for b and j comes back, whether it fits or not: the first half of a move
    /// that is feasible as a whole.
    #[inline]
    pub(crate) fn try_anyway(
        &self,
        units: &Units,
        [i, a, b]: [usize; 3],
        j: Option<usize>,
        trial: &mut Trial,
    ) {
        trial.of_sets = false;
        trial.leaves = i;
        trial.comes = j;
        trial.cells = [a, b];
        trial.blocks = [units.block_of[a] as usize, units.block_of[b] as usize];
        trial.attention = self.attention_after(units, trial);
    }

    /// Evaluates an exchange of sets of units between two cells, feasibility and attention alone; false if it is
    /// infeasible. `leaves` are units of the first cell, `comes` of the second.
    pub(crate) fn try_sets(
        &self,
        units: &Units,
        [a, b]: [usize; 2],
        leaves: impl Iterator<Item = u32>,
        comes: impl Iterator<Item = u32>,
        trial: &mut Trial,
    ) -> bool {
        let (block_a, block_b) = (units.block_of[a] as usize, units.block_of[b] as usize);
        if a == b {
            return false;
        }
        for set in &mut trial.sets {
            set.clear();
        }
        trial.sets[0].extend(leaves);
        trial.sets[1].extend(comes);
        let [out, back] = [0, 1].map(|side| {
            let set = trial.sets[side].iter().map(|&unit| unit as usize);
            set.fold((0u32, 0u32), |(tokens, samples), unit| {
                (tokens + units.tokens[unit], samples + units.samples[unit])
            })
        });
        let [count_out, count_back] = [0, 1].map(|side| trial.sets[side].len() as u32);
        let within = |cell: usize, lost: (u32, u32), gained: (u32, u32), counts: (u32, u32)| {
            self.tokens[cell] - lost.0 + gained.0 <= units.capacity
                && self.samples[cell] - lost.1 + gained.1 <= units.max_samples
                && self.num_units[cell] + counts.1 > counts.0
        };
        if !within(a, out, back, (count_out, count_back)) || !within(b, back, out, (count_back, count_out)) {
            return false;
        }
        trial.of_sets = true;
        trial.cells = [a, b];
        trial.blocks = [block_a, block_b];
        trial.attention = self.attention_after(units, trial);
        true
    }

    /// Whether both cells stay within their limits when i leaves a for b and j comes back.
    #[inline]
    fn fits(&self, units: &Units, i: usize, a: usize, j: Option<usize>, b: usize) -> bool {
        let (out, back) = (units.tokens[i], j.map_or(0, |j| units.tokens[j]));
        let (samples_out, samples_back) = (units.samples[i], j.map_or(0, |j| units.samples[j]));
        (j.is_some() || self.num_units[a] > 1)
            && self.tokens[a] - out + back <= units.capacity
            && self.tokens[b] - back + out <= units.capacity
            && self.samples[a] - samples_out + samples_back <= units.max_samples
            && self.samples[b] - samples_back + samples_out <= units.max_samples
    }

    /// A of both blocks after the trial.
    #[inline]
    fn attention_after(&self, units: &Units, trial: &Trial) -> [u64; 2] {
        let Trial { cells: [a, b], blocks: [block_a, block_b], .. } = *trial;
        let mut sums = [0u64; 2];
        for kind in 0..units.kinds {
            let of = |unit: usize| units.attention(unit)[kind];
            let of_set = |side: usize| trial.sets[side].iter().map(|&unit| of(unit as usize)).sum();
            let (out, back) = if trial.of_sets {
                (of_set(0), of_set(1))
            } else {
                (of(trial.leaves), trial.comes.map_or(0, of))
            };
            let at_a = self.attention[a * units.kinds + kind] - out + back;
            let at_b = self.attention[b * units.kinds + kind] - back + out;
            if block_a == block_b {
                sums[0] += self.leaders[block_a * units.kinds + kind].without(a, b).max(at_a).max(at_b);
            } else {
                sums[0] += self.leaders[block_a * units.kinds + kind].without(a, a).max(at_a);
                sums[1] += self.leaders[block_b * units.kinds + kind].without(b, b).max(at_b);
            }
        }
        if block_a == block_b {
            sums[1] = sums[0];
        }
        sums.map(|sum| units.of_stage(sum))
    }

    /// X of both blocks after a move whose attention was tried.
    #[inline]
    pub(crate) fn try_experts(&self, units: &Units, trial: &mut Trial) {
        let Trial { leaves, comes, blocks, .. } = *trial;
        let shares = units.shares();
        trial.expert.resize(shares, [0; 2]);
        if units.demand.charges_padding() {
            trial.pad_tokens = self.pad_tokens_after(units, trial);
        }
        if blocks[0] == blocks[1] {
            for share in 0..shares {
                let cost = units.demand.repadded_cost(&self.loads, blocks[0], share, trial.pad_tokens[0]);
                trial.expert[share] = [cost; 2];
            }
        } else if trial.of_sets {
            let Trial { blocks: [from, to], pad_tokens, sets: [leaves, comes], expert, sums, .. } = trial;
            let exchange = SetExchange { from: *from, to: *to, leaves, comes, pad_tokens: *pad_tokens };
            for (share, costs) in expert.iter_mut().enumerate() {
                *costs = units.demand.set_exchange_costs(&self.loads, share, &exchange, sums);
            }
        } else {
            let exchange = Exchange {
                from: blocks[0],
                to: blocks[1],
                leaves: Some(leaves),
                comes,
                pad_tokens: trial.pad_tokens,
            };
            for share in 0..shares {
                trial.expert[share] = units.demand.exchange_costs(&self.loads, share, &exchange);
            }
        }
        if units.has_level() {
            self.add_levels(units, trial);
        }
    }

    /// Adds the levels of both blocks after the trial.
    fn add_levels(&self, units: &Units, trial: &mut Trial) {
        let blocks = trial.blocks;
        for share in 0..units.shares() {
            let [out, back] =
                [0, 1].map(|side| trial.leaving(side).map(|unit| units.level(unit, share)).sum::<u64>());
            let [mut a, mut b] = blocks.map(|block| self.level(units, block, share));
            if blocks[0] != blocks[1] {
                (a, b) = (a - out + back, b - back + out);
            }
            trial.expert[share][0] += a;
            trial.expert[share][1] += b;
        }
    }

    /// Padding tokens of both blocks after the trial.
    fn pad_tokens_after(&self, units: &Units, trial: &Trial) -> [u64; 2] {
        let Trial { cells: [a, b], blocks: [block_a, block_b], .. } = *trial;
        let [out, back] = [0, 1].map(|side| trial.tokens_and_pads(units, side));
        let after = |block: usize, cell: usize, gained: u32, lost: u32| {
            self.loads.pad_tokens(block) + units.cell_padding(self.tokens[cell] - lost + gained)
                - units.cell_padding(self.tokens[cell])
        };
        let (at_a, at_b) = (after(block_a, a, back.0, out.0), after(block_b, b, out.0, back.0));
        if block_a == block_b {
            return [at_a + at_b - self.loads.pad_tokens(block_a); 2];
        }
        [at_a + back.1 - out.1, at_b + out.1 - back.1]
    }

    /// The score after a move that was tried, if it can be below `score`, the present one.
    pub(crate) fn score_after(&self, units: &Units, trial: &Trial, score: Score) -> Option<Score> {
        let [block_a, block_b] = trial.blocks;
        let (shares, stages) = (units.shares(), units.demand.num_stages());
        let (mut worst_shard, mut total) = (0, 0);
        for (shard, costs) in self.stage_cost.chunks(stages).enumerate() {
            let (group, first) = (shard * stages / shares, shard * stages % shares);
            let mut paced = 0;
            for (share, &cost) in (first..).zip(costs) {
                let changes = trial.changes(units, self, share);
                let mut cost = cost;
                for (block, change) in [block_a, block_b].into_iter().zip(changes) {
                    if block % units.groups == group {
                        cost = cost.wrapping_add(change as u64);
                    }
                }
                paced = paced.max(cost);
            }
            worst_shard = worst_shard.max(paced);
            total += paced;
        }
        if (worst_shard, total) > (score.worst_shard, score.total) {
            return None;
        }
        let after = |block: usize, share: usize| {
            let side = trial.blocks.iter().position(|&changed| changed == block);
            side.map_or_else(
                || self.row_cost(units, block, share),
                |side| trial.attention[side] + trial.expert[share][side],
            )
        };
        let rows = (0..units.num_blocks()).flat_map(|block| (0..shares).map(move |share| (block, share)));
        let worst_row = rows.map(|(block, share)| after(block, share)).max().unwrap_or(0);
        Some(Score { worst_shard, total, worst_row })
    }
}
