//! When to stop: Ctrl-C, of which the first asks for the best answer so far and the second ends the process, and a deadline.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::output::say;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static INSTALLED: OnceLock<()> = OnceLock::new();

/// A flag that Ctrl-C raises from now on: call it once the input is read, for until then there is no answer to give.
/// Without a handler (it could not be installed) the default applies: the process ends.
pub(crate) fn flag() -> &'static AtomicBool {
    INSTALLED.get_or_init(|| {
        let handler = || {
            if INTERRUPTED.swap(true, Ordering::Relaxed) {
                #[allow(clippy::exit, reason = "a second Ctrl-C means now")]
                std::process::exit(130);
            }
            say("stopping with the best answer so far (Ctrl-C again to end at once)");
        };
        let _ = ctrlc::set_handler(handler);
    });
    &INTERRUPTED
}

/// A deadline, counted from where it is made.
#[derive(Clone, Copy)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    /// So many milliseconds from now, or never.
    pub(crate) fn after(milliseconds: Option<u64>) -> Self {
        Self(milliseconds.and_then(|limit| Instant::now().checked_add(Duration::from_millis(limit))))
    }

    /// Whether to stop: the deadline has passed, or Ctrl-C was pressed.
    pub(crate) fn stop(self) -> impl Fn() -> bool + Sync {
        let flag = flag();
        move || flag.load(Ordering::Relaxed) || self.0.is_some_and(|deadline| Instant::now() >= deadline)
    }
}
