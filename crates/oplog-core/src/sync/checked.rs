//! Owns the same names on the schedule checker: every lock, atomic access, wake-up and wait is a point where another task may run.

pub(crate) use ha_schedules::sync::{
    AtomicU64, Mutex, MutexGuard, Notify, OnceLock, Runtime, Thread, current_thread, park, sleep, spin_loop, timeout,
    watch, yield_now, yield_thread,
};
