//! What a failed command means to the shell: one message, one exit code.

use std::fmt;
use std::process::ExitCode;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A claim was refused.
    Refused(String),
    /// The input is bad or infeasible.
    Input(String),
    /// A file could not be read or written.
    File(String),
    /// No plan was found within the budget, and none was proved impossible.
    NotFound(String),
}

impl Failure {
    /// Bad input, with the file it came from in front.
    pub(crate) fn input(place: impl fmt::Display, error: impl fmt::Display) -> Self {
        Self::Input(format!("{place}: {error}"))
    }

    /// The exit code of `--help`.
    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Refused(_) => 1,
            Self::Input(_) => 3,
            Self::File(_) => 4,
            Self::NotFound(_) => 5,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(message) | Self::Input(message) | Self::File(message) | Self::NotFound(message) => {
                f.write_str(message)
            }
        }
    }
}
