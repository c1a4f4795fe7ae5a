//! Property tests of the whole workspace.

mod jobs;
mod objective;
mod placement;
mod plan;
