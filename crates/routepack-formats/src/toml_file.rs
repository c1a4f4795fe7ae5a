//! TOML files into any options type, with file, line and key in every message.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::FormatError;
use crate::atomic::{read_text, write_atomically};
use crate::error::shown;

/// Reads a TOML file (`-`: the standard input) into `T`.
///
/// Unknown keys are refused as far as `T` refuses them; every options type here does (`deny_unknown_fields`).
///
/// # Errors
/// The file cannot be read, is no TOML, or does not fit `T`; the error names file, line, key and what was expected.
pub fn read_toml<T: DeserializeOwned>(path: &Path) -> Result<T, FormatError> {
    let (text, name) = read_text(path)?;
    parse_toml(&text, &name)
}

/// Writes any value as TOML (`-`: the standard output).
///
/// # Errors
/// The file cannot be written; then nothing is changed.
///
/// # Panics
/// The value has no form in TOML: no table at its root, or keys that are no text.
pub fn write_toml<T: Serialize>(path: &Path, value: &T) -> Result<(), FormatError> {
    let text = toml::to_string(value).expect("options types have a form in TOML");
    write_atomically(path, text.as_bytes())
}

/// Reads a TOML text into `T`; `name` stands for the file in messages.
///
/// # Errors
/// As [`read_toml`].
pub fn parse_toml<T: DeserializeOwned>(text: &str, name: &str) -> Result<T, FormatError> {
    toml::from_str(text).map_err(|error| {
        let message = error.message().replace('\n', "; ");
        let Some(span) = error.span() else {
            return FormatError::form(name, message);
        };
        let start = span.start.min(text.len());
        let before = text.get(..start).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let excerpt = shown(text.lines().nth(line - 1).unwrap_or("").trim());
        let table = before.lines().rev().map(str::trim).find(|line| line.starts_with('[')).map(shown);
        let place = match table {
            Some(table) if !excerpt.starts_with('[') && !excerpt.is_empty() => {
                format!("`{excerpt}` in {table}")
            }
            _ if excerpt.is_empty() => return FormatError::line(name, line, message),
            _ => format!("`{excerpt}`"),
        };
        FormatError::line(name, line, format!("{place}: {message}"))
    })
}
