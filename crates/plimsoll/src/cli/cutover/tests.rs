//! Tests of what one damaged reading does to a cutover: nothing, unless a second one shows the same.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use ha_kv::test_kit::Detour;
use ha_kv::{Kv as _, KvError, MemoryKv, RangeLimit, RangePage, TxnKv};
use ha_types::ClusterId;
use master::mooncake::encode;
use oplog_core::legacy::LegacyEntry;
use oplog_core::{LogKeys, NewEntry, OpenOptions};

use super::*;

const ENDPOINT: &str = "10.0.0.1:12345";

/// What one reading makes of a value.
type Damage = fn(&Bytes) -> Bytes;

/// A store in which the value of `key` is damaged in the first `times` readings.
#[derive(Debug)]
struct Damaged {
    memory: MemoryKv,
    key: Bytes,
    damage: Damage,
    times: AtomicU64,
}

impl Damaged {
    fn read(&self, key: &[u8], value: &Bytes) -> Bytes {
        let left = |times: u64| times.checked_sub(1);
        match key == self.key && self.times.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left).is_ok() {
            true => (self.damage)(value),
            false => value.clone(),
        }
    }
}

#[tonic::async_trait]
impl Detour for Damaged {
    fn store(&self) -> &dyn TxnKv {
        &self.memory
    }

    async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, KvError> {
        Ok(self.store().get(key).await?.map(|value| self.read(key, &value)))
    }

    async fn range(&self, start: &[u8], end: &[u8], limit: RangeLimit) -> Result<RangePage, KvError> {
        let mut page = self.store().range(start, end, limit).await?;
        for pair in &mut page.pairs {
            pair.value = self.read(&pair.key, &pair.value);
        }
        Ok(page)
    }
}

fn keys() -> LogKeys {
    LogKeys::of(&ClusterId::new("c").unwrap())
}

/// Entry `n`: a segment, and then the same key again and again, which counts its operations.
fn entry(n: u64) -> LegacyEntry {
    let (op_type, key, payload) = match n {
        1 => (5, ENDPOINT, encode::mount("seg", ENDPOINT, 1 << 30)),
        n if n.is_multiple_of(2) => (1, "k", encode::put_end(7, 64, 0x1000 + n * 64, ENDPOINT)),
        _ => (3, "k", Vec::new()),
    };
    let new = NewEntry { op_type, tenant: "default", key: key.as_bytes(), payload: &payload };
    LegacyEntry { key_sequence_id: (n > 1).then_some(n - 1), ..LegacyEntry::new(Seq::new(n), 0, &new).unwrap() }
}

fn flipped(value: &Bytes) -> Bytes {
    let mut bytes = value.to_vec();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    bytes.into()
}

/// Entry 5 with a count that its key had before, and a checksum that fits.
fn counted_before(_: &Bytes) -> Bytes {
    LegacyEntry { key_sequence_id: Some(1), ..entry(5) }.encode()
}

/// A log of six entries, of which this key's value is damaged so often.
async fn cut_over_damaged(key: Bytes, damage: Damage, times: u64) -> (Result<Outcome, CutoverError>, Arc<Damaged>) {
    let memory = MemoryKv::new();
    for n in 1..=6 {
        memory.put(&keys().legacy_entry(Seq::new(n)), entry(n).encode()).await.unwrap();
    }
    memory.put(&keys().legacy_latest(), "6".into()).await.unwrap();
    let store = Arc::new(Damaged { memory, key, damage, times: AtomicU64::new(0) });
    let options = OpenOptions { accept_lost_writes: true, ..OpenOptions::default() };
    let storage = BatchStorage::open(store.clone(), keys(), options).await.unwrap();
    let work = Work {
        log: LegacyLog::beside(&storage),
        storage,
        options: CutoverOptions { old_primary_stopped: true, ..CutoverOptions::default() },
        env: WriterEnv { clock: Arc::new(SystemClock::new()), entropy: Arc::new(SystemEntropy) },
        progress: Progress::new(true, false),
    };
    let mut facts = Facts::read(&work.log, None).await.unwrap();
    store.times.store(times, Ordering::SeqCst);
    (cut_over(&work, &mut facts).await, store)
}

#[tokio::test]
async fn one_damaged_reading_does_not_refuse_a_cutover_and_a_second_one_does() {
    let cases: [(Bytes, Damage, FaultKind); 3] = [
        (keys().legacy_entry(Seq::new(4)), flipped, FaultKind::LegacyUndecodable),
        (keys().legacy_entry(Seq::new(5)), counted_before, FaultKind::LegacyKeySequence),
        (keys().legacy_latest(), |_| "six".into(), FaultKind::LegacyLatest),
    ];
    for (key, damage, kind) in cases {
        let (done, store) = cut_over_damaged(key.clone(), damage, 1).await;
        assert!(
            matches!(&done, Ok(Outcome::Created { prefix }) if prefix.last_seq == Seq::new(6)),
            "{kind:?}: {done:?}"
        );
        assert_eq!(store.times.load(Ordering::SeqCst), 0, "{kind:?}: the first reading was damaged");

        let (refused, store) = cut_over_damaged(key, damage, u64::MAX).await;
        let error = refused.expect_err("the log is damaged");
        assert!(matches!(&error, CutoverError::Log(LogError::Fault(fault)) if fault.kind == kind), "{error}");
        assert_eq!(store.memory.get(&keys().durable_prefix()).await.unwrap(), None, "{kind:?}: nothing has changed");
    }
}

/// What is not a matter of reading is refused at once.
#[tokio::test]
async fn an_entry_that_cannot_be_applied_is_not_read_again() {
    let nonsense: Damage = |_| LegacyEntry { payload: "nonsense".into(), ..entry(4) }.encode();
    let (refused, store) = cut_over_damaged(keys().legacy_entry(Seq::new(4)), nonsense, 2).await;
    let error = refused.expect_err("nobody can apply it");
    assert!(matches!(&error, CutoverError::Log(LogError::Fault(fault)) if fault.kind == FaultKind::Apply), "{error}");
    assert_eq!(store.times.load(Ordering::SeqCst), 1, "one reading");
}
