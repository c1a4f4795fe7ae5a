//! Ctrl-C: the first asks for the best answer so far, the second ends the process.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static INSTALLED: OnceLock<()> = OnceLock::new();

/// A flag that Ctrl-C raises. Without a handler (it could not be installed) the default applies: the process ends.
pub(crate) fn flag() -> &'static AtomicBool {
    INSTALLED.get_or_init(|| {
        let handler = || {
            if INTERRUPTED.swap(true, Ordering::Relaxed) {
                #[allow(clippy::exit, reason = "a second Ctrl-C means now")]
                std::process::exit(130);
            }
            eprintln!("routepack: stopping with the best answer so far (Ctrl-C again to end at once)");
        };
        let _ = ctrlc::set_handler(handler);
    });
    &INTERRUPTED
}
