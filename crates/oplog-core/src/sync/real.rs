//! Owns the names of production's primitives.

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::OnceLock;
pub(crate) use std::sync::atomic::AtomicU64;
pub(crate) use std::thread::{Thread, current as current_thread, park, yield_now as yield_thread};

pub(crate) use parking_lot::{Mutex, MutexGuard};
pub(crate) use tokio::runtime::Handle as Runtime;
pub(crate) use tokio::sync::{Notify, watch};
pub(crate) use tokio::task::yield_now;
pub(crate) use tokio::time::{sleep, timeout};
