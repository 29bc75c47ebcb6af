//! Owns running callbacks: in order of sequence, outside all locks, away from the driver. A callback that blocks holds up later
//! callbacks and nothing else; one that panics is reported and holds up nothing.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use ha_types::{MonoTime, Seq};

use crate::Outcome;
use crate::sync::{Mutex, Runtime};

/// What a caller wants to be told.
pub(crate) struct Callback(Box<dyn FnOnce(Seq, Outcome) + Send>);

impl Callback {
    pub(crate) fn new(callback: impl FnOnce(Seq, Outcome) + Send + 'static) -> Self {
        Self(Box::new(callback))
    }
}

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Callback")
    }
}

/// The callbacks of one batch, with what became of it.
#[derive(Debug)]
pub(crate) struct Notice {
    pub(crate) callbacks: Vec<(Seq, Callback)>,
    pub(crate) outcome: Outcome,
    /// When the outcome was known.
    pub(crate) since: MonoTime,
}

/// What is told after the callbacks of one notice have run.
pub(crate) trait AfterNotice: Send + Sync + 'static {
    /// What time it is, as those who are told count it.
    fn now(&self) -> MonoTime;

    /// `ran` callbacks have run, `panicked` of them panicked; their outcome was known at `since`, the first began at `began`.
    fn after_notice(&self, ran: usize, panicked: usize, since: MonoTime, began: MonoTime);
}

/// The line of notices. At most one thread works on it.
#[derive(Debug)]
pub(crate) struct Notifier {
    runtime: Runtime,
    line: Mutex<Line>,
}

#[derive(Debug, Default)]
struct Line {
    notices: VecDeque<Notice>,
    working: bool,
}

impl Notifier {
    pub(crate) fn new(runtime: Runtime) -> Self {
        Self { runtime, line: Mutex::default() }
    }

    /// Puts `notice` at the end of the line and sees to it that somebody works on it.
    pub(crate) fn push(self: &Arc<Self>, notice: Notice, after: &Weak<dyn AfterNotice>) {
        if notice.callbacks.is_empty() {
            return;
        }
        {
            let mut line = self.line.lock();
            line.notices.push_back(notice);
            if std::mem::replace(&mut line.working, true) {
                return;
            }
        }
        let worker = Worker { notifier: Arc::clone(self), after: Weak::clone(after) };
        // A blocking thread of the caller's runtime: a callback may take a lock or a while.
        self.runtime.spawn_blocking(move || drop(worker));
    }

    fn next(&self) -> Option<Notice> {
        let mut line = self.line.lock();
        let next = line.notices.pop_front();
        line.working = next.is_some();
        next
    }
}

/// Works the line off when it is dropped: a runtime that shuts down drops what it does not run any more, and even then every
/// callback is called once.
struct Worker {
    notifier: Arc<Notifier>,
    after: Weak<dyn AfterNotice>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        while let Some(notice) = self.notifier.next() {
            let (ran, since) = (notice.callbacks.len(), notice.since);
            let after = self.after.upgrade();
            let began = after.as_ref().map_or(since, |after| after.now());
            let panicked = run_notice(notice);
            if let Some(after) = after {
                after.after_notice(ran, panicked, since, began);
            }
        }
    }
}

/// Runs all callbacks of `notice` in order and says how many panicked.
pub(crate) fn run_notice(notice: Notice) -> usize {
    let mut panicked = 0;
    for (seq, callback) in notice.callbacks {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (callback.0)(seq, notice.outcome))) {
            panicked += 1;
            tracing::error!(%seq, outcome = ?notice.outcome, panic = text(&*panic), "a callback of the log panicked");
            // What it panicked with is its owner's code too. A second panic there is not looked at: the line must go on.
            if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
                std::mem::forget(again);
            }
        }
    }
    panicked
}

fn text(panic: &(dyn Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}
