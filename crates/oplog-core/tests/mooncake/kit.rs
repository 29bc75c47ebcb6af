//! Owns the log of Mooncake's that most tests begin with.

use std::sync::Arc;

use ha_kv::{MemoryKv, TxnOutcome};
use oplog_core::test_kit::MooncakePrimary;

use crate::support::keys;

/// A store with a log of Mooncake's of `n` batches, each of two entries.
pub(crate) async fn log_of(n: u8) -> (Arc<MemoryKv>, MooncakePrimary) {
    let store = Arc::new(MemoryKv::new());
    let mut original = MooncakePrimary::start(store.clone(), keys(), 7).await.unwrap();
    for i in 0..n {
        assert_eq!(original.append(&[&[i, 1], &[i, 2]]).await.unwrap(), TxnOutcome::Committed);
    }
    (store, original)
}
