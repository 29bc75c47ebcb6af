//! Owns the names of what keeps admission closed, and of what an entry or a reservation was refused for. The words beside them
//! are for people; these are for programs and figures.

use std::collections::BTreeMap;

use ha_kv::{ErrorClass, KvErrorKind};

/// What keeps admission closed. Of several the first in this order: an end is for good, and what the store complains about is
/// worth knowing in a drain too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Closed {
    /// The writer has ended.
    Ended,
    /// The store failed the batch in flight so, the last time; [`KvErrorKind::class`] says who cures it. It opens by itself.
    Store(KvErrorKind),
    /// The durable prefix, or another key that a legacy transaction compares, is not as this writer left it, and is being read again.
    Prefix,
    /// The writer is being drained; it does not open again.
    Draining,
}

impl Closed {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::Ended,
        Self::Store(KvErrorKind::Unavailable),
        Self::Store(KvErrorKind::Timeout),
        Self::Store(KvErrorKind::Busy),
        Self::Store(KvErrorKind::NoSpace),
        Self::Store(KvErrorKind::Auth),
        Self::Store(KvErrorKind::ReadOnly),
        Self::Store(KvErrorKind::TooLarge),
        Self::Store(KvErrorKind::InvalidArgument),
        Self::Store(KvErrorKind::Unsupported),
        Self::Store(KvErrorKind::Corrupt),
        Self::Store(KvErrorKind::WrongStore),
        Self::Store(KvErrorKind::LeaseNotFound),
        Self::Store(KvErrorKind::Closed),
        Self::Prefix,
        Self::Draining,
    ];

    /// A short name for metrics and reports; that of the error kind where the store is the reason.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ended => "ended",
            Self::Store(kind) => kind.name(),
            Self::Prefix => "prefix_in_doubt",
            Self::Draining => "draining",
        }
    }

    /// Who can open it again: time ([`ErrorClass::Transient`]), an operator, or nobody.
    #[must_use]
    pub const fn class(self) -> ErrorClass {
        match self {
            Self::Ended | Self::Draining => ErrorClass::Permanent,
            Self::Store(kind) => kind.class(),
            Self::Prefix => ErrorClass::Transient,
        }
    }
}

/// Why a reservation or an entry was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// `oplog_batch_max_entries` entries wait.
    QueueEntries,
    /// `oplog_waiting_max_bytes` bytes wait.
    QueueBytes,
    /// Bulk has its share of the slots.
    BulkEntries,
    /// Bulk has its share of the next batch in bytes.
    BulkBytes,
    /// Too many callbacks have not run yet.
    Callbacks,
    /// Admission was closed.
    Closed(Closed),
    /// The entry could not fit a batch.
    TooLarge,
    /// A field of the entry was not allowed.
    Invalid,
}

impl Refusal {
    /// A short name for metrics and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::QueueEntries => "queue_entries",
            Self::QueueBytes => "queue_bytes",
            Self::BulkEntries => "bulk_entries",
            Self::BulkBytes => "bulk_bytes",
            Self::Callbacks => "callbacks",
            Self::Closed(Closed::Store(KvErrorKind::TooLarge)) => "batch_too_large",
            Self::Closed(closed) => closed.name(),
            Self::TooLarge => "entry_too_large",
            Self::Invalid => "entry_invalid",
        }
    }

    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        let closed = Closed::ALL.into_iter().map(Self::Closed);
        let full = [Self::QueueEntries, Self::QueueBytes, Self::BulkEntries, Self::BulkBytes, Self::Callbacks];
        full.into_iter().chain([Self::TooLarge, Self::Invalid]).chain(closed)
    }
}

/// How often each refusal occurred.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusals(BTreeMap<Refusal, u64>);

impl Refusals {
    pub(super) fn count(&mut self, why: Refusal) {
        *self.0.entry(why).or_default() += 1;
    }

    /// How often it was refused for `why`.
    #[must_use]
    pub fn of(&self, why: Refusal) -> u64 {
        self.0.get(&why).copied().unwrap_or(0)
    }

    /// How often the queue was full, in entries, bytes or callbacks, or bulk had its share of it.
    #[must_use]
    pub fn queue_full(&self) -> u64 {
        let full = [Refusal::QueueEntries, Refusal::QueueBytes, Refusal::Callbacks];
        full.iter().chain(&[Refusal::BulkEntries, Refusal::BulkBytes]).map(|why| self.of(*why)).sum()
    }

    /// How often admission was closed.
    #[must_use]
    pub fn unavailable(&self) -> u64 {
        self.0.iter().filter(|(why, _)| matches!(why, Refusal::Closed(_))).map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_refusal_has_a_name_of_its_own() {
        let names: BTreeSet<_> = Refusal::all().map(Refusal::name).collect();
        assert_eq!(names.len(), Refusal::all().count());
        let names: BTreeSet<_> = Closed::ALL.map(Closed::name).into();
        assert_eq!(names.len(), Closed::ALL.len());
    }

    #[test]
    fn refusals_are_counted_by_reason() {
        let mut refusals = Refusals::default();
        let full = Refusal::Closed(Closed::Store(KvErrorKind::NoSpace));
        for why in [Refusal::QueueBytes, full, full, Refusal::TooLarge] {
            refusals.count(why);
        }
        assert_eq!((refusals.of(full), refusals.unavailable(), refusals.queue_full()), (2, 2, 1));
        assert_eq!(refusals.of(Refusal::Invalid), 0);
    }
}
