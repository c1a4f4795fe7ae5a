//! What can be wrong with an input, named precisely.

use thiserror::Error;

use crate::words::counted;

/// Why a batch and a setting do not make an instance. Samples are given in input order, from 0.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProblemError {
    /// A field of the setting has a value outside its range.
    #[error("{field} = {value}: {limit}")]
    Setting {
        /// Dotted name of the field, as in the job file.
        field: &'static str,
        /// The value found.
        value: String,
        /// What is allowed.
        limit: String,
    },
    /// The parallel sizes do not form whole EDP shards (DESIGN §1.1).
    #[error(
        "topology: etp·ep/(tp·cp) = {etp}·{ep}/({tp}·{cp}) does not give whole EDP shards of {dp} DP slots: {why}"
    )]
    Shards {
        /// Expert tensor parallel size.
        etp: u32,
        /// Expert parallel size.
        ep: u32,
        /// Tensor parallel size.
        tp: u32,
        /// Context parallel size.
        cp: u32,
        /// Data-parallel slots.
        dp: u32,
        /// The rule that fails.
        why: &'static str,
    },
    /// An array has the wrong shape.
    #[error("{field}: shape {found}, expected {expected}")]
    Shape {
        /// Array name as in the window file.
        field: &'static str,
        /// Shape found.
        found: String,
        /// Shape expected.
        expected: String,
    },
    /// One value of an array is out of range.
    #[error("{field}[{index}] = {value}: {limit}")]
    Value {
        /// Array name as in the window file.
        field: &'static str,
        /// Index, comma-separated.
        index: String,
        /// The value found.
        value: String,
        /// What is allowed.
        limit: String,
    },
    /// The counts of a sample and layer do not add up to `top_k · routed_rows`.
    #[error(
        "expert_counts[{sample}, layer {layer}] sum to {sum}, expected top_k·routed_rows = {top_k}·{rows} = {expected}"
    )]
    CountSum {
        /// Sample, in input order.
        sample: usize,
        /// Layer.
        layer: usize,
        /// Sum found.
        sum: u64,
        /// Experts chosen per token.
        top_k: u32,
        /// Routed rows of the sample.
        rows: u32,
        /// `top_k · rows`.
        expected: u64,
    },
    /// A sample cannot be placed in any cell.
    #[error(
        "sample longer than capacity: sample {sample} has {length} tokens (padded), a cell holds {capacity}"
    )]
    Oversize {
        /// Sample, in input order.
        sample: usize,
        /// Padded tokens of the sample, or of its atomic group.
        length: u64,
        /// Token capacity of a cell.
        capacity: u32,
    },
    /// Some cell would stay empty.
    #[error(
        "infeasible: fewer samples than cells: {} (samples or atomic groups) for {} ({} × {})",
        counted(*units as u64, "unit"),
        counted(*cells, "cell"),
        counted(*rows, "row"),
        counted(*slots, "DP slot")
    )]
    FewerUnitsThanCells {
        /// Units of the window.
        units: usize,
        /// Cells to fill.
        cells: u64,
        /// Rows wanted.
        rows: u64,
        /// DP slots.
        slots: u32,
    },
    /// The window holds no sample.
    #[error("window has no samples")]
    Empty,
    /// Every sample is longer than a cell, and such samples are left out.
    #[error(
        "no samples are left: each of {samples} is longer than a cell of {capacity} tokens (packing.oversize = \"drop\")"
    )]
    AllDropped {
        /// Samples of the window.
        samples: usize,
        /// Token capacity of a cell.
        capacity: u32,
    },
    /// A total leaves the exact range.
    #[error("{what} exceeds the exact range: {value} is not below {limit}")]
    Overflow {
        /// Which total.
        what: &'static str,
        /// Its size, approximately.
        value: String,
        /// What it must stay below.
        limit: String,
    },
}

impl ProblemError {
    pub(crate) fn setting(field: &'static str, value: impl ToString, limit: impl Into<String>) -> Self {
        Self::Setting { field, value: value.to_string(), limit: limit.into() }
    }

    pub(crate) fn overflow(what: &'static str, value: impl ToString) -> Self {
        Self::Overflow { what, value: value.to_string(), limit: "2^62".into() }
    }

    pub(crate) fn value(
        field: &'static str,
        index: impl ToString,
        value: impl ToString,
        limit: impl Into<String>,
    ) -> Self {
        Self::Value { field, index: index.to_string(), value: value.to_string(), limit: limit.into() }
    }

    pub(crate) fn shape(field: &'static str, found: &[usize], expected: impl Into<String>) -> Self {
        Self::Shape { field, found: format!("{found:?}"), expected: expected.into() }
    }
}

/// Why a layout is not one of this instance.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LayoutError {
    /// The grid or the sample count differs from the instance.
    #[error("layout has {found} {what}, the instance has {expected}")]
    Size {
        /// What is counted.
        what: &'static str,
        /// Number found.
        found: usize,
        /// Number expected.
        expected: usize,
    },
    /// A sample's cell does not exist.
    #[error("sample {sample} is in cell {cell}, the grid has {cells} cells")]
    NoSuchCell {
        /// Sample.
        sample: usize,
        /// Cell named.
        cell: u32,
        /// Cells of the grid.
        cells: usize,
    },
    /// A sample occurs in no cell, or in several.
    #[error("sample {sample} occurs {times} times in the cells, expected once")]
    Coverage {
        /// Sample.
        sample: usize,
        /// Number of occurrences.
        times: usize,
    },
    /// A cell holds more padded tokens than fit.
    #[error("cell (row {row}, slot {slot}) holds {tokens} padded tokens, capacity {capacity}")]
    OverCapacity {
        /// Row.
        row: u32,
        /// DP slot.
        slot: u32,
        /// Padded tokens.
        tokens: u64,
        /// Capacity.
        capacity: u32,
    },
    /// A cell holds more samples than allowed.
    #[error("cell (row {row}, slot {slot}) holds {}, at most {limit} are allowed", counted(*samples as u64, "sample"))]
    TooManySamples {
        /// Row.
        row: u32,
        /// DP slot.
        slot: u32,
        /// Samples.
        samples: usize,
        /// Limit.
        limit: u32,
    },
    /// A cell is empty.
    #[error("cell (row {row}, slot {slot}) is empty")]
    EmptyCell {
        /// Row.
        row: u32,
        /// DP slot.
        slot: u32,
    },
    /// The samples of an atomic group are in different cells.
    #[error("the atomic group of sample {sample} is split between cells {first} and {second}")]
    SplitGroup {
        /// A sample of the group.
        sample: usize,
        /// Cell of the group's first sample.
        first: u32,
        /// Cell of this sample.
        second: u32,
    },
    /// The number of rows is not allowed.
    #[error("{rows} rows are not a positive multiple of {multiple}")]
    RowsMultiple {
        /// Rows found.
        rows: u32,
        /// The trainer's multiple.
        multiple: u32,
    },
}
