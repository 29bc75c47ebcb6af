//! A full etcd: what it refuses, what it takes, and how it recovers (W7 at the level of the store).

use std::time::Duration;

use bytes::Bytes;
use ha_kv::{Effect, ErrorClass, EtcdKv, Kv as _, KvErrorKind, LeaseKv as _, TxnKv as _, TxnOutcome};
use oplog_core::Outcome;
use plimsoll_tests::{EtcdServer, EtcdServerOptions, eventually};

use crate::log_kit::{entry, fold, lead};
use crate::support::{connect, etcd_or_skip, options, start_with, swap};

/// What an operator does once there is less in the store.
async fn make_room(server: &EtcdServer) {
    let revision = server.ctl(&["get", "prefix", "-w", "json"]).await.unwrap();
    let revision: serde_json::Value = serde_json::from_str(&revision).unwrap();
    server.ctl(&["compact", &revision["header"]["revision"].to_string(), "--physical"]).await.unwrap();
    server.ctl(&["defrag"]).await.unwrap();
    server.ctl(&["alarm", "disarm"]).await.unwrap();
}

#[tokio::test]
async fn a_full_server_refuses_writes_takes_deletes_and_recovers() {
    let program = etcd_or_skip!("a_full_server_refuses_writes_takes_deletes_and_recovers");
    let small = EtcdServerOptions { quota_bytes: Some(16 << 20), ..Default::default() };
    let server = start_with(&program, small).await;
    let kv = connect(&server).await;
    kv.put(b"prefix", "0".into()).await.unwrap();
    let mut full = None;
    for n in 0..40 {
        if let Err(error) = kv.put(format!("b/{n:020}").as_bytes(), Bytes::from(vec![7; 1 << 20])).await {
            full = Some(error);
            break;
        }
    }
    let full = full.expect("40 MiB do not fit 16");
    assert_eq!(
        (full.kind, full.effect, full.class()),
        (KvErrorKind::NoSpace, Effect::NotApplied, ErrorClass::Operator),
        "{full}"
    );
    // The alarm is raised a moment after the first refusal; from then on nothing that puts is taken.
    let refusal =
        eventually("a small transaction is refused", async || kv.txn(&swap("prefix", "0", "0")).await.err()).await;
    assert_eq!((refusal.kind, refusal.effect), (KvErrorKind::NoSpace, Effect::NotApplied), "{refusal}");
    let no_lease = kv.grant(Duration::from_secs(5)).await.unwrap_err();
    assert_eq!((no_lease.kind, no_lease.effect), (KvErrorKind::NoSpace, Effect::NotApplied), "{no_lease}");

    // Reads go on, a new client can connect, and a delete is taken. (In a transaction it is not by every version.)
    assert!(kv.get(b"prefix").await.unwrap().is_some());
    EtcdKv::connect(options([server.endpoint()])).await.unwrap();
    assert!(kv.delete_range(b"b/", b"b0").await.unwrap() > 8);

    make_room(&server).await;
    let outcome = eventually("writes are taken again", async || kv.txn(&swap("prefix", "0", "1")).await.ok()).await;
    assert_eq!(outcome, TxnOutcome::Committed, "none of the refused ones was applied");
}

#[tokio::test]
async fn w7_a_full_server_closes_admission_and_the_log_recovers_alone() {
    let program = etcd_or_skip!("w7_a_full_server_closes_admission_and_the_log_recovers_alone");
    let small = EtcdServerOptions { quota_bytes: Some(16 << 20), ..Default::default() };
    let server = start_with(&program, small).await;
    let (kv, (_, writer)) = (connect(&server).await, lead(connect(&server).await).await);
    for n in 0..8 {
        kv.put(format!("other/{n}").as_bytes(), Bytes::from(vec![7; 1 << 20])).await.unwrap();
    }
    let mut tickets = Vec::new();
    let payload = vec![7; 200 << 10];
    // One at a time until the store is full, so that what is acknowledged is known.
    let mut status = writer.status();
    for _ in 0..100 {
        let Ok(slot) = writer.ready().await else { break };
        tickets.push(slot.commit(entry(&payload)).unwrap());
        let ended = |t: &oplog_core::Ticket| t.outcome().is_some();
        while !tickets.last().is_some_and(ended) && status.borrow_and_update().accepting {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    let full = status.borrow_and_update().clone();
    assert!(!full.accepting && full.terminal.is_none(), "{full:?}");
    assert!(full.reason.as_deref().is_some_and(|why| why.contains("database space exceeded")), "{full:?}");
    assert_eq!(full.unanswered_since, None, "a definite refusal is an answer");
    assert!(writer.reserve().is_err());

    // Reads and followers go on, and what was acknowledged is there.
    let durable = tickets.iter().filter(|t| t.outcome() == Some(Outcome::Durable)).count();
    assert!(durable > 0 && durable < tickets.len(), "{durable} of {}", tickets.len());
    assert_eq!(fold(connect(&server).await).await.entries.len(), durable);

    assert_eq!(kv.delete_range(b"other/", b"other0").await.unwrap(), 8);
    make_room(&server).await;
    let all = tickets.len();
    for ticket in tickets {
        assert_eq!(tokio::time::timeout(Duration::from_secs(20), ticket).await.unwrap(), Outcome::Durable);
    }
    let slot = eventually("admission opens", async || writer.reserve().ok()).await;
    assert_eq!(slot.commit(entry(b"after")).unwrap().await, Outcome::Durable);
    let log = fold(connect(&server).await).await;
    assert_eq!(log.entries.len(), all + 1);
    assert!(log.entries.iter().zip(1..).all(|((seq, _), expected)| *seq == expected), "no hole");
}
