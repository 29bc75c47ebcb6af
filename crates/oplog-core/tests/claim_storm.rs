//! Owns the simulation of claims: three nodes that claim, write a little and come back, each over a store that fails in its own
//! way, with every change of the store checked as it applies.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ha_kv::faulty::{FaultPlan, FaultyKv, Op, Situation, Stage};
use ha_kv::{Kv, MemoryKv, RangeLimit, TxnOutcome};
use ha_types::{BatchId, Entropy, SeededEntropy};
use oplog_core::record::BatchRef;
use oplog_core::{BatchStorage, ClaimError, DurablePrefix, LogError, Replica, catch_up};
use parking_lot::Mutex;
use support::{Guard, Hand, Journal, claim, claim_new, fresh, keys, open};

const NODES: u64 = 3;
const ROUNDS: u64 = 6;

/// What the store went through, checked at each change.
#[derive(Debug, Default)]
struct History {
    prefix: Option<DurablePrefix>,
    batches: BTreeMap<BatchId, Bytes>,
    owners: BTreeSet<u64>,
}

impl History {
    fn applied(&mut self, op: &Op) {
        let Op::Txn(txn) = op else { panic!("{op:?} writes past the prefix") };
        let keys = keys();
        let put = txn.puts.iter().find(|put| put.key == keys.durable_prefix()).expect("every write moves the prefix");
        let now = DurablePrefix::decode(&put.value).unwrap();
        let before = self.prefix.replace(now).expect("the log was there before");
        assert!(before.may_become(&now), "L3: ({before}) became ({now})");
        let batch = txn.puts.iter().find(|put| put.key != keys.durable_prefix());
        match batch {
            None => {
                assert!(now.epoch > before.epoch && now.same_boundary(&before), "a claim moves the epoch alone");
                assert!(self.owners.insert(now.owner.get()), "an owner that claimed before");
            }
            Some(batch) => {
                assert_eq!((now.epoch, now.owner), (before.epoch, before.owner), "L11: only the owner appends");
                let record = BatchRef::decode(&batch.value).unwrap();
                assert_eq!(record.header().epoch, now.epoch, "L11");
                assert_eq!(before.batch_id.next(), Some(now.batch_id), "L1");
                assert_eq!(before.last_seq.next(), Some(record.header().first_seq), "L1");
                assert_eq!((record.header().batch_id, record.last_seq()), (now.batch_id, now.last_seq), "L2");
                let previous = self.batches.get(&before.batch_id);
                let crc = previous.map_or(0, |bytes| BatchRef::decode(bytes).unwrap().crc());
                assert_eq!(record.header().prev_crc, crc, "L16");
                assert!(self.batches.insert(now.batch_id, batch.value.clone()).is_none(), "L4");
            }
        }
    }
}

/// What a node knows of what it wrote.
#[derive(Debug, Default)]
struct Ledger {
    /// Told to be in the log.
    durable: Vec<Vec<u8>>,
    /// Sent, and the reply was lost.
    unknown: BTreeSet<Vec<u8>>,
    situations: BTreeMap<&'static str, u64>,
}

impl Ledger {
    fn note(&mut self, situation: &'static str) {
        *self.situations.entry(situation).or_default() += 1;
    }
}

async fn node(node: u64, seed: u64, storage: BatchStorage) -> Ledger {
    let entropy = SeededEntropy::new(seed ^ (node << 32));
    let mut ledger = Ledger::default();
    for round in 0..ROUNDS {
        tokio::time::sleep(Duration::from_millis(entropy.next_u64() % 60)).await;
        let guard = Guard::new();
        let leadership = Duration::from_millis(20 + entropy.next_u64() % 300);
        tokio::spawn({
            let guard = guard.clone();
            async move {
                tokio::time::sleep(leadership).await;
                guard.lose();
            }
        });
        let replica = Replica::empty(Journal::default());
        match claim(&storage, replica, &guard, entropy.next_u64()).await {
            Ok(claimed) => {
                ledger.note("claimed");
                write(node, round, Hand::new(claimed), &mut ledger).await;
            }
            Err(failed) => match failed.error {
                ClaimError::NotLeader => ledger.note("leadership lost"),
                ClaimError::Superseded(_) => ledger.note("superseded"),
                ClaimError::Log(LogError::Store(error)) => panic!("a curable error was not retried: {error}"),
                ClaimError::TakeOver(refused) => panic!("a log of ours was called Mooncake's: {refused}"),
                ClaimError::Log(error) => panic!("a sound log was called wrong: {error}"),
            },
        }
    }
    ledger
}

async fn write(node: u64, round: u64, mut hand: Hand, ledger: &mut Ledger) {
    for batch in 0..4_u64 {
        let payload = format!("{node}.{round}.{batch}").into_bytes();
        match hand.try_append(&[&payload]).await {
            Ok(TxnOutcome::Committed) => ledger.durable.push(payload),
            Ok(TxnOutcome::CompareFailed) => return ledger.note("fenced"),
            Err(error) if error.is_unknown() => {
                ledger.unknown.insert(payload);
                return ledger.note("unknown");
            }
            Err(_) => return ledger.note("refused"),
        }
    }
}

async fn storm(seed: u64, occurred: &mut BTreeMap<String, u64>) {
    let store = Arc::new(MemoryKv::new());
    let first = fresh(store.clone()).await.require_prefix().await.unwrap();
    let history = Arc::new(Mutex::new(History { prefix: Some(first), ..History::default() }));
    let mut clients = Vec::new();
    let mut running = Vec::new();
    for id in 0..NODES {
        let client = FaultyKv::new(store.clone(), seed * NODES + id);
        let storage = open(client.clone()).await;
        client.observe({
            let history = history.clone();
            move |op, stage| {
                if stage == Stage::Applied && op.kind().is_write() {
                    history.lock().applied(op);
                }
            }
        });
        client.plan(FaultPlan::rough(Duration::from_millis(40)));
        clients.push(client);
        running.push(tokio::spawn(node(id, seed, storage)));
    }
    let mut ledgers = Vec::new();
    for task in running {
        ledgers.push(task.await.unwrap());
    }
    for ledger in &ledgers {
        for (situation, times) in &ledger.situations {
            *occurred.entry((*situation).to_owned()).or_default() += times;
        }
    }
    for client in &clients {
        for (situation, times) in client.occurred() {
            *occurred.entry(format!("{situation:?}")).or_default() += times;
        }
    }
    judge(&store, &history, &ledgers).await;
}

/// Once faults have stopped: the log is one chain, holds all that was promised in order, and nothing that was never sent.
async fn judge(store: &Arc<MemoryKv>, history: &Mutex<History>, ledgers: &[Ledger]) {
    tokio::time::sleep(Duration::from_secs(1)).await;
    let storage = open(store.clone()).await;
    let claimed = claim_new(&storage, 77).await;
    let logged: Vec<_> = claimed.machine().entries.iter().map(|(_, payload)| payload.clone()).collect();
    for ledger in ledgers {
        let mut rest = logged.iter();
        for promised in &ledger.durable {
            assert!(
                rest.any(|entry| entry == promised),
                "S4: {promised:?} was promised and is not in order in the log"
            );
        }
    }
    let sent: BTreeSet<_> = ledgers.iter().flat_map(|l| l.durable.iter().chain(&l.unknown)).collect();
    assert!(logged.iter().all(|entry| sent.contains(entry)), "L13: something in the log was never sent");
    assert_eq!(logged.iter().collect::<BTreeSet<_>>().len(), logged.len(), "an entry twice");
    let (start, end) = keys().all_batches();
    let stored = store.range(&start, &end, RangeLimit::pairs(usize::MAX)).await.unwrap().pairs;
    assert!(stored.iter().map(|pair| &pair.value).eq(history.lock().batches.values()), "L4: a batch changed");
    let mut follower = Replica::empty(Journal::default());
    catch_up(&storage, &mut follower, claimed.prefix(), 1 << 20).await.unwrap();
}

/// The one seed to replay, or none for all.
#[allow(clippy::disallowed_methods, reason = "a test is replayed by a variable")]
fn only_seed() -> Option<u64> {
    std::env::var("STORM_SEED").ok().map(|seed| seed.parse().unwrap())
}

#[tokio::test(start_paused = true)]
async fn l1_l2_l3_l4_l11_l16_hold_through_a_storm_of_claims() {
    let mut occurred = BTreeMap::new();
    let only = only_seed();
    for seed in only.map_or(0..150, |seed| seed..seed + 1) {
        println!("STORM_SEED={seed} cargo test -p oplog-core --test claim_storm");
        storm(seed, &mut occurred).await;
    }
    println!("{occurred:#?}");
    if only.is_none() {
        let faults = [
            Situation::ReplyLost,
            Situation::RequestLost,
            Situation::LandedApplied,
            Situation::LandedRefused,
            Situation::DuplicateRefused,
        ];
        let named = ["claimed", "superseded", "leadership lost", "fenced", "unknown"].map(str::to_owned);
        for situation in faults.map(|s| format!("{s:?}")).iter().chain(&named) {
            assert!(occurred.get(situation).is_some_and(|n| *n >= 10), "{situation} hardly ever occurred");
        }
    }
}
