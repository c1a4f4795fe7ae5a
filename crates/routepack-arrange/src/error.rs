//! What can be wrong with the input of the layout search.

use routepack_anneal::AnnealError;
use routepack_peaks::PeaksError;
use routepack_problem::{LayoutError, counted};
use thiserror::Error;

/// Bad input. Running out of budget is no error.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ArrangeError {
    /// Some cell would stay empty.
    #[error(
        "{} (samples or atomic groups) cannot fill {} × {}: every cell needs one",
        counted(*units as u64, "unit"),
        counted(*rows as u64, "row"),
        counted(*slots as u64, "DP slot")
    )]
    TooFewUnits {
        /// Units of the window.
        units: usize,
        /// Rows wanted.
        rows: usize,
        /// DP slots.
        slots: usize,
    },
    /// The bins do not make a layout of that many rows.
    #[error(
        "bins that do not fit: {bins} for {} × {} = {}",
        counted(*rows as u64, "row"),
        counted(*slots as u64, "DP slot"),
        counted(*cells as u64, "cell")
    )]
    TooManyBins {
        /// Bins given.
        bins: usize,
        /// Rows wanted.
        rows: usize,
        /// DP slots.
        slots: usize,
        /// Their product.
        cells: usize,
    },
    /// A bin names a unit that does not exist.
    #[error("a bin holds unit {unit}, the instance has {units} units")]
    NoSuchUnit {
        /// The unit named.
        unit: u32,
        /// Units of the instance.
        units: usize,
    },
    /// A unit occurs in no bin, or in several.
    #[error("unit {unit} occurs {times} times in the bins, expected once")]
    Coverage {
        /// Unit, as numbered in the instance.
        unit: usize,
        /// Number of occurrences.
        times: usize,
    },
    /// The layout to start from is not one of this instance.
    #[error("layout to start from: {0}")]
    Layout(#[from] LayoutError),
    /// Demands leave the range of the kernels, or the placement is another model's.
    #[error(transparent)]
    Peaks(#[from] PeaksError),
    /// An option has a value it can't have.
    #[error("option {option} is {value}: {rule}")]
    Option {
        /// Its name, as in TOML.
        option: &'static str,
        /// What it was set to.
        value: String,
        /// What it must be.
        rule: &'static str,
    },
    /// The layout program was asked for where padding tokens are charged.
    #[error("the layout program does not know padding: pad_routes must be \"none\"")]
    PaddingInProgram,
    /// The annealer refused its options.
    #[error(transparent)]
    Anneal(#[from] AnnealError),
}
