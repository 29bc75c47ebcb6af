//! RFC batch record, testing strategy, "txn/CAS": one transaction a batch, and what its compare guards.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ha_kv::Kv;
use ha_kv::faulty::{Fault, FaultPlan, OpKind, Stage};
use ha_kv::{Compare, KvErrorKind};
use ha_types::Clock;
use oplog_core::{BatchId, DurablePrefix, Outcome, WriterConfig};

use crate::support::{Log, entry};

/// Whatever befalls the transaction, the store holds both of its values or neither.
#[tokio::test(start_paused = true)]
async fn txn_puts_batch_record_and_durable_prefix_together() {
    let faults = [
        Fault::Pass,
        Fault::FailBefore(KvErrorKind::Busy),
        Fault::LoseRequest(KvErrorKind::Timeout),
        Fault::FailAfter(KvErrorKind::Timeout),
        Fault::ApplyLater(None),
        Fault::Duplicate,
    ];
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    node.kv.observe({
        let seen = Arc::clone(&seen);
        move |op, stage| {
            if op.kind() == OpKind::Txn && stage == Stage::Applied {
                seen.lock().expect("lock").push(op.clone());
            }
        }
    });
    for (at, fault) in (1_u64..).zip(faults) {
        node.kv.script(OpKind::Txn, fault);
        node.until(|s| s.accepting).await;
        let ticket = node.reserve().commit(entry(&at.to_le_bytes())).expect("committed");
        assert_eq!(ticket.await, Outcome::Durable);
        // The reader of the log requires the batch that the prefix names, and none above it.
        assert_eq!(log.batches().await.len() as u64, at);
    }
    node.kv.land_held().await;
    let applied = seen.lock().expect("lock").clone();
    assert_eq!(applied.len(), 6, "each batch was applied once: {applied:?}");
    for op in applied {
        let ha_kv::faulty::Op::Txn(txn) = op else { panic!("{op:?}") };
        let keys: Vec<_> = txn.puts.iter().map(|put| put.key.clone()).collect();
        assert_eq!((keys.len(), &keys[1]), (2, &Log::keys().durable_prefix()));
    }
}

#[tokio::test(start_paused = true)]
async fn the_compare_of_the_expected_prefix_advances_the_prefix_on_success() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    let sent = Arc::new(Mutex::new(Vec::new()));
    node.kv.on_txn({
        let sent = Arc::clone(&sent);
        move |txn| sent.lock().expect("lock").push(txn.clone())
    });
    for n in 1..=3_u64 {
        let before = log.prefix().await;
        assert_eq!(node.reserve().commit(entry(b"x")).expect("committed").await, Outcome::Durable);
        let after = log.prefix().await;
        assert_eq!((after.batch_id.get(), after.last_seq.get()), (n, n));
        let txn = sent.lock().expect("lock").pop().expect("one transaction");
        let key = Log::keys().durable_prefix();
        assert_eq!(txn.compares, [Compare::ValueEquals { key, value: before.encode().into() }]);
        assert_eq!(txn.puts[1].value, after.encode());
        assert_eq!(node.status().durable, after);
    }
}

/// Requests that arrive late, twice, or after a new claim never move the prefix back, in any field, nor change a batch.
#[tokio::test(start_paused = true)]
async fn durable_prefix_cannot_roll_back() {
    let log = Log::seeded(7).await;
    let key = Log::keys().durable_prefix();
    let mut last = log.prefix().await;
    let mut records: Vec<bytes::Bytes> = Vec::new();
    let mut landed = 0;
    for life in 0..3_u8 {
        let node = log.node(WriterConfig::default()).await;
        node.kv.plan(FaultPlan { apply_later: 200, duplicate: 200, ..FaultPlan::rough(Duration::from_millis(3)) });
        for round in 0..40_u8 {
            if let Ok(slot) = node.writer.reserve() {
                drop(slot.commit(entry(&[life, round])).expect("committed"));
            }
            if round % 10 == 0 {
                node.kv.script(OpKind::Txn, Fault::ApplyLater(None));
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
            let value = log.store.get(&key).await.expect("memory").expect("a prefix");
            let now = DurablePrefix::decode(&value).expect("a prefix");
            assert!(
                now.epoch >= last.epoch && now.batch_id >= last.batch_id && now.last_seq >= last.last_seq,
                "{last} → {now}"
            );
            last = now;
        }
        node.kv.plan(FaultPlan::NONE);
        let _ = node.writer.drain(log.clock.now().saturating_add(Duration::from_secs(60))).await;
        node.writer.stop().await;
        // What is still held on its way arrives in the next life, after its claim.
        landed += node.kv.land_held().await;
        for (id, record) in (1_u64..).zip(&records) {
            let stored = log.store.get(&Log::keys().batch(BatchId::new(id))).await.expect("memory");
            assert_eq!(stored.as_ref(), Some(record), "batch {id} was changed");
        }
        records = log.batches().await.iter().map(|batch| batch.bytes().clone()).collect();
    }
    assert!(landed > 0 && records.len() > 20, "{landed} late arrivals, {} batches", records.len());
}
