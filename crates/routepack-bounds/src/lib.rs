#![doc = include_str!("../README.md")]
#![allow(clippy::doc_markdown, reason = "the headers hold formulas")]

mod aggregate;
mod attention_bound;
mod expert_peaks;
mod layout_bound;
mod levelling;
mod nested;
mod patterns;
mod peak_bounds;
mod pigeonhole;
mod priced_cells;
mod richest_cells;
mod slot_pigeonhole;

pub use aggregate::aggregate;
pub use attention_bound::{AttentionBound, attention_bounds, quick_attention_bounds};
pub use expert_peaks::{ExpertPeaks, given_demand, given_placement, placement_free};
pub use layout_bound::{LayoutBound, layout_bound, layout_bound_with};
pub use nested::nested;
pub use patterns::{Patterns, Weighed};
pub use peak_bounds::{PeakBounds, peak_bounds};
pub use pigeonhole::pigeonhole;
pub use slot_pigeonhole::slot_pigeonhole;
