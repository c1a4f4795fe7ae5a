//! What a caller may do while a plan is made: watch it, stop it, give it until a moment.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use routepack_anneal::{Peers, TemperatureReport};

/// A stage of planning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Checking the window.
    Prepare,
    /// Experts onto ranks.
    Place,
    /// Certifying the fewest rows.
    Rows,
    /// Arranging samples.
    Arrange,
    /// Placing and arranging in turns.
    Refine,
    /// Recomputing every figure.
    Assemble,
}

impl Stage {
    /// The stage's name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::Place => "place",
            Self::Rows => "rows",
            Self::Arrange => "arrange",
            Self::Refine => "refine",
            Self::Assemble => "assemble",
        }
    }
}

/// Where planning stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// The stage at work.
    pub stage: Stage,
    /// Optimizer step at work, and how many there are.
    pub step: (usize, usize),
    /// Fraction of the stage's budget used, 0 to 1.
    pub fraction: f64,
    /// One line for a person.
    pub message: String,
    /// The temperature that a layout search has finished, from the first search of a step alone.
    pub temperature: Option<TemperatureReport>,
}

/// Watching and stopping: the search never reads a clock itself, it asks whether to stop between deterministic steps.
pub struct Control<'a> {
    pub(crate) limit: Limit<'a>,
    pub(crate) observe: Box<dyn FnMut(&Progress) + Send + 'a>,
    pub(crate) peers: Option<&'a dyn Peers>,
    pub(crate) window_sha256: Option<String>,
}

impl Default for Control<'_> {
    fn default() -> Self {
        Self { limit: Limit::default(), observe: Box::new(|_| {}), peers: None, window_sha256: None }
    }
}

impl<'a> Control<'a> {
    /// No limit but the counts of the job, nothing watched.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stop with the best plan so far once `cancel` is set.
    #[must_use]
    pub fn cancelled_by(mut self, cancel: &'a AtomicBool) -> Self {
        self.limit.cancel = Some(cancel);
        self
    }

    /// Stop with the best plan so far after `limit`, counted from now. A plan that is finished just before gets its sharp
    /// bounds still, which take tens of milliseconds; one that is cut short does without.
    #[must_use]
    pub fn within(mut self, limit: Duration) -> Self {
        self.limit.deadline = Instant::now().checked_add(limit);
        self
    }

    /// Share seeds and populations with other processes, which plan the same batch and job with the same budget of counts;
    /// each gets the plan that one alone would get. No deadline and no cancellation: processes must not part ways.
    #[must_use]
    pub fn among(mut self, peers: &'a dyn Peers) -> Self {
        self.peers = Some(peers);
        self
    }

    /// The digest of the batch is at hand (`window_sha256` of `routepack-verify`): it is not computed in the time that a
    /// deadline leaves. A plan with the digest of another batch does not verify.
    #[must_use]
    pub fn knowing_window_sha256(mut self, window_sha256: String) -> Self {
        self.window_sha256 = Some(window_sha256);
        self
    }

    /// Call `observe` as planning goes on.
    #[must_use]
    pub fn observed_by(mut self, observe: impl FnMut(&Progress) + Send + 'a) -> Self {
        self.observe = Box::new(observe);
        self
    }
}

/// When to stop.
#[derive(Clone, Copy, Default)]
pub(crate) struct Limit<'a> {
    cancel: Option<&'a AtomicBool>,
    pub(crate) deadline: Option<Instant>,
}

impl<'a> Limit<'a> {
    /// Whether to stop, `reserve` before the deadline.
    pub(crate) fn stop(&self, reserve: Duration) -> impl Fn() -> bool + Sync + use<'a> {
        self.stop_within_share(reserve, 1)
    }

    /// Whether to stop even where there is no plan yet: cancelled, or `grace` after the deadline.
    pub(crate) fn stop_late(&self, grace: Duration) -> impl Fn() -> bool + Sync + use<'a> {
        let until = self.deadline.and_then(|deadline| deadline.checked_add(grace));
        let cancel = self.cancel;
        move || {
            cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed))
                || until.is_some_and(|until| Instant::now() >= until)
        }
    }

    /// Whether to stop after one of `shares` equal shares of the time left until `reserve` before the deadline.
    pub(crate) fn stop_within_share(
        &self,
        reserve: Duration,
        shares: usize,
    ) -> impl Fn() -> bool + Sync + use<'a> {
        let now = Instant::now();
        let until = self.deadline.map(|deadline| {
            now + deadline.saturating_duration_since(now).saturating_sub(reserve) / shares.max(1) as u32
        });
        let cancel = self.cancel;
        move || {
            cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed))
                || until.is_some_and(|until| Instant::now() >= until)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use routepack_generate::{Preset, window};
    use routepack_verify::{VerifyError, verify, window_sha256};

    use super::*;
    use crate::{Job, plan};

    #[test]
    fn a_digest_at_hand_is_the_plans_and_a_wrong_one_is_refused() {
        let mut recipe = Preset::Tiny.recipe();
        recipe.prompts = 4;
        let generated = window(&recipe, 2).expect("valid");
        let (batch, job) = (Arc::new(generated.batch), Job::new(generated.setting));
        // Cancelled from the start: the packing is the plan.
        let stopped = AtomicBool::new(true);
        let control = || Control::new().cancelled_by(&stopped);
        let plain = plan(&batch, &job, &mut control()).expect("a plan");
        assert!(!plain.finished);
        let mut knowing = control().knowing_window_sha256(window_sha256(&batch));
        assert_eq!(plan(&batch, &job, &mut knowing).expect("a plan"), plain);
        verify(&plain, &batch).expect("every claim holds");
        let mut wrong = control().knowing_window_sha256("0".repeat(64));
        let forged = plan(&batch, &job, &mut wrong).expect("a plan");
        let refused = verify(&forged, &batch).expect_err("another batch's digest");
        assert!(
            matches!(refused, VerifyError::Mismatch { ref field, .. } if field == "window_sha256"),
            "{refused}"
        );
    }
}
