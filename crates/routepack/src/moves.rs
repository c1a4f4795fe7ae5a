//! Moving experts between windows: what it costs, what is allowed, and what the co-refinement has to respect.

use routepack_place::{MoveCharge, MoveGoal, MoveLimit, Moved};
use routepack_problem::{Instance, Placement, ProblemError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::PlanError;

/// Experts that change slots, from the resident placement of the plan (expert e in slot e if none is given).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MoveOptions {
    /// How many experts may move, or for what gain; without it moves are free. `within`: fewest moves for aggregate peaks
    /// near the bound; `budget`: at most so many, of a layer or of all; `cost`: only moves that pay, where the loads are
    /// those of the whole batch and `steps` says how often such a batch is served.
    pub goal: Option<MoveGoal>,
    /// Under the goal `within`: experts of a layer that co-refinement may move for the peaks of a layout, where the tolerance
    /// needs fewer.
    pub refine_up_to: u32,
    /// Bytes of one expert of one layer with all that moves with it: weights, master copy, moments. 0: not known.
    pub bytes_per_expert: u64,
    /// Bytes a second that one EP rank sends while it receives as many; 0: not known.
    pub link_bytes_per_second: u64,
}

/// Bytes and rates stay exact in products with any number of moves.
const MOST_BYTES: u64 = 1 << 40;

impl MoveOptions {
    /// Checks the ranges.
    ///
    /// # Errors
    /// The first option out of range.
    pub fn validate(&self) -> Result<(), PlanError> {
        for (field, value) in [
            ("moves.bytes_per_expert", self.bytes_per_expert),
            ("moves.link_bytes_per_second", self.link_bytes_per_second),
        ] {
            if value > MOST_BYTES {
                let limit = "expected at most 2^40".to_owned();
                return Err(ProblemError::Setting { field, value: value.to_string(), limit }.into());
            }
        }
        let (field, value, limit) = match self.goal {
            Some(MoveGoal::Within { tolerance_ppm }) if tolerance_ppm > 1_000_000 => {
                ("moves.goal.within.tolerance_ppm", u64::from(tolerance_ppm), "expected at most 1000000")
            }
            Some(MoveGoal::Cost { move_cost, .. }) if move_cost > 1 << 40 => {
                ("moves.goal.cost.move_cost", move_cost, "expected at most 2^40")
            }
            Some(MoveGoal::Cost { steps: 0, .. }) => ("moves.goal.cost.steps", 0, "expected at least 1"),
            _ => return Ok(()),
        };
        Err(ProblemError::Setting { field, value: value.to_string(), limit: limit.to_owned() }.into())
    }
}

/// How far the placement of a plan may leave the resident one.
#[derive(Clone, Debug)]
pub(crate) struct Tether {
    resident: Placement,
    /// Moved experts allowed, `[layers]`.
    moves: Vec<u32>,
    charge: Option<MoveCharge>,
}

impl Tether {
    /// What a goal leaves to the co-refinement after an incremental placement: the moves it used and, of a budget, its share
    /// of what is left; `weights` are what a routed row of every layer's peak costs.
    pub(crate) fn after(
        moved: &Moved,
        resident: Placement,
        weights: &[u64],
        goal: MoveGoal,
        refine_up_to: u32,
    ) -> Self {
        let mut moves: Vec<u32> = moved.layers.iter().map(|layer| layer.moved).collect();
        let experts = resident.num_experts() as u32;
        let mut charge = None;
        match goal {
            MoveGoal::Within { .. } => moves.iter_mut().for_each(|moves| *moves = refine_up_to.max(*moves)),
            MoveGoal::Cost { move_cost, steps } => {
                moves.fill(experts);
                charge = Some(MoveCharge { move_cost, steps });
            }
            MoveGoal::Budget { per_layer, total } => {
                let most = per_layer.unwrap_or(experts).min(experts);
                match total {
                    None => moves.fill(most),
                    Some(total) => share_rest(&mut moves, weights, most, total),
                }
            }
        }
        Self { resident, moves, charge }
    }

    pub(crate) fn limit(&self) -> MoveLimit<'_> {
        MoveLimit { resident: &self.resident, moves: &self.moves, charge: self.charge }
    }

    /// What the moves of a placement are charged in a score, beside the steps' own; 0 where they are not.
    pub(crate) fn charge(&self, instances: &[&Instance], placement: &Placement) -> u128 {
        let Some(MoveCharge { move_cost, steps }) = self.charge else { return 0 };
        let shards = instances[0].topology().num_shards() as u128;
        let weighted: u128 = (0..placement.num_layers())
            .map(|layer| {
                let weight = instances[0].charges().expert()[layer];
                let moved = (0..placement.num_experts()).filter(|&expert| {
                    placement.rank_of(layer, expert) != self.resident.rank_of(layer, expert)
                });
                u128::from(weight) * moved.count() as u128
            })
            .sum();
        // Peaks are summed over shards where moves are weighed, the score is that of one shard.
        weighted * u128::from(move_cost) / (u128::from(steps) * shards)
    }
}

/// Deals what is left of `total` to the layers, two at a time, for a swap is two moves: in proportion to their weights, the
/// next to the layer that then has fewest moves a weight. Layers without weight get none.
fn share_rest(moves: &mut [u32], weights: &[u64], most: u32, total: u32) {
    let used: u64 = moves.iter().map(|&moved| u64::from(moved)).sum();
    let mut rest = u64::from(total).saturating_sub(used);
    while rest > 0 {
        let open = moves.iter_mut().zip(weights).filter(|(moved, weight)| **moved < most && **weight > 0);
        let next = open.min_by(|(a, of_a), (b, of_b)| {
            let ahead = |moved: u32, other: u64| u128::from(moved.saturating_add(2)) * u128::from(other);
            ahead(**a, **of_b).cmp(&ahead(**b, **of_a))
        });
        let Some((next, _)) = next else { break };
        let more = 2.min(most - *next).min(rest.try_into().unwrap_or(u32::MAX));
        *next += more;
        rest -= u64::from(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_shared_and_never_exceeded() {
        for (moves, weights, most, total, expected) in [
            (vec![0, 4, 2], vec![1; 3], 8, 12, vec![4, 4, 4]),
            (vec![0, 4, 2], vec![7; 3], 3, 100, vec![3, 4, 3]),
            (vec![0, 0], vec![1; 2], 8, 3, vec![2, 1]),
            (vec![5, 0], vec![1; 2], 8, 5, vec![5, 0]),
            (vec![0, 0], vec![1, 3], 8, 8, vec![2, 6]),
            (vec![0, 0], vec![1, 3], 8, 14, vec![6, 8]),
            (vec![0, 0, 0], vec![0, 1, 0], 8, 14, vec![0, 8, 0]),
        ] {
            let mut shared = moves;
            share_rest(&mut shared, &weights, most, total);
            assert_eq!(shared, expected);
        }
    }

    #[test]
    fn options_out_of_range_are_named() {
        let refused = |goal| {
            MoveOptions { goal: Some(goal), ..MoveOptions::default() }
                .validate()
                .expect_err("refused")
                .to_string()
        };
        assert!(refused(MoveGoal::Cost { move_cost: 1, steps: 0 }).contains("moves.goal.cost.steps"));
        assert!(
            refused(MoveGoal::Cost { move_cost: 1 << 41, steps: 1 }).contains("moves.goal.cost.move_cost")
        );
        assert!(refused(MoveGoal::Within { tolerance_ppm: 2_000_000 }).contains("tolerance_ppm"));
        let bytes = MoveOptions { bytes_per_expert: u64::MAX, ..MoveOptions::default() };
        assert!(bytes.validate().expect_err("refused").to_string().contains("moves.bytes_per_expert"));
    }
}
