//! Why a bench cannot run.

use std::path::PathBuf;

use routepack_binpack::PackError;
use routepack_formats::FormatError;
use thiserror::Error;

/// A file that cannot be read or written, or bad input.
#[derive(Debug, Error)]
pub enum BenchError {
    /// The system has no threads for the jobs.
    #[error("jobs: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
    /// An instance is malformed.
    #[error(transparent)]
    Instance(#[from] FormatError),
    /// An instance is meaningless.
    #[error("{}: {source}", path.display())]
    Pack {
        /// The instance.
        path: PathBuf,
        /// What is wrong with it.
        source: PackError,
    },
    /// A folder or file of the bench.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        source: std::io::Error,
    },
    /// A table that cannot be understood.
    #[error("{}: {why}", path.display())]
    Table {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        why: String,
    },
    /// A folder without instances.
    #[error("{}: no file ends with .txt, .bpp or .csp", path.display())]
    Empty {
        /// The folder.
        path: PathBuf,
    },
    /// Two instances that no table tells apart.
    #[error("{} and {}: instances of the same folder and file name", one.display(), other.display())]
    Namesake {
        /// The first.
        one: PathBuf,
        /// The second.
        other: PathBuf,
    },
    /// A window that cannot be planned or simulated.
    #[error("{window}: {why}")]
    Window {
        /// The window.
        window: String,
        /// Whether its job is at fault.
        of_job: bool,
        /// Why not.
        why: String,
    },
}
