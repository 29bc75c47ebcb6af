//! The legacy log on real etcd: grouped writing within its limits, a swallowed reply, the cutover and its fence.

use std::sync::Arc;
use std::time::Duration;

use ha_kv::{EtcdKv, Kv};
use ha_types::AlwaysLeads;
use oplog_core::legacy::{
    BelowBase, CutoverCheck, CutoverDone, CutoverError, CutoverOptions, CutoverPlan, LegacyFollower, LegacyLog,
    LegacyReplica, LegacyRound, LegacyTerminal, LegacyWriter, LegacyWriterConfig, base_of, entry_above_base,
};
use oplog_core::{
    BatchStorage, FaultKind, FirstPrefix, OrderedWriter, Outcome, Seq, WriterConfig, catch_up, claim_and_verify,
};
use plimsoll_tests::{BytesProxy, Direction, Flow, eventually};

use crate::log_kit::{Ledger, Recorder, entry, env, open};
use crate::support::{connect_patiently as connect, connect_to, etcd_or_skip, start};

async fn legacy_writer(storage: &BatchStorage) -> LegacyWriter {
    let replica = LegacyReplica::empty(Recorder::default());
    let started = LegacyWriter::start(storage, replica, LegacyWriterConfig::default(), env()).await;
    started.map_err(|failed| failed.error).expect("a writer").1
}

async fn follow(kv: Arc<EtcdKv>) -> LegacyFollower<Recorder> {
    let log = LegacyLog::beside(&open(kv).await);
    LegacyFollower::new(log, LegacyReplica::empty(Recorder::default()), env().clock, 1 << 16)
}

fn stopped() -> CutoverOptions {
    CutoverOptions { old_primary_stopped: true, ..CutoverOptions::default() }
}

async fn cut_over(kv: Arc<EtcdKv>, options: CutoverOptions) -> Result<CutoverDone<Recorder>, CutoverError> {
    let storage = open(kv).await;
    match CutoverPlan::prepare(&storage, Recorder::default(), options, env()).await? {
        CutoverCheck::Ready(plan) => plan.execute().await,
        CutoverCheck::Done(prefix) => panic!("cut over already: {prefix}"),
    }
}

/// 128 operations in a transaction, and a reply limit: groups and pages stay within both.
#[tokio::test]
async fn w12_the_legacy_writer_and_its_reader_stay_within_the_limits() {
    let program = etcd_or_skip!("w12_the_legacy_writer_and_its_reader_stay_within_the_limits");
    let server = start(&program).await;
    let kv = connect(&server).await;
    let storage = open(kv.clone()).await;
    let writer = legacy_writer(&storage).await;
    let before = server.answered("Txn").await.unwrap();
    let large = vec![b'x'; 20_000];
    let mut tickets: Vec<_> = (0..900).map(|_| writer.commit(entry(b"small")).unwrap()).collect();
    for _ in 0..100 {
        tickets.push(writer.commit(entry(&large)).unwrap());
    }
    for ticket in tickets {
        assert_eq!(ticket.await, Outcome::Durable);
    }
    let sent = server.answered("Txn").await.unwrap() - before;
    assert!((10..=60).contains(&sent), "1000 entries in {sent} transactions");
    let mut standby = follow(kv.clone()).await;
    let LegacyRound::Following(progress) = standby.round().await.unwrap() else { panic!("no gap") };
    assert_eq!((progress.entries, progress.latest), (1000, Some(Seq::new(1000))));
    assert_eq!(LegacyLog::beside(&storage).clean_up(Seq::new(990)).await.unwrap(), 990);
    assert_eq!(LegacyLog::beside(&storage).first_entry(Seq::ZERO).await.unwrap(), Some(Seq::new(991)));
}

#[tokio::test]
async fn w1_the_reply_to_the_legacy_writer_is_swallowed() {
    let program = etcd_or_skip!("w1_the_reply_to_the_legacy_writer_is_swallowed");
    let server = start(&program).await;
    let proxy = BytesProxy::start(server.address()).await.unwrap();
    let storage = open(connect_to([proxy.endpoint()]).await).await;
    let writer = legacy_writer(&storage).await;
    assert_eq!(writer.commit(entry(b"1")).unwrap().await, Outcome::Durable);
    let aside = LegacyLog::beside(&open(connect(&server).await).await);
    proxy.set(Direction::ToClient, Flow::Swallow);
    let ticket = writer.commit(entry(b"2")).unwrap();
    eventually("it commits in the store", async || {
        aside.read_latest().await.unwrap().filter(|latest| latest.get() == 2)
    })
    .await;
    proxy.set(Direction::ToClient, Flow::Pass);
    proxy.cut();
    assert_eq!(ticket.await, Outcome::Durable);
    let next = eventually("it takes entries again", async || writer.commit(entry(b"3")).ok()).await;
    assert_eq!((next.seq(), next.await), (Seq::new(3), Outcome::Durable));
    let mut standby = follow(connect(&server).await).await;
    standby.round().await.unwrap();
    assert_eq!(standby.replica().machine().texts(), ["1", "2", "3"]);
}

#[tokio::test]
async fn l14_l15_the_cutover_on_etcd_fences_the_legacy_writer_and_the_batches_go_on() {
    let program = etcd_or_skip!("l14_l15_the_cutover_on_etcd_fences_the_legacy_writer_and_the_batches_go_on");
    let server = start(&program).await;
    let kv = connect(&server).await;
    let storage = open(kv.clone()).await;
    let log = LegacyLog::beside(&storage);
    let writer = legacy_writer(&storage).await;
    for n in 1..=20_u8 {
        assert_eq!(writer.commit(entry(&[n])).unwrap().await, Outcome::Durable);
    }
    // What lies near an entry and is none, and another cluster's log.
    let stray = [&log.keys().legacy_entry(Seq::new(2))[..], b"1"].concat();
    kv.put(&stray, "stray".into()).await.unwrap();
    kv.put(b"/oplog/rows.b/00000000000000000021", "another cluster's".into()).await.unwrap();
    kv.put(&log.keys().old_master_view(), "10.0.0.1:50051".into()).await.unwrap();
    let elected = cut_over(kv.clone(), CutoverOptions::default()).await.unwrap_err();
    assert!(matches!(elected, CutoverError::OldPrimaryElected { .. }), "{elected}");

    let mut standby = follow(kv.clone()).await;
    standby.round().await.unwrap();
    let (one, other) = tokio::join!(cut_over(kv.clone(), stopped()), cut_over(connect(&server).await, stopped()));
    let (one, other) = (one.unwrap(), other.unwrap());
    let created = [one.prefix, other.prefix].iter().filter(|p| matches!(p, FirstPrefix::Created(_))).count();
    assert_eq!((created, one.base, other.base), (1, Seq::new(20), Seq::new(20)));
    assert_eq!(writer.commit(entry(b"late")).unwrap().await, Outcome::Never);
    let terminal = writer.status().borrow().terminal.clone();
    assert!(matches!(terminal, Some(LegacyTerminal::Fenced { .. })), "{terminal:?}");

    let (env, pause) = (env(), Duration::from_millis(20));
    let replica = one.replica.expect("it stands at the base");
    let claimed = claim_and_verify(storage.clone(), replica, &AlwaysLeads, &*env.clock, &*env.entropy, pause).await;
    let (_, claimed) = claimed.expect("the log is claimed").into_parts();
    let batches = OrderedWriter::start(claimed, WriterConfig::default(), env).map_err(|(_, why)| why).unwrap();
    let ledger = Ledger::default();
    ledger.commit(&batches, "batch").await;
    assert_eq!(ledger.wait_for(1).await, [(21, Outcome::Durable)]);

    // The original cannot be fenced: what it writes now is no part of the log, and is named.
    let mut ghost = log.read_entry(Seq::new(20)).await.unwrap().unwrap();
    ghost.seq = Seq::new(21);
    kv.put(&log.keys().legacy_entry(ghost.seq), ghost.encode()).await.unwrap();
    let LegacyRound::CutOver(prefix) = standby.round().await.unwrap() else { panic!("a prefix") };
    let base = base_of(&storage, &prefix).await.unwrap();
    assert_eq!((base, standby.catch_up_to_base(base).await.unwrap()), (Seq::new(20), BelowBase::Reached));
    let alarm = entry_above_base(&log, base).await.unwrap().expect("it is named");
    assert_eq!((alarm.kind, alarm.seq), (FaultKind::LegacyAboveBase, Some(Seq::new(21))));
    let mut replica = standby.into_batch_replica(base).unwrap();
    catch_up(&storage, &mut replica, &prefix, 1 << 20).await.unwrap();
    assert_eq!(replica.machine().texts().last().map(String::as_str), Some("batch"));
    assert_eq!(kv.get(&log.keys().legacy_latest()).await.unwrap().as_deref(), Some(&b"20"[..]), "never written again");
}
