#![doc = include_str!("../README.md")]
#![allow(clippy::doc_markdown, reason = "the headers hold formulas")]

pub mod checkpoint;
mod colouring;
mod error;
mod flat;
mod holdings;
mod links;
mod materialise;
mod memories;
mod owner;
mod passes;
mod rounds;
mod state;
mod transfer;

pub use error::MaterialiseError;
pub use flat::{FlatOptions, FlatOrder};
pub use holdings::{HeldRun, Holdings, Seat};
pub use links::{Links, MoveCost, move_cost};
pub use materialise::{Materialised, MoveOptions, map_sha256, materialise};
pub use memories::{ExpertPlace, Memories, Usage, apply};
pub use owner::{ExpertGrid, Owner};
pub use rounds::{Block, Pass};
pub use state::{ExpertState, ExpertTensor, Held, StateKind};
pub use transfer::{Transfer, slot_permutation};
