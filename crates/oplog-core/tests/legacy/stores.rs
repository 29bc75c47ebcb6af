//! Owns the whole way of one log over the stores that need no server: written, followed, cut over, fenced, and gone on with in batches.

use std::sync::Arc;
use std::time::Duration;

use ha_kv::{MemoryKv, SqliteKv, SqliteOptions, TxnKv};
use ha_types::{AlwaysLeads, SystemClock, SystemEntropy};
use oplog_core::legacy::{
    BelowBase, CutoverCheck, CutoverPlan, LegacyFollower, LegacyLog, LegacyReplica, LegacyRound, LegacyTerminal,
    LegacyWriter, LegacyWriterConfig, base_of,
};
use oplog_core::{
    BatchStorage, NewEntry, OpenOptions, OrderedWriter, Outcome, WriterConfig, WriterEnv, catch_up, claim_and_verify,
};

use crate::support::{Journal, keys, new, seq, stopped};

fn env() -> WriterEnv {
    WriterEnv { clock: Arc::new(SystemClock::new()), entropy: Arc::new(SystemEntropy) }
}

async fn walk(kv: Arc<dyn TxnKv>) {
    let options = OpenOptions { accept_lost_writes: true, ..OpenOptions::default() };
    let storage = BatchStorage::open(Arc::clone(&kv), keys("c"), options).await.unwrap();
    let replica = LegacyReplica::empty(Journal::default());
    let started = LegacyWriter::start(&storage, replica, LegacyWriterConfig::default(), env()).await;
    let (_, writer) = started.map_err(|failed| failed.error).unwrap();
    let tickets: Vec<_> = (1..=700).map(|n| writer.commit(new(&format!("p{n}"))).unwrap()).collect();
    for ticket in tickets {
        assert_eq!(ticket.await, Outcome::Durable);
    }

    let log = LegacyLog::beside(&storage);
    let replica = LegacyReplica::empty(Journal::default());
    let mut standby = LegacyFollower::new(log.clone(), replica, env().clock, 1 << 14);
    let LegacyRound::Following(progress) = standby.round().await.unwrap() else { panic!("no gap and no prefix") };
    assert_eq!((progress.entries, progress.latest), (700, Some(seq(700))));

    let check = CutoverPlan::prepare(&storage, Journal::default(), stopped(), env()).await.unwrap();
    let CutoverCheck::Ready(plan) = check else { panic!("no prefix yet") };
    let done = plan.execute().await.unwrap();
    assert_eq!(done.base, seq(700));
    assert_eq!(writer.commit(new("too late")).unwrap().await, Outcome::Never);
    let terminal = writer.status().borrow().terminal.clone();
    assert!(matches!(terminal, Some(LegacyTerminal::Fenced { .. })), "{terminal:?}");

    let env = env();
    let pause = Duration::from_millis(5);
    let replica = done.replica.unwrap();
    let claimed =
        claim_and_verify(storage.clone(), replica, &AlwaysLeads, &*env.clock, &*env.entropy, pause).await.unwrap();
    let (machine, claimed) = claimed.into_parts();
    assert_eq!(machine.at, 700);
    let batches = OrderedWriter::start(claimed, WriterConfig::default(), env).map_err(|(_, why)| why).unwrap();
    for n in 701..=720 {
        let payload = format!("p{n}");
        let entry = NewEntry { payload: payload.as_bytes(), ..new("") };
        assert_eq!(batches.ready().await.unwrap().commit(entry).unwrap().await, Outcome::Durable);
    }

    let LegacyRound::CutOver(prefix) = standby.round().await.unwrap() else { panic!("a prefix") };
    let base = base_of(&storage, &prefix).await.unwrap();
    assert_eq!((base, standby.catch_up_to_base(base).await.unwrap()), (seq(700), BelowBase::Reached));
    let mut replica = standby.into_batch_replica(base).unwrap();
    catch_up(&storage, &mut replica, &prefix, 1 << 20).await.unwrap();
    let expected: Vec<_> = (1..=720).map(|n| (n, format!("p{n}"))).collect();
    assert_eq!(replica.machine().entries, expected, "one log, in two formats, each entry once");
}

#[tokio::test]
async fn the_whole_way_in_memory() {
    walk(Arc::new(MemoryKv::new())).await;
}

#[tokio::test]
async fn the_whole_way_on_sqlite() {
    let dir = tempfile::tempdir().unwrap();
    let options = SqliteOptions::new(dir.path().join("store"));
    let kv = SqliteKv::open(options, Arc::new(SystemClock::new()), Arc::new(SystemEntropy)).await.unwrap();
    walk(Arc::new(kv)).await;
}
