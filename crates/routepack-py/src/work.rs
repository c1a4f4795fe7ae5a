//! Work in a thread of its own, for which Python waits without holding its lock and which Ctrl-C ends.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::errors::RoutePackError;

/// How often a waiting Python looks for signals.
const LOOK: Duration = Duration::from_millis(20);

/// What thread and owner share.
struct Shared<T> {
    outcome: Mutex<Option<Result<T, String>>>,
    done: Condvar,
    cancel: AtomicBool,
}

/// Work that was started.
pub(crate) struct Work<T> {
    shared: Arc<Shared<T>>,
    /// The process that runs it: a fork has no thread.
    process: u32,
}

impl<T: Send + 'static> Work<T> {
    /// Starts `work` in a thread with a pool of `threads` threads of its own, all processors by default; no thread
    /// outlives the work, so a process may fork before and after. `work` is told when to give up.
    pub(crate) fn start(
        threads: Option<usize>,
        work: impl FnOnce(&AtomicBool) -> T + Send + 'static,
    ) -> PyResult<Self> {
        let shared = Arc::new(Shared {
            outcome: Mutex::new(None),
            done: Condvar::new(),
            cancel: AtomicBool::new(false),
        });
        let of_thread = Arc::clone(&shared);
        let spawned = std::thread::Builder::new().name("routepack".to_owned()).spawn(move || {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.unwrap_or(0)).build();
            let outcome = match pool {
                Err(error) => Err(format!("threads = {threads:?}: {error}")),
                Ok(pool) => catch_unwind(AssertUnwindSafe(|| pool.install(|| work(&of_thread.cancel))))
                    .map_err(|_| "a broken invariant, please report this".to_owned()),
            };
            *of_thread.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
            of_thread.done.notify_all();
        });
        spawned.map_err(|error| RoutePackError::new_err(format!("no thread: {error}")))?;
        Ok(Self { shared, process: std::process::id() })
    }

    /// Asks the work to end with what it has.
    pub(crate) fn cancel(&self) {
        self.shared.cancel.store(true, Ordering::Relaxed);
    }

    /// Whether the work has ended.
    pub(crate) fn is_done(&self) -> PyResult<bool> {
        self.is_here()?;
        Ok(self.shared.outcome.lock().unwrap_or_else(PoisonError::into_inner).is_some())
    }

    /// Refuses in a fork: the thread is not there, and a lock may be held for ever.
    pub(crate) fn is_here(&self) -> PyResult<()> {
        if self.process == std::process::id() {
            return Ok(());
        }
        Err(RoutePackError::new_err("started in another process: a fork has no copy of the thread"))
    }

    /// Waits and takes a copy of the outcome; `None` after `timeout`. A signal cancels the work and is raised.
    pub(crate) fn wait(&self, py: Python<'_>, timeout: Option<Duration>) -> PyResult<Option<T>>
    where
        T: Clone,
    {
        self.is_here()?;
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let outcome = py.detach(|| {
                let outcome = self.shared.outcome.lock().unwrap_or_else(PoisonError::into_inner);
                let waited = self.shared.done.wait_timeout_while(outcome, LOOK, |outcome| outcome.is_none());
                waited.unwrap_or_else(PoisonError::into_inner).0.clone()
            });
            match outcome {
                Some(Ok(outcome)) => return Ok(Some(outcome)),
                Some(Err(error)) => return Err(RoutePackError::new_err(error)),
                None => {}
            }
            py.check_signals().inspect_err(|_| self.cancel())?;
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(None);
            }
        }
    }
}

impl<T> Drop for Work<T> {
    fn drop(&mut self) {
        self.shared.cancel.store(true, Ordering::Relaxed);
    }
}

/// Runs work to its end while Python waits.
pub(crate) fn run<T: Clone + Send + 'static>(
    py: Python<'_>,
    threads: Option<usize>,
    work: impl FnOnce(&AtomicBool) -> T + Send + 'static,
) -> PyResult<T> {
    let outcome = Work::start(threads, work)?.wait(py, None)?;
    Ok(outcome.expect("without a timeout there is an outcome"))
}
