//! Owns the same names on the schedule checker: every lock and atomic access is a point where another task may run.

pub(crate) use ha_schedules::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, RwLock, thread_local};
