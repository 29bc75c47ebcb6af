//! Owns the tests of the legacy writer: groups, what each transaction compares, admission, order, the tail, and its ends.

use std::sync::Arc;
use std::time::Duration;

use ha_kv::faulty::{Fault, FaultyKv, OpKind, ServerLimits};
use ha_kv::{Capabilities, Compare, Kv, KvErrorKind, MemoryKv, Txn};
use ha_types::Seq;
use oplog_core::legacy::{
    LegacyCommitError, LegacyRound, LegacyStartError, LegacyTerminal, LegacyWriter, LegacyWriterConfig,
};
use oplog_core::{BatchStorage, DurablePrefix, LogKeys, NewEntry, Outcome};
use parking_lot::Mutex;

use crate::support::{
    Journal, Ledger, contents, entry, env, fill, follower, keys, log, new, open, seq, start, start_with,
};

async fn latest(kv: &MemoryKv, keys: &LogKeys) -> Option<u64> {
    log_latest(kv, keys).await.map(|text| text.parse().unwrap())
}

async fn log_latest(kv: &MemoryKv, keys: &LogKeys) -> Option<String> {
    let value = kv.get(&keys.legacy_latest()).await.unwrap();
    value.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

/// What a fresh reader makes of the log.
async fn fold(kv: &Arc<MemoryKv>, keys: &LogKeys) -> Journal {
    let (mut follower, _) = follower(log(kv, keys));
    let LegacyRound::Following(_) = follower.round().await.unwrap() else { panic!("a log without a gap") };
    follower.replica().machine().clone()
}

#[tokio::test(start_paused = true)]
async fn what_is_committed_meanwhile_forms_one_transaction_with_latest() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    let (client, storage) = open(&kv, &keys).await;
    let txns = Arc::new(Mutex::new(Vec::<Txn>::new()));
    let seen = Arc::clone(&txns);
    client.on_txn(move |txn| seen.lock().push(txn.clone()));
    let writer = start(&storage).await;
    client.script(OpKind::Txn, Fault::HoldReply);
    let first = writer.commit(new("p1")).unwrap();
    client.reached(OpKind::Txn, 2).await;
    let rest: Vec<_> = (2..=10).map(|n| writer.commit(new(&format!("p{n}"))).unwrap()).collect();
    assert_eq!(rest.last().unwrap().seq(), seq(10));
    client.release();
    assert_eq!(first.await, Outcome::Durable);
    for ticket in rest {
        assert_eq!(ticket.await, Outcome::Durable);
    }
    assert_eq!(latest(&kv, &keys).await, Some(10));
    let expected: Vec<_> = (1..=10).map(|n| (n, format!("p{n}"))).collect();
    assert_eq!(fold(&kv, &keys).await.entries, expected);
    let txns = txns.lock().clone();
    let sizes: Vec<_> = txns.iter().map(|txn| txn.puts.len() - 1).collect();
    assert_eq!(sizes, [1, 9]);
    for txn in txns {
        let absent = |key: &[u8]| txn.compares.contains(&Compare::KeyAbsent { key: key.to_vec().into() });
        assert!(absent(&keys.durable_prefix()), "fenced by the cutover");
        assert!(txn.compares.iter().any(|c| c.key() == &keys.legacy_latest()), "fenced by another writer");
        for put in &txn.puts {
            assert!(keys.legacy_seq(&put.key).is_none() || absent(&put.key), "no entry is overwritten");
            assert!(!put.key.starts_with(b"/oplog/c/batches/"), "never a batch");
        }
        assert!(txn.puts.iter().any(|put| put.key == keys.legacy_latest()), "`latest` is exact");
    }
}

#[tokio::test(start_paused = true)]
async fn entries_are_written_byte_for_byte_and_count_by_key() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c1"));
    let (_, storage) = open(&kv, &keys).await;
    let writer = start(&storage).await;
    for (key, op, payload) in [("key1", 1, "value1"), ("other", 1, "x"), ("key1", 3, "")] {
        let entry = NewEntry { op_type: op, tenant: "default", key: key.as_bytes(), payload: payload.as_bytes() };
        assert_eq!(writer.commit(entry).unwrap().await, Outcome::Durable);
    }
    let text = |n| {
        let key = keys.legacy_entry(seq(n));
        let kv = kv.clone();
        async move { String::from_utf8(kv.get(&key).await.unwrap().unwrap().to_vec()).unwrap() }
    };
    assert_eq!(
        text(1).await,
        r#"{"checksum":2631246273,"key_sequence_id":1,"object_key":"key1","op_type":1,"payload":"dmFsdWUx","prefix_hash":133378825,"sequence_id":1,"tenant_id":"default","timestamp_ms":0}"#
    );
    assert!(text(2).await.contains(r#""key_sequence_id":1,"object_key":"other""#));
    assert!(text(3).await.contains(r#""key_sequence_id":2,"object_key":"key1","op_type":3,"payload":"""#));

    let config = LegacyWriterConfig { key_sequence_ids: false, ..LegacyWriterConfig::default() };
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys);
    let (_, storage) = open(&kv, &keys).await;
    let writer = start_with(&storage, config).await.unwrap();
    assert_eq!(writer.commit(new("p")).unwrap().await, Outcome::Durable);
    let stored = kv.get(&keys.legacy_entry(seq(1))).await.unwrap().unwrap();
    assert!(!stored.windows(15).any(|w| w == b"key_sequence_id"), "as the original writes");
}

/// Each bound in turn is the one that is met first: operations, our bytes, the store's bytes. No key is twice in a transaction.
#[tokio::test(start_paused = true)]
async fn w12_a_group_never_has_more_operations_or_bytes_than_the_store_takes() {
    for (ops, ours, theirs) in
        [(128, 1 << 20, 1 << 20), (1024, 16 << 10, 1 << 20), (1024, 1 << 20, 16 << 10), (4, 1 << 20, 1 << 20)]
    {
        let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
        let (client, storage) = open(&kv, &keys).await;
        client.declare(Some(Capabilities { max_txn_ops: ops, max_txn_bytes: theirs, ..kv.capabilities() }));
        let txns = Arc::new(Mutex::new(Vec::<Txn>::new()));
        let seen = Arc::clone(&txns);
        client.on_txn(move |txn| seen.lock().push(txn.clone()));
        let config = LegacyWriterConfig { max_txn_bytes: ours, ..LegacyWriterConfig::default() };
        let writer = start_with(&storage, config).await.unwrap();
        client.script(OpKind::Txn, Fault::Delay(Duration::from_millis(5)));
        let large = "x".repeat(1000);
        let mut tickets: Vec<_> = (0..300).map(|_| writer.commit(new("p")).unwrap()).collect();
        tickets.extend((0..50).map(|_| writer.commit(new(&large)).unwrap()));
        for ticket in tickets {
            assert_eq!(ticket.await, Outcome::Durable);
        }
        let txns = txns.lock().clone();
        let bytes = ours.min(theirs);
        for txn in &txns {
            assert!(
                txn.compares.len().max(txn.puts.len()) <= ops && txn.bytes() <= bytes,
                "{ops} {ours} {theirs}: {txn:?}"
            );
            let puts: std::collections::BTreeSet<_> = txn.puts.iter().map(|put| &put.key).collect();
            let compares: std::collections::BTreeSet<_> = txn.compares.iter().map(Compare::key).collect();
            assert_eq!((puts.len(), compares.len()), (txn.puts.len(), txn.compares.len()), "a key twice");
        }
        // The fullest is full: none was refused and cut before it was small enough.
        let fullest = txns.iter().map(|txn| (txn.compares.len(), txn.bytes())).max().unwrap();
        assert!(fullest.0 == ops || fullest.1 + 300 > bytes, "{ops} {ours} {theirs}: {fullest:?}");
        assert_eq!(latest(&kv, &keys).await, Some(350));
        assert_eq!(fold(&kv, &keys).await.entries.len(), 350);
    }
}

#[tokio::test(start_paused = true)]
async fn w5_a_server_that_takes_less_gets_smaller_groups_and_one_entry_too_large_is_refused() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    let (client, storage) = open(&kv, &keys).await;
    let writer = start(&storage).await;
    let refused = writer.commit(new(&"x".repeat(2 << 20))).unwrap_err();
    assert!(matches!(refused, LegacyCommitError::TooLarge { .. }), "{refused}");
    client.limit_server(ServerLimits { request_bytes: 4096, ..ServerLimits::NONE });
    let payload = "x".repeat(500);
    let tickets: Vec<_> = (0..40).map(|_| writer.commit(new(&payload)).unwrap()).collect();
    assert_eq!(tickets[0].seq(), seq(1), "a refusal used no sequence");
    for ticket in tickets {
        assert_eq!(ticket.await, Outcome::Durable);
    }
    assert_eq!(fold(&kv, &keys).await.seqs(), (1..=40).collect::<Vec<_>>(), "in order and each once");
    let one = writer.commit(new(&"x".repeat(5000))).unwrap();
    let after = writer.commit(new("p")).unwrap();
    assert_eq!((one.await, after.await), (Outcome::Never, Outcome::Never));
    let terminal = writer.status().borrow().terminal.clone();
    assert!(matches!(terminal, Some(LegacyTerminal::Rejected { .. })), "{terminal:?}");
    assert_eq!(latest(&kv, &keys).await, Some(40));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_carried_is_refused_and_uses_no_sequence() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    let (client, storage) = open(&kv, &keys).await;
    let config = LegacyWriterConfig { max_waiting_entries: 2, ..LegacyWriterConfig::default() };
    let writer = start_with(&storage, config).await.unwrap();
    let refused = writer.commit(NewEntry { key: b"k\xff", ..new("p") }).unwrap_err();
    assert!(matches!(&refused, LegacyCommitError::Refused(why) if why.field == "object_key"), "{refused}");
    assert!(matches!(writer.commit(NewEntry { op_type: 9, ..new("p") }), Err(LegacyCommitError::Refused(_))));
    client.script(OpKind::Txn, Fault::HoldReply);
    let sent = writer.commit(new("p1")).unwrap();
    client.reached(OpKind::Txn, 2).await;
    let waiting = [writer.commit(new("p2")).unwrap(), writer.commit(new("p3")).unwrap()];
    let ledger = Ledger::default();
    assert_eq!(ledger.commit(&writer, "p4").unwrap_err(), LegacyCommitError::QueueFull);
    client.release();
    assert_eq!(sent.await, Outcome::Durable);
    for ticket in waiting {
        assert_eq!(ticket.await, Outcome::Durable);
    }
    assert_eq!(writer.commit(new("p4")).unwrap().seq(), seq(4));
    assert_eq!(ledger.seen(), [], "a callback of a refused entry is not called");
}

#[tokio::test(start_paused = true)]
async fn callbacks_come_once_in_order_and_one_that_panics_or_blocks_holds_up_no_write() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    let (_, storage) = open(&kv, &keys).await;
    let writer = start(&storage).await;
    let ledger = Ledger::default();
    let (open_gate, gate) = std::sync::mpsc::sync_channel::<()>(1);
    let gate = Mutex::new(gate);
    writer.commit_with(new("p1"), move |_, _| gate.lock().recv().unwrap()).unwrap();
    writer.commit_with(new("p2"), |_, _| panic!("a callback that panics")).unwrap();
    for n in 3..=50 {
        ledger.commit(&writer, &format!("p{n}")).unwrap();
    }
    let last = writer.commit(new("p51")).unwrap();
    assert_eq!(last.await, Outcome::Durable, "writing goes on behind a callback that blocks");
    assert_eq!(ledger.seen(), []);
    open_gate.send(()).unwrap();
    let seen = ledger.wait_for(48).await;
    assert_eq!(seen, (3..=50).map(|n| (n, Outcome::Durable)).collect::<Vec<_>>());
}

/// A callback that blocks owes the ones behind it: they are bounded, and room is made again when they have run.
#[tokio::test(start_paused = true)]
async fn callbacks_that_are_owed_are_bounded() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    let (_, storage) = open(&kv, &keys).await;
    let config = LegacyWriterConfig { max_waiting_entries: 1, ..LegacyWriterConfig::default() };
    let writer = start_with(&storage, config).await.unwrap();
    let ledger = Ledger::default();
    let (open_gate, gate) = std::sync::mpsc::sync_channel::<()>(1);
    let gate = Mutex::new(gate);
    let durable = async |last| writer.status().wait_for(|s| s.durable == seq(last)).await.map(drop).unwrap();
    writer.commit_with(new("p1"), move |_, _| gate.lock().recv().unwrap()).unwrap();
    durable(1).await;
    for n in 2..=64 {
        ledger.commit(&writer, "owed").unwrap();
        durable(n).await;
    }
    assert_eq!(ledger.commit(&writer, "too many").unwrap_err(), LegacyCommitError::QueueFull);
    assert!(matches!(writer.commit(new("a ticket")), Err(LegacyCommitError::QueueFull)));
    open_gate.send(()).unwrap();
    assert_eq!(ledger.wait_for(63).await.len(), 63);
    let made = async {
        while writer.commit(new("a ticket")).is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(3600), made).await.expect("room is made again");
}

#[tokio::test(start_paused = true)]
async fn the_tail_holds_what_is_durable_and_nothing_else() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    let (client, storage) = open(&kv, &keys).await;
    let config = LegacyWriterConfig { tail_entries: 3, ..LegacyWriterConfig::default() };
    let writer = start_with(&storage, config).await.unwrap();
    for n in 1..=5 {
        assert_eq!(writer.commit(new(&format!("p{n}"))).unwrap().await, Outcome::Durable);
    }
    client.script(OpKind::Txn, Fault::HoldReply);
    let _sent = writer.commit(new("p6")).unwrap();
    client.reached(OpKind::Txn, 7).await;
    let seqs = |since, limit| {
        writer.entries_since(seq(since), limit).map(|all| all.iter().map(|e| e.seq.get()).collect::<Vec<_>>())
    };
    assert_eq!(seqs(2, 1000), Ok(vec![3, 4, 5]));
    assert_eq!(seqs(3, 1), Ok(vec![4]));
    assert_eq!(seqs(1, 1000).unwrap_err().oldest, seq(2));
    client.release();
}

#[tokio::test(start_paused = true)]
async fn it_starts_only_behind_a_state_that_equals_the_log() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    fill(&*kv, &keys, 1..=5, Some(3)).await;
    let (_, storage) = open(&kv, &keys).await;
    let before = contents(&kv).await;
    let behind = start_with(&storage, LegacyWriterConfig::default()).await.unwrap_err();
    assert!(matches!(&behind, LegacyStartError::NotCaughtUp { key, .. } if key == "/oplog/c/latest"), "{behind}");
    let (mut follower, _) = follower(log(&kv, &keys));
    follower.round().await.unwrap();
    fill(&*kv, &keys, [6], None).await;
    let failed = LegacyWriter::start(&storage, follower.into_replica(), LegacyWriterConfig::default(), env()).await;
    let failed = failed.unwrap_err();
    assert!(matches!(failed.error, LegacyStartError::NotCaughtUp { found, .. } if found == seq(6)), "{}", failed.error);
    assert_eq!(failed.replica.applied(), seq(5), "the state is given back");
    kv.delete(&keys.legacy_entry(seq(6))).await.unwrap();
    assert_eq!(contents(&kv).await, before);
    // `latest` lagged; from the first group on it is exact.
    let started = LegacyWriter::start(&storage, failed.replica, LegacyWriterConfig::default(), env()).await;
    let (machine, writer) = started.map_err(|failed| failed.error).unwrap();
    assert_eq!(machine.at, 5);
    assert_eq!(writer.commit(new("p6")).unwrap().await, Outcome::Durable);
    assert_eq!((latest(&kv, &keys).await, fold(&kv, &keys).await.at), (Some(6), 6));

    for (key, value, expected) in
        [("/oplog/c/latest", "junk", "latest"), ("/oplog/c/durable_prefix", &DurablePrefix::FRESH.encode(), "cut over")]
    {
        kv.put(key.as_bytes(), value.to_owned().into()).await.unwrap();
        let error = start_with(&storage, LegacyWriterConfig::default()).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    let reading = BatchStorage::open_for_reading(kv.clone(), keys.clone());
    assert!(matches!(
        start_with(&reading, LegacyWriterConfig::default()).await,
        Err(LegacyStartError::Config(why)) if why.contains("for reading")
    ));
}

#[tokio::test(start_paused = true)]
async fn it_never_overwrites_an_entry() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    let (_, storage) = open(&kv, &keys).await;
    let writer = start(&storage).await;
    let foreign = entry(2);
    kv.put(&keys.legacy_entry(seq(2)), foreign.encode()).await.unwrap();
    assert_eq!(writer.commit(new("p1")).unwrap().await, Outcome::Durable);
    let refused = writer.commit(new("mine")).unwrap();
    assert_eq!(refused.await, Outcome::Never);
    assert_eq!(kv.get(&keys.legacy_entry(seq(2))).await.unwrap().unwrap(), foreign.encode());
    let terminal = writer.status().borrow().terminal.clone().unwrap();
    let LegacyTerminal::OtherWriter { key, found, .. } = &terminal else { panic!("{terminal}") };
    assert!(key.ends_with("/00000000000000000002") && found.contains("checksum"), "{terminal}");
    assert!(matches!(writer.commit(new("p3")), Err(LegacyCommitError::Terminal(_))));
}

#[tokio::test(start_paused = true)]
async fn v5_the_last_handle_writes_what_was_committed_and_ends_the_writer() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    let (_, storage) = open(&kv, &keys).await;
    let writer = start(&storage).await;
    let mut status = writer.status();
    let tickets: Vec<_> = (1..=200).map(|n| writer.commit(new(&format!("p{n}"))).unwrap()).collect();
    drop(writer);
    for ticket in tickets {
        assert_eq!(ticket.await, Outcome::Durable);
    }
    let ended = status.wait_for(|s| s.terminal.is_some()).await.unwrap().clone();
    assert_eq!((ended.terminal, ended.durable), (Some(LegacyTerminal::Shutdown), seq(200)));
}

#[tokio::test(start_paused = true)]
async fn drain_waits_for_what_was_committed_and_takes_nothing_more() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    let (client, storage) = open(&kv, &keys).await;
    let writer = start(&storage).await;
    client.script(OpKind::Txn, Fault::Delay(Duration::from_secs(3)));
    let ticket = writer.commit(new("p1")).unwrap();
    assert_eq!(writer.drain(Duration::from_secs(1)).await, 1);
    assert!(matches!(writer.commit(new("p2")), Err(LegacyCommitError::Unavailable { .. })));
    assert_eq!(writer.drain(Duration::from_secs(60)).await, 0);
    assert_eq!(ticket.await, Outcome::Durable);
    assert_eq!(writer.stop().await, LegacyTerminal::Shutdown);
}

#[test]
fn a_runtime_that_ends_tells_everyone_once() {
    let ledger = Ledger::default();
    let (writer, ticket) = {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let told = ledger.clone();
        let made = runtime.block_on(async move {
            let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
            let (client, storage) = open(&kv, &keys).await;
            let writer = start(&storage).await;
            client.script(OpKind::Txn, Fault::HoldRequest);
            told.commit(&writer, "sent").unwrap();
            client.reached(OpKind::Txn, 2).await;
            told.commit(&writer, "waiting").unwrap();
            let ticket = writer.commit(new("waiting too")).unwrap();
            (writer, ticket)
        });
        drop(runtime);
        made
    };
    assert_eq!(ledger.seen(), [(1, Outcome::Unknown), (2, Outcome::Never)]);
    assert_eq!(ticket.wait(), Outcome::Never);
    assert!(matches!(writer.commit(new("later")), Err(LegacyCommitError::Terminal(LegacyTerminal::Shutdown))));
}

#[tokio::test(start_paused = true)]
async fn stop_in_mid_backoff_and_with_a_transaction_on_its_way_tells_the_truth() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    let client = FaultyKv::new(kv.clone(), 1);
    let options = oplog_core::OpenOptions { accept_lost_writes: true, ..Default::default() };
    let storage = BatchStorage::open(client.clone(), keys.clone(), options).await.unwrap();
    for (fault, expected) in [
        (Fault::FailBefore(KvErrorKind::Unavailable), Outcome::Never),
        (Fault::LoseRequest(KvErrorKind::Timeout), Outcome::Unknown),
        (Fault::HoldRequest, Outcome::Unknown),
    ] {
        client.always(OpKind::Txn, Some(fault.clone()));
        let writer = start(&storage).await;
        let sent = writer.commit(new("p1")).unwrap();
        let before = client.calls(OpKind::Txn);
        client.reached(OpKind::Txn, before + 1).await;
        if fault != Fault::HoldRequest {
            tokio::time::sleep(Duration::from_secs(30)).await;
            assert!(client.calls(OpKind::Txn) - before < 60, "attempts are bounded by backoff");
            assert!(matches!(writer.commit(new("p2")), Err(LegacyCommitError::Unavailable { .. })));
            let status = writer.status().borrow().clone();
            assert!(!status.accepting && status.reason.unwrap().contains("injected"));
        }
        let clock = env().clock;
        let began = clock.now();
        assert_eq!(writer.stop().await, LegacyTerminal::Shutdown);
        assert!(clock.now().saturating_since(began) <= Duration::from_millis(100), "by paused time");
        assert_eq!(sent.await, expected, "{fault:?}");
        client.always(OpKind::Txn, None);
    }
    assert_eq!(latest(&kv, &keys).await, None);
    assert_eq!(log(&kv, &keys).first_entry(Seq::ZERO).await.unwrap(), None);
}

/// However fast the store answers: else a writer that is committed to without a pause would never end.
#[tokio::test(start_paused = true)]
async fn v5_after_a_stop_nothing_that_waits_is_sent() {
    let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
    let (client, storage) = open(&kv, &keys).await;
    let writer = start(&storage).await;
    client.script(OpKind::Txn, Fault::HoldRequest);
    let sent = writer.commit(new("p1")).unwrap();
    client.reached(OpKind::Txn, 2).await;
    let waiting = writer.commit(new("p2")).unwrap();
    // The stop is asked for first, the answer comes within its grace.
    let (terminal, ()) = tokio::join!(writer.stop(), async { client.release() });
    assert_eq!(terminal, LegacyTerminal::Shutdown);
    assert_eq!((sent.await, waiting.await), (Outcome::Durable, Outcome::Never));
    assert_eq!(latest(&kv, &keys).await, Some(1));
    assert!(matches!(writer.commit(new("p3")), Err(LegacyCommitError::Terminal(LegacyTerminal::Shutdown))));
}

/// A callback that is owed while an earlier one takes its time does not need the runtime that the writer had.
#[test]
fn l6_callbacks_owed_when_the_runtime_ends_come_in_order_whether_or_not_the_writer_had_ended() {
    for stopped in [true, false] {
        let (tell, told) = std::sync::mpsc::sync_channel(8);
        let (open_gate, gate) = std::sync::mpsc::sync_channel::<()>(1);
        let gate = Mutex::new(gate);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _writer = runtime.block_on(async {
            let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
            let (_, storage) = open(&kv, &keys).await;
            let writer = start(&storage).await;
            writer.commit_with(new("p1"), move |_, _| gate.lock().recv().unwrap()).unwrap();
            writer.status().wait_for(|s| s.durable == seq(1)).await.unwrap();
            for n in 2..=3 {
                let tell = tell.clone();
                let told = move |seq: Seq, outcome| tell.send((seq.get(), outcome)).unwrap();
                writer.commit_with(new("later"), told).unwrap();
                writer.status().wait_for(|s| s.durable == seq(n)).await.unwrap();
            }
            if stopped {
                assert_eq!(writer.stop().await, LegacyTerminal::Shutdown);
            }
            writer
        });
        runtime.shutdown_background();
        assert!(told.try_recv().is_err(), "the first one still runs");
        open_gate.send(()).unwrap();
        for n in 2..=3 {
            let called = told.recv_timeout(Duration::from_secs(60));
            assert_eq!(called, Ok((n, Outcome::Durable)), "they are called, handle or not");
        }
    }
}

/// The same with a group on its way: what became of it is told after what was owed before, and before what only waited.
#[test]
fn l6_callbacks_of_a_group_on_its_way_when_the_runtime_ends_come_after_those_that_were_owed() {
    let (tell, told) = std::sync::mpsc::sync_channel(8);
    let (open_gate, gate) = std::sync::mpsc::sync_channel::<()>(1);
    let gate = Mutex::new(gate);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _writer = runtime.block_on(async {
        let (kv, keys) = (Arc::new(MemoryKv::new()), keys("c"));
        let (client, storage) = open(&kv, &keys).await;
        let writer = start(&storage).await;
        let commit = || {
            let tell = tell.clone();
            writer.commit_with(new("later"), move |seq, outcome| tell.send((seq.get(), outcome)).unwrap()).unwrap()
        };
        writer.commit_with(new("p1"), move |_, _| gate.lock().recv().unwrap()).unwrap();
        commit();
        writer.status().wait_for(|s| s.durable == seq(2)).await.unwrap();
        let sent = client.calls(OpKind::Txn);
        client.script(OpKind::Txn, Fault::HoldRequest);
        commit();
        client.reached(OpKind::Txn, sent + 1).await;
        commit();
        writer
    });
    runtime.shutdown_background();
    assert_eq!(told.try_recv().ok(), None, "the first one still runs");
    open_gate.send(()).unwrap();
    for expected in [(2, Outcome::Durable), (3, Outcome::Unknown), (4, Outcome::Never)] {
        assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok(expected));
    }
}
