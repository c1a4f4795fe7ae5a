#![doc = include_str!("../README.md")]

mod batch;
mod by_step;
mod cost;
mod decimal;
mod error;
mod evaluate;
mod expert_counts;
mod ids;
mod instance;
mod layout;
mod model_shape;
mod placement;
mod rank_demand;
mod setting;
mod topology;
mod words;

pub use batch::{Batch, CostTable, SampleIds};
pub use cost::{AttentionKind, Charges, CostModel, Gamma, Pace, ResolvedCost};
pub use decimal::ExactDecimal;
pub use error::{LayoutError, ProblemError};
pub use evaluate::{Evaluation, Score, evaluate, evaluate_projected};
pub use expert_counts::{CountsMemory, ExpertCounts};
pub use ids::{DpSlot, EdpShard, EpRank, Expert, Layer, Row, SampleId, UnitId};
pub use instance::{Instance, Oversize, Prepared, prepare, prepare_without};
pub use layout::{Layout, check_layout};
pub use model_shape::{AttentionLayers, ModelShape};
pub use placement::Placement;
pub use rank_demand::{RankDemand, project};
pub use setting::{
    Attribution, Dummies, OversizePolicy, Packing, PadRoutes, Routing, RowsPolicy, Setting, Steps,
};
pub use topology::{Parallelism, Topology};
pub use words::{counted, four_places};
