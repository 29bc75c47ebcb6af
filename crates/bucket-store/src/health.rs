//! Owns whether the store still changes its directory: failures in a row make it read-only, and only opening it again ends that.

use std::fmt;
use std::io;
use std::sync::atomic::Ordering;

use crate::error::{DiskOp, Problem, StoreError, too_many_files};
use crate::observer::{Event, Observer};
use crate::sync::{AtomicBool, Mutex};

/// Why a store is read-only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadOnlyReason {
    failures: u32,
    op: DiskOp,
    file: String,
    error: String,
}

impl ReadOnlyReason {
    /// The file of the last of the operations.
    pub(crate) fn file(&self) -> &str {
        &self.file
    }
}

impl fmt::Display for ReadOnlyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} operations failed in a row, the last one the {} of {}: {}",
            self.failures, self.op, self.file, self.error
        )
    }
}

/// Counts failed publishes and data syncs.
///
/// A full disk is no failure here, nor is the limit of open files: both pass, and a store that went read-only over them could not even
/// delete.
#[derive(Debug)]
pub(crate) struct Health {
    limit: u32,
    read_only: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    in_a_row: u32,
    reason: Option<ReadOnlyReason>,
}

impl Health {
    pub(crate) fn new(limit: u32) -> Self {
        Self { limit, read_only: AtomicBool::new(false), state: Mutex::default() }
    }

    /// A publish or a data sync failed for good, after what the store does to repeat it.
    pub(crate) fn failed(&self, op: DiskOp, file: &str, error: &io::Error, observer: &dyn Observer) {
        if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) || too_many_files(error) {
            return;
        }
        let reason = {
            let mut state = self.state.lock();
            state.in_a_row = state.in_a_row.saturating_add(1);
            if state.in_a_row < self.limit || state.reason.is_some() {
                return;
            }
            let reason = ReadOnlyReason { failures: state.in_a_row, op, file: file.into(), error: error.to_string() };
            state.reason = Some(reason.clone());
            self.read_only.store(true, Ordering::Release);
            reason
        };
        observer.event(&Event::ReadOnly { reason });
    }

    /// A publish or a data sync succeeded. It does not make a read-only store writable: what failed may be lost.
    pub(crate) fn succeeded(&self) {
        self.state.lock().in_a_row = 0;
    }

    /// Why the store is read-only, if it is.
    pub(crate) fn read_only(&self) -> Option<ReadOnlyReason> {
        if !self.read_only.load(Ordering::Acquire) {
            return None;
        }
        self.state.lock().reason.clone()
    }

    /// Refuses a change of a read-only store.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        self.read_only().map_or(Ok(()), |reason| Err(Problem::ReadOnly(reason).into()))
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use parking_lot::Mutex;

    use super::Health;
    use crate::error::{DiskOp, StoreErrorKind};
    use crate::observer::{Event, Observer};

    #[derive(Debug, Default)]
    struct Heard(Mutex<Vec<String>>);

    impl Observer for Heard {
        fn event(&self, event: &Event) {
            self.0.lock().push(format!("{event:?}"));
        }
    }

    fn fail(health: &Health, heard: &Heard) {
        health.failed(DiskOp::Sync, "7.meta", &io::Error::other("lost page"), heard);
    }

    #[test]
    fn only_failures_in_a_row_make_it_read_only() {
        let (health, heard) = (Health::new(3), Heard::default());
        for _ in 0..4 {
            fail(&health, &heard);
            fail(&health, &heard);
            health.succeeded();
        }
        health.check().unwrap();
        fail(&health, &heard);
        fail(&health, &heard);
        health.check().unwrap();
        fail(&health, &heard);
        let error = health.check().unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::ReadOnly);
        assert_eq!(
            error.to_string(),
            "the store is read-only since 3 operations failed in a row, the last one the sync of 7.meta: lost page; \
             mend the disk and open it again"
        );
    }

    #[test]
    fn a_later_success_does_not_end_it_and_it_is_said_once() {
        let (health, heard) = (Health::new(1), Heard::default());
        fail(&health, &heard);
        health.succeeded();
        fail(&health, &heard);
        health.check().unwrap_err();
        assert_eq!(heard.0.lock().len(), 1);
    }

    #[test]
    fn a_full_disk_and_too_many_open_files_are_no_failures() {
        let (health, heard) = (Health::new(1), Heard::default());
        health.failed(DiskOp::Write, "7.meta", &io::ErrorKind::StorageFull.into(), &heard);
        health.failed(DiskOp::Create, "7.meta", &io::Error::from_raw_os_error(24), &heard);
        health.check().unwrap();
        assert!(heard.0.lock().is_empty());
    }
}
