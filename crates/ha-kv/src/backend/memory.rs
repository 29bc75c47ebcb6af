//! Owns the store in this process's memory: the model that every other backend is compared with.

mod kv;
mod lease;
mod state;
#[cfg(test)]
mod tests;
mod txn;
mod watch;

use std::sync::Arc;

use ha_types::{Clock, MonoTime};
use parking_lot::{Mutex, MutexGuard};

use self::state::State;
use crate::{Capabilities, DurableAck};

/// A store in memory. Clones of one `Arc` share it; it dies with the process.
///
/// # What it promises
/// Everything the traits ask for and no durability: every call is atomic and in one total order, a lease that runs out takes
/// its keys with it before the next call is answered, and a watch hints at every change of its range.
#[derive(Debug)]
pub struct MemoryKv {
    clock: Arc<dyn Clock>,
    capabilities: Capabilities,
    state: Mutex<State>,
}

/// Time that stands still.
#[derive(Debug)]
struct NoTime;

impl Clock for NoTime {
    fn now(&self) -> MonoTime {
        MonoTime::ZERO
    }

    fn unix_ms(&self) -> u64 {
        0
    }
}

impl MemoryKv {
    /// An empty store in which no time passes: its leases end by [`revoke`](crate::LeaseKv::revoke) only.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(Arc::new(NoTime))
    }

    /// An empty store whose leases run out by `clock`.
    #[must_use]
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        let capabilities = Capabilities {
            backend: "memory",
            txn: true,
            durable_ack: DurableAck::No {
                reason: "the memory backend lives and dies with its process; use sqlite or etcd to keep data".into(),
            },
            linearizable_read: true,
            max_value_bytes: 64 << 20,
            max_txn_bytes: 64 << 20,
            max_txn_ops: 128,
            max_reply_bytes: 64 << 20,
        };
        Self { clock, capabilities, state: Mutex::default() }
    }

    /// The same store with other limits; [`Capabilities::backend`] and the promises stay.
    #[must_use]
    pub fn with_limits(mut self, max_txn_bytes: usize, max_txn_ops: usize, max_reply_bytes: usize) -> Self {
        let max_value_bytes = max_txn_bytes;
        self.capabilities =
            Capabilities { max_value_bytes, max_txn_bytes, max_txn_ops, max_reply_bytes, ..self.capabilities };
        self
    }

    /// The state as of now: what ran out is gone.
    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        state.expire(self.clock.now());
        state
    }
}

impl Default for MemoryKv {
    fn default() -> Self {
        Self::new()
    }
}
