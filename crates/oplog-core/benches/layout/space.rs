//! Owns what the same entries take in the store in each layout: live keys, and bytes of keys and values. They are read back and compared.

use ha_kv::{RangeLimit, prefix_end};
use ha_types::{BatchId, Seq};
use oplog_core::legacy::LegacyEntry;
use oplog_core::record::BatchRecord;
use oplog_core::{BatchStorage, NewEntry, OrderedWriter, WriterConfig};

use crate::case::{Layout, commit_grouped, drain, env, grouped_writer, put};
use crate::entries::Entries;
use crate::store::{Log, Opened};

/// So many entries, by one producer that does not wait.
pub(crate) const ENTRIES: usize = 2048;

/// What one layout takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Space {
    pub(crate) layout: Layout,
    pub(crate) live_keys: u64,
    pub(crate) stored_bytes: u64,
}

pub(crate) async fn measure(store: &Opened, entries: &Entries) -> Vec<Space> {
    let mut spaces = Vec::new();
    for layout in Layout::ALL {
        let storage = write(layout, store, entries).await;
        check(layout, &storage, entries).await;
        let (live_keys, stored_bytes) = taken(&storage).await;
        spaces.push(Space { layout, live_keys, stored_bytes });
        Log::remove(&storage).await;
    }
    spaces
}

async fn write(layout: Layout, store: &Opened, entries: &Entries) -> BatchStorage {
    match layout {
        Layout::Puts => {
            let storage = store.place().await;
            for index in 0..ENTRIES {
                put(&storage, entries, index).await;
            }
            storage
        }
        Layout::Grouped => {
            let storage = store.place().await;
            let writer = grouped_writer(&storage).await;
            for index in 0..ENTRIES {
                commit_grouped(&writer, entries, index, false).await;
            }
            assert_eq!(writer.drain(std::time::Duration::from_secs(30)).await, 0, "drained");
            writer.stop().await;
            storage
        }
        Layout::Batches => {
            let Log { claimed, storage } = store.log().await;
            let writer = OrderedWriter::start(claimed, WriterConfig::default(), env()).map_err(|(_, why)| why);
            let writer = writer.expect("the writer starts");
            for index in 0..ENTRIES {
                drop(writer.ready().await.expect("a slot").commit(entries.get(index)).expect("committed"));
            }
            drain(&writer).await;
            writer.stop().await;
            storage
        }
    }
}

/// The store holds exactly the entries, in order.
async fn check(layout: Layout, storage: &BatchStorage, entries: &Entries) {
    let mut count = 0;
    match layout {
        Layout::Puts | Layout::Grouped => {
            for index in 0..ENTRIES {
                let seq = Seq::new(index as u64 + 1);
                let key = storage.keys().legacy_entry(seq);
                let value = storage.kv().get(&key).await.expect("the store works").expect("the entry is there");
                let read = LegacyEntry::decode(storage.keys(), &key, &value).expect("it decodes");
                let read = NewEntry {
                    op_type: read.op_type,
                    tenant: &read.tenant,
                    key: read.key.as_bytes(),
                    payload: &read.payload,
                };
                assert_eq!(read, entries.get(index), "equal entries");
                count += 1;
            }
        }
        Layout::Batches => {
            let prefix = storage.require_prefix().await.expect("the prefix");
            for id in 1..=prefix.batch_id.get() {
                let record = storage.read_batch(BatchId::new(id)).await.expect("the store works").expect("a batch");
                for entry in BatchRecord::decode(record).expect("it decodes").entries() {
                    assert_eq!(NewEntry::from(entry), entries.get(count), "equal entries");
                    count += 1;
                }
            }
        }
    }
    assert_eq!(count, ENTRIES);
}

/// Live keys of the log, and the bytes of keys and values.
async fn taken(storage: &BatchStorage) -> (u64, u64) {
    let latest = storage.keys().legacy_latest();
    let base = &latest[..latest.len() - "latest".len()];
    let end = prefix_end(base).expect("a prefix of text");
    let limit = RangeLimit { pairs: 512, bytes: 1 << 20 }.within(&storage.kv().capabilities());
    let (mut from, mut keys, mut bytes) = (base.to_vec(), 0, 0);
    loop {
        let page = storage.kv().range(&from, &end, limit).await.expect("the store works");
        keys += page.pairs.len() as u64;
        bytes += page.pairs.iter().map(|pair| (pair.key.len() + pair.value.len()) as u64).sum::<u64>();
        match page.pairs.last().filter(|_| page.more) {
            Some(last) => from = [&last.key[..], &[0]].concat(),
            None => return (keys, bytes),
        }
    }
}
