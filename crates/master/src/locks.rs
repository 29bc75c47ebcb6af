//! Owns the lock order, and the check that nothing is awaited under a shard's lock (D9).
//!
//! From outside in:
//!
//! 1. one **shard** of the map. At most one at a time.
//! 2. the **segment registry**. Shared from the check of a put or removal to its commit; exclusive for mount, update and unmount,
//!    which take no shard's lock: what an unmount makes unreadable is judged by the mount a replica names, so the one lock
//!    covers all objects it touches.
//! 3. the **policy**, and the **tenants**; never one inside the other.
//! 4. the **space** of one segment. At most one at a time.
//! 5. the **grants** that will run out.
//!
//! A commit to the log may happen under 1 to 3, and never waits. Callbacks of the log run outside all locks and take them in
//! the same order.

use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    static SHARDS_HELD: Cell<u32> = const { Cell::new(0) };
}

/// Counts one shard's lock as held by this thread.
pub(crate) struct ShardHeld {
    not_send: PhantomData<*const ()>,
}

/// Call before locking.
///
/// # Panics
/// If this thread holds a shard already: two such threads could wait for each other.
pub(crate) fn hold_shard() -> ShardHeld {
    SHARDS_HELD.with(|held| {
        assert_eq!(held.get(), 0, "a second shard is locked under the lock of a first");
        held.set(1);
    });
    ShardHeld { not_send: PhantomData }
}

impl Drop for ShardHeld {
    fn drop(&mut self) {
        let PhantomData = self.not_send;
        SHARDS_HELD.with(|held| held.set(0));
    }
}

/// Call before any wait.
///
/// # Panics
/// If this thread holds a shard's lock.
pub(crate) fn assert_none_held() {
    SHARDS_HELD.with(|held| assert_eq!(held.get(), 0, "a wait under the lock of a shard"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "a wait under the lock of a shard")]
    fn d9_a_wait_under_the_lock_of_a_shard_is_caught() {
        let _held = hold_shard();
        assert_none_held();
    }

    #[test]
    #[should_panic(expected = "a second shard is locked")]
    fn d9_two_shards_at_once_are_caught() {
        let _first = hold_shard();
        let _second = hold_shard();
    }

    #[test]
    fn d9_a_section_that_panics_gives_its_lock_back() {
        let panicked = std::panic::catch_unwind(|| {
            let _held = hold_shard();
            panic!("on purpose");
        });
        assert!(panicked.is_err());
        assert_none_held();
    }
}
