//! Progress on a terminal, silence in a pipe.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use routepack::Progress;

/// A bar on standard error; hidden when that is no terminal or when asked to be quiet.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// A bar, shown unless `quiet`.
    pub(crate) fn new(quiet: bool) -> Self {
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(1000), target);
        let style = ProgressStyle::with_template("{spinner} {prefix:<9} [{bar:24}] {elapsed} {wide_msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        bar.enable_steady_tick(Duration::from_millis(120));
        Self(bar)
    }

    /// Shows where planning stands.
    pub(crate) fn show(&self, progress: &Progress) {
        let (step, steps) = progress.step;
        let prefix = progress.stage.name();
        self.0.set_prefix(if steps > 1 { format!("{prefix} {step}/{steps}") } else { prefix.to_owned() });
        self.0.set_position((progress.fraction.clamp(0.0, 1.0) * 1000.0) as u64);
        self.0.set_message(progress.message.clone());
    }

    /// Shows one line of a stage that has no known end.
    pub(crate) fn say(&self, prefix: &str, message: String) {
        self.0.set_prefix(prefix.to_owned());
        self.0.set_message(message);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
