//! Experts onto expert-parallel ranks, with proved bounds.
