//! Owns the tests of following a log of Mooncake's: strictly, and with the place of each fault.

use bytes::Bytes;
use ha_kv::Kv;
use ha_types::BatchId;
use oplog_core::mooncake::encode;
use oplog_core::record::Encoding;
use oplog_core::{BatchStorage, FaultKind, LogError, ReplayFault, Replica, catch_up};

use crate::kit::log_of;
use crate::support::{Journal, keys, open};

async fn follow(storage: &BatchStorage) -> Result<Replica<Journal>, ReplayFault> {
    let mut replica = Replica::empty(Journal::default());
    let fault = |e| match e {
        LogError::Fault(fault) => fault,
        other => panic!("{other}"),
    };
    let prefix = storage.require_prefix().await.map_err(fault)?;
    catch_up(storage, &mut replica, &prefix, 64).await.map_err(fault)?;
    Ok(replica)
}

#[tokio::test]
async fn s1_a_log_of_mooncakes_is_followed_to_its_prefix() {
    let (store, original) = log_of(5).await;
    let storage = open(store.clone()).await;
    let replica = follow(&storage).await.unwrap();
    replica.machine().assert_is_fold_of(&original.written);
    let at = replica.position();
    assert_eq!((at.batch_id.get(), at.last_seq.get(), at.epoch.get()), (5, 10, 0));
    let mut records = storage.records(BatchId::ZERO, BatchId::new(5), 64);
    let mut payloads = Vec::new();
    while let Some((id, record)) = records.next().await.unwrap() {
        assert_eq!((record.encoding(), record.header().epoch.get()), (Encoding::MooncakeJson, 0));
        assert_eq!(record.header().batch_id, id);
        for entry in record.entries() {
            assert_eq!((entry.op_type, entry.tenant, entry.key, entry.epoch.get()), (1, "default", &b"key"[..], 0));
            payloads.push(entry.payload.to_vec());
        }
    }
    assert_eq!(payloads, original.written);
}

#[tokio::test]
async fn s10_a_damaged_record_of_mooncakes_names_key_field_and_offset() {
    let (store, _) = log_of(3).await;
    let key = keys().batch(BatchId::new(2));
    let good = store.get(&key).await.unwrap().unwrap();
    let mut bad = good.to_vec();
    bad[3] = b'7';
    store.put(&key, bad.into()).await.unwrap();
    let fault = follow(&open(store.clone()).await).await.unwrap_err();
    assert_eq!(
        (fault.kind, fault.key.as_str()),
        (FaultKind::BatchUndecodable, "/oplog/c1/batches/00000000000000000002")
    );
    assert!(fault.expected.starts_with("checksum at byte 65: "), "{fault}");
    // Right by itself, and not the batch of its key, or not the one that follows.
    for (record, kind) in [
        (encode::batch(7, 9, &[(1, "t", "k", b"x")]), FaultKind::WrongBatchId),
        (encode::batch(2, 4, &[(1, "t", "k", b"x")]), FaultKind::SequenceGap),
        (encode::batch(2, 2, &[(1, "t", "k", b"x")]), FaultKind::SequenceGap),
        (encode::batch(2, 3, &[(1, "t", "k", &b"x"[..]); 5]), FaultKind::SequenceGap),
    ] {
        store.put(&key, record.into()).await.unwrap();
        let fault = follow(&open(store.clone()).await).await.unwrap_err();
        assert_eq!((fault.kind, fault.key.as_str()), (kind, "/oplog/c1/batches/00000000000000000002"), "{fault}");
    }
    store.delete(&key).await.unwrap();
    let fault = follow(&open(store.clone()).await).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::BatchMissing);
    store.put(&key, good).await.unwrap();
    follow(&open(store).await).await.unwrap();
}

#[tokio::test]
async fn s10_a_damaged_prefix_of_mooncakes_is_no_prefix() {
    let (store, _) = log_of(1).await;
    let damaged = Bytes::from_static(br#"{"batch_id":1,"last_seq":2.0,"schema_version":1}"#);
    store.put(&keys().durable_prefix(), damaged).await.unwrap();
    let fault = follow(&open(store.clone()).await).await.unwrap_err();
    assert_eq!((fault.kind, fault.key.as_str()), (FaultKind::PrefixUndecodable, "/oplog/c1/durable_prefix"));
    assert!(fault.expected.starts_with("last_seq at byte 25: "), "{fault}");
    store.delete(&keys().durable_prefix()).await.unwrap();
    let error = open(store).await.create_first_prefix().await.unwrap_err();
    assert!(matches!(&error, LogError::Fault(f) if f.kind == FaultKind::ForeignState), "{error}");
}
