//! What can be wrong with a file, with its place.

use std::fmt::Display;
use std::path::Path;

use thiserror::Error;

/// Why a file could not be read or written. `file` is the path as given; `-` is the standard input or output.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FormatError {
    /// The operating system refused.
    #[error("{file}: cannot {action}: {error}")]
    Access {
        /// Path.
        file: String,
        /// What was tried: "open", "read", "write".
        action: &'static str,
        /// What the system said.
        error: String,
    },
    /// The file is none of the forms expected here, or is damaged as a whole.
    #[error("{file}: {why}")]
    Form {
        /// Path.
        file: String,
        /// What is wrong, and what was expected.
        why: String,
    },
    /// An array is there that no window has.
    #[error("{file}: unknown array `{array}`; known: {known}")]
    UnknownArray {
        /// Path.
        file: String,
        /// Name found.
        array: String,
        /// Names expected, comma-separated.
        known: String,
    },
    /// A required array is absent.
    #[error("{file}: array `{array}` is missing; present: {present}")]
    MissingArray {
        /// Path.
        file: String,
        /// Name expected.
        array: String,
        /// Names found, comma-separated.
        present: String,
    },
    /// An array as a whole is wrong: data type, shape, size, damage.
    #[error("{file}: {array}: {why}")]
    Array {
        /// Path.
        file: String,
        /// Array name.
        array: String,
        /// What is wrong, and what was expected.
        why: String,
    },
    /// One value of an array is wrong.
    #[error("{file}: {array}[{index}] = {value}: {limit}")]
    Value {
        /// Path.
        file: String,
        /// Array name.
        array: String,
        /// Index, comma-separated.
        index: String,
        /// The value found.
        value: String,
        /// What is allowed.
        limit: String,
    },
    /// A text is wrong at one line.
    #[error("{file}:{line}: {why}")]
    Line {
        /// Path.
        file: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong, and what was expected.
        why: String,
    },
}

impl FormatError {
    pub(crate) fn access(file: &str, action: &'static str, error: &dyn Display) -> Self {
        Self::Access { file: file.to_owned(), action, error: error.to_string() }
    }

    pub(crate) fn form(file: &str, why: impl Into<String>) -> Self {
        Self::Form { file: file.to_owned(), why: said(&why.into()) }
    }

    pub(crate) fn array(file: &str, array: &str, why: impl Into<String>) -> Self {
        Self::Array { file: file.to_owned(), array: shown(array), why: said(&why.into()) }
    }

    pub(crate) fn line(file: &str, line: usize, why: impl Into<String>) -> Self {
        Self::Line { file: file.to_owned(), line, why: said(&why.into()) }
    }
}

/// A path as it appears in messages.
pub(crate) fn name_of(path: &Path) -> String {
    path.display().to_string()
}

/// A name or value of a file as it appears in messages: one line, not too long.
pub(crate) fn shown(text: &str) -> String {
    plain(text, 100)
}

/// A sentence that may quote a file.
pub(crate) fn said(text: &str) -> String {
    plain(text, 1000)
}

/// At most so many characters, none of them a control character.
fn plain(text: &str, limit: usize) -> String {
    let stand_in = |letter: char| if letter.is_control() { char::REPLACEMENT_CHARACTER } else { letter };
    let mut plain: String = text.chars().take(limit).map(stand_in).collect();
    if text.chars().nth(limit).is_some() {
        plain.push('…');
    }
    plain
}
