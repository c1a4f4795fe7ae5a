//! The command in a folder, as a shell starts it.

use std::path::Path;
use std::process::{Command, Output};

pub(crate) fn run(folder: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_routepack"));
    command.current_dir(folder).args(line.split_whitespace()).output().expect("the command starts")
}
