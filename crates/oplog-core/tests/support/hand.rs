//! Owns a writer without admission, retries or tasks: one append at a time, under the claim it was given.

use bytes::Bytes;
use ha_kv::{KvError, TxnOutcome};
use oplog_core::record::{BatchHeader, OpenBatch, SealedRecord};
use oplog_core::{BatchStorage, CaughtUp, DurablePrefix, NewEntry, StateMachine};

/// A claimed log, written by hand.
#[derive(Clone, Debug)]
pub(crate) struct Hand {
    pub(crate) storage: BatchStorage,
    pub(crate) prefix: DurablePrefix,
    pub(crate) crc: u32,
    /// The payload of every entry that became durable by this hand.
    pub(crate) written: Vec<Vec<u8>>,
}

impl Hand {
    pub(crate) fn new<S: StateMachine>(claimed: CaughtUp<S>) -> Self {
        let (_, log) = claimed.into_parts();
        Self { storage: log.storage().clone(), prefix: *log.prefix(), crc: log.position().crc, written: Vec::new() }
    }

    /// The next record and the prefix it makes.
    pub(crate) fn next(&self, payloads: &[&[u8]]) -> (SealedRecord, DurablePrefix) {
        let mut batch = OpenBatch::new();
        for payload in payloads {
            batch.push(&NewEntry { op_type: 1, tenant: "default", key: b"key", payload }).unwrap();
        }
        let header = BatchHeader {
            batch_id: self.prefix.batch_id.next().unwrap(),
            first_seq: self.prefix.last_seq.next().unwrap(),
            epoch: self.prefix.epoch,
            prev_crc: self.crc,
            timestamp_ms: 1,
        };
        let sealed = batch.seal(header).unwrap();
        let new = DurablePrefix { batch_id: header.batch_id, last_seq: sealed.last_seq, ..self.prefix };
        (sealed, new)
    }

    pub(crate) async fn try_append(&mut self, payloads: &[&[u8]]) -> Result<TxnOutcome, KvError> {
        let (sealed, new) = self.next(payloads);
        let outcome = self.storage.append(&self.prefix, &new, sealed.bytes).await?;
        if outcome == TxnOutcome::Committed {
            (self.prefix, self.crc) = (new, sealed.crc);
            self.written.extend(payloads.iter().map(|p| p.to_vec()));
        }
        Ok(outcome)
    }

    pub(crate) async fn append(&mut self, payloads: &[&[u8]]) {
        assert_eq!(self.try_append(payloads).await.unwrap(), TxnOutcome::Committed);
    }

    /// `n` batches of one to three entries.
    pub(crate) async fn append_batches(&mut self, n: u8) {
        for i in 0..n {
            let payloads = [[i, 1], [i, 2], [i, 3]];
            let payloads: Vec<&[u8]> = payloads.iter().take(usize::from(i % 3) + 1).map(|p| &p[..]).collect();
            self.append(&payloads).await;
        }
    }

    /// The stored record of batch `id`.
    pub(crate) async fn stored(&self, id: u64) -> Bytes {
        self.storage.read_batch(oplog_core::BatchId::new(id)).await.unwrap().unwrap()
    }
}
