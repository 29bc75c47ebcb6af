//! Owns the baseline: full records built before the clock starts, sent one after the other.

use std::time::{Duration, Instant};

use bytes::Bytes;
use ha_kv::TxnOutcome;
use ha_types::{BatchId, Epoch, Seq};
use oplog_core::DurablePrefix;
use oplog_core::record::{BatchHeader, OpenBatch};

use crate::entries::Entries;
use crate::store::{Log, Opened};

/// What the bare loop reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bare {
    pub(crate) entries_per_s: f64,
    /// One transaction.
    pub(crate) seconds_per_txn: f64,
}

/// A full record of `count` entries; its length is what the writer's full records must have.
pub(crate) fn full_record(count: usize) -> Bytes {
    let entries = Entries::new();
    let mut batch = OpenBatch::new();
    for index in 0..count {
        batch.push(&entries.get(index)).expect("it fits");
    }
    let header = BatchHeader {
        batch_id: BatchId::new(100),
        first_seq: Seq::new(100_000),
        epoch: Epoch::new(1),
        prev_crc: u32::MAX,
        timestamp_ms: 1_700_000_000_000,
    };
    batch.seal(header).expect("it seals").bytes
}

impl Bare {
    pub(crate) async fn run(store: &Opened, count: usize, slice: Duration) -> Self {
        Self::run_on(store.log().await, count, slice).await
    }

    pub(crate) async fn run_on(log: Log, count: usize, slice: Duration) -> Self {
        let Log { claimed, storage } = log;
        let mut prefix = *claimed.prefix();
        let record = full_record(count);
        let sending = storage.clone();
        // On a worker, where the writer's driver runs, too.
        let loop_ = tokio::spawn(async move {
            let start = Instant::now();
            let mut sent = 0_u32;
            while start.elapsed() < slice {
                let next = DurablePrefix {
                    batch_id: prefix.batch_id.next().expect("room"),
                    last_seq: prefix.last_seq.checked_add(count as u64).expect("room"),
                    ..prefix
                };
                let answer = sending.append(&prefix, &next, record.clone()).await;
                assert_eq!(answer.expect("the store works"), TxnOutcome::Committed);
                prefix = next;
                sent += 1;
            }
            (sent, start.elapsed())
        });
        let (sent, took) = loop_.await.expect("the loop");
        Log::remove(&storage).await;
        let took = took.as_secs_f64();
        let (sent, count) = (f64::from(sent), count as f64);
        Self { entries_per_s: sent * count / took, seconds_per_txn: took / sent }
    }
}
