//! Taking a log over from Mooncake on real etcd: asked for in words, fenced for good, and known when its reply is lost.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ha_kv::{EtcdKv, Kv as _, TxnOutcome};
use ha_types::AlwaysLeads;
use oplog_core::test_kit::MooncakePrimary;
use oplog_core::{
    BatchStorage, CaughtUp, ClaimError, ClaimFailed, LogKeys, OrderedWriter, Replica, TakeOver, WriterConfig,
    claim_and_verify,
};
use plimsoll_tests::{BytesProxy, Direction, EtcdServer, Flow, eventually};

use crate::log_kit::{Interrupted, Ledger, Recorder, cluster, durable, env, fold, open};
use crate::support::{connect, connect_patiently, connect_to, etcd_or_skip, start};

/// The operator's word, so that nothing is watched for five seconds.
const STOPPED: TakeOver = TakeOver { old_primary_stopped: true };
const WATCHED: TakeOver = TakeOver { old_primary_stopped: false };

fn keys() -> LogKeys {
    LogKeys::of(&cluster())
}

/// Two batches of Mooncake's; its primary lives on.
async fn original(server: &EtcdServer) -> MooncakePrimary {
    let mut primary = MooncakePrimary::start(connect_patiently(server).await, keys(), 7).await.unwrap();
    for payloads in [[&b"m1"[..], b"m2"], [b"m3", b"m4"]] {
        assert_eq!(primary.append(&payloads).await.unwrap(), TxnOutcome::Committed);
    }
    primary
}

async fn claim(storage: BatchStorage) -> Result<CaughtUp<Recorder>, Box<ClaimFailed<Recorder>>> {
    let (replica, env, pause) = (Replica::empty(Recorder::default()), env(), Duration::from_millis(20));
    claim_and_verify(storage, replica, &AlwaysLeads, &*env.clock, &*env.entropy, pause).await
}

async fn value(kv: &EtcdKv, key: Bytes) -> Option<Bytes> {
    kv.get(&key).await.unwrap()
}

/// Two more entries, written by ours; then the whole log in a fresh reader.
async fn write_on(claimed: CaughtUp<Recorder>, server: &EtcdServer) {
    let (state, log) = claimed.into_parts();
    assert_eq!(state.texts(), ["m1", "m2", "m3", "m4"], "what the original wrote is in the state");
    let writer = OrderedWriter::start(log, WriterConfig::default(), env()).map_err(|(_, why)| why).unwrap();
    let ledger = Ledger::default();
    for text in ["5", "6"] {
        ledger.commit(&writer, text).await;
    }
    assert_eq!(ledger.wait_for(2).await, durable(5..=6));
    assert_eq!(fold(connect(server).await).await.texts(), ["m1", "m2", "m3", "m4", "5", "6"]);
}

#[tokio::test]
async fn l11_w3_a_take_over_is_asked_for_and_fences_the_original_for_good() {
    let program = etcd_or_skip!("l11_w3_a_take_over_is_asked_for_and_fences_the_original_for_good");
    let server = start(&program).await;
    let (mut original, kv) = (original(&server).await, connect_patiently(&server).await);
    let before = (original.prefix.clone(), Some(Bytes::from("7")));
    let keys = keys();
    let in_store = async || (value(&kv, keys.durable_prefix()).await, value(&kv, keys.producer_view()).await);

    // Unasked, and while its primary is elected, nothing is touched.
    let refused = claim(open(kv.clone()).await).await.unwrap_err();
    assert!(matches!(refused.error, ClaimError::TakeOver(_)), "{}", refused.error);
    kv.put(&keys.old_master_view(), "10.0.0.9:50051".into()).await.unwrap();
    let refused = claim(open(kv.clone()).await.permit_take_over(WATCHED)).await.unwrap_err();
    assert!(refused.error.to_string().contains("master_view"), "{}", refused.error);
    assert_eq!(in_store().await, before);
    assert_eq!(fold(kv.clone()).await.texts(), ["m1", "m2", "m3", "m4"]);

    // Two at once: the store lets one of them through.
    let (held, _) = original.next(&[b"held"]);
    let (a, b) = tokio::join!(
        claim(open(connect_patiently(&server).await).await.permit_take_over(STOPPED)),
        claim(open(connect_patiently(&server).await).await.permit_take_over(STOPPED)),
    );
    let mut claimed: Vec<_> = [a, b].into_iter().flatten().collect();
    // Who came second may have gone on from the first one's claim, and then holds the log alone.
    claimed.sort_by_key(|claimed| claimed.claim().epoch);
    let claimed = claimed.pop().expect("one of two gets through");
    let (prefix, view) = in_store().await;
    assert_eq!(prefix, Some(claimed.prefix().encode().into()), "a line of ours, no JSON any more");
    assert_eq!(view, Some("8".into()), "one step, whoever came second");

    // What was built before the take-over, and what comes after it, is refused.
    assert_eq!(original.store.txn(&held).await.unwrap(), TxnOutcome::CompareFailed);
    assert_eq!(original.append(&[b"late"]).await.unwrap(), TxnOutcome::CompareFailed);
    write_on(claimed, &server).await;
}

#[tokio::test]
async fn w1_a_take_over_whose_reply_is_swallowed_is_recognised() {
    let program = etcd_or_skip!("w1_a_take_over_whose_reply_is_swallowed_is_recognised");
    let server = start(&program).await;
    let (mut original, aside) = (original(&server).await, connect_patiently(&server).await);
    let proxy = Arc::new(BytesProxy::start(server.address()).await.unwrap());
    let client = Interrupted::new(connect_to([proxy.endpoint()]).await);
    let storage = open(client.clone()).await.permit_take_over(STOPPED);
    let before = server.answered("Txn").await.unwrap();
    let swallowing = proxy.clone();
    client.before_txn(move || Box::pin(async move { swallowing.set(Direction::ToClient, Flow::Swallow) }));

    let claiming = tokio::spawn(claim(storage));
    eventually("the take-over is in the store", async || {
        value(&aside, keys().producer_view()).await.filter(|view| view == "8")
    })
    .await;
    eventually("the server has answered", async || (server.answered("Txn").await.unwrap() == before + 1).then_some(()))
        .await;
    proxy.set(Direction::ToClient, Flow::Pass);
    proxy.cut();

    let claimed = claiming.await.unwrap().unwrap();
    assert_eq!((claimed.claim().epoch.get(), claimed.claim().from_mooncake), (1, true));
    assert_eq!(server.answered("Txn").await.unwrap(), before + 1, "it was sent once");
    assert_eq!(value(&aside, keys().producer_view()).await, Some("8".into()), "and stepped once");
    assert_eq!(original.append(&[b"late"]).await.unwrap(), TxnOutcome::CompareFailed);
    write_on(claimed, &server).await;
}
