//! Checkpoints at rest: folders of safetensors shards in which expert j is logical expert j, and the two ways between
//! that and slots.

mod copy;
mod error;
mod folder;
mod index;
mod map;
mod names;
mod relabel;
mod rewrite;
mod settings;
mod shard;
mod sums;
mod target;

pub use error::CheckpointError;
pub use map::{CHECKSUMS_FILE, CheckpointMap, MAP_FILE};
pub use names::{NamePattern, Names};
pub use rewrite::{Direction, Rewrite, Rewritten, rewrite};
