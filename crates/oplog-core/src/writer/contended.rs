//! Owns how the writer's lock is waited for. Whoever finds it taken stays away for a while, in which the one who has it makes many
//! commits; to look again at once would have two producers on two processors take turns entry by entry, and each turn moves the
//! lock, the writer's state and the end of the batch from one processor's cache to the other's: five times the cost of a commit.

use crate::sync::{Mutex, MutexGuard, spin_loop, yield_thread};

/// Looks before the lock is waited for in the kernel: the holder may have been put off its processor.
const LOOKS: u32 = 8;
/// Turns of the processor's pause between two looks: a few microseconds, some dozens of commits.
const PAUSES: u32 = 300;

/// Takes the lock.
#[inline]
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.try_lock().unwrap_or_else(|| wait(mutex))
}

#[cold]
fn wait<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    for _ in 0..LOOKS {
        for _ in 0..PAUSES {
            spin_loop();
        }
        // A server on the same machine has a use for the processor.
        yield_thread();
        if let Some(guard) = mutex.try_lock() {
            return guard;
        }
    }
    mutex.lock()
}
