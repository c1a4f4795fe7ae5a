#![doc = include_str!("../README.md")]

mod areal;
mod deal;
mod dp_local_ffd;
mod global_ffd;
mod karmarkar_karp;
mod open_instruct;
mod peers;
mod prime_rl;
mod slime;
mod split_heaviest;
mod trl;
mod verl;

pub use areal::areal;
pub use dp_local_ffd::dp_local_ffd;
pub use global_ffd::global_ffd;
pub use open_instruct::open_instruct;
pub use peers::{PEERS, Peer};
pub use prime_rl::prime_rl;
pub use slime::{miles, slime};
pub use trl::trl;
pub use verl::{verl_0_8, verl_0_9};

use routepack_problem::{Layout, counted};

/// Layout of a reference arm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaselineLayout {
    /// The layout; valid for the instance.
    pub layout: Layout,
    /// Whether the rule needed more rows than asked for.
    pub own_rows: bool,
}

/// Why a rule gives no layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BaselineError {
    /// The rule cannot fill every cell.
    #[error("{rule}: {} for {} of {place}", counted(*units as u64, "unit"), counted(*cells as u64, "cell"))]
    EmptyCells {
        /// The rule.
        rule: &'static str,
        /// Units (samples or atomic groups) at hand.
        units: usize,
        /// Cells to fill.
        cells: usize,
        /// Where.
        place: String,
    },
    /// The rule does not know a constraint of the setting.
    #[error("{rule} does not know {constraint}")]
    Unsupported {
        /// The rule.
        rule: &'static str,
        /// The constraint.
        constraint: &'static str,
    },
}
