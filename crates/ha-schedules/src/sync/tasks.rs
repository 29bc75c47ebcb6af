//! Owns what spawns, and the pause of a processor.

use std::future::Future;

/// What spawns: the schedule that runs now.
#[derive(Debug)]
pub struct Runtime;

impl Runtime {
    /// The schedule that runs now.
    #[must_use]
    pub fn current() -> Self {
        Self
    }

    /// Lets `task` run beside all others.
    pub fn spawn<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) {
        drop(shuttle::future::spawn(task));
    }

    /// Lets `work` run beside all others, on a thread.
    pub fn spawn_blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) {
        drop(shuttle::thread::spawn(work));
    }
}

/// Nothing to wait for: others run at the looks around it.
pub fn spin_loop() {}
