//! Owns what can go wrong with an operation. It must not know what the operation is for.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::op::{Op, OpKind};

/// How an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does nothing and answers this number of the system, `EIO` being 5 and `ENOSPC` 28. A sync that fails so has forgotten what it was
    /// to make durable: a later one succeeds without vouching for it. Only a sync of the directory that fails with `EMFILE` was none.
    Errno(i32),
    /// A write that stops after so many bytes, and answers this number. Anything else fails as with [`Fault::Errno`].
    Short {
        /// Bytes that are written.
        written: u64,
        /// The answer.
        errno: i32,
    },
    /// It succeeds, and takes so long by the clock of [`SimDisk::tell_time`](super::SimDisk::tell_time). Nobody waits.
    Slow(Duration),
    /// A sync that answers success and does nothing, as on a disk that lies; what it was to sync stays as it was. Anything else succeeds.
    Lie,
}

type Matches = Box<dyn FnMut(&Op) -> bool + Send>;

struct Injected {
    matches: Matches,
    times: usize,
    fault: Fault,
}

/// The faults that wait for their operation, and what has been counted.
#[derive(Default)]
pub(super) struct Faults {
    injected: Vec<Injected>,
    unreadable: Vec<(Arc<str>, Range<u64>)>,
    pub(super) met: u64,
    pub(super) slowness: Duration,
}

impl Faults {
    pub(super) fn inject(&mut self, matches: Matches, times: usize, fault: Fault) {
        self.injected.push(Injected { matches, times, fault });
    }

    pub(super) fn unreadable(&mut self, name: &str, range: Range<u64>) {
        self.unreadable.push((name.into(), range));
    }

    pub(super) fn clear(&mut self) {
        self.injected.clear();
        self.unreadable.clear();
    }

    /// The fault that this operation meets. The first that matches is used up by it.
    pub(super) fn of(&mut self, op: &Op) -> Option<Fault> {
        let overlaps = |range: &Range<u64>| op.offset < range.end && range.start < op.offset + op.bytes;
        if op.kind == OpKind::Read && self.unreadable.iter().any(|(name, range)| *name == op.name && overlaps(range)) {
            self.met += 1;
            return Some(Fault::Errno(EIO));
        }
        let at = self.injected.iter_mut().position(|injected| (injected.matches)(op))?;
        let fault = self.injected[at].fault;
        self.injected[at].times -= 1;
        if self.injected[at].times == 0 {
            self.injected.remove(at);
        }
        self.met += 1;
        if let Fault::Slow(time) = fault {
            self.slowness += time;
            return None;
        }
        Some(fault)
    }
}

/// `EIO`
pub const EIO: i32 = 5;
/// `ENOSPC`
pub const ENOSPC: i32 = 28;
/// `EMFILE`
pub const EMFILE: i32 = 24;

pub(super) fn errno(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}
