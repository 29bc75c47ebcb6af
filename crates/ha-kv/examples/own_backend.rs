//! Owns a whole backend of one's own, a map behind a lock without transactions, leases or watches, and its run of the suite.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use ha_kv::conformance::{Client, Factory, run};
use ha_kv::{Capabilities, DurableAck, Kv, KvError, KvPair, RangeLimit, RangePage, TxnKv};

#[derive(Debug, Default)]
struct Map(Mutex<BTreeMap<Vec<u8>, Bytes>>);

impl Map {
    fn checked(&self, key: &[u8], value: &[u8]) -> Result<MutexGuard<'_, BTreeMap<Vec<u8>, Bytes>>, KvError> {
        self.capabilities().check_put(key, value)?;
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait::async_trait]
impl Kv for Map {
    async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, KvError> {
        Ok(self.checked(key, b"")?.get(key).cloned())
    }
    async fn put(&self, key: &[u8], value: Bytes) -> Result<(), KvError> {
        self.checked(key, &value)?.insert(key.to_vec(), value);
        Ok(())
    }
    async fn range(&self, start: &[u8], end: &[u8], limit: RangeLimit) -> Result<RangePage, KvError> {
        let (limit, mut page, mut bytes) = (limit.within(&self.capabilities()), RangePage::default(), 0);
        for (key, value) in self.checked(start, b"")?.iter().filter(|(key, _)| start <= &key[..] && &key[..] < end) {
            page.more = limit.reached(page.pairs.len(), bytes);
            if page.more {
                break;
            }
            bytes += key.len() + value.len();
            page.pairs.push(KvPair::new(key.clone(), value.clone()));
        }
        Ok(page)
    }
    async fn delete(&self, key: &[u8]) -> Result<(), KvError> {
        self.checked(key, b"")?.remove(key);
        Ok(())
    }
    async fn delete_range(&self, start: &[u8], end: &[u8]) -> Result<u64, KvError> {
        Ok(self.checked(start, b"")?.extract_if(.., |key, _| start <= &key[..] && &key[..] < end).count() as u64)
    }
    fn capabilities(&self) -> Capabilities {
        let durable_ack = DurableAck::No { reason: "the map dies with its process".into() };
        let (txn, linearizable_read, max_value_bytes, max_reply_bytes) = (false, true, 1 << 20, 4 << 20);
        let (max_txn_bytes, max_txn_ops) = (2 << 20, 1);
        Capabilities {
            backend: "map",
            txn,
            durable_ack,
            linearizable_read,
            max_value_bytes,
            max_txn_bytes,
            max_txn_ops,
            max_reply_bytes,
        }
    }
    fn as_txn(&self) -> Option<&dyn TxnKv> {
        None
    }
}

#[derive(Debug)]
struct OneMap(Arc<Map>);

#[async_trait::async_trait]
impl Factory for OneMap {
    async fn clients(&self, count: usize) -> Vec<Client> {
        (0..count).map(|_| Client::plain(self.0.clone())).collect()
    }
    async fn pass(&self, _time: Duration) {}
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    println!("{}", run(&OneMap(Arc::default())).await);
}

#[cfg(test)]
#[tokio::test]
async fn keeps_its_promises() {
    let report = run(&OneMap(Arc::default())).await;
    let of_others =
        |why: &str| ["transactions", "leases", "watches"].iter().any(|it| why == format!("the store has no {it}"));
    let left_out: Vec<_> = report.skipped.iter().filter(|(_, why)| !of_others(why)).collect();
    assert!(left_out.is_empty(), "every case that the map could pass has run: {left_out:?}");
    assert!(report.passed.contains(&"pages_by_bytes_cover_everything_once"), "{report}");
}
