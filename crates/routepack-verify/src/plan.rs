//! The plan: what a trainer runs, with everything claimed about it and the means to recompute it.

use routepack_problem::{ResolvedCost, RowsPolicy, Score, Setting};
use routepack_simulate::Machine;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Format name and version every plan begins with.
pub const FORMAT: &str = "routepack-plan/1";

/// Placement, layout of every step, certificates, scores, bounds, options and seed of one batch.
///
/// A plan holds no clock time: the same batch, setting, options, seed and LP backend give the same bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Format and version, [`FORMAT`].
    pub format: String,
    /// SHA-256 of the plan's body, hexadecimal: every field but this one as canonical JSON (see [`crate::plan_sha256`]).
    pub sha256: String,
    /// SHA-256 of the batch's arrays, hexadecimal (see [`crate::window_sha256`]).
    pub window_sha256: String,
    /// Program and version that made the plan; free text.
    pub tool: String,
    /// How far the plan's row claims reach.
    pub status: Status,
    /// Whether every stage used its whole budget: false after a deadline or an interruption. Not verifiable.
    pub finished: bool,
    /// Seed of all random streams.
    pub seed: u64,
    /// LP backend and version in force; free text.
    pub lp_backend: String,
    /// Effective options of the job, as data; free form.
    pub options: serde_json::Value,
    /// The problem's definition.
    pub setting: Setting,
    /// What steps run on, as the job says; an input. Rows stand in the faster order on it, and where `rows` says so the
    /// simulated step time decides how many there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
    /// Cost weights in force.
    pub cost: ResolvedCost,
    /// k of the cost scale S = 2^k: divide costs by S·C for the paper's unit.
    pub scale_bits: u32,
    /// Whether expert figures are estimates (`attribution = "spread"` over several parts).
    pub estimate: bool,
    /// Placement of the experts, shared by all steps; null without recorded routes.
    pub placement: Option<PlanPlacement>,
    /// Samples left out because they fit in no cell, in input order.
    pub dropped: Vec<PlanDropped>,
    /// Samples a filter took away after the plan was made, in input order; absent when there are none. The plan then keeps
    /// its rows, whatever their policy would give for the samples that are left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filtered: Vec<u32>,
    /// One entry per optimizer step, steps ascending.
    pub steps: Vec<PlanStep>,
}

/// How far the row claims of a plan reach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The fewest rows of every step are proved.
    Ok,
    /// In some step fewer rows might exist than were found.
    Gap,
    /// The plan is valid but was made another way than asked, for this reason.
    Fallback(String),
}

/// Placement of the experts and what it gives over the whole batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanPlacement {
    /// EP ranks P; rank p owns slots p·E/P to (p+1)·E/P − 1.
    pub num_ranks: u32,
    /// Slot of every logical expert, `[layers][experts]`.
    pub log2phys: Vec<Vec<u32>>,
    /// Load of the busiest rank over the batch, `[layers]`, in recorded routed rows.
    pub peak: Vec<u64>,
    /// Lower bound on that load for any placement, `[layers]`, in recorded routed rows.
    pub bound: Vec<u64>,
    /// Where the weights were before, and how many experts move; absent when no resident placement was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident: Option<PlanResident>,
}

/// The placement that the weights had before the plan, and what changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanResident {
    /// Slot of every logical expert, `[layers][experts]`. An input: what is verified is that it is a placement.
    pub log2phys: Vec<Vec<u32>>,
    /// Experts that leave their slot, `[layers]`.
    pub moved: Vec<u32>,
}

/// A sample left out under `oversize = "drop"`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanDropped {
    /// Index in the batch.
    pub sample: u32,
    /// Its id outside; null when the batch has none.
    pub id: Option<OutsideId>,
    /// Padded tokens of the sample, or of its atomic group.
    pub length: u64,
}

/// Identity of a sample outside this program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum OutsideId {
    /// An integer id.
    Integer(i64),
    /// A text id.
    Text(String),
}

/// One optimizer step: rows, cells and every figure claimed about them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanStep {
    /// Step as recorded; 0 when steps were not.
    pub step: i64,
    /// Rows R of the layout: every DP slot runs this many micro-batches.
    pub rows: u64,
    /// The policy `rows` follows; as in the setting.
    pub rows_policy: RowsPolicy,
    /// Where the simulated step time decides: every number of rows a layout was found for, ascending, those used among
    /// them. None of the layouts is faster than the one used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows_tried: Vec<PlanRows>,
    /// Fewest rows a feasible packing is known for.
    pub rows_found: u64,
    /// Rows that are necessary: those that hold `cells_bound` cells.
    pub rows_bound: u64,
    /// Whether `rows_found` is proved to be the fewest, R*.
    pub rows_proved: bool,
    /// Cells of the best packing known: the certificate's witness, or this layout's cells with a sample in them where the
    /// witness breaks a limit of samples a cell.
    pub cells_found: u64,
    /// Cells that are necessary, proved by the certificate or by a limit of samples a cell (⌈samples/limit⌉).
    pub cells_bound: u64,
    /// Bin-packing certificate of these claims about the step's units, as text.
    pub certificate: String,
    /// Batch indices of the samples of every cell, ascending, `[rows][slots][…]`.
    pub cells: Vec<Vec<Vec<u32>>>,
    /// Outside ids in the same places; null when the batch has none.
    pub ids: Option<Vec<Vec<Vec<OutsideId>>>>,
    /// Dummies in every cell, `[rows][slots]`.
    pub dummies: Vec<Vec<u32>>,
    /// Tokens and samples of every cell.
    pub tokens: TokenGrid,
    /// Tokens and samples of the step.
    pub totals: TokenTotals,
    /// The exact score, scaled by S.
    pub score: Score,
    /// U, accumulated cost of every EDP shard, `[shards]`, scaled by S.
    pub shard_cost: Vec<u64>,
    /// Lower bounds on the cost at this number of rows.
    pub bounds: PlanBounds,
    /// (worst shard − bound)/worst shard against the bound under this placement; prose, from the integers.
    pub gap_to_placement: f64,
    /// The same against the bound that holds for every placement.
    pub gap_to_free: f64,
}

/// A number of rows, and the step time of the layout found for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanRows {
    /// Rows of the layout.
    pub rows: u64,
    /// Simulated seconds of the step on the plan's machine, under the plan's placement, moves not charged.
    pub seconds: f64,
    /// The layout, if it is not the one used: cell (row · slots + slot) of every sample of the step in input order and of
    /// every dummy after them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cell_of: Vec<u32>,
}

/// Tokens and samples of every cell, each `[rows][slots]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenGrid {
    /// Recorded samples.
    pub samples: Vec<Vec<u64>>,
    /// Raw tokens of recorded samples.
    pub raw: Vec<Vec<u64>>,
    /// Tokens the trainer runs: dummies, sample padding and cell padding included.
    pub padded: Vec<Vec<u64>>,
    /// Tokens whose routes were recorded.
    pub routed: Vec<Vec<u64>>,
    /// Loss-mask tokens; null when not recorded.
    pub loss: Option<Vec<Vec<u64>>>,
}

/// Tokens and samples of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenTotals {
    /// Recorded samples.
    pub samples: u64,
    /// Dummies.
    pub dummies: u64,
    /// Raw tokens of recorded samples.
    pub raw: u64,
    /// Tokens the trainer runs: dummies, sample padding and cell padding included.
    pub padded: u64,
    /// Tokens whose routes were recorded.
    pub routed: u64,
    /// Loss-mask tokens; null when not recorded.
    pub loss: Option<u64>,
}

/// Lower bounds on the cost of any layout with the step's number of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanBounds {
    /// Under the plan's placement.
    pub given_placement: PlanBound,
    /// Under any placement.
    pub placement_free: PlanBound,
}

/// One lower bound by parts, scaled by S.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanBound {
    /// Attention cost Σ A over rows and shards.
    pub attention: u64,
    /// Expert cost Σ X over rows and shards.
    pub expert: u64,
    /// Total cost Σ J over rows and shards.
    pub total: u64,
    /// Cost of the slowest shard, max U.
    pub worst_shard: u64,
    /// Largest cost of one row and shard, max J.
    pub worst_row: u64,
}
