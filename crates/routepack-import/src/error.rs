//! What can be wrong with recorded routes, with its place.

use std::fmt;
use std::io;

use routepack_formats::FormatError;
use routepack_problem::ProblemError;
use thiserror::Error;

/// A sample of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The file as given; `-` is the standard input, empty where there is none.
    pub file: String,
    /// Index of the sample among those imported, from 0.
    pub sample: usize,
    /// Its id outside, where it has one.
    pub id: Option<String>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.file.is_empty() {
            write!(f, "{}: ", self.file)?;
        }
        write!(f, "sample {}", self.sample)?;
        self.id.as_ref().map_or(Ok(()), |id| write!(f, " ({id})"))
    }
}

/// Why routes were not imported. Rows and layers are counted from 0: `row` is the token's position in the sample,
/// `layer` the position on the recorded layer axis.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ImportError {
    /// A file cannot be read or is damaged.
    #[error(transparent)]
    File(#[from] FormatError),
    /// The caller's `stop` said so.
    #[error("{file}: stopped")]
    Stopped {
        /// Path.
        file: String,
    },
    /// Pickled data runs code when it is read; it is refused by name.
    #[error(
        "{file}: {what} is refused: reading it would run code; save .npz (numpy.savez) or safetensors instead"
    )]
    Pickle {
        /// Path.
        file: String,
        /// What was found.
        what: &'static str,
    },
    /// The carrier does not hold what this form hands over.
    #[error("{file}: {form} routes are not handed over as {carrier}: expected {expected}")]
    Carrier {
        /// Path.
        file: String,
        /// Name of the form.
        form: &'static str,
        /// What the file is.
        carrier: &'static str,
        /// What is read.
        expected: &'static str,
    },
    /// An option is wrong.
    #[error("{option} = {value}: {limit}")]
    Option {
        /// Name of the option.
        option: &'static str,
        /// Value given.
        value: String,
        /// What is allowed.
        limit: String,
    },
    /// A fact the file does not tell must be given.
    #[error("{form}: {option} is needed: {why}")]
    Undeclared {
        /// Name of the form.
        form: &'static str,
        /// Name of the option.
        option: &'static str,
        /// Why.
        why: &'static str,
    },
    /// Ids of physical slots say nothing about logical experts without the map of the placement they were recorded
    /// under.
    #[error(
        "ids = physical: the map phys2log of the placement in force when the routes were recorded is needed"
    )]
    PhysicalIds,
    /// The data type cannot hold every expert: ids may have wrapped.
    #[error(
        "{place}: dtype {dtype} holds ids up to {largest}, the layers have {experts} experts: ids may have wrapped"
    )]
    NarrowType {
        /// Where.
        place: Place,
        /// Data type.
        dtype: &'static str,
        /// Largest id it holds.
        largest: u64,
        /// Experts E.
        experts: usize,
    },
    /// A sample as a whole is wrong: a missing length, a shape, an encoding.
    #[error("{place}: {what}: {why}")]
    Sample {
        /// Where.
        place: Place,
        /// Field.
        what: String,
        /// What is wrong, and what was expected.
        why: String,
    },
    /// More rows than tokens.
    #[error("{place}: {rows} rows of routes for {length} tokens; {length} or {} are expected", .length.saturating_sub(1))]
    TooManyRows {
        /// Where.
        place: Place,
        /// Rows found, up to the last.
        rows: u64,
        /// Tokens of the sample.
        length: u32,
    },
    /// Rows are missing and no policy says how they are charged.
    #[error(
        "{place}: routes of {missing} of {length} tokens are missing, first at row {row}; choose `missing = leave-out` or `scale-up`"
    )]
    MissingRows {
        /// Where.
        place: Place,
        /// Rows missing beside the last token's.
        missing: u32,
        /// First of them.
        row: u32,
        /// Tokens of the sample.
        length: u32,
    },
    /// Rows are missing, none is left to scale up.
    #[error("{place}: no row was recorded: nothing to scale up; choose `missing = leave-out`")]
    NothingToScale {
        /// Where.
        place: Place,
    },
    /// Some layers of a row are missing, others are not.
    #[error("{place}, row {row}, layer {layer}: missing while other layers of the row are recorded")]
    PartlyMissing {
        /// Where.
        place: Place,
        /// Token position.
        row: u32,
        /// Recorded layer.
        layer: usize,
    },
    /// An id is no expert.
    #[error("{place}, row {row}, layer {layer}: expert {value}: expected 0 to {}", .ids.saturating_sub(1))]
    OutOfRange {
        /// Where.
        place: Place,
        /// Token position.
        row: u32,
        /// Recorded layer.
        layer: usize,
        /// Id found.
        value: i64,
        /// Ids there are.
        ids: usize,
    },
    /// A token chose one expert twice.
    #[error(
        "{place}, row {row}, layer {layer}: expert {value} twice; a row has {top_k} different experts{hint}"
    )]
    Repeated {
        /// Where.
        place: Place,
        /// Token position.
        row: u32,
        /// Recorded layer.
        layer: usize,
        /// Expert.
        value: i64,
        /// Experts per row.
        top_k: usize,
        /// What may be the cause.
        hint: &'static str,
    },
    /// A layer declared dense holds routes.
    #[error("{place}, row {row}, layer {layer}: expert {value} in a layer that was not declared to be MoE")]
    DenseRouted {
        /// Where.
        place: Place,
        /// Token position.
        row: u32,
        /// Recorded layer.
        layer: usize,
        /// Id found.
        value: i64,
    },
    /// Routes of one token were handed over twice.
    #[error("{place}, row {row}: rows up to {end} are recorded already")]
    Overlap {
        /// Where.
        place: Place,
        /// First row of the later piece.
        row: u32,
        /// End of the earlier piece.
        end: u32,
    },
    /// Counts that are no counts of routes.
    #[error("{place}, layer {layer}: the counts sum to {sum}, expected {expected}")]
    CountSum {
        /// Where.
        place: Place,
        /// Recorded layer.
        layer: usize,
        /// Sum found.
        sum: u64,
        /// What was expected.
        expected: String,
    },
    /// There is nothing to import.
    #[error("{file}: {why}")]
    Nothing {
        /// Path.
        file: String,
        /// What is missing.
        why: &'static str,
    },
    /// The result is no valid window.
    #[error("{file}: {error}")]
    Window {
        /// Path.
        file: String,
        /// What is wrong.
        error: ProblemError,
    },
}

impl ImportError {
    pub(crate) fn sample(place: &Place, what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Sample { place: place.clone(), what: what.into(), why: why.into() }
    }

    pub(crate) fn option(option: &'static str, value: impl ToString, limit: impl Into<String>) -> Self {
        Self::Option { option, value: value.to_string(), limit: limit.into() }
    }
}

/// A read that failed: by the system, or because the file ends early or does not unpack.
pub(crate) fn read_error(file: &str, error: &io::Error) -> ImportError {
    let file = file.to_owned();
    if error.raw_os_error().is_some() {
        return FormatError::Access { file, action: "read", error: error.to_string() }.into();
    }
    FormatError::Form { file, why: format!("damaged, or not whole: {error}") }.into()
}
