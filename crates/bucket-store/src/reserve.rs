//! Owns `.bucket_reserve`: blocks set aside so that a tombstone or an intent can be published on a full disk. It never decides what
//! may spend it. Design §8.

use std::io;

use crate::crashsafe::temporary_name;
use crate::error::{DiskOp, Problem, StoreError};
use crate::format::names::RESERVE;
use crate::observer::{Event, Observer};
use crate::sync::Mutex;
use crate::vfs::Vfs;

/// The file is grown in steps of this many bytes, so that growing tables do not replace it at each write.
const STEP_BYTES: u64 = 64 << 10;

/// The blocks set aside.
///
/// What the file holds means nothing, and whether it is there after a power loss does not matter: opening takes it again. So
/// nothing of it is synced but its giving up, which on journaling file systems is what frees the blocks.
#[derive(Debug)]
pub(crate) struct Reserve(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Bytes that are set aside now; 0 after they were spent.
    held: u64,
    /// Bytes that must be set aside before a write or a copy may begin.
    needed: u64,
    /// For the names of temporary files; they are swept at open.
    attempts: u64,
}

impl Reserve {
    /// What there is on disk. Nothing is created: [`cover`](Self::cover) does, also in the place of one that cannot be opened or measured: that is
    /// told, and no reason not to serve.
    pub(crate) fn open(vfs: &dyn Vfs, observer: &dyn Observer) -> Self {
        let unknown = |op, error| {
            observer.event(&Event::DiskFailed { error: StoreError::io(op, RESERVE, error) });
            0
        };
        let held = match vfs.open(RESERVE) {
            Ok(file) => file.allocated_bytes().and_then(|blocks| Ok((blocks, file.len()?))).map_or_else(
                |error| unknown(DiskOp::Stat, error),
                // A power loss can leave a length without blocks; only blocks help.
                |(blocks, len)| blocks.min(len),
            ),
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => unknown(DiskOp::Open, error),
        };
        Self(Mutex::new(State { held, needed: 0, attempts: 0 }))
    }

    /// Makes the reserve cover tables of `table_bytes` and an intent file of `intent_bytes`: 2 × both. It never shrinks. Called
    /// before every write and copy: until it succeeds neither may begin.
    ///
    /// # Errors
    /// `ReserveMissing` if there is no room for it; what was held is still held. As the system says.
    pub(crate) fn cover(
        &self,
        vfs: &dyn Vfs,
        table_bytes: u64,
        intent_bytes: u64,
        observer: &dyn Observer,
    ) -> Result<(), StoreError> {
        let mut state = self.0.lock();
        let needed = Self::needed(table_bytes, intent_bytes).max(state.needed);
        if state.held < needed {
            Self::take(&mut state, vfs, needed, observer)?;
        }
        state.needed = needed;
        Ok(())
    }

    /// Says what must be set aside, where [`cover`](Self::cover) could not: until it is, the reserve is missing.
    pub(crate) fn owe(&self, table_bytes: u64, intent_bytes: u64) {
        let mut state = self.0.lock();
        state.needed = state.needed.max(Self::needed(table_bytes, intent_bytes));
    }

    fn needed(table_bytes: u64, intent_bytes: u64) -> u64 {
        table_bytes.saturating_add(intent_bytes).saturating_mul(2).max(1).next_multiple_of(STEP_BYTES)
    }

    /// Tries to have the whole reserve again, if it was spent.
    ///
    /// # Errors
    /// As [`cover`](Self::cover).
    pub(crate) fn take_back(&self, vfs: &dyn Vfs, observer: &dyn Observer) -> Result<(), StoreError> {
        let mut state = self.0.lock();
        let needed = state.needed;
        if state.held < needed { Self::take(&mut state, vfs, needed, observer) } else { Ok(()) }
    }

    fn take(state: &mut State, vfs: &dyn Vfs, needed: u64, observer: &dyn Observer) -> Result<(), StoreError> {
        let (temporary, created) = loop {
            state.attempts += 1;
            let temporary = temporary_name(RESERVE, state.attempts);
            match vfs.create(&temporary) {
                // A crash left it; the sweep of an open removes it.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => break (temporary, created),
            }
        };
        let taken = created.map_err(|e| (DiskOp::Create, e)).and_then(|file| {
            file.allocate(needed).map_err(|e| (DiskOp::Allocate, e))?;
            drop(file);
            vfs.rename(&temporary, RESERVE).map_err(|e| (DiskOp::Rename, e))
        });
        if let Err((op, error)) = taken {
            // The sweep of the next open removes what this cannot.
            let _ = vfs.unlink(&temporary);
            return Err(match error.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Problem::ReserveMissing { needed }.into(),
                _ => StoreError::io(op, temporary, error),
            });
        }
        let was_spent = state.held == 0 && state.needed > 0;
        state.held = needed;
        if was_spent {
            observer.event(&Event::ReserveBack { bytes: needed });
        }
        Ok(())
    }

    /// Gives the blocks free for a tombstone or an intent that met a full disk. Whether there was anything to give.
    pub(crate) fn spend(&self, vfs: &dyn Vfs, observer: &dyn Observer) -> bool {
        let mut state = self.0.lock();
        if state.held == 0 {
            return false;
        }
        match vfs.unlink(RESERVE) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                observer.event(&Event::DiskFailed { error: StoreError::io(DiskOp::Unlink, RESERVE, error) });
                return false;
            }
        }
        let bytes = std::mem::take(&mut state.held);
        // A journaling file system hands blocks out again only after the change is on disk. Failing is no harm beyond that.
        if let Err(error) = vfs.sync_dir() {
            observer.event(&Event::DiskFailed { error: StoreError::io(DiskOp::SyncDir, "the directory", error) });
        }
        observer.event(&Event::ReserveSpent { bytes });
        true
    }

    /// Bytes that are held, and bytes that should be.
    pub(crate) fn held_and_needed(&self) -> (u64, u64) {
        let state = self.0.lock();
        (state.held, state.needed)
    }

    /// Whether it is spent, or too small, and not back.
    pub(crate) fn is_missing(&self) -> bool {
        let (held, needed) = self.held_and_needed();
        held < needed
    }
}

#[cfg(test)]
mod tests;
