//! Owns the entries of every run, and their values in the per-entry layout, encoded beforehand: the baseline has nothing to do but to put.

use std::sync::Arc;

use bytes::Bytes;
use ha_types::Seq;
use oplog_core::NewEntry;
use oplog_core::legacy::LegacyEntry;
use oplog_core::test_kit::metadata::{Metadata, MetadataEntry, Payloads};

/// So many different entries, used in turn.
const COUNT: usize = 4096;

/// Entries, shared by producers.
#[derive(Clone, Debug)]
pub(crate) struct Entries(Arc<Vec<(MetadataEntry, Bytes)>>);

impl Entries {
    pub(crate) fn new() -> Self {
        // Past the mounts, where the stream is what it stays.
        let stream = Metadata::new(Payloads::Plimsoll, 1).skip(100).take(COUNT);
        let encoded = stream.zip(1..).map(|(entry, seq)| {
            let legacy = LegacyEntry::new(Seq::new(seq), 1_234_567_890, &entry.as_new()).expect("that layout takes it");
            let value = legacy.encode();
            (entry, value)
        });
        Self(Arc::new(encoded.collect()))
    }

    /// The entry `index`, counted round and round.
    pub(crate) fn get(&self, index: usize) -> NewEntry<'_> {
        self.0[index % COUNT].0.as_new()
    }

    /// Its value in the per-entry layout; in the first round its sequence is `index + 1`.
    pub(crate) fn value(&self, index: usize) -> Bytes {
        self.0[index % COUNT].1.clone()
    }
}
