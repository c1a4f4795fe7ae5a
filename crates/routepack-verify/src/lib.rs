//! The plan, and its verification from the inputs alone.
