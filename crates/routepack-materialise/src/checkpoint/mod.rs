//! Checkpoints at rest: folders of safetensors shards in which expert j is logical expert j, and the two ways between
//! that and slots.

mod error;
mod folder;
mod map;
mod names;
mod rewrite;
mod shard;
mod sums;

pub use error::CheckpointError;
pub use map::{CHECKSUMS_FILE, CheckpointMap, MAP_FILE};
pub use names::{NamePattern, Names};
pub use rewrite::{Direction, Rewrite, Rewritten, rewrite};
