//! Standard output, written once, at the end: a reader that has gone away is no failure. Standard error, which may be closed.

use std::io::{ErrorKind, Write};

use routepack::formats;
use serde::Serialize;

use crate::exit::Failure;

/// Says a line on standard error, if anyone can hear it.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "routepack: {text}");
}

/// Prints text and a newline.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    write(&format!("{text}\n"))
}

/// Prints one JSON document.
pub(crate) fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    write(&formats::compact_json(value))
}

fn write(text: &str) -> Result<(), Failure> {
    let mut output = std::io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::File(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}
