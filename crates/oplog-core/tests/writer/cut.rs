//! Byte limits (design §3.3): batches seal by bytes, and a server that takes less than it said. Row W5.

use std::sync::{Arc, Mutex};

use ha_kv::KvErrorKind;
use ha_kv::faulty::{Fault, OpKind, ServerLimits};
use ha_types::Clock;
use oplog_core::{CommitError, Outcome, Terminal, WriterConfig};

use crate::support::{Log, Node, entry};

/// From now on: the bytes of each record that this client sends, refused ones included.
fn sent_records(node: &Node) -> Arc<Mutex<Vec<usize>>> {
    let sent = Arc::new(Mutex::new(Vec::new()));
    let (note, prefix) = (Arc::clone(&sent), Log::keys().durable_prefix());
    node.kv.on_txn(move |txn| {
        let records = txn.puts.iter().filter(|put| put.key != prefix).map(|put| put.value.len());
        note.lock().expect("lock").extend(records);
    });
    sent
}

fn limits(request_bytes: usize) -> ServerLimits {
    ServerLimits { request_bytes, ..ServerLimits::NONE }
}

/// W5: 1024 entries of 2 KiB, one entry of 3 MiB, and a server with a limit of 64 KiB that was found at run time only.
#[tokio::test(start_paused = true)]
async fn w5_a_server_with_a_64_kib_limit() {
    let log = Log::new().await;
    let config = WriterConfig::default();
    let max_bytes = config.oplog_batch_max_bytes;
    let node = log.node(config).await;
    let sent = sent_records(&node);
    node.kv.limit_server(limits(64 << 10));
    let slots = node.writer.reserve_many(1024).expect("1024 slots");
    let mut tickets = Vec::new();
    let mut payloads = Vec::new();
    for (i, slot) in slots.into_iter().enumerate() {
        let mut payload = vec![0; 2 << 10];
        payload[..8].copy_from_slice(&(i as u64).to_le_bytes());
        let ticket = slot.commit(entry(&payload)).expect("committed");
        assert_eq!(ticket.seq().get(), i as u64 + 1);
        tickets.push(ticket);
        payloads.push(payload);
    }
    for ticket in tickets {
        assert_eq!(ticket.await, Outcome::Durable);
    }
    assert_eq!(log.payloads().await, payloads, "the same sequences, in order");
    let metrics = node.writer.metrics();
    assert!(metrics.cuts > 0 && metrics.seal_bytes < 64 << 10, "{metrics:?}");
    for batch in log.batches().await {
        assert!(batch.bytes().len() < 64 << 10);
    }
    // What was learned is kept: what comes now is sealed below it, and nothing has to be cut again.
    let sent_before = sent.lock().expect("lock").len();
    let slots = node.writer.reserve_many(500).expect("500 slots");
    let again: Vec<_> = slots.into_iter().map(|s| s.commit(entry(&[2; 2 << 10])).expect("committed")).collect();
    for ticket in again {
        assert_eq!(ticket.await, Outcome::Durable);
    }
    let after = node.writer.metrics();
    assert_eq!(after.cuts, metrics.cuts, "a batch above the bytes that were learned was sent");
    let (seals, batches) = (after.waiting.count - metrics.waiting.count, after.batches - metrics.batches);
    assert_eq!(seals, batches, "a batch above the bytes that were learned was sealed, and cut before it was sent");
    let sent = sent.lock().expect("lock").clone();
    assert!(sent.iter().all(|bytes| *bytes <= max_bytes), "sent above the setting: {sent:?}");
    for (at, refused) in sent.iter().enumerate().filter(|(_, bytes)| **bytes > 64 << 10) {
        let later = &sent[at + 1..];
        assert!(later.iter().all(|bytes| *bytes <= refused / 2), "{refused} bytes were refused, and then: {later:?}");
    }
    let learned = usize::try_from(metrics.seal_bytes).expect("fits");
    assert!(sent[sent_before..].iter().all(|bytes| *bytes <= learned), "sent above {learned}: {sent:?}");
    // What cannot fit is refused before it has a sequence: above the setting, or above what the server has refused by now.
    let known_refused = vec![1; 600 << 10];
    let refused = node.reserve().commit(entry(&known_refused)).unwrap_err();
    assert!(matches!(refused, CommitError::TooLarge { limit, .. } if limit < 200 << 10), "{refused:?}");
    let huge = vec![1; 3 << 20];
    let refused = node.reserve().commit(entry(&huge)).unwrap_err();
    assert!(
        matches!(refused, CommitError::TooLarge { bytes, limit } if bytes > 3 << 20 && limit < 3 << 20),
        "{refused:?}"
    );
    let next = node.reserve().commit(entry(b"next")).expect("committed");
    assert_eq!((next.seq().get(), next.await), (1525, Outcome::Durable));
    assert_eq!(node.writer.metrics().slots, 0);
}

#[tokio::test(start_paused = true)]
async fn a_batch_seals_by_bytes() {
    let log = Log::new().await;
    let config = WriterConfig { oplog_batch_max_bytes: 4096, ..WriterConfig::default() };
    let node = log.node(config).await;
    let sent = sent_records(&node);
    node.kv.script(OpKind::Txn, Fault::HoldRequest);
    let slots = node.writer.reserve_many(100).expect("slots");
    let tickets: Vec<_> = slots.into_iter().map(|s| s.commit(entry(&[7; 500])).expect("committed")).collect();
    tokio::task::yield_now().await;
    node.kv.release();
    for ticket in tickets {
        assert_eq!(ticket.await, Outcome::Durable);
    }
    let batches = log.batches().await;
    assert!(batches.iter().all(|b| b.bytes().len() <= 4096), "a batch above the limit");
    let counts: Vec<_> = batches.iter().map(|b| b.count()).collect();
    assert_eq!(counts, [&[7; 14][..], &[2]].concat(), "each batch but the last is filled");
    let sent = sent.lock().expect("lock").clone();
    assert!(sent.len() == 15 && sent.iter().all(|bytes| *bytes <= 4096), "each record sent once, none above: {sent:?}");
    let metrics = node.writer.metrics();
    assert_eq!((metrics.cuts, metrics.retries), (0, 0), "{metrics:?}");
    assert_eq!(
        metrics.waiting.count, 15,
        "no batch was sealed above the limit and cut before it was sent: {metrics:?}"
    );
    assert_eq!(log.payloads().await.len(), 100);
}

/// The rest of a cut batch is the next batch, callbacks stay in order, the chain names the parts.
#[tokio::test(start_paused = true)]
async fn a_cut_batch_keeps_sequences_callbacks_and_the_id_of_its_first_part() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    node.kv.script(OpKind::Txn, Fault::FailBefore(KvErrorKind::TooLarge));
    node.kv.script(OpKind::Txn, Fault::Pass);
    node.kv.script(OpKind::Txn, Fault::HoldReply);
    let told = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let slots = node.writer.reserve_many(6).expect("slots");
    for slot in slots {
        let told = told.clone();
        let callback = move |seq: oplog_core::Seq, outcome| told.lock().expect("lock").push((seq.get(), outcome));
        slot.commit_with(entry(&[1; 100]), callback).expect("committed");
    }
    let late = tokio::spawn({
        let writer = node.writer.clone();
        async move {
            loop {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                if let Ok(slot) = writer.reserve() {
                    return slot.commit(entry(b"late")).expect("committed").await;
                }
            }
        }
    });
    let sent = node.kv.calls(OpKind::Txn);
    node.kv.reached(OpKind::Txn, sent + 3).await;
    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    node.kv.release();
    assert_eq!(late.await.expect("joined"), Outcome::Durable);
    node.writer.drain(log.clock.now().saturating_add(std::time::Duration::from_secs(5))).await.expect("drained");
    assert_eq!(*told.lock().expect("lock"), (1..=6).map(|s| (s, Outcome::Durable)).collect::<Vec<_>>());
    let batches = log.batches().await;
    let counts: Vec<_> = batches.iter().map(|b| b.count()).collect();
    assert!(counts.len() >= 3 && counts.iter().sum::<usize>() == 7, "{counts:?}");
    assert_eq!(node.writer.metrics().cuts, 1);
}

/// Once an attempt may have been applied, a batch is never cut: two contents for one id would be two truths.
#[tokio::test(start_paused = true)]
async fn too_large_after_an_unknown_attempt_is_terminal_and_unknown() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    node.kv.script(OpKind::Txn, Fault::LoseRequest(KvErrorKind::Timeout));
    node.kv.script(OpKind::Txn, Fault::FailBefore(KvErrorKind::TooLarge));
    let slots = node.writer.reserve_many(3).expect("slots");
    let mut slots = slots.into_iter();
    let mut next = || slots.next().expect("a slot").commit(entry(b"x")).expect("committed");
    let (a, b) = (next(), next());
    node.until(|s| !s.accepting).await;
    let c = next();
    assert_eq!((a.await, b.await, c.await), (Outcome::Unknown, Outcome::Unknown, Outcome::Never));
    assert!(matches!(node.status().terminal, Some(Terminal::Rejected { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_single_entry_refused_as_too_large_is_terminal_and_never() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    assert_eq!(node.reserve().commit(entry(b"fits")).expect("committed").await, Outcome::Durable);
    node.kv.limit_server(limits(1000));
    let big = node.reserve().commit(entry(&[1; 2000])).expect("committed");
    let sent = node.kv.calls(OpKind::Txn);
    assert_eq!(big.await, Outcome::Never);
    assert!(matches!(node.status().terminal, Some(Terminal::Rejected { .. })));
    assert!(node.kv.calls(OpKind::Txn) <= sent + 1, "never retried for ever");
    assert_eq!(log.payloads().await, [b"fits"]);
}
