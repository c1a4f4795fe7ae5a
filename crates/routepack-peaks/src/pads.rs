//! Padding tokens as loads: none, spread evenly, or to fixed experts (DESIGN §1.1).
//!
//! n padding tokens of a block count as ⌊(n + k)/parts⌋ in part k. Spread, each rank carries ⌈tokens·top_k/P⌉ more on
//! every layer: the cost grows by that times ΣΓ. To fixed experts, rank p of layer l carries tokens · (pad experts on p).

use routepack_problem::{Instance, PadRoutes, Placement};

use crate::demand::Shape;
use crate::kernels::{Chunk, LANES};

/// Where the trainer's padding tokens go.
#[derive(Clone, Debug)]
pub(crate) enum Pads {
    /// Nowhere.
    None,
    /// To all ranks evenly.
    Spread {
        /// Experts chosen per token.
        top_k: u64,
        /// ΣΓ over the layers, by stage.
        weights: Vec<u64>,
    },
    /// To fixed experts: how many of them each rank has, `[stages][chunk · rank]`.
    Fixed(Vec<Vec<Chunk<u32>>>),
}

impl Pads {
    pub(crate) fn new(
        instance: &Instance,
        placement: &Placement,
        shape: Shape,
        places: &[(usize, usize)],
        weights: &[Vec<u64>],
    ) -> Self {
        if !instance.charges_padding() {
            return Self::None;
        }
        let routing = &instance.setting().routing;
        match (&routing.pad_routes, instance.pad_experts()) {
            (PadRoutes::Spread, _) => Self::Spread {
                top_k: u64::from(routing.top_k),
                weights: weights.iter().map(|weights| weights.iter().sum()).collect(),
            },
            (_, Some(experts)) => {
                let mut counts = vec![vec![[0; LANES]; shape.stride()]; shape.stages];
                for (layer, &(stage, place)) in places.iter().enumerate() {
                    for &expert in experts {
                        let (chunk, lane) = shape.place(place, placement.rank_of(layer, expert as usize));
                        counts[stage][chunk][lane] += 1;
                    }
                }
                Self::Fixed(counts)
            }
            _ => Self::None,
        }
    }

    pub(crate) fn are_charged(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// What a block's spread padding adds to each of its loads.
    pub(crate) fn spread_rows(&self, tokens: u64, shape: Shape) -> u64 {
        match self {
            Self::Spread { top_k, .. } => (tokens * top_k).div_ceil(shape.ranks as u64),
            _ => 0,
        }
    }

    /// What a block's spread padding adds to the cost of a share.
    pub(crate) fn spread_cost(&self, tokens: u64, share: usize, shape: Shape) -> u64 {
        match self {
            Self::Spread { weights, .. } => weights[share % shape.stages] * self.spread_rows(tokens, shape),
            _ => 0,
        }
    }
}

/// Padding tokens of a block that count in a share: those of its part.
pub(crate) fn share_tokens(pad_tokens: u64, share: usize, shape: Shape) -> u64 {
    (pad_tokens + (share / shape.stages) as u64) / shape.parts as u64
}
