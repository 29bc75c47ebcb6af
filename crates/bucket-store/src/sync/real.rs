//! Owns the names of production's locks and atomics.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64};
pub(crate) use std::thread_local;

pub(crate) use parking_lot::{Mutex, MutexGuard, RwLock};
