//! The audit: looks at every key of one cluster's log and says what is wrong with it. Owns the order of its reads; writes nothing.
//!
//! One walk over everything below the cluster's part of the root, byte-paged, judges each value and how neighbours join: legacy
//! entries, batch records of ours and of Mooncake's, snapshot sequences, and keys that belong to nothing. Then come the keys that
//! move while others write: the durable prefix, `latest`, the producer view.
//!
//! A log that is written, claimed, cut over, taken over or shortened at its start meanwhile has no fault by that: the prefix is read
//! before and after the walk, batches are owed up to the first reading and allowed up to the later one, a hole is read a second
//! time, and what lies below the oldest key that is still there is no hole.

mod batch_chain;
mod ends;
mod faults;
#[cfg(feature = "legacy")]
mod legacy_chain;
#[cfg(feature = "legacy")]
mod legacy_end;
mod options;
mod reader;
mod report;
mod walk;

use ha_kv::KvError;

use crate::BatchStorage;

pub use batch_chain::{BatchChain, EpochRange};
pub use faults::AuditFaults;
pub use options::{AuditOptions, AuditProgress};
pub use report::{AuditReport, AuditSnapshot, BatchSummary, LegacySummary};

/// Audits the log behind `storage` and tells `progress` after each page how far it is.
///
/// A fault is something that a reader of this build would refuse, or an alarm; it is in the report and no error. Without the feature
/// `legacy` a per-entry log is a fault by itself, as it cannot be checked; without `mooncake`, so is what Mooncake writes.
///
/// Not covered, as nothing in the formats covers it: in a legacy entry the operation, tenant, time and key sequence (as long as that
/// rises), and the object key where its hash is 0; a `latest` that lags; the number in a producer view, and
/// the same in Mooncake's prefix; the sequence of a snapshot of the original; whether a snapshot in the
/// catalogue really holds what is gone from the log's start.
///
/// # Errors
/// [`KvError`] of the read that failed, after [`AuditOptions::read_attempts`] where trying again could help: nothing was judged then.
///
/// # Cancel safety
/// Safe: it only reads.
pub async fn audit(
    storage: &BatchStorage,
    options: &AuditOptions,
    progress: &mut (dyn FnMut(&AuditProgress) + Send),
) -> Result<AuditReport, KvError> {
    walk::Audit::new(storage, options, progress).run().await
}
