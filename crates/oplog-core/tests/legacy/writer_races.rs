//! Owns the tests of what a legacy writer says after lost replies, late landings, another writer, and a cutover in between.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ha_kv::faulty::{Fault, FaultPlan, FaultyKv, OpKind, Situation};
use ha_kv::{Kv, KvErrorKind, MemoryKv};
use ha_types::{BatchId, Seq};
use oplog_core::legacy::{LegacyCommitError, LegacyLog, LegacyTerminal, LegacyWriter, LegacyWriterConfig};
use oplog_core::{BatchStorage, DurablePrefix, LogKeys, OpenOptions, Outcome};
use parking_lot::Mutex;

use crate::support::{Ledger, contents, cut_over, env, follower, keys, log, new, open, plan, seq, start, stopped};

async fn ended(writer: &LegacyWriter) -> LegacyTerminal {
    let mut status = writer.status();
    let end = tokio::time::timeout(Duration::from_secs(3600), status.wait_for(|s| s.terminal.is_some())).await;
    end.expect("the writer ends").unwrap().terminal.clone().unwrap()
}

/// Payload by sequence of all entries that are there.
async fn stored(log: &LegacyLog) -> BTreeMap<u64, String> {
    let (mut scan, mut all) = (log.scan(Seq::ZERO, seq(u64::MAX), 1 << 20), BTreeMap::new());
    loop {
        let page = scan.next_page().await.unwrap();
        if page.is_empty() {
            return all;
        }
        for (seq, _) in page {
            let entry = log.read_entry(seq).await.unwrap().unwrap();
            all.insert(seq.get(), String::from_utf8(entry.payload.to_vec()).unwrap());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn w1_w2_a_lost_reply_a_lost_request_and_a_late_landing_end_in_one_entry() {
    for fault in [
        Fault::FailAfter(KvErrorKind::Timeout),
        Fault::LoseRequest(KvErrorKind::Timeout),
        Fault::FailBefore(KvErrorKind::NoSpace),
        Fault::Duplicate,
        Fault::ApplyLater(None),
        Fault::ApplyLater(Some(Duration::from_micros(700))),
    ] {
        let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
        let (client, storage) = open(&kv, &keys).await;
        let writer = start(&storage).await;
        for n in 1..=3 {
            client.script(OpKind::Txn, fault.clone());
            assert_eq!(writer.commit(new(&format!("p{n}"))).unwrap().await, Outcome::Durable, "{fault:?}");
            assert!(writer.status().borrow().accepting, "it takes entries again");
        }
        let before = contents(&kv).await;
        client.land_held().await;
        assert_eq!(contents(&kv).await, before, "what lands late fails its compare");
        let expected = (1..=3).map(|n| (n, format!("p{n}"))).collect();
        assert_eq!(stored(&log(&kv, &keys)).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn l7_admission_is_closed_while_a_group_is_undecided() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    let (client, storage) = open(&kv, &keys).await;
    let writer = start(&storage).await;
    client.always(OpKind::Txn, Some(Fault::FailBefore(KvErrorKind::NoSpace)));
    let ticket = writer.commit(new("p1")).unwrap();
    let mut status = writer.status();
    status.wait_for(|s| !s.accepting).await.unwrap();
    assert!(matches!(writer.commit(new("p2")), Err(LegacyCommitError::Unavailable { .. })));
    client.always(OpKind::Txn, None);
    assert_eq!(ticket.await, Outcome::Durable);
    let next = writer.commit(new("p2")).unwrap();
    assert_eq!((next.seq(), next.await), (seq(2), Outcome::Durable), "a refused call used no sequence");
}

/// A failed compare is a failure like any other: whoever commits while it is looked into would be told *never* for nothing.
#[tokio::test(start_paused = true)]
async fn l7_admission_is_closed_while_a_failed_compare_is_looked_into() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    let (client, storage) = open(&kv, &keys).await;
    let writer = start(&storage).await;
    kv.put(&keys.legacy_latest(), "7".into()).await.unwrap();
    client.script(OpKind::Get, Fault::HoldRequest);
    let reads = client.calls(OpKind::Get);
    let ticket = writer.commit(new("p1")).unwrap();
    client.reached(OpKind::Get, reads + 1).await;
    assert!(!writer.status().borrow().accepting);
    assert!(matches!(writer.commit(new("p2")), Err(LegacyCommitError::Unavailable { .. })));
    // It was a passing thing: the same transaction goes through, and admission opens again.
    kv.delete(&keys.legacy_latest()).await.unwrap();
    client.release();
    assert_eq!(ticket.await, Outcome::Durable);
    let next = writer.commit(new("p2")).unwrap();
    assert_eq!((next.seq(), next.await), (seq(2), Outcome::Durable), "a refused call used no sequence");
}

#[tokio::test(start_paused = true)]
async fn every_reply_lost_is_found_out_by_reading_and_nothing_is_doubled() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    let (client, storage) = open(&kv, &keys).await;
    client.always(OpKind::Txn, Some(Fault::FailAfter(KvErrorKind::Timeout)));
    let writer = start(&storage).await;
    let ledger = Ledger::default();
    for n in 1..=30 {
        // Admission closes while a group is undecided.
        while ledger.commit(&writer, &format!("p{n}")).is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    assert_eq!(ledger.wait_for(30).await, (1..=30).map(|n| (n, Outcome::Durable)).collect::<Vec<_>>());
    assert_eq!(stored(&log(&kv, &keys)).await.len(), 30);
}

#[tokio::test(start_paused = true)]
async fn l12_the_cutover_fences_a_writer_that_is_idle_or_about_to_send() {
    for held in [false, true] {
        let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
        let (client, storage) = open(&kv, &keys).await;
        let writer = start(&storage).await;
        assert_eq!(writer.commit(new("p1")).unwrap().await, Outcome::Durable);
        let (_, operator) = open(&kv, &keys).await;
        let ledger = Ledger::default();
        if held {
            client.script(OpKind::Txn, Fault::HoldRequest);
            ledger.commit(&writer, "late").unwrap();
            client.reached(OpKind::Txn, 3).await;
        }
        let base = cut_over(&operator, stopped()).await.unwrap().base;
        assert_eq!(base, seq(1));
        let before = contents(&kv).await;
        match held {
            true => client.release(),
            false => drop(ledger.commit(&writer, "late").unwrap()),
        }
        assert!(matches!(ended(&writer).await, LegacyTerminal::Fenced { found } if found.last_seq == base));
        assert_eq!(ledger.wait_for(1).await, [(2, Outcome::Never)]);
        assert_eq!(contents(&kv).await, before, "no entry above the base, and `latest` as it was");
        assert!(matches!(writer.commit(new("p")), Err(LegacyCommitError::Terminal(_))));
    }
}

#[tokio::test(start_paused = true)]
async fn l12_a_group_that_committed_just_before_the_cutover_is_durable() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    let (client, storage) = open(&kv, &keys).await;
    let writer = start(&storage).await;
    // It applies, its reply is lost, and the writer cannot read before the cutover is through.
    client.script(OpKind::Txn, Fault::FailAfter(KvErrorKind::Timeout));
    client.script(OpKind::Get, Fault::HoldRequest);
    let reads = client.calls(OpKind::Get);
    let ticket = writer.commit(new("p1")).unwrap();
    client.reached(OpKind::Get, reads + 1).await;
    let (_, operator) = open(&kv, &keys).await;
    assert_eq!(cut_over(&operator, stopped()).await.unwrap().base, seq(1));
    client.release();
    assert_eq!(ticket.await, Outcome::Durable);
    assert!(matches!(ended(&writer).await, LegacyTerminal::Fenced { .. }));
}

#[tokio::test(start_paused = true)]
async fn l12_a_group_that_can_no_longer_be_looked_up_is_unknown() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    let (client, storage) = open(&kv, &keys).await;
    let writer = start(&storage).await;
    client.script(OpKind::Txn, Fault::FailAfter(KvErrorKind::Timeout));
    client.script(OpKind::Get, Fault::HoldRequest);
    let reads = client.calls(OpKind::Get);
    let ticket = writer.commit(new("p1")).unwrap();
    client.reached(OpKind::Get, reads + 1).await;
    // Cut over, written on, and the start of both logs removed.
    let prefix = DurablePrefix {
        epoch: oplog_core::Epoch::new(1),
        owner: oplog_core::Owner::new(7),
        batch_id: BatchId::new(9),
        last_seq: seq(40),
    };
    kv.put(&keys.durable_prefix(), prefix.encode().into()).await.unwrap();
    kv.delete(&keys.legacy_entry(seq(1))).await.unwrap();
    client.release();
    assert_eq!(ticket.await, Outcome::Unknown);
}

#[tokio::test(start_paused = true)]
async fn l6_of_two_writers_at_once_one_is_told_of_the_other_and_both_told_the_truth() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    let ((_, a), (_, b)) = (open(&kv, &keys).await, open(&kv, &keys).await);
    let (one, other) = (start(&a).await, start(&b).await);
    assert_eq!(one.commit(new("one")).unwrap().await, Outcome::Durable);
    assert_eq!(other.commit(new("other")).unwrap().await, Outcome::Never);
    let terminal = ended(&other).await;
    assert!(matches!(&terminal, LegacyTerminal::OtherWriter { key, .. } if key.ends_with("01")), "{terminal}");
    assert_eq!(one.commit(new("one again")).unwrap().await, Outcome::Durable, "who was first goes on");
    assert_eq!(stored(&log(&kv, &keys)).await.into_values().collect::<Vec<_>>(), ["one", "one again"]);
}

#[tokio::test(start_paused = true)]
async fn l6_a_late_landing_of_a_writer_that_was_replaced_changes_nothing() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    let ((client, a), (_, b)) = (open(&kv, &keys).await, open(&kv, &keys).await);
    let (old, heir) = (start(&a).await, start(&b).await);
    client.script(OpKind::Txn, Fault::ApplyLater(None));
    client.always(OpKind::Txn, Some(Fault::HoldRequest));
    let lost = old.commit(new("old")).unwrap();
    client.reached(OpKind::Txn, 3).await;
    assert_eq!(heir.commit(new("heir")).unwrap().await, Outcome::Durable);
    let before = contents(&kv).await;
    assert_eq!(client.land_held().await, 1);
    client.release();
    assert_eq!(lost.await, Outcome::Never, "another entry has its place");
    assert_eq!(contents(&kv).await, before);
    assert_eq!(heir.commit(new("heir again")).unwrap().await, Outcome::Durable);
}

#[tokio::test(start_paused = true)]
async fn l6_a_landing_between_the_heirs_start_and_its_first_write_makes_the_heir_start_again() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    let ((client, a), (_, b)) = (open(&kv, &keys).await, open(&kv, &keys).await);
    let old = start(&a).await;
    client.script(OpKind::Txn, Fault::ApplyLater(None));
    client.always(OpKind::Txn, Some(Fault::HoldRequest));
    let lost = old.commit(new("old")).unwrap();
    client.reached(OpKind::Txn, 3).await;
    old.stop().await;
    assert_eq!(lost.await, Outcome::Unknown, "it may land yet");
    let heir = start(&b).await;
    assert_eq!(client.land_held().await, 1);
    assert_eq!(heir.commit(new("heir")).unwrap().await, Outcome::Never);
    assert!(matches!(ended(&heir).await, LegacyTerminal::OtherWriter { .. }));
    let (mut follower, _) = follower(log(&kv, &keys));
    follower.round().await.unwrap();
    let config = LegacyWriterConfig::default();
    let again = LegacyWriter::start(&b, follower.into_replica(), config, env()).await;
    let (_, again) = again.map_err(|failed| failed.error).unwrap();
    assert_eq!(again.commit(new("heir")).unwrap().await, Outcome::Durable);
    assert_eq!(stored(&log(&kv, &keys)).await.into_values().collect::<Vec<_>>(), ["old", "heir"]);
}

#[tokio::test(start_paused = true)]
async fn a_landing_that_comes_after_the_reading_is_found_by_the_next_attempt() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    let (client, storage) = open(&kv, &keys).await;
    let writer = start(&storage).await;
    client.script(OpKind::Txn, Fault::ApplyLater(None));
    client.script(OpKind::Txn, Fault::HoldRequest);
    let ticket = writer.commit(new("p1")).unwrap();
    client.reached(OpKind::Txn, 3).await;
    assert_eq!(client.land_held().await, 1);
    assert_eq!(client.count(Situation::LandedApplied), 1);
    client.release();
    assert_eq!(ticket.await, Outcome::Durable);
    assert_eq!(stored(&log(&kv, &keys)).await.len(), 1);
}

/// The original writes `latest` without asking: it goes back under us.
#[tokio::test(start_paused = true)]
async fn a_latest_that_went_back_ends_the_writer_and_decides_nothing() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    let (client, storage) = open(&kv, &keys).await;
    let writer = start(&storage).await;
    assert_eq!(writer.commit(new("p1")).unwrap().await, Outcome::Durable);
    client.script(OpKind::Txn, Fault::FailAfter(KvErrorKind::Timeout));
    client.script(OpKind::Get, Fault::HoldRequest);
    let reads = client.calls(OpKind::Get);
    let ticket = writer.commit(new("p2")).unwrap();
    client.reached(OpKind::Get, reads + 1).await;
    kv.put(&keys.legacy_latest(), "0".into()).await.unwrap();
    client.release();
    assert_eq!(ticket.await, Outcome::Unknown, "a cutover may trust either");
    let terminal = ended(&writer).await;
    assert!(matches!(&terminal, LegacyTerminal::OtherWriter { key, .. } if key == "/oplog/c/latest"), "{terminal}");
}

#[tokio::test(start_paused = true)]
async fn a_prefix_that_cannot_be_read_ends_the_writer() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    let (_, storage) = open(&kv, &keys).await;
    let writer = start(&storage).await;
    kv.put(&keys.durable_prefix(), "junk".into()).await.unwrap();
    assert_eq!(writer.commit(new("p1")).unwrap().await, Outcome::Never);
    assert!(matches!(ended(&writer).await, LegacyTerminal::Corrupt { .. }));
}

/// What one writer of the storm was told.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<(u64, String, Outcome)>>>);

async fn write_some(writer: LegacyWriter, name: String, told: Told) -> usize {
    let mut committed = 0;
    for n in 0..12 {
        let payload = format!("{name}-{n}");
        let (ledger, text) = (Arc::clone(&told.0), payload.clone());
        let note = move |seq: Seq, outcome| ledger.lock().push((seq.get(), text, outcome));
        match writer.commit_with(new(&payload), note) {
            Ok(_) => committed += 1,
            Err(LegacyCommitError::Terminal(_)) => break,
            Err(_) => {}
        }
        if name.ends_with("n1") && n == 4 {
            // Stopped with a group on its way.
            tokio::task::yield_now().await;
            writer.stop().await;
            return committed;
        }
        tokio::time::sleep(Duration::from_millis(7)).await;
    }
    writer.drain(Duration::from_secs(300)).await;
    writer.stop().await;
    committed
}

/// Three writers one after the other and at once, on clients that fail in every way, and a cutover in the midst: whatever was told is
/// true of the log in the end (L5, L6, L12, L13, L14).
#[tokio::test(start_paused = true)]
async fn l5_l12_l13_random_faults_writers_and_cutovers_never_make_a_writer_lie() {
    let (mut outcomes, mut cutovers, mut ends) = (BTreeMap::new(), 0, BTreeMap::new());
    for seed in 0..120_u64 {
        let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
        let mut writers = Vec::new();
        for node in 0..3_u64 {
            let client = FaultyKv::new(kv.clone(), seed * 7 + node);
            let options = OpenOptions { accept_lost_writes: true, ..OpenOptions::default() };
            let storage = BatchStorage::open(client.clone(), keys.clone(), options).await.unwrap();
            client.plan_for(OpKind::Txn, storm());
            writers.push(tokio::spawn(node_life(storage, format!("s{seed}n{node}"), (node + seed) % 3 * 20, client)));
        }
        let operator = tokio::spawn(operate(kv.clone(), keys.clone(), seed));
        let mut told = Vec::new();
        for writer in writers {
            let (committed, said, end) = writer.await.unwrap();
            assert_eq!(said.len(), committed, "each exactly once");
            *ends.entry(end).or_insert(0) += 1;
            told.extend(said);
        }
        let base = operator.await.unwrap();
        cutovers += u32::from(base.is_some());
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let log = log(&kv, &keys);
        let mut entries = stored(&log).await;
        if let Some(base) = base {
            assert!(entries.keys().all(|seq| *seq <= base), "nothing above the base {base}: {entries:?}");
        }
        assert_eq!(entries.keys().copied().collect::<Vec<_>>(), (1..=entries.len() as u64).collect::<Vec<_>>());
        assert_eq!(log.latest().await.unwrap().get(), entries.len() as u64, "`latest` is exact");
        for (seq, payload, outcome) in told {
            *outcomes.entry(format!("{outcome:?}")).or_insert(0) += 1;
            match outcome {
                Outcome::Durable => assert_eq!(entries.remove(&seq), Some(payload), "seed {seed}, entry {seq}"),
                Outcome::Never => assert!(entries.values().all(|p| *p != payload), "seed {seed}: {payload} is there"),
                Outcome::Unknown => {}
            }
        }
    }
    assert!(cutovers > 30, "{cutovers} cutovers");
    for kind in ["Durable", "Never", "Unknown"] {
        assert!(outcomes.get(kind).is_some_and(|n| *n > 5), "{kind} never came: {outcomes:?}");
    }
    for end in ["Fenced", "OtherWriter", "Shutdown"] {
        assert!(ends.get(end).is_some_and(|n| *n > 5), "{end} never came: {ends:?}");
    }
}

fn storm() -> FaultPlan {
    FaultPlan {
        delay: 150,
        fail_before: 80,
        lose_request: 100,
        fail_after: 100,
        apply_later: 100,
        duplicate: 80,
        max_delay: Duration::from_millis(60),
        ..FaultPlan::NONE
    }
}

type Life = (usize, Vec<(u64, String, Outcome)>, &'static str);

/// Starts a writer behind the log as it is, and writes until it ends.
async fn node_life(storage: BatchStorage, name: String, after_ms: u64, client: Arc<FaultyKv>) -> Life {
    tokio::time::sleep(Duration::from_millis(after_ms)).await;
    let told = Told::default();
    let (mut follower, _) = follower(LegacyLog::beside(&storage));
    if follower.round().await.is_err() {
        return (0, Vec::new(), "none");
    }
    let config = LegacyWriterConfig::default();
    let Ok((_, writer)) = LegacyWriter::start(&storage, follower.into_replica(), config, env()).await else {
        return (0, Vec::new(), "none");
    };
    let committed = write_some(writer.clone(), name, told.clone()).await;
    let end = match ended(&writer).await {
        LegacyTerminal::Fenced { .. } => "Fenced",
        LegacyTerminal::OtherWriter { .. } => "OtherWriter",
        LegacyTerminal::Shutdown => "Shutdown",
        other => panic!("{other}"),
    };
    while told.0.lock().len() < committed {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    drop(client);
    let said = told.0.lock().clone();
    (committed, said, end)
}

/// Cuts over at some moment in half of the runs; gives the base if it did.
async fn operate(kv: Arc<MemoryKv>, keys: LogKeys, seed: u64) -> Option<u64> {
    if seed.is_multiple_of(2) {
        return None;
    }
    tokio::time::sleep(Duration::from_millis(seed)).await;
    let (_, storage) = open(&kv, &keys).await;
    for _ in 0..50 {
        let Ok(planned) = plan(&storage, stopped()).await else { continue };
        match planned.execute().await {
            Ok(done) => return Some(done.base.get()),
            Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
    None
}

/// `latest` is read before the entries: what lands in between is no other writer.
#[tokio::test(start_paused = true)]
async fn a_landing_between_two_reads_of_one_reading_is_no_verdict() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    let (client, storage) = open(&kv, &keys).await;
    let writer = start(&storage).await;
    client.script(OpKind::Txn, Fault::ApplyLater(None));
    client.script(OpKind::Range, Fault::HoldRequest);
    let scans = client.calls(OpKind::Range);
    let ticket = writer.commit(new("p1")).unwrap();
    client.reached(OpKind::Range, scans + 1).await;
    assert_eq!(client.land_held().await, 1);
    client.release();
    assert_eq!(ticket.await, Outcome::Durable);
    assert_eq!(writer.commit(new("p2")).unwrap().await, Outcome::Durable, "it goes on");
}

/// W5: a group that may have applied is never cut, or its second half would be told what is not true.
#[tokio::test(start_paused = true)]
async fn w5_too_large_after_an_unknown_attempt_is_terminal_and_decides_nothing() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    let (client, storage) = open(&kv, &keys).await;
    let writer = start(&storage).await;
    client.script(OpKind::Txn, Fault::ApplyLater(None));
    client.script(OpKind::Txn, Fault::FailBefore(KvErrorKind::TooLarge));
    let tickets: Vec<_> = (1..=4).map(|n| writer.commit(new(&format!("p{n}"))).unwrap()).collect();
    assert!(matches!(ended(&writer).await, LegacyTerminal::Rejected { .. }));
    for ticket in tickets {
        assert_eq!(ticket.await, Outcome::Unknown);
    }
    assert_eq!(client.land_held().await, 1);
    assert_eq!(stored(&log(&kv, &keys)).await.len(), 4, "it did land");
}
