#![doc = include_str!("../README.md")]

mod augment;
mod bins;
mod cut;
mod error;
mod knife_edge;
mod lengths;
mod preset;
mod recipe;
mod routing;
mod statistics;
mod window;

pub use augment::Augmented;
pub use bins::{AroundMean, Bins, BinsRecipe, KnifeEdge, Rollouts, Triplets, Uniform, ZeroSlack, bins};
pub use cut::{Cut, Trace};
pub use error::GenerateError;
pub use preset::Preset;
pub use recipe::{KnifeEdgeRecipe, LengthRecipe, RoutingRecipe, WindowRecipe};
pub use statistics::{LoadStatistics, Statistics, describe, describe_ranks};
pub use window::{Generated, window};
