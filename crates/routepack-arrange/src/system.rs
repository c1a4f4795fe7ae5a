//! The layout search as a system for population annealing.
//!
//! Problem: least score of a layout (DESIGN §1.3); states are feasible layouts with all their sums ([`crate::Grid`]).
//! Moves: [`crate::proposal`], made by the Metropolis rule.
//! Energy: [`crate::energy`]; a proposal is given up at once if its attention alone rises too much.
//! Complexity of a proposal: O(kinds + parts), and one kernel call of O(L·P) a part if it crosses blocks.
//! Reference: N. Metropolis et al., J. Chem. Phys. 21, 1953, doi 10.1063/1.1699114. Deviations from the paper (arXiv
//! 2608.12146): the energy; neighbours, so proposals are not symmetric; the early rejection.

use routepack_anneal::{Portable, Record, Stream, System, accepts};
use routepack_problem::Score;

use crate::energy::Energy;
use crate::grid::Grid;
use crate::neighbours::Neighbours;
use crate::proposal::{KINDS, Proposal};
use crate::state::LayoutState;
use crate::trial::{Move, Trial};
use crate::units::Units;

/// Draws of a move that changes the energy, when changes are sampled.
const SAMPLE_DRAWS: u32 = 128;

/// See the module.
pub(crate) struct LayoutSystem<'a> {
    pub(crate) units: &'a Units,
    pub(crate) neighbours: &'a Neighbours,
    pub(crate) energy: Energy,
    /// Proposals per sweep.
    pub(crate) proposals: u32,
}

impl LayoutSystem<'_> {
    /// Makes an exchange whose attention was tried, by the Metropolis rule; the change of energy if it was made.
    #[inline]
    fn exchange(
        &self,
        state: &mut LayoutState,
        trial: &mut Trial,
        temperature: f64,
        stream: &mut Stream,
    ) -> Option<f64> {
        if Energy::is_hopeless(trial.attention_change(&state.grid), temperature) {
            return None;
        }
        state.grid.try_experts(self.units, trial);
        let change = self.change(state, trial);
        accepts(change, temperature, stream).then(|| {
            state.make(self.units, trial);
            change
        })
    }

    /// Trades two blocks by the Metropolis rule.
    fn trade_rows(
        &self,
        state: &mut LayoutState,
        blocks: [usize; 2],
        temperature: f64,
        stream: &mut Stream,
    ) -> Option<f64> {
        let (units, grid) = (self.units, &state.grid);
        if blocks[0] % units.groups == blocks[1] % units.groups {
            return None;
        }
        let change = self.energy.change(&grid.stage_cost, units, blocks, |share| {
            let [a, b] = blocks.map(|block| grid.row_cost(units, block, share) as i64);
            [b - a, a - b]
        });
        accepts(change, temperature, stream).then(|| {
            state.trade_blocks(units, blocks);
            change
        })
    }

    /// Change of the energy by a move that was tried.
    #[inline]
    pub(crate) fn change(&self, state: &LayoutState, trial: &Trial) -> f64 {
        let (units, grid) = (self.units, &state.grid);
        self.energy.change(&grid.stage_cost, units, trial.blocks(), |share| trial.changes(units, grid, share))
    }
}

impl System for LayoutSystem<'_> {
    type State = LayoutState;
    type Score = Score;
    /// Cell of every unit.
    type Snapshot = Vec<u32>;

    const MOVE_KINDS: &'static [&'static str] = KINDS;

    fn energy(&self, state: &LayoutState) -> f64 {
        self.energy.of(&state.grid.stage_cost, self.units.demand.num_stages())
    }

    fn score(&self, state: &LayoutState) -> Score {
        state.grid.score(self.units)
    }

    fn snapshot(&self, state: &LayoutState) -> Vec<u32> {
        state.grid.cell_of.clone()
    }

    fn sample_change(&self, state: &mut LayoutState, stream: &mut Stream) -> f64 {
        let mut trial = Trial::default();
        let count = self.units.num_units() as u64;
        for _ in 0..SAMPLE_DRAWS {
            let [first, second] = [0; 2].map(|_| stream.below(count) as usize);
            if state.grid.try_attention(self.units, Move::Swap { first, second }, &mut trial)
                && trial.blocks[0] != trial.blocks[1]
            {
                state.grid.try_experts(self.units, &mut trial);
                let change = self.change(state, &trial);
                if change != 0.0 {
                    return change;
                }
            }
        }
        // No two units can change places and make a difference: whatever else can be done.
        for _ in 0..SAMPLE_DRAWS {
            let (_, proposal) = self.propose(state, stream);
            if self.try_attention(state, proposal, &mut trial, stream) {
                state.grid.try_experts(self.units, &mut trial);
                let change = self.change(state, &trial);
                if change != 0.0 {
                    return change;
                }
            }
        }
        0.0
    }

    fn sweep(
        &self,
        state: &mut LayoutState,
        temperature: f64,
        stream: &mut Stream,
        record: &mut Record<Self>,
    ) {
        let mut trial = Trial::default();
        for _ in 0..self.proposals {
            let (kind, proposal) = self.propose(state, stream);
            let made = match proposal {
                Proposal::Chain(chain) => {
                    if !chain.fits(self.units, &state.grid) {
                        continue;
                    }
                    self.follow_chain(state, chain, &mut trial, temperature, stream)
                }
                Proposal::TradeRows(blocks) => self.trade_rows(state, blocks, temperature, stream),
                _ => {
                    if !self.try_attention(state, proposal, &mut trial, stream) {
                        continue;
                    }
                    self.exchange(state, &mut trial, temperature, stream)
                }
            };
            record.propose(kind);
            let Some(change) = made else { continue };
            record.accept(kind, change);
            // The whole score is only looked at where its first component can be the best.
            if state.grid.stage_cost.iter().all(|&cost| cost <= record.bar().worst_shard) {
                record.offer(self, state);
            }
        }
    }
}

impl Portable for LayoutSystem<'_> {
    fn pack_state(&self, state: &LayoutState) -> Vec<u32> {
        state.pack()
    }

    fn unpack_state(&self, words: &[u32]) -> Option<LayoutState> {
        LayoutState::unpack(self.units, words)
    }

    fn pack_answer(&self, answer: &Vec<u32>) -> Vec<u32> {
        answer.clone()
    }

    fn unpack_answer(&self, words: &[u32]) -> Option<(Score, Vec<u32>)> {
        let fits = words.len() == self.units.num_units()
            && words.iter().all(|&cell| (cell as usize) < self.units.num_cells());
        fits.then(|| (Grid::new(self.units, words.to_vec()).score(self.units), words.to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::strategy::{Strategy, ValueTree};
    use routepack_problem::{check_layout, evaluate};

    use super::*;
    use crate::spread_bins::layout_of;
    use crate::support::recipes;

    /// After every proposal of every kind, made or not: a feasible layout, all sums as from scratch, the energy as well,
    /// untouched shards as they were; and the cases reach every kind.
    #[test]
    fn every_kind_of_move_keeps_every_sum() {
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let strategy = recipes(14);
        let mut accepted = vec![0u64; LayoutSystem::MOVE_KINDS.len()];
        for _ in 0..300 {
            let recipe = strategy.new_tree(&mut runner).expect("a recipe").current();
            let case = recipe.build();
            let (instance, placement) = (&case.instance, &case.placement);
            // Now and then with part of the peaks charged at the mean.
            let light = recipe.seed.is_multiple_of(4);
            let units = if light {
                Units::with_light_peaks(instance, placement, recipe.rows, 30, &|| false)
                    .expect("enough units")
            } else {
                Some(Units::new(instance, placement, recipe.rows).expect("enough units"))
            };
            let units = units.expect("not stopped");
            let neighbours = Neighbours::new(&units, 4, &|| false).expect("not stopped");
            let energy = Energy { reference: 10.0, stiffness: 1e-6, softness: 100.0 };
            let system = LayoutSystem { units: &units, neighbours: &neighbours, energy, proposals: 1 };
            let mut state = LayoutState::new(&units, units.cells_of_units(instance, &case.first));
            let mut stream = Stream::new(recipe.seed ^ 5);
            let temperature = state.grid.mean_row_cost(&units);
            for _ in 0..400 {
                let before = state.clone();
                let mut record = Record::new(system.score(&state));
                system.sweep(&mut state, temperature, &mut stream, &mut record);
                let kind = record.moves().iter().position(|count| count.accepted > 0);
                let Some(kind) = kind else {
                    assert_eq!(before.grid.sums(), state.grid.sums(), "nothing was made");
                    continue;
                };
                accepted[kind] += 1;
                let layout = layout_of(instance, &units, &state.grid.cell_of);
                check_layout(instance, &layout).expect("feasible");
                let scratch = LayoutState::new(&units, state.grid.cell_of.clone());
                let travelled = system.unpack_state(&system.pack_state(&state)).expect("a state");
                assert_eq!((travelled.grid.sums(), &travelled.members), (state.grid.sums(), &state.members));
                assert_eq!(
                    system.unpack_answer(&system.snapshot(&state)).expect("an answer").0,
                    system.score(&state)
                );
                assert_eq!(state.grid.sums(), scratch.grid.sums(), "{}", LayoutSystem::MOVE_KINDS[kind]);
                let evaluation = evaluate(instance, placement, &layout);
                assert!(light || state.grid.score(&units) == evaluation.score);
                assert!((system.energy(&state) - system.energy(&scratch)).abs() == 0.0);
                for (block, members) in state.members.iter().enumerate() {
                    let mut members = members.clone();
                    members.sort_unstable();
                    assert_eq!(members, scratch.members[block]);
                }
                let moved =
                    (0..units.num_units()).filter(|&u| before.grid.cell_of[u] != state.grid.cell_of[u]);
                let touched: Vec<usize> =
                    moved.flat_map(|u| [before.block(&units, u), state.block(&units, u)]).collect();
                for (shard, cost) in before.grid.stage_cost.iter().enumerate() {
                    let group = shard / units.shares();
                    if touched.iter().all(|block| block % units.groups != group) {
                        assert_eq!(*cost, state.grid.stage_cost[shard]);
                    }
                }
            }
        }
        assert!(accepted.iter().all(|&count| count >= 50), "{accepted:?}");
    }
}
