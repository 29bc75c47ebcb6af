//! A full etcd: what it refuses, what it takes, and how it recovers (W7 at the level of the store).

use std::time::Duration;

use bytes::Bytes;
use ha_kv::{Effect, ErrorClass, EtcdKv, Kv as _, KvErrorKind, LeaseKv as _, TxnKv as _, TxnOutcome};
use oplog_core::{Closed, Outcome, Replica, catch_up};
use plimsoll_tests::{EtcdServer, EtcdServerOptions, eventually};

use crate::log_kit::{Recorder, entry, fold, lead, open};
use crate::support::{connect_patiently as connect, etcd_or_skip, options, start_with, swap};

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
    // The server counts what it has written down, a tenth of a second behind: a fast disk takes more than the quota before that.
    let mut full = None;
    for n in 0..1_000 {
        if let Err(error) = kv.put(format!("b/{n:020}").as_bytes(), Bytes::from(vec![7; 1 << 20])).await {
            full = Some(error);
            break;
        }
    }
    let full = full.expect("1,000 MiB do not fit 16");
    assert_eq!(
        (full.kind, full.effect, full.class()),
        (KvErrorKind::NoSpace, Effect::Unknown, ErrorClass::Operator),
        "{full}"
    );
    // The alarm is raised a moment after the first refusal; from then on nothing that puts is taken.
    let refusal =
        eventually("a small transaction is refused", async || kv.txn(&swap("prefix", "0", "0")).await.err()).await;
    assert_eq!((refusal.kind, refusal.effect), (KvErrorKind::NoSpace, Effect::Unknown), "{refusal}");
    let no_lease = kv.grant(Duration::from_secs(5)).await.unwrap_err();
    assert_eq!((no_lease.kind, no_lease.effect), (KvErrorKind::NoSpace, Effect::Unknown), "{no_lease}");

    // Reads go on, a new client can connect, and a delete is taken. (In a transaction it is not by every version.)
    assert!(kv.get(b"prefix").await.unwrap().is_some());
    EtcdKv::connect(options([server.endpoint()])).await.unwrap();
    assert!(kv.delete_range(b"b/", b"b0").await.unwrap() > 8);

    make_room(&server).await;
    let outcome = eventually("writes are taken again", async || kv.txn(&swap("prefix", "0", "1")).await.ok()).await;
    assert_eq!(outcome, TxnOutcome::Committed, "none of those refused under the alarm was applied");
}

/// Why *no space* is an unknown outcome: the requests that are on their way when the quota runs out are applied and refused.
#[tokio::test]
async fn w7_what_crosses_the_quota_is_refused_and_applied() {
    let program = etcd_or_skip!("w7_what_crosses_the_quota_is_refused_and_applied");
    let mut seen = 0;
    for _ in 0..5 {
        let small = EtcdServerOptions { quota_bytes: Some(16 << 20), ..Default::default() };
        let server = start_with(&program, small).await;
        let kv = connect(&server).await;
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..16 {
            let kv = std::sync::Arc::clone(&kv);
            writers.spawn(async move {
                for n in 0..1_000 {
                    let key = format!("{writer}/{n}");
                    if let Err(error) = kv.put(key.as_bytes(), Bytes::from(vec![7; 100 << 10])).await {
                        return (key, error);
                    }
                }
                panic!("1,500 MiB do not fit 16");
            });
        }
        for (key, error) in writers.join_all().await {
            assert_eq!((error.kind, error.effect), (KvErrorKind::NoSpace, Effect::Unknown), "{error}");
            seen += usize::from(kv.get(key.as_bytes()).await.unwrap().is_some());
        }
        // Which requests meet the line is the server's affair; that some do, in some of the rounds, is a fact about it.
        if seen > 0 {
            return;
        }
    }
    panic!("no refused request was applied in five rounds: is the effect of NoSpace still unknown?");
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
    assert_eq!(full.closed, Some(Closed::Store(KvErrorKind::NoSpace)), "{full:?}");
    assert!(!full.accepting && full.terminal.is_none(), "{full:?}");
    assert!(full.reason.as_deref().is_some_and(|why| why.contains("database space exceeded")), "{full:?}");
    assert_eq!(full.unanswered_since, None, "a definite refusal is an answer");
    assert!(writer.reserve().is_err());

    // Reads and followers go on, and what was acknowledged is there.
    let durable = tickets.iter().filter(|t| t.outcome() == Some(Outcome::Durable)).count();
    assert!(durable > 0 && durable < tickets.len(), "{durable} of {}", tickets.len());
    assert_eq!(fold(connect(&server).await).await.entries.len(), durable);
    let follower = open(connect(&server).await).await;
    let mut replica = Replica::empty(Recorder::default());
    catch_up(&follower, &mut replica, &follower.require_prefix().await.unwrap(), 1 << 20).await.unwrap();
    assert_eq!(replica.applied().get(), durable as u64);

    assert_eq!(kv.delete_range(b"other/", b"other0").await.unwrap(), 8);
    make_room(&server).await;
    let all = tickets.len();
    for ticket in tickets {
        assert_eq!(tokio::time::timeout(Duration::from_secs(60), ticket).await.unwrap(), Outcome::Durable);
    }
    let slot = eventually("admission opens", async || writer.reserve().ok()).await;
    assert_eq!(slot.commit(entry(b"after")).unwrap().await, Outcome::Durable);
    catch_up(&follower, &mut replica, &follower.require_prefix().await.unwrap(), 1 << 20).await.unwrap();
    assert_eq!(replica.applied().get(), all as u64 + 1, "the follower of before goes on");
    let log = fold(connect(&server).await).await;
    assert_eq!(log.entries.len(), all + 1);
    assert!(log.entries.iter().zip(1..).all(|((seq, _), expected)| *seq == expected), "no hole");
}
