#![doc = include_str!("../README.md")]

mod arms;
mod beside;
mod control;
mod error;
mod export;
mod filter;
mod html_report;
mod job;
mod moves;
mod pack_groups;
mod passes;
mod plan;
mod refine;
mod refine_options;
mod report;
mod row_order;
mod rows;
mod rows_by_time;
mod rows_curve;
mod sequence;
mod simulated;
mod slow_shards;

pub use beside::{Beside, BesideTable, HtmlReportError};
pub use control::{Control, Progress, Stage};
pub use error::PlanError;
pub use export::{Framework, export};
pub use filter::filter;
pub use html_report::{HtmlReport, html_report};
pub use job::Job;
pub use moves::MoveOptions;
pub use passes::{TRAIN, pass_names, plan_passes, sign};
pub use plan::plan;
pub use refine_options::{Aim, RefineOptions};
pub use report::{ARM_FIGURES, Arm, ArmFigure, Report, percent_more, placement_in_words, report};
pub use routepack_html::{MovePoint, RowsLine, RowsPoint, TracePoint, trade_off_curve};
pub use rows_curve::rows_curve;
pub use sequence::{Sequence, SequenceArm, Sequenced};
pub use simulated::{Simulated, SimulatedArm, SimulatedError, simulate_plan};

pub use routepack_anneal as anneal;
pub use routepack_arrange as arrange;
pub use routepack_baselines as baselines;
pub use routepack_binpack as binpack;
pub use routepack_bounds as bounds;
pub use routepack_certificate as certificate;
pub use routepack_formats as formats;
pub use routepack_generate as generate;
pub use routepack_place as place;
pub use routepack_problem as problem;
pub use routepack_simulate as simulation;
pub use routepack_verify as verification;

pub use routepack_problem::{Batch, ExpertCounts, Instance, Layout, Placement, SampleIds, Setting};
pub use routepack_verify::{Plan, verify};
