//! The command in a folder, as a shell starts it.

use std::path::Path;
use std::process::{Child, Command, Output};

#[allow(dead_code, reason = "not every file of tests does")]
pub(crate) fn run(folder: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_routepack"));
    command.current_dir(folder).args(line.split_whitespace()).output().expect("the command starts")
}

/// Waits until a command that was started catches Ctrl-C, however busy the machine is; then sends one at once. Linux only.
#[allow(dead_code, reason = "not every file of tests does")]
pub(crate) fn interrupt(child: &mut Child) {
    const SIGINT: u64 = 1 << 1;
    let status = format!("/proc/{}/status", child.id());
    let catches = || {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let mask = text.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & SIGINT != 0)
    };
    while !catches() {
        assert!(child.try_wait().expect("a child").is_none(), "it ended before it could be interrupted");
        std::thread::sleep(std::time::Duration::from_micros(200));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill").success());
}
