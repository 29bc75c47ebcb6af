//! The primitives of the schedule checker, under production's names: every lock, atomic access, wake-up and wait is a point where
//! another task may run. Tokio's `Notify` and `watch` are the real ones, each call of theirs one step: they are checked where they are made.

mod locks;
mod notify;
mod once_lock;
mod tasks;
mod timers;
pub mod watch;

use std::time::Duration;

pub use self::locks::{Mutex, RwLock};
pub use self::notify::Notify;
pub use self::once_lock::OnceLock;
pub use self::tasks::{Runtime, spin_loop};
pub use self::timers::{Elapsed, sleep, timeout};
pub use shuttle::future::yield_now;
pub use shuttle::sync::atomic::{AtomicBool, AtomicU64};
pub use shuttle::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};
pub use shuttle::thread::{Thread, current as current_thread, park, yield_now as yield_thread};
pub use shuttle::thread_local;

/// Lets another task run, if the schedule says so.
fn switch() {
    shuttle::thread::sleep(Duration::ZERO);
}
