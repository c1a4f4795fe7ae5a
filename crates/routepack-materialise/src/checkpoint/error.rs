//! What can be wrong with a checkpoint, with its place.

use std::fmt::Display;
use std::path::Path;

use thiserror::Error;

/// Why a checkpoint was not rewritten. The source is never changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CheckpointError {
    /// The operating system refused.
    #[error("{file}: cannot {action}: {error}")]
    Access {
        /// Path.
        file: String,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        error: String,
    },
    /// The checkpoint, its names or the map are wrong.
    #[error("{place}: {why}")]
    Input {
        /// File, and tensor where one is meant.
        place: String,
        /// What is wrong, and what was expected.
        why: String,
    },
    /// Bytes are not what their checksum says.
    #[error("{place}: {why}")]
    Checksum {
        /// File or layer, expert and tensor.
        place: String,
        /// What differs.
        why: String,
    },
}

impl CheckpointError {
    pub(crate) fn access(file: &Path, action: &'static str, error: &dyn Display) -> Self {
        Self::Access { file: file.display().to_string(), action, error: error.to_string() }
    }

    pub(crate) fn input(place: impl Display, why: impl Into<String>) -> Self {
        let plain = |text: String| text.replace(char::is_control, "\u{fffd}");
        Self::Input { place: plain(place.to_string()), why: plain(why.into()) }
    }
}
