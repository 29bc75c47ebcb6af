//! Owns the schedules of the legacy writer: producers, the end, lost answers, and a cutover that may come at any moment. It shares store,
//! clock and notifier with the ordered writer's, and has admission, driver and status of its own.

use std::sync::Arc;

use oplog_core::legacy::{
    CutoverCheck, CutoverOptions, CutoverPlan, LegacyCommitError, LegacyLog, LegacyReplica, LegacyTerminal,
    LegacyTicket, LegacyWriter, LegacyWriterConfig, LegacyWriterStatus,
};
use oplog_core::{BatchStorage, OpenOptions, Outcome, Seq};
use parking_lot::Mutex;
use shuttle::future::{JoinHandle, block_on, spawn};
use shuttle::rand::{Rng as _, thread_rng};
use shuttle::thread;
use tokio::sync::watch;

use crate::SCHEDULES;
use crate::store::{Fate, Store};
use crate::world::{Count, entry, env, keys, toss};

/// One legacy log and its writer.
struct World {
    store: Arc<Store>,
    watcher: JoinHandle<LegacyWriterStatus>,
}

impl World {
    fn start(max_waiting_entries: usize) -> (Self, LegacyWriter) {
        let store = Store::new();
        let config = LegacyWriterConfig { max_waiting_entries, ..LegacyWriterConfig::default() };
        let writer = block_on(async {
            let storage = open(&store).await;
            let started = LegacyWriter::start(&storage, LegacyReplica::empty(Count::default()), config, env()).await;
            started.map_err(|failed| failed.error).expect("the writer starts").1
        });
        let watcher = spawn(watch_to_the_end(writer.status()));
        (Self { store, watcher }, writer)
    }

    /// Checks the truth that somebody was told about an entry.
    fn check(&self, seq: Seq, payload: u8, outcome: Outcome) {
        let stored = stored(&self.store);
        let found = stored.get(usize::try_from(seq.get() - 1).expect("few entries"));
        match outcome {
            Outcome::Durable => assert_eq!(found, Some(&payload), "told durable, and {seq} is not in the log"),
            Outcome::Never => assert_ne!(found, Some(&payload), "told never, and {seq} is in the log"),
            Outcome::Unknown => {}
        }
    }

    /// Waits until the driver is gone and nobody holds the writer: nothing may keep it. Gives what is stored then, and what was shown last.
    fn close(self) -> (Vec<u8>, LegacyWriterStatus) {
        let last = block_on(self.watcher).expect("the watcher ends with the writer");
        assert!(last.terminal.is_some(), "a writer that is gone has ended");
        assert_eq!((last.undecided, last.accepting), (0, false));
        let stored = stored(&self.store);
        assert!(last.durable.get() <= stored.len() as u64, "{last:?}, and {stored:?} are stored");
        (stored, last)
    }
}

async fn open(store: &Arc<Store>) -> BatchStorage {
    let options = OpenOptions { accept_lost_writes: true, ..OpenOptions::default() };
    BatchStorage::open(store.clone(), keys(), options).await.expect("the log opens")
}

/// The payloads in the store, gap-free and up to `latest` exactly.
fn stored(store: &Store) -> Vec<u8> {
    let log = LegacyLog::new(store.memory.clone(), keys());
    block_on(async {
        let latest = log.latest().await.expect("a latest").get();
        let mut stored = Vec::new();
        for seq in 1..=latest {
            let entry = log.read_entry(Seq::new(seq)).await.expect("memory").expect("no hole up to latest");
            stored.push(entry.payload[0]);
        }
        let above = log.first_entry(Seq::new(latest)).await.expect("memory");
        assert_eq!(above, None, "one transaction puts entries and latest");
        stored
    })
}

/// Looks at every status that it can, until the writer is gone; gives the last one.
async fn watch_to_the_end(mut status: watch::Receiver<LegacyWriterStatus>) -> LegacyWriterStatus {
    let mut shown = status.borrow_and_update().clone();
    while status.changed().await.is_ok() {
        let next = status.borrow_and_update().clone();
        assert!(next.durable >= shown.durable, "what is shown as durable went back");
        assert!(shown.terminal.is_none() || next.terminal == shown.terminal, "the end that is shown was taken back");
        assert_eq!(next.accepting, next.closed.is_none());
        shown = next;
    }
    shown
}

/// Every callback, in the order in which they came.
type Ran = Arc<Mutex<Vec<(Seq, Outcome)>>>;

#[test]
fn legacy_producers_commit_while_groups_are_written_and_callbacks_run() {
    const SITUATIONS: &[&str] = &[
        "committed while a group is on its way",
        "a group had several entries",
        "the queue was full",
        "a callback ran beside a transaction",
        "a ticket was dropped unread",
    ];
    SCHEDULES.explore("legacy_producers", SITUATIONS, |reached| {
        let (world, writer) = World::start(2);
        let (ran, before) = (Ran::default(), world.store.txns());
        let producers: Vec<_> = (0..3)
            .map(|who: u8| {
                let (writer, store) = (writer.clone(), Arc::clone(&world.store));
                let (ran, reached) = (Arc::clone(&ran), reached.clone());
                thread::spawn(move || {
                    let mut status = writer.status();
                    loop {
                        status.mark_unchanged();
                        let flying = store.is_flying();
                        let committed = if who < 2 {
                            let (ran, reached, store) = (Arc::clone(&ran), reached.clone(), Arc::clone(&store));
                            let handle = writer.clone();
                            let told = move |seq, outcome| {
                                // Every lock of the writer is free here, or this would block for ever.
                                drop(handle.entries_since(Seq::ZERO, 1));
                                reached.mark_if(store.is_flying(), "a callback ran beside a transaction");
                                ran.lock().push((seq, outcome));
                            };
                            writer.commit_with(entry(&[who]), told).map(|_| None)
                        } else {
                            writer.commit(entry(&[who])).map(Some)
                        };
                        match committed {
                            Ok(ticket) => {
                                reached.mark_if(flying, "committed while a group is on its way");
                                match ticket {
                                    Some(ticket) if toss() => assert_eq!(block_on(ticket), Outcome::Durable),
                                    Some(_) => reached.mark("a ticket was dropped unread"),
                                    None => {}
                                }
                                return;
                            }
                            Err(LegacyCommitError::QueueFull) => {
                                reached.mark("the queue was full");
                                thread::yield_now();
                            }
                            Err(e) => panic!("{e}"),
                        }
                    }
                })
            })
            .collect();
        for producer in producers {
            producer.join().expect("a producer");
        }
        drop(writer);
        while ran.lock().len() < 2 {
            thread::yield_now();
        }
        let ran = ran.lock().clone();
        assert!(ran.is_sorted_by(|a, b| a.0 < b.0), "L6: in order, each once: {ran:?}");
        assert!(ran.iter().all(|(_, outcome)| *outcome == Outcome::Durable));
        let store = Arc::clone(&world.store);
        let (mut stored, last) = world.close();
        stored.sort_unstable();
        assert_eq!(stored, [0, 1, 2], "each entry once");
        assert_eq!((last.durable, last.terminal), (Seq::new(3), Some(LegacyTerminal::Shutdown)));
        reached.mark_if(store.txns() - before < 3, "a group had several entries");
    });
}

#[test]
fn legacy_a_stop_tells_everybody_the_truth_once_and_in_order() {
    const SITUATIONS: &[&str] = &[
        "refused by the end",
        "durable in spite of the stop",
        "never",
        "unknown: stopped in flight",
        "stopped when idle",
    ];
    SCHEDULES.explore("legacy_stop", SITUATIONS, |reached| {
        let (world, writer) = World::start(4);
        let ran = Ran::default();
        let producers: Vec<_> = (0..3)
            .map(|who: u8| {
                let (writer, ran, reached) = (writer.clone(), Arc::clone(&ran), reached.clone());
                thread::spawn(move || {
                    let committed = if who == 0 {
                        writer.commit(entry(&[who])).map(|ticket| (ticket.seq(), Some(block_on(ticket))))
                    } else {
                        let told = move |seq, outcome| ran.lock().push((seq, outcome));
                        writer.commit_with(entry(&[who]), told).map(|seq| (seq, None))
                    };
                    reached.mark_if(committed.is_err(), "refused by the end");
                    committed.ok().map(|(seq, outcome)| (seq, who, outcome))
                })
            })
            .collect();
        // Half of the stops find a driver that has nothing to do.
        for _ in 0..if toss() { 300 } else { 0 } {
            if writer.status().borrow().durable == Seq::new(3) {
                reached.mark("stopped when idle");
                break;
            }
            thread::yield_now();
        }
        assert_eq!(block_on(writer.stop()), LegacyTerminal::Shutdown);
        let mut committed: Vec<_> = producers.into_iter().filter_map(|p| p.join().expect("a producer")).collect();
        drop(writer);
        committed.sort_unstable_by_key(|(seq, ..)| *seq);
        let owed: Vec<_> = committed.iter().filter(|(.., told)| told.is_none()).map(|(seq, ..)| *seq).collect();
        while ran.lock().len() < owed.len() {
            thread::yield_now();
        }
        let ran = ran.lock().clone();
        assert_eq!(ran.iter().map(|(seq, _)| *seq).collect::<Vec<_>>(), owed, "L6: once each, in order");
        for (seq, payload, told) in committed {
            let outcome = told.or_else(|| ran.iter().find(|(other, _)| *other == seq).map(|(_, outcome)| *outcome));
            let outcome = outcome.expect("everybody is told");
            world.check(seq, payload, outcome);
            reached.mark(match outcome {
                Outcome::Durable => "durable in spite of the stop",
                Outcome::Never => "never",
                Outcome::Unknown => "unknown: stopped in flight",
            });
        }
        world.close();
    });
}

#[test]
fn legacy_whatever_becomes_of_a_transaction_each_entry_is_stored_once() {
    const SITUATIONS: &[&str] = &[
        "a reply was lost",
        "a request was lost",
        "a transaction landed late",
        "a transaction was refused",
        "turned away while the store fails",
        "admitted again",
        "sent again",
    ];
    SCHEDULES.explore("legacy_unknown", SITUATIONS, |reached| {
        let (world, writer) = World::start(4);
        let before = world.store.txns();
        for _ in 0..thread_rng().gen_range(1..3) {
            let (fate, situation) = match thread_rng().gen_range(0..4) {
                0 => (Fate::ReplyLost, "a reply was lost"),
                1 => (Fate::NeverArrived, "a request was lost"),
                2 => (Fate::Late, "a transaction landed late"),
                _ => (Fate::Refused, "a transaction was refused"),
            };
            reached.mark(situation);
            world.store.fates.lock().push_back(fate);
        }
        let producers: Vec<_> = (0..3)
            .map(|who: u8| {
                let (writer, reached) = (writer.clone(), reached.clone());
                thread::spawn(move || {
                    let mut refused = false;
                    let ticket: LegacyTicket = loop {
                        match writer.commit(entry(&[who])) {
                            Ok(ticket) => break ticket,
                            Err(LegacyCommitError::Unavailable { .. }) => {
                                reached.mark("turned away while the store fails");
                                refused = true;
                                block_on(writer.status().wait_for(|s| s.accepting)).expect("the writer lives");
                                // It is shown a moment before or after it is so.
                                thread::yield_now();
                            }
                            Err(e) => panic!("{e}"),
                        }
                    };
                    reached.mark_if(refused, "admitted again");
                    assert_eq!(block_on(ticket), Outcome::Durable);
                })
            })
            .collect();
        for producer in producers {
            producer.join().expect("a producer");
        }
        drop(writer);
        // Each entry has one transaction at most for its own.
        reached.mark_if(world.store.txns() - before > 3, "sent again");
        let (mut stored, last) = world.close();
        stored.sort_unstable();
        assert_eq!((stored, last.durable), (vec![0, 1, 2], Seq::new(3)), "each entry once");
    });
}

#[test]
fn l12_l14_legacy_a_cutover_at_any_moment_fences_the_writer_and_it_tells_the_truth() {
    const SITUATIONS: &[&str] = &[
        "cut over before anything was written",
        "cut over with something written",
        "durable, below the base",
        "never, fenced",
        "refused after the fence",
        "a reply was lost",
        "latest moved under the cutover",
    ];
    SCHEDULES.explore("legacy_cutover", SITUATIONS, |reached| {
        let (world, writer) = World::start(4);
        if toss() {
            reached.mark("a reply was lost");
            world.store.fates.lock().push_back(Fate::ReplyLost);
        }
        let producers: Vec<_> = (0..3)
            .map(|who: u8| {
                let writer = writer.clone();
                thread::spawn(move || {
                    let ticket = writer.commit(entry(&[who])).ok()?;
                    Some((ticket.seq(), who, block_on(ticket)))
                })
            })
            .collect();
        // The operator has a client of its own.
        let memory = world.store.memory.clone();
        let operator = {
            let reached = reached.clone();
            spawn(async move {
                let options = OpenOptions { accept_lost_writes: true, ..OpenOptions::default() };
                let storage = BatchStorage::open(memory, keys(), options).await.expect("the log opens");
                let options = CutoverOptions { old_primary_stopped: true, ..CutoverOptions::default() };
                loop {
                    shuttle::future::yield_now().await;
                    let plan = CutoverPlan::prepare(&storage, Count::default(), options, env()).await.expect("a plan");
                    let CutoverCheck::Ready(plan) = plan else { panic!("nobody else cuts over") };
                    shuttle::future::yield_now().await;
                    match plan.execute().await {
                        Ok(done) => return done.base,
                        Err(_) => reached.mark("latest moved under the cutover"),
                    }
                }
            })
        };
        let base = block_on(operator).expect("the operator");
        reached.mark(match base {
            Seq::ZERO => "cut over before anything was written",
            _ => "cut over with something written",
        });
        for told in producers.into_iter().map(|p| p.join().expect("a producer")) {
            match told {
                Some((seq, payload, outcome)) => {
                    world.check(seq, payload, outcome);
                    assert_ne!(outcome, Outcome::Unknown, "the base can still be told");
                    assert_eq!(outcome == Outcome::Durable, seq <= base, "{seq} {outcome:?}, base {base}");
                    let durable = outcome == Outcome::Durable;
                    reached.mark(if durable { "durable, below the base" } else { "never, fenced" });
                }
                None => reached.mark("refused after the fence"),
            }
        }
        // Idle or not, it finds out with its next entry at the latest.
        loop {
            match writer.commit(entry(&[9])) {
                Ok(ticket) => assert_eq!(block_on(ticket), Outcome::Never),
                Err(LegacyCommitError::Terminal(_)) => break,
                // Who was told is told a moment before admission opens again.
                Err(LegacyCommitError::Unavailable { .. }) => thread::yield_now(),
                Err(e) => panic!("{e}"),
            }
        }
        drop(writer);
        let (stored, last) = world.close();
        assert_eq!(stored.len() as u64, base.get(), "L14: nothing above the base");
        assert!(matches!(last.terminal, Some(LegacyTerminal::Fenced { .. })), "{last:?}");
    });
}
