//! RFC batch record §10 and design §3.1: outcomes that were unknown. Rows W1 and W2; the testing strategy's "txn/CAS".

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ha_kv::KvErrorKind;
use ha_kv::faulty::{Fault, OpKind, Situation};
use oplog_core::{Outcome, Seq, WriterConfig};

use crate::support::{Log, Node, ends, entry};

type Told = Arc<Mutex<Vec<(u64, Outcome)>>>;

fn commit(node: &Node, told: &Told, payload: &[u8]) {
    let told = Arc::clone(told);
    let callback = move |seq: Seq, outcome| told.lock().expect("lock").push((seq.get(), outcome));
    node.reserve().commit_with(entry(payload), callback).expect("committed");
}

async fn drained(log: &Log, node: &Node) {
    let deadline = ha_types::Clock::now(&*log.clock).saturating_add(Duration::from_secs(60));
    node.writer.drain(deadline).await.expect("drained");
}

/// W1: the reply of a committed transaction is swallowed.
#[tokio::test(start_paused = true)]
async fn w1_the_reply_of_a_committed_transaction_is_swallowed() {
    ends(async {
        let log = Log::new().await;
        let node = log.node(WriterConfig::default()).await;
        let told = Told::default();
        node.kv.script(OpKind::Txn, Fault::FailAfter(KvErrorKind::Timeout));
        let sent = node.kv.calls(OpKind::Txn);
        let mut slots = node.writer.reserve_many(2).expect("slots");
        commit(&node, &told, b"1");
        commit(&node, &told, b"2");
        node.kv.reached(OpKind::Txn, sent + 1).await;
        drop(slots.pop());
        let after = slots.pop().expect("a slot").commit(entry(b"3")).expect("committed");
        assert_eq!(after.await, Outcome::Durable);
        drained(&log, &node).await;
        assert_eq!(*told.lock().expect("lock"), [(1, Outcome::Durable), (2, Outcome::Durable)], "once, in order");
        assert_eq!(node.kv.calls(OpKind::Txn), sent + 2, "it was recognised and not sent again");
        assert_eq!(node.writer.metrics().recovered_unknown, 1);
        assert_eq!(log.payloads().await, [b"1", b"2", b"3"]);
    })
    .await;
}

/// W2: a timed-out request is held, the retry commits, the held one arrives.
#[tokio::test(start_paused = true)]
async fn w2_a_timed_out_request_arrives_after_its_retry_committed() {
    ends(async {
        let log = Log::new().await;
        let node = log.node(WriterConfig::default()).await;
        let told = Told::default();
        node.kv.script(OpKind::Txn, Fault::ApplyLater(None));
        commit(&node, &told, b"1");
        drained(&log, &node).await;
        let before = (log.prefix().await, log.payloads().await);
        assert_eq!(node.kv.land_held().await, 1);
        assert_eq!(node.kv.count(Situation::LandedRefused), 1, "it fails its compare");
        assert_eq!((log.prefix().await, log.payloads().await), before, "nothing doubled");
        assert_eq!(*told.lock().expect("lock"), [(1, Outcome::Durable)]);
        assert_eq!(node.writer.metrics().retries, 1);
    })
    .await;
}

/// The held request arrives between the read that saw nothing and the retry.
#[tokio::test(start_paused = true)]
async fn a_timed_out_request_arrives_before_its_retry() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    let told = Told::default();
    node.kv.script(OpKind::Txn, Fault::ApplyLater(None));
    node.kv.script(OpKind::Txn, Fault::HoldRequest);
    let sent = node.kv.calls(OpKind::Txn);
    commit(&node, &told, b"1");
    node.kv.reached(OpKind::Txn, sent + 2).await;
    assert_eq!(node.kv.land_held().await, 1);
    assert_eq!(node.kv.count(Situation::LandedApplied), 1);
    node.kv.release();
    drained(&log, &node).await;
    assert_eq!(
        *told.lock().expect("lock"),
        [(1, Outcome::Durable)],
        "the retry failed its compare and rule 1 found it"
    );
    assert_eq!(log.payloads().await, [b"1"]);
}

#[tokio::test(start_paused = true)]
async fn a_duplicated_request_is_applied_once() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    let told = Told::default();
    node.kv.always(OpKind::Txn, Some(Fault::Duplicate));
    for payload in [b"1", b"2", b"3"] {
        commit(&node, &told, payload);
        tokio::task::yield_now().await;
    }
    drained(&log, &node).await;
    assert_eq!(node.kv.count(Situation::DuplicateApplied), 0);
    assert!(node.kv.count(Situation::DuplicateRefused) > 0);
    assert_eq!(log.payloads().await, [b"1", b"2", b"3"]);
}

/// The read that would tell fails, too, again and again.
#[tokio::test(start_paused = true)]
async fn reads_that_fail_are_retried_until_one_tells() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    let told = Told::default();
    node.kv.script(OpKind::Txn, Fault::FailAfter(KvErrorKind::Unavailable));
    for kind in [KvErrorKind::Timeout, KvErrorKind::Unavailable, KvErrorKind::Auth, KvErrorKind::Busy] {
        node.kv.script(OpKind::Get, Fault::FailBefore(kind));
    }
    commit(&node, &told, b"1");
    node.until(|s| s.reason.as_deref().is_some_and(|r| r.contains("lately"))).await;
    assert_eq!(*told.lock().expect("lock"), []);
    drained(&log, &node).await;
    assert_eq!(*told.lock().expect("lock"), [(1, Outcome::Durable)]);
    assert_eq!(log.payloads().await, [b"1"]);
}

/// A failed compare calls nobody back before the prefix has told what happened.
#[tokio::test(start_paused = true)]
async fn a_failed_compare_triggers_no_callback() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    let told = Told::default();
    node.kv.script(OpKind::Txn, Fault::HoldRequest);
    let sent = node.kv.calls(OpKind::Txn);
    commit(&node, &told, b"1");
    node.kv.reached(OpKind::Txn, sent + 1).await;
    let other = log.node(WriterConfig::default()).await;
    // The compare fails, and the read that follows hangs: nothing is known yet.
    node.kv.script(OpKind::Get, Fault::HoldRequest);
    let reads = node.kv.calls(OpKind::Get);
    node.kv.release();
    node.kv.reached(OpKind::Get, reads + 1).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(*told.lock().expect("lock"), []);
    assert!(!node.status().accepting);
    node.kv.release();
    node.until(|s| s.terminal.is_some()).await;
    assert_eq!(other.reserve().commit(entry(b"2")).expect("committed").await, Outcome::Durable);
    assert_eq!(log.payloads().await, [b"2"]);
}
