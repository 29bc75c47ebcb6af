//! Owns the simulation: readers over a bad network follow a legacy log that grows, is cut over while they are anywhere in it, and goes on
//! in batches. In the end every reader holds exactly what the store holds.

use std::sync::Arc;
use std::time::Duration;

use ha_kv::faulty::{FaultPlan, FaultyKv, OpKind, RuntimeClock};
use ha_kv::{Kv, MemoryKv};
use ha_types::{Entropy, SeededEntropy};
use oplog_core::legacy::{
    CutoverCheck, CutoverOptions, CutoverPlan, LegacyLog, LegacyReplica, LegacyWriter, LegacyWriterConfig,
};
use oplog_core::{NewEntry, WriterEnv};
use standby::{Fault, Standby};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::kit::*;
use crate::support::{keys, open};

const SEEDS: u64 = 60;
const ENTRIES: u64 = 40;

/// How often something happened over all seeds.
#[derive(Debug, Default)]
struct Reached {
    restarts: u64,
    alarms: u64,
    store_errors: u64,
    entries_after_the_base: u64,
}

struct Running {
    link: Arc<FaultyKv>,
    observer: standby::Observer,
    task: JoinHandle<Result<Standby<Journal>, Fault>>,
}

/// A reader that runs until it is told to stop.
async fn start_reader(kv: &Arc<MemoryKv>, seed: u64, mut stop: watch::Receiver<bool>) -> Running {
    let link = FaultyKv::txn_only(kv.clone(), seed);
    let storage = open(link.clone()).await;
    let mut standby = standby_with(&storage, Default::default());
    for reads in [OpKind::Get, OpKind::Range] {
        link.plan_for(reads, FaultPlan::rough(Duration::from_millis(300)));
    }
    let observer = standby.observer();
    let task = tokio::spawn(async move {
        tokio::select! {
            fault = standby.run() => Err(fault),
            _ = stop.wait_for(|stop| *stop) => Ok(standby),
        }
    });
    Running { link, observer, task }
}

/// The original: entries that overtake each other, and a `latest` that is written now and then.
async fn original(kv: Arc<MemoryKv>, seed: u64) {
    let dice = SeededEntropy::new(seed);
    let mut writes = Vec::new();
    for n in 1..=ENTRIES {
        let (to, late) = (kv.clone(), Duration::from_millis(dice.next_u64() % 400));
        writes.push(tokio::spawn(async move {
            tokio::time::sleep(late).await;
            put(&*to, &entry(n)).await;
        }));
        if n == 5 || n % 10 == dice.next_u64() % 10 {
            latest(&*kv, n).await;
        }
        tokio::time::sleep(Duration::from_millis(dice.next_u64() % 60)).await;
    }
    for write in writes {
        write.await.unwrap();
    }
}

/// A writer of ours, which goes on until the cutover fences it.
async fn ours(kv: Arc<MemoryKv>, seed: u64) {
    let link = FaultyKv::txn_only(kv, seed);
    let storage = open(link.clone()).await;
    link.plan_for(OpKind::Txn, FaultPlan::rough(Duration::from_millis(50)));
    let env = WriterEnv { clock: Arc::new(RuntimeClock::new()), entropy: Arc::new(SeededEntropy::new(seed)) };
    let replica = LegacyReplica::empty(Journal::default());
    let started = LegacyWriter::start(&storage, replica, LegacyWriterConfig::default(), env).await;
    let (_, writer) = started.map_err(|failed| failed.error).unwrap();
    for n in 1.. {
        let payload = text(n);
        let new = NewEntry { op_type: 1, tenant: "default", key: b"key", payload: payload.as_bytes() };
        match writer.commit(new) {
            Ok(ticket) => drop(ticket),
            Err(_) if writer.status().borrow().terminal.is_some() => return,
            Err(_) => {}
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// What the store says that a reader must hold.
async fn truth(kv: &Arc<MemoryKv>, base: u64, last: u64) -> Vec<(u64, String)> {
    let log = LegacyLog::new(kv.clone(), keys());
    let mut all = Vec::new();
    for n in 1..=base {
        let entry = log.read_entry(seq(n)).await.unwrap().expect("nothing below the base is missing");
        all.push((n, String::from_utf8(entry.payload.to_vec()).unwrap()));
    }
    all.extend((base + 1..=last).map(|n| (n, batched(n))));
    all
}

async fn run(seed: u64, reached: &mut Reached) {
    let kv = Arc::new(MemoryKv::new());
    let dice = SeededEntropy::new(seed ^ 0xabcd);
    let (stop, stopped) = watch::channel(false);
    let mut readers = Vec::new();
    for n in 0..3 {
        readers.push(start_reader(&kv, seed * 10 + n, stopped.clone()).await);
    }
    let storage = open(kv.clone()).await;
    match seed % 2 {
        0 => original(kv.clone(), seed).await,
        _ => drop(tokio::spawn(ours(kv.clone(), seed))),
    }
    tokio::time::sleep(Duration::from_millis(300 + dice.next_u64() % 1500)).await;
    let options = CutoverOptions { old_primary_stopped: true, ..CutoverOptions::default() };
    let base = loop {
        let env = WriterEnv { clock: Arc::new(RuntimeClock::new()), entropy: Arc::new(SeededEntropy::new(seed)) };
        match CutoverPlan::prepare(&storage, Journal::default(), options, env).await.unwrap() {
            CutoverCheck::Done(prefix) => break prefix.last_seq.get(),
            // A writer of ours that moved `latest` in between is noticed; it is tried again.
            CutoverCheck::Ready(plan) => match plan.execute().await {
                Ok(done) => break done.base.get(),
                Err(_) => tokio::time::sleep(Duration::from_millis(7)).await,
            },
        }
    };
    let mut scribe = scribe(kv.clone(), base).await;
    for n in base + 1..=base + 10 {
        batches(&mut scribe, [n]).await;
        tokio::time::sleep(Duration::from_millis(dice.next_u64() % 200)).await;
    }
    // The original writes once more, after it all.
    if seed.is_multiple_of(4) {
        put(&*kv, &entry(base + 1)).await;
    }
    for reader in &readers {
        reader.link.plan(FaultPlan::NONE);
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    stop.send_replace(true);
    let wanted = truth(&kv, base, base + 10).await;
    for reader in readers {
        let metrics = reader.observer.metrics();
        let standby = reader.task.await.unwrap().unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
        assert_eq!(standby.machine().entries, wanted, "seed {seed}, base {base}");
        assert_eq!((metrics.lag_entries, metrics.legacy.base_seq), (0, Some(base)), "seed {seed}");
        reached.restarts += metrics.legacy.restarts;
        reached.store_errors += metrics.store_errors;
        reached.alarms += u64::from(metrics.legacy.alarm.is_some());
    }
    let above = LegacyLog::new(kv.clone(), keys()).first_entry(seq(base)).await.unwrap();
    reached.entries_after_the_base += u64::from(above.is_some());
    assert_eq!(kv.get(&keys().legacy_latest()).await.unwrap().unwrap(), base.to_string(), "seed {seed}");
}

#[tokio::test(start_paused = true)]
async fn s1_legacy_readers_on_a_bad_network_hold_what_the_store_holds_through_the_cutover() {
    let mut reached = Reached::default();
    for seed in 0..SEEDS {
        run(seed, &mut reached).await;
    }
    // What makes it worth its time has really happened.
    let Reached { restarts, alarms, store_errors, entries_after_the_base } = reached;
    assert!(restarts > 5 && alarms > 5 && store_errors > 100 && entries_after_the_base > 5, "{reached:?}");
}
