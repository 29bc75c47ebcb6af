//! Owns the one table that says which format of the log is current (RFC batch record §14). It reads nothing itself.

use oplog_core::{DurablePrefix, Seq};

/// What lies beside the durable prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// At least one batch record.
    pub batches: bool,
    /// At least one key of the per-entry log: an entry or its `latest`.
    pub legacy: bool,
}

/// Which format is current.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Nothing was ever written. The first promotion creates the first prefix.
    Empty,
    /// A per-entry log that was not cut over.
    PerEntry,
    /// Batches without a prefix: never a fresh log, always damage.
    Headless,
    /// Batch records may follow; everything up to `base` is in the per-entry log. `base` is zero for a log that never had one.
    Boundary {
        /// The last entry of the per-entry log.
        base: Seq,
    },
    /// Batch records, and nothing else is a safe boundary.
    Batches,
    /// Batch records that Mooncake writes. They are followed like ours, and claimed by a take-over alone; where that is not built in,
    /// their prefix is refused as it is read.
    Mooncake,
}

impl LogFormat {
    /// Decides. The prefix, where there is one, is the only boundary, whatever lies beside it.
    #[must_use]
    pub fn decide(prefix: Option<&DurablePrefix>, beside: Leftovers) -> Self {
        match prefix {
            Some(prefix) if prefix.batch_id.get() == 0 => Self::Boundary { base: prefix.last_seq },
            Some(prefix) if prefix.is_mooncakes() => Self::Mooncake,
            Some(_) => Self::Batches,
            None if beside.batches => Self::Headless,
            None if beside.legacy => Self::PerEntry,
            None => Self::Empty,
        }
    }
}

#[cfg(test)]
mod tests {
    use oplog_core::{BatchId, Epoch, Owner};

    use super::*;

    fn prefix(batch_id: u64, last_seq: u64) -> DurablePrefix {
        DurablePrefix {
            epoch: Epoch::new(1),
            owner: Owner::new(2),
            batch_id: BatchId::new(batch_id),
            last_seq: Seq::new(last_seq),
        }
    }

    #[test]
    fn the_whole_table() {
        for batches in [false, true] {
            for legacy in [false, true] {
                let beside = Leftovers { batches, legacy };
                let without = match (batches, legacy) {
                    (true, _) => LogFormat::Headless,
                    (false, true) => LogFormat::PerEntry,
                    (false, false) => LogFormat::Empty,
                };
                assert_eq!(LogFormat::decide(None, beside), without, "no prefix, {beside:?}");
                let base = |n| LogFormat::Boundary { base: Seq::new(n) };
                assert_eq!(LogFormat::decide(Some(&prefix(0, 0)), beside), base(0));
                assert_eq!(LogFormat::decide(Some(&prefix(0, 9)), beside), base(9));
                assert_eq!(LogFormat::decide(Some(&prefix(3, 9)), beside), LogFormat::Batches);
                let nobodys = DurablePrefix { epoch: Epoch::ZERO, owner: Owner::NOBODY, ..prefix(3, 9) };
                assert_eq!(LogFormat::decide(Some(&nobodys), beside), LogFormat::Mooncake);
            }
        }
    }
}
