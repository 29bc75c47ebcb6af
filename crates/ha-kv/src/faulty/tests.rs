//! Tests of the faulty client: each fault does what it says, no more; and a simulation reaches all of them.

mod faults;
mod links;
mod simulation;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::FaultyKv;
use crate::{Compare, KvPair, MemoryKv, Txn};

fn client(store: &Arc<MemoryKv>) -> Arc<FaultyKv> {
    FaultyKv::new(Arc::clone(store), 1)
}

/// Sets `key` from `old` to `new`.
fn swap(key: &'static str, old: &'static str, new: &'static str) -> Txn {
    Txn {
        compares: vec![Compare::ValueEquals { key: Bytes::from(key), value: Bytes::from(old) }],
        puts: vec![KvPair::new(key, new)],
        deletes: vec![],
    }
}

/// Long enough for everything that is ready to run, under paused time.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}
