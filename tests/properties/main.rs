//! Property tests of the whole workspace.

mod objective;
mod placement;
mod plan;
