//! What can be wrong with the input of a placement.

use thiserror::Error;

/// Why experts cannot be placed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlaceError {
    /// Every rank owns the same number of experts.
    #[error("experts not divisible by ranks: {experts} experts, {ranks} ranks")]
    Indivisible {
        /// Experts per layer.
        experts: usize,
        /// EP ranks.
        ranks: usize,
    },
    /// A layer has another number of experts than the first.
    #[error("loads[{layer}] has {found} experts, layer 0 has {expected}")]
    Shape {
        /// Layer.
        layer: usize,
        /// Experts found.
        found: usize,
        /// Experts expected.
        expected: usize,
    },
    /// The total load of a layer leaves the exact range.
    #[error("loads[{layer}] sum to {sum}: a layer's total must stay below 2^62")]
    Overflow {
        /// Layer.
        layer: usize,
        /// Total load.
        sum: u128,
    },
    /// The load of a layer in one row and shard leaves the range of the kernels.
    #[error(
        "loads[{layer}] of block {block} sum to {sum}: a row and shard must stay below 2^31 routed rows a layer"
    )]
    BlockOverflow {
        /// Layer.
        layer: usize,
        /// Block: a row and EDP shard.
        block: usize,
        /// Total load.
        sum: u128,
    },
    /// The resident placement is of another model or job.
    #[error("resident placement has {found}, the loads have {expected}")]
    Resident {
        /// Layers, experts and ranks of the resident placement.
        found: String,
        /// Layers, experts and ranks of the loads.
        expected: String,
    },
    /// A placement is of another model or job than the loads of a layout.
    #[error("{name} placement has {found}, the loads have {expected}")]
    Placement {
        /// Which placement.
        name: &'static str,
        /// Its layers and experts.
        found: String,
        /// Layers and experts of the loads.
        expected: String,
    },
    /// Not one weight a block.
    #[error("weights of {found} blocks, the loads have {expected}")]
    Weights {
        /// Weights given.
        found: usize,
        /// Blocks: rows times EDP shards, of all steps.
        expected: usize,
    },
    /// Not one weight a layer.
    #[error("weights of {found} layers, the loads have {expected}")]
    LayerWeights {
        /// Weights given.
        found: usize,
        /// Layers.
        expected: usize,
    },
    /// Weighted peaks leave the exact range.
    #[error("weights times peaks where the experts are now sum to 2^127 or more over all layers")]
    WeightedOverflow,
    /// Not one limit a layer.
    #[error("move limits for {found} layers, the loads have {expected}")]
    Limits {
        /// Limits given.
        found: usize,
        /// Layers.
        expected: usize,
    },
    /// The start is further from the resident placement than allowed.
    #[error(
        "layer {layer} of the start has {moved} experts away from their resident rank, at most {limit} may be"
    )]
    Moves {
        /// Layer.
        layer: usize,
        /// Experts away.
        moved: usize,
        /// Experts that may be.
        limit: u32,
    },
    /// Groups, nodes, experts and ranks do not divide each other.
    #[error(
        "place.node_groups: {groups} groups on {nodes} nodes: groups must divide {experts} experts, nodes must divide groups and {ranks} ranks"
    )]
    NodeGroups {
        /// Groups of experts.
        groups: usize,
        /// Nodes.
        nodes: usize,
        /// Experts per layer.
        experts: usize,
        /// EP ranks.
        ranks: usize,
    },
    /// A group of experts is not on one node in the placement to start from.
    #[error("group {group} of layer {layer} is split over nodes in the placement to start from")]
    SplitGroup {
        /// Layer.
        layer: usize,
        /// Group.
        group: usize,
    },
    /// Few moves and whole groups are not sought together.
    #[error("place.node_groups with a goal for moves: not both")]
    GroupedMoves,
    /// Patterns know nothing of nodes.
    #[error("place.node_groups with rank patterns: not both")]
    GroupedPatterns,
    /// An option is out of range.
    #[error("{field} = {value}: {limit}")]
    Option {
        /// Table and name of the option.
        field: &'static str,
        /// Value found.
        value: String,
        /// What is allowed.
        limit: &'static str,
    },
}
