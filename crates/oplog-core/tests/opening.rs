//! Owns the tests of opening a log and of its first prefix: what is refused, and that a race has one winner.

mod support;

use std::sync::Arc;

use bytes::Bytes;
use ha_kv::faulty::{Fault, FaultyKv, OpKind, ServerLimits, Situation};
use ha_kv::{Capabilities, DurableAck, Kv, KvErrorKind, MemoryKv};
use ha_types::BatchId;
use oplog_core::{BatchStorage, DurablePrefix, FaultKind, FirstPrefix, LogError, OpenOptions, Replica, catch_up};
use support::{Crooked, Guard, Hand, Journal, claim, claim_new, fresh, keys, open, options};

async fn refusal(kv: Arc<dyn ha_kv::TxnKv>, options: OpenOptions) -> String {
    match BatchStorage::open(kv, keys(), options).await {
        Err(LogError::Refused(why)) => why,
        other => panic!("{other:?} is no refusal"),
    }
}

#[tokio::test]
async fn a_store_that_may_lose_writes_is_refused_unless_said_in_words() {
    let why = refusal(Arc::new(MemoryKv::new()), OpenOptions::default()).await;
    assert!(why.contains("memory store may lose writes"), "{why}");
    assert!(BatchStorage::open(Arc::new(MemoryKv::new()), keys(), options()).await.is_ok());
}

#[tokio::test]
async fn a_store_without_the_promises_a_log_needs_is_refused() {
    let able = MemoryKv::new().capabilities();
    for (capabilities, word) in [
        (Capabilities { txn: false, ..able.clone() }, "transactions"),
        (Capabilities { linearizable_read: false, durable_ack: DurableAck::Yes, ..able.clone() }, "linearizable"),
        (Capabilities { max_txn_ops: 1, ..able.clone() }, "operations"),
    ] {
        let store = Crooked::new(Arc::new(MemoryKv::new()));
        store.declare(capabilities);
        let why = refusal(store, options()).await;
        assert!(why.contains(word), "{why}");
    }
    // Whoever accepts that a failover takes writes away accepts what it does to reads.
    let store = Crooked::new(Arc::new(MemoryKv::new()));
    store.declare(Capabilities { linearizable_read: false, ..able });
    assert!(refusal(store.clone(), OpenOptions::default()).await.contains("may lose writes"));
    assert!(BatchStorage::open(store, keys(), options()).await.is_ok());
}

#[tokio::test]
async fn a_batch_limit_of_zero_or_above_the_stores_is_refused() {
    let store = Arc::new(MemoryKv::new().with_limits(1 << 20, 128, 4 << 20));
    for (limit, word) in
        [(0, "must be at least"), (255, "must be at least"), (1 << 20, "at most"), (usize::MAX, "at most")]
    {
        let why = refusal(store.clone(), OpenOptions { max_batch_bytes: limit, ..options() }).await;
        assert!(why.contains("oplog_batch_max_bytes") && why.contains(word), "{why}");
    }
    let small_reply = Arc::new(MemoryKv::new().with_limits(1 << 20, 128, 1000));
    let why = refusal(small_reply, OpenOptions { max_batch_bytes: 2000, ..options() }).await;
    assert!(why.contains("at most"), "what cannot be read back is not written: {why}");
    let fits = OpenOptions { max_batch_bytes: (1 << 20) - 1000, ..options() };
    assert!(BatchStorage::open(store, keys(), fits).await.is_ok());
}

#[tokio::test]
async fn w5_a_server_with_a_smaller_limit_is_found_at_open() {
    let store = Arc::new(MemoryKv::new());
    let client = FaultyKv::new(store.clone(), 1);
    client.limit_server(ServerLimits { request_bytes: 64 << 10, ..ServerLimits::NONE });
    let why = refusal(client.clone(), options()).await;
    assert!(why.contains("oplog_batch_max_bytes") && why.contains("request limit"), "{why}");
    assert_eq!(client.count(Situation::TooLarge), 1);

    let fits = OpenOptions { max_batch_bytes: 60 << 10, ..options() };
    let storage = BatchStorage::open(client.clone(), keys(), fits).await.unwrap();
    storage.create_first_prefix().await.unwrap();
    let mut hand = Hand::new(claim_new(&storage, 1).await);
    // The largest record that the log takes passes the server, too: the probe was as large.
    let payload = vec![1; (60 << 10) - 100];
    hand.append(&[&payload]).await;
    assert_eq!(client.count(Situation::TooLarge), 1, "found at open and never again");
    let too_large = vec![1; 60 << 10];
    let error = hand.try_append(&[&too_large]).await.unwrap_err();
    assert_eq!((error.kind, error.is_unknown()), (KvErrorKind::TooLarge, false));
}

#[tokio::test]
async fn the_probe_leaves_nothing_behind_and_a_full_store_still_opens() {
    let store = Arc::new(MemoryKv::new());
    let client = FaultyKv::new(store.clone(), 1);
    client.fill_server(true);
    open(client.clone()).await;
    assert_eq!(client.count(Situation::NoSpace), 1);
    client.script(OpKind::Txn, Fault::FailBefore(KvErrorKind::Unavailable));
    let error = BatchStorage::open(client.clone(), keys(), options()).await.unwrap_err();
    assert!(matches!(error, LogError::Store(e) if e.kind == KvErrorKind::Unavailable));
    let everything = store.range(b"\0", b"\xff", ha_kv::RangeLimit::pairs(9)).await.unwrap();
    assert!(everything.pairs.is_empty());
}

#[tokio::test]
async fn w18_two_initialisers_race_and_both_go_on() {
    let store = Arc::new(MemoryKv::new());
    let (a, b) = (FaultyKv::new(store.clone(), 1), FaultyKv::new(store.clone(), 2));
    let (slow, fast) = (open(a.clone()).await, open(b).await);
    // The slow one has seen an empty log and stops just before it creates.
    a.script(OpKind::Txn, Fault::HoldRequest);
    let first = tokio::spawn(async move { slow.create_first_prefix().await });
    a.reached(OpKind::Txn, 2).await;
    assert_eq!(fast.create_first_prefix().await.unwrap(), FirstPrefix::Created(DurablePrefix::FRESH));
    // The winner goes on: the loser must find the log as it is by then, and not a log to be created.
    let mut hand = Hand::new(claim_new(&fast, 1).await);
    hand.append_batches(3).await;
    a.release();
    assert_eq!(first.await.unwrap().unwrap(), FirstPrefix::Found(hand.prefix));
}

#[tokio::test]
async fn w18_a_log_that_began_between_two_reads_is_found_and_not_called_broken() {
    let store = Arc::new(MemoryKv::new());
    let client = FaultyKv::new(store.clone(), 1);
    let slow = open(client.clone()).await;
    // The slow one has read that there is no prefix, and looks for other state only after the log has begun.
    client.script(OpKind::Range, Fault::HoldRequest);
    let first = tokio::spawn(async move { slow.create_first_prefix().await });
    client.reached(OpKind::Range, 1).await;
    let mut hand = Hand::new(claim_new(&fresh(store).await, 1).await);
    hand.append_batches(3).await;
    client.release();
    assert_eq!(first.await.unwrap().unwrap(), FirstPrefix::Found(hand.prefix));
}

#[tokio::test]
async fn w18_sequence_zero_is_an_empty_log() {
    let storage = fresh(Arc::new(MemoryKv::new())).await;
    let prefix = storage.require_prefix().await.unwrap();
    let mut replica = Replica::empty(Journal::default());
    assert_eq!(catch_up(&storage, &mut replica, &prefix, 1 << 20).await.unwrap(), 0);
    let claimed = claim(&storage, replica, &Guard::new(), 1).await.unwrap();
    assert_eq!((claimed.claim().epoch.get(), claimed.prefix().last_seq.get()), (1, 0));
    let mut hand = Hand::new(claimed);
    hand.append(&[b"the first"]).await;
    assert_eq!(hand.prefix.last_seq.get(), 1);
}

#[tokio::test]
async fn an_unknown_creation_may_be_repeated() {
    for fault in [Fault::FailAfter(KvErrorKind::Timeout), Fault::LoseRequest(KvErrorKind::Timeout)] {
        let client = FaultyKv::new(Arc::new(MemoryKv::new()), 1);
        let storage = open(client.clone()).await;
        client.script(OpKind::Txn, fault);
        assert!(matches!(storage.create_first_prefix().await, Err(LogError::Store(e)) if e.is_unknown()));
        assert_eq!(*storage.create_first_prefix().await.unwrap().prefix(), DurablePrefix::FRESH);
    }
}

#[tokio::test]
async fn l14_a_missing_prefix_beside_other_state_is_never_a_fresh_log() {
    let keys = keys();
    let own = |key: &str| Bytes::from(format!("/oplog/c1/{key}"));
    for (key, word) in [
        (keys.batch(BatchId::new(7)), "prefix was lost"),
        (own("00000000000000000001"), "legacy"),
        (keys.legacy_latest(), "legacy"),
        (own("snapshot/s/sequence_id"), "legacy"),
        (own("producer_view"), "prefix was lost"),
        (own("batches/7"), "no log known here"),
        (keys.snapshot("20260101"), "snapshot without"),
    ] {
        let store = Arc::new(MemoryKv::new());
        let storage = open(store.clone()).await;
        store.put(&key, "1".into()).await.unwrap();
        match storage.create_first_prefix().await {
            Err(LogError::Fault(fault)) => {
                assert_eq!((fault.kind, fault.key.as_bytes()), (FaultKind::ForeignState, &key[..]));
                assert!(fault.found.contains(word), "{fault}");
            }
            other => panic!("{other:?} beside {key:?}"),
        }
        assert_eq!(storage.read_prefix().await.unwrap(), None, "nothing was changed");
    }
}

#[tokio::test]
async fn l14_a_legacy_log_that_appears_in_between_is_seen_by_the_transaction() {
    let store = Arc::new(MemoryKv::new());
    let client = FaultyKv::new(store.clone(), 1);
    let storage = open(client.clone()).await;
    client.script(OpKind::Txn, Fault::HoldRequest);
    let creating = tokio::spawn({
        let storage = storage.clone();
        async move { storage.create_first_prefix().await }
    });
    client.reached(OpKind::Txn, 2).await;
    store.put(&keys().legacy_latest(), "5".into()).await.unwrap();
    client.release();
    assert!(matches!(creating.await.unwrap(), Err(LogError::Fault(fault)) if fault.kind == FaultKind::ForeignState));
    assert_eq!(storage.read_prefix().await.unwrap(), None);
}

#[tokio::test]
async fn a_log_opened_for_reading_writes_nothing() {
    let store = Arc::new(MemoryKv::new());
    let mut hand = Hand::new(claim_new(&fresh(store.clone()).await, 1).await);
    hand.append_batches(3).await;
    let client = FaultyKv::new(store, 1);
    hand.storage = BatchStorage::open_for_reading(client.clone(), keys());
    assert!(hand.try_append(&[b"x"]).await.is_err());
    assert_eq!(client.calls(OpKind::Txn), 0);
    assert_eq!(hand.storage.require_prefix().await.unwrap(), hand.prefix);
}
