//! Owns logs of every format in memory, made without a running writer, and what an audit says about them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ha_kv::{Kv, MemoryKv, RangeLimit, TxnKv};
use ha_types::{BatchId, Epoch, Owner, Seq};
use oplog_core::audit::{AuditOptions, AuditReport, audit};
use oplog_core::legacy::LegacyEntry;
use oplog_core::mooncake::encode;
use oplog_core::record::{BatchCompression, BatchCompressor, BatchHeader, BatchRecord, OpenBatch};
use oplog_core::{BatchStorage, DurablePrefix, NewEntry};

use crate::support::keys;

/// A log that a test puts and breaks key by key.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    pub(crate) kv: Arc<MemoryKv>,
    pub(crate) prefix: DurablePrefix,
    pub(crate) crc: u32,
    pub(crate) compress: bool,
}

/// A batch as it should be, unless a test wants it otherwise.
pub(crate) type Bend<'a> = &'a (dyn Fn(&mut BatchHeader) + Sync);

impl Log {
    pub(crate) fn empty() -> Self {
        Self { kv: Arc::new(MemoryKv::new()), prefix: DurablePrefix::FRESH, crc: 0, compress: false }
    }

    /// Ours: three batches under epoch 1, two under epoch 3.
    pub(crate) async fn ours() -> Self {
        let mut log = Self::empty();
        log.claim(1).await;
        log.batches(3).await;
        log.claim(3).await;
        log.batches(2).await;
        log
    }

    pub(crate) async fn compressed() -> Self {
        let mut log = Self { compress: true, ..Self::empty() };
        log.claim(1).await;
        log.batches(3).await;
        log
    }

    /// Five entries and `latest`, as the original writes them, and a snapshot of it.
    pub(crate) async fn legacy() -> Self {
        let log = Self::empty();
        for n in 1..=5 {
            log.entry(n).await;
        }
        log.latest("5").await;
        log.put_key(b"/oplog/c1/snapshot/20260719_101500_000/sequence_id", "4").await;
        log
    }

    /// The same, cut over at 5, with two batches behind it.
    pub(crate) async fn cut_over() -> Self {
        let mut log = Self::legacy().await;
        log.prefix.last_seq = Seq::new(5);
        log.claim(1).await;
        log.batches(2).await;
        log
    }

    /// Three batches of Mooncake's.
    pub(crate) async fn mooncakes() -> Self {
        let mut log = Self::empty();
        for _ in 0..3 {
            log.mooncake_batch().await;
        }
        log.put_key(&keys().producer_view(), "7").await;
        log
    }

    /// The same, taken over, with two batches of ours behind it.
    pub(crate) async fn taken_over() -> Self {
        let mut log = Self::mooncakes().await;
        log.put_key(&keys().producer_view(), "8").await;
        log.claim(1).await;
        log.batches(2).await;
        log
    }

    /// All there is: legacy entries, then Mooncake's batches, then ours.
    pub(crate) async fn mixed() -> Self {
        let mut log = Self::legacy().await;
        log.prefix.last_seq = Seq::new(5);
        for _ in 0..2 {
            log.mooncake_batch().await;
        }
        log.put_key(&keys().producer_view(), "2").await;
        log.claim(1).await;
        log.batches(2).await;
        log
    }

    pub(crate) async fn all_sound() -> Vec<(&'static str, Self)> {
        vec![
            ("ours", Self::ours().await),
            ("compressed", Self::compressed().await),
            ("legacy", Self::legacy().await),
            ("cut over", Self::cut_over().await),
            ("Mooncake's", Self::mooncakes().await),
            ("taken over", Self::taken_over().await),
            ("mixed", Self::mixed().await),
        ]
    }

    pub(crate) async fn claim(&mut self, epoch: u64) {
        (self.prefix.epoch, self.prefix.owner) = (Epoch::new(epoch), Owner::new(0xabc0 + epoch));
        self.put_prefix().await;
    }

    pub(crate) async fn put_prefix(&self) {
        self.put_key(&keys().durable_prefix(), self.prefix.encode()).await;
    }

    pub(crate) async fn batches(&mut self, count: u64) {
        for _ in 0..count {
            self.batch(2, &|_| {}).await;
        }
    }

    /// The next batch of ours, bent, and the prefix behind it.
    pub(crate) async fn batch(&mut self, entries: usize, bend: Bend<'_>) -> BatchId {
        let mut header = BatchHeader {
            batch_id: self.prefix.batch_id.next().unwrap(),
            first_seq: self.prefix.last_seq.next().unwrap(),
            epoch: self.prefix.epoch,
            prev_crc: self.crc,
            timestamp_ms: 1_700_000_000_000,
        };
        let id = header.batch_id;
        bend(&mut header);
        let mut open = OpenBatch::new();
        for _ in 0..entries {
            let payload = [7; 90];
            open.push(&NewEntry { op_type: 1, tenant: "default", key: b"key", payload: &payload }).unwrap();
        }
        let how = if self.compress { BatchCompression::Zstd } else { BatchCompression::Off };
        let sealed = open.seal_with(header, &mut BatchCompressor::new(how, 0).unwrap()).unwrap();
        self.put_key(&keys().batch(id), sealed.bytes).await;
        (self.prefix.batch_id, self.prefix.last_seq, self.crc) = (id, sealed.last_seq, sealed.crc);
        self.put_prefix().await;
        id
    }

    pub(crate) async fn mooncake_batch(&mut self) {
        let (id, first) = (self.prefix.batch_id.get() + 1, self.prefix.last_seq.get() + 1);
        let record = Bytes::from(encode::batch(id, first, &[(1, "default", "key", b"p1"), (3, "default", "key", b"")]));
        self.crc = BatchRecord::decode(record.clone()).unwrap().crc();
        (self.prefix.batch_id, self.prefix.last_seq) = (BatchId::new(id), Seq::new(first + 1));
        self.put_key(&keys().batch(BatchId::new(id)), record).await;
        self.put_key(&keys().durable_prefix(), encode::prefix(id, first + 1, Some(7))).await;
    }

    pub(crate) fn entry_at(n: u64) -> LegacyEntry {
        let new = NewEntry { op_type: 1, tenant: "default", key: b"key", payload: b"payload" };
        LegacyEntry { key_sequence_id: Some(n), ..LegacyEntry::new(Seq::new(n), n, &new).unwrap() }
    }

    pub(crate) async fn entry(&self, n: u64) {
        self.put_key(&keys().legacy_entry(Seq::new(n)), Self::entry_at(n).encode()).await;
    }

    pub(crate) async fn latest(&self, value: &'static str) {
        self.put_key(&keys().legacy_latest(), value).await;
    }

    pub(crate) async fn put_key(&self, key: &[u8], value: impl Into<Bytes>) {
        self.kv.put(key, value.into()).await.unwrap();
    }

    pub(crate) async fn remove(&self, key: &[u8]) {
        self.kv.delete(key).await.unwrap();
    }

    pub(crate) async fn value(&self, key: &[u8]) -> Bytes {
        self.kv.get(key).await.unwrap().unwrap()
    }

    /// Every pair in the store.
    pub(crate) async fn pairs(&self) -> Vec<(Bytes, Bytes)> {
        let pairs = self.kv.range(b"\0", b"\xff", RangeLimit::pairs(10_000)).await.unwrap().pairs;
        pairs.into_iter().map(|pair| (pair.key, pair.value)).collect()
    }

    pub(crate) async fn audit(&self) -> AuditReport {
        audit_of(self.kv.clone(), &options()).await
    }
}

/// Pages of a pair or two, so that every test crosses page ends.
pub(crate) fn options() -> AuditOptions {
    AuditOptions { page_bytes: 300, second_look: Duration::from_millis(10), ..AuditOptions::default() }
}

pub(crate) async fn audit_of(kv: Arc<dyn TxnKv>, options: &AuditOptions) -> AuditReport {
    let storage = BatchStorage::open_for_reading(kv, keys());
    audit(&storage, options, &mut |_| {}).await.unwrap()
}

/// The faults as kind and the part of the key below the cluster.
pub(crate) fn faults(report: &AuditReport) -> Vec<(&'static str, String)> {
    let listed = report.faults.listed().iter();
    listed.map(|f| (f.kind.name(), f.key.trim_start_matches("/oplog/c1/").to_owned())).collect()
}

pub(crate) fn batch_key(id: u64) -> String {
    format!("batches/{id:020}")
}
