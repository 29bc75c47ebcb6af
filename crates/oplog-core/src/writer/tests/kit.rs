//! Owns what tests inside the writer share: a claimed log, in a memory store or another, and an entry for it.

use std::sync::Arc;

use ha_kv::{MemoryKv, TxnKv};
use ha_types::{ClusterId, Epoch, MonoTime, Owner};

use crate::caught_up::Claim;
use crate::{BatchStorage, ClaimedLog, DurablePrefix, LogKeys, NewEntry, OpenOptions, Position};

pub(in crate::writer) const ENTRY: NewEntry<'_> = NewEntry { op_type: 1, tenant: "t", key: b"k", payload: b"p" };

pub(in crate::writer) async fn claimed() -> ClaimedLog {
    claimed_in(Arc::new(MemoryKv::new())).await
}

pub(in crate::writer) async fn claimed_in(kv: Arc<dyn TxnKv>) -> ClaimedLog {
    let keys = LogKeys::of(&ClusterId::new("c").expect("an id"));
    let options = OpenOptions { accept_lost_writes: true, ..OpenOptions::default() };
    let storage = BatchStorage::open(kv, keys, options).await.expect("a log");
    storage.create_first_prefix().await.expect("a first prefix");
    let prefix = DurablePrefix { epoch: Epoch::new(1), owner: Owner::new(1), ..DurablePrefix::FRESH };
    let claimed = storage.claim(&DurablePrefix::FRESH, &prefix).await;
    assert_eq!(claimed.expect("an answer"), ha_kv::TxnOutcome::Committed);
    let claim = Claim { epoch: prefix.epoch, owner: prefix.owner, claimed_at: MonoTime::ZERO, from_mooncake: false };
    ClaimedLog { storage, prefix, position: Position::default(), claim }
}
