//! Two primaries that overlap: the fence and the four rules (design §3.1). L11, L12; row W3; the RFC's literal rule failing.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use ha_kv::faulty::{Fault, OpKind};
use ha_kv::{Kv, KvErrorKind};
use ha_types::{Epoch, Owner, Seq};
use oplog_core::record::BatchRecord;
use oplog_core::{BatchId, CommitError, DurablePrefix, Outcome, ReserveError, Terminal, Ticket, WriterConfig};

use crate::support::{Log, Node, ends, entry};

async fn commit_all(node: &Node, payloads: &[&[u8]]) -> Vec<Ticket> {
    let slots = node.writer.reserve_many(payloads.len()).expect("slots");
    slots.into_iter().zip(payloads).map(|(slot, payload)| slot.commit(entry(payload)).expect("committed")).collect()
}

async fn outcomes(tickets: Vec<Ticket>) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for ticket in tickets {
        outcomes.push(ticket.await);
    }
    outcomes
}

/// W3: the old leader is paused between seal and transaction; the new one claims, catches up and serves; the old one resumes.
#[tokio::test(start_paused = true)]
async fn w3_old_leader_paused_between_seal_and_transaction() {
    ends(async {
        let log = Log::new().await;
        let old = log.node(WriterConfig::default()).await;
        let before = commit_all(&old, &[b"before"]).await;
        assert_eq!(outcomes(before).await, [Outcome::Durable]);
        old.kv.script(OpKind::Txn, Fault::HoldRequest);
        let sent = old.kv.calls(OpKind::Txn);
        let told = Arc::new(Mutex::new(Vec::new()));
        let (in_flight, waiting) = (old.reserve(), old.reserve());
        let reserved = old.reserve();
        let note = |told: &Arc<Mutex<Vec<_>>>| {
            let told = Arc::clone(told);
            move |seq: Seq, outcome| told.lock().expect("lock").push((seq.get(), outcome))
        };
        in_flight.commit_with(entry(b"paused"), note(&told)).expect("committed");
        old.kv.reached(OpKind::Txn, sent + 1).await;
        waiting.commit_with(entry(b"waiting"), note(&told)).expect("committed");

        let new_kv = log.client();
        let (state, claimed) = log.claim_state(new_kv.clone()).await;
        assert_eq!(state.0, [b"before"], "the new leader has what was durable");
        let new = oplog_core::OrderedWriter::start(claimed, WriterConfig::default(), log.env()).expect("started");
        let new = Node { kv: new_kv, writer: new };
        assert_eq!(outcomes(commit_all(&new, &[b"new 1", b"new 2"]).await).await, [Outcome::Durable; 2]);

        old.kv.release();
        let status = old.until(|s| s.terminal.is_some()).await;
        assert!(
            matches!(status.terminal, Some(Terminal::Fenced { found }) if found.epoch == Epoch::new(2)),
            "{status:?}"
        );
        assert!(!status.accepting);
        assert!(matches!(old.writer.reserve(), Err(ReserveError::Unavailable { .. })));
        assert!(matches!(reserved.commit(entry(b"late")), Err(CommitError::Terminal(Terminal::Fenced { .. }))));
        old.writer.stop().await;
        while told.lock().expect("lock").len() < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(*told.lock().expect("lock"), [(2, Outcome::Never), (3, Outcome::Never)], "no success is ever told");
        assert!(matches!(old.status().terminal, Some(Terminal::Fenced { .. })), "the first end stays");
        assert_eq!(outcomes(commit_all(&new, &[b"new 3"]).await).await, [Outcome::Durable], "the next write succeeds");
        assert_eq!(log.payloads().await, [&b"before"[..], b"new 1", b"new 2", b"new 3"]);
    })
    .await;
}

/// The RFC's rule of §10 taken literally, on what is really in the store: *prefix equals the new prefix by its two numbers, and
/// the batch record is readable and valid → success*.
async fn rfc_rule_says_success(log: &Log, new: (u64, u64)) -> bool {
    let prefix = log.prefix().await;
    let record = log.store.get(&Log::keys().batch(BatchId::new(new.0))).await.expect("memory");
    let valid = record.is_some_and(|bytes| BatchRecord::decode(bytes).is_ok());
    (prefix.batch_id.get(), prefix.last_seq.get()) == new && valid
}

/// Two overlapping primaries that write batches of the same numbers: the literal rule calls the other one's batch ours.
#[tokio::test(start_paused = true)]
async fn the_rfcs_rule_by_numbers_is_a_false_success_where_ours_holds() {
    ends(async {
        let log = Log::new().await;
        let old = log.node(WriterConfig::default()).await;
        old.kv.script(OpKind::Txn, Fault::HoldRequest);
        let sent = old.kv.calls(OpKind::Txn);
        let ours = commit_all(&old, &[b"ours 1", b"ours 2"]).await;
        old.kv.reached(OpKind::Txn, sent + 1).await;
        let new = log.node(WriterConfig::default()).await;
        assert_eq!(outcomes(commit_all(&new, &[b"theirs 1", b"theirs 2"]).await).await, [Outcome::Durable; 2]);

        // The old primary is about to learn that its compare failed, and to re-read.
        assert!(
            rfc_rule_says_success(&log, (1, 2)).await,
            "the schedule no longer shows the fault of the literal rule"
        );
        let in_log = log.payloads().await;
        assert_eq!(in_log, [b"theirs 1", b"theirs 2"], "so that success would be false: L5 broken");

        old.kv.release();
        assert_eq!(outcomes(ours).await, [Outcome::Never, Outcome::Never]);
        assert!(matches!(old.status().terminal, Some(Terminal::Fenced { .. })));
        assert_eq!(log.payloads().await, in_log);
    })
    .await;
}

/// Fenced, but the batch had landed before the claim: the new leader has it, and the old one says so.
#[tokio::test(start_paused = true)]
async fn l12_fenced_with_the_batch_in_the_log_says_durable() {
    ends(async {
        let log = Log::new().await;
        let old = log.node(WriterConfig::default()).await;
        old.kv.script(OpKind::Txn, Fault::FailAfter(KvErrorKind::Timeout));
        old.kv.script(OpKind::Get, Fault::HoldRequest);
        let reads = old.kv.calls(OpKind::Get);
        let slots = old.writer.reserve_many(2).expect("slots");
        let mut tickets = Vec::new();
        for slot in slots {
            tickets.push(slot.commit(entry(b"landed")).expect("committed"));
            old.kv.reached(OpKind::Get, reads + 1).await;
        }
        let new = log.node(WriterConfig::default()).await;
        assert_eq!(outcomes(commit_all(&new, &[b"new"]).await).await, [Outcome::Durable]);
        old.kv.release();
        assert_eq!(
            outcomes(tickets).await,
            [Outcome::Durable, Outcome::Never],
            "in flight: durable; not sealed: never"
        );
        assert!(matches!(old.status().terminal, Some(Terminal::Fenced { .. })));
        assert_eq!(log.payloads().await, [&b"landed"[..], b"new"]);
    })
    .await;
}

/// Fenced by a claim alone: the prefix still names the batch before ours.
#[tokio::test(start_paused = true)]
async fn fenced_by_a_claim_before_anything_was_written_says_never() {
    let log = Log::new().await;
    let old = log.node(WriterConfig::default()).await;
    old.kv.script(OpKind::Txn, Fault::ApplyLater(None));
    old.kv.script(OpKind::Get, Fault::HoldRequest);
    let reads = old.kv.calls(OpKind::Get);
    let tickets = commit_all(&old, &[b"late"]).await;
    old.kv.reached(OpKind::Get, reads + 1).await;
    let _claimed = log.claim(log.client()).await;
    old.kv.release();
    assert_eq!(outcomes(tickets).await, [Outcome::Never]);
    assert_eq!(old.kv.land_held().await, 1);
    assert!(log.payloads().await.is_empty(), "the late request was fenced");
}

async fn fenced_with_stored(stored: Option<Bytes>) -> Vec<Outcome> {
    let log = Log::new().await;
    let old = log.node(WriterConfig::default()).await;
    old.kv.script(OpKind::Txn, Fault::FailAfter(KvErrorKind::Timeout));
    old.kv.script(OpKind::Get, Fault::HoldRequest);
    let reads = old.kv.calls(OpKind::Get);
    let tickets = commit_all(&old, &[b"landed"]).await;
    old.kv.reached(OpKind::Get, reads + 1).await;
    let new = log.node(WriterConfig::default()).await;
    assert_eq!(outcomes(commit_all(&new, &[b"new"]).await).await, [Outcome::Durable]);
    match stored {
        Some(bytes) => log.store.put(&Log::keys().batch(BatchId::new(1)), bytes).await.expect("memory"),
        None => log.store.delete(&Log::keys().batch(BatchId::new(1))).await.expect("memory"),
    }
    old.kv.release();
    outcomes(tickets).await
}

#[tokio::test(start_paused = true)]
async fn fenced_and_the_stored_batch_truncated_or_unreadable_says_unknown() {
    assert_eq!(fenced_with_stored(None).await, [Outcome::Unknown]);
    assert_eq!(fenced_with_stored(Some(Bytes::from_static(b"rubbish"))).await, [Outcome::Unknown]);
    assert_eq!(fenced_with_stored(Some(Bytes::from_static(b"{\"batch_id\":1}"))).await, [Outcome::Unknown]);
}

/// The store goes away while the fenced writer asks for its batch: it does not ask for ever.
#[tokio::test(start_paused = true)]
async fn fenced_and_the_stored_batch_out_of_reach_says_unknown_soon() {
    let log = Log::new().await;
    let old = log.node(WriterConfig::default()).await;
    old.kv.script(OpKind::Txn, Fault::FailAfter(KvErrorKind::Timeout));
    old.kv.script(OpKind::Get, Fault::HoldRequest);
    let reads = old.kv.calls(OpKind::Get);
    let tickets = commit_all(&old, &[b"landed"]).await;
    old.kv.reached(OpKind::Get, reads + 1).await;
    let new = log.node(WriterConfig::default()).await;
    assert_eq!(outcomes(commit_all(&new, &[b"new"]).await).await, [Outcome::Durable]);
    // The prefix is still read; the record is not.
    for _ in 0..100 {
        old.kv.script(OpKind::Get, Fault::FailBefore(KvErrorKind::Unavailable));
    }
    old.kv.release();
    assert_eq!(outcomes(tickets).await, [Outcome::Unknown]);
    assert!(old.kv.calls(OpKind::Get) - reads <= 12, "bounded reads");
}

async fn meets(found: Option<&str>, sticks: bool) -> (Node, Vec<Ticket>, Log) {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    node.kv.script(OpKind::Txn, Fault::FailBefore(KvErrorKind::Busy));
    let tickets = commit_all(&node, &[b"1"]).await;
    node.until(|s| !s.accepting).await;
    let key = Log::keys().durable_prefix();
    let before = log.store.get(&key).await.expect("memory").expect("a prefix");
    match found {
        Some(text) => log.store.put(&key, Bytes::copy_from_slice(text.as_bytes())).await.expect("memory"),
        None => log.store.delete(&key).await.expect("memory"),
    }
    if !sticks {
        // The second read, which confirms, finds it as it was.
        let (store, reads) = (log.store.clone(), node.kv.calls(OpKind::Get));
        node.kv.reached(OpKind::Get, reads + 1).await;
        tokio::task::yield_now().await;
        store.put(&key, before).await.expect("memory");
    }
    (node, tickets, log)
}

/// Rule 4: absent, lower in any field, another owner of our epoch, or no prefix at all.
#[tokio::test(start_paused = true)]
async fn rule_4_is_confirmed_by_a_second_read_and_then_terminal() {
    let lower = DurablePrefix::FRESH.encode();
    let other_owner = DurablePrefix {
        epoch: Epoch::new(1),
        owner: Owner::new(7),
        batch_id: BatchId::new(3),
        last_seq: oplog_core::Seq::new(3),
    }
    .encode();
    for found in [None, Some(lower.as_str()), Some(other_owner.as_str()), Some("rubbish"), Some("{\"batch_id\":1}")] {
        let (node, tickets, log) = meets(found, true).await;
        let reads = node.kv.calls(OpKind::Get);
        let status = node.until(|s| s.terminal.is_some()).await;
        assert!(matches!(&status.terminal, Some(Terminal::Corrupt { reason }) if !reason.is_empty()), "{status:?}");
        assert!(node.kv.calls(OpKind::Get) <= reads + 2);
        assert_eq!(outcomes(tickets).await, [Outcome::Never], "no attempt of it may have been applied: {found:?}");
        let left = log.store.get(&Log::keys().durable_prefix()).await.expect("memory");
        assert_eq!(left.as_deref(), found.map(str::as_bytes), "nothing was repaired by overwriting it");
    }
}

#[tokio::test(start_paused = true)]
async fn rule_4_seen_once_only_is_no_verdict() {
    let (node, tickets, log) = meets(None, false).await;
    assert_eq!(outcomes(tickets).await, [Outcome::Durable]);
    assert_eq!(node.status().terminal, None);
    assert!(node.status().accepting);
    assert_eq!(log.payloads().await, [b"1"]);
}

/// L12 with an unknown attempt: the store lost the prefix, and nobody can say what became of the batch.
#[tokio::test(start_paused = true)]
async fn corrupt_after_an_unknown_attempt_says_unknown() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    node.kv.script(OpKind::Txn, Fault::ApplyLater(None));
    node.kv.script(OpKind::Get, Fault::HoldRequest);
    let reads = node.kv.calls(OpKind::Get);
    let tickets = commit_all(&node, &[b"1"]).await;
    node.kv.reached(OpKind::Get, reads + 1).await;
    log.store.delete(&Log::keys().durable_prefix()).await.expect("memory");
    node.kv.release();
    assert_eq!(outcomes(tickets).await, [Outcome::Unknown]);
}

/// Errors that no retry cures end the writer, with the truth about what was sent.
#[tokio::test(start_paused = true)]
async fn a_store_that_is_another_or_corrupt_or_closed_is_terminal() {
    for (kind, corrupt) in [
        (KvErrorKind::WrongStore, true),
        (KvErrorKind::Corrupt, true),
        (KvErrorKind::Closed, false),
        (KvErrorKind::InvalidArgument, false),
    ] {
        let log = Log::new().await;
        let node = log.node(WriterConfig::default()).await;
        node.kv.script(OpKind::Txn, Fault::FailBefore(kind));
        let tickets = commit_all(&node, &[b"1"]).await;
        assert_eq!(outcomes(tickets).await, [Outcome::Never]);
        let terminal = node.status().terminal.expect("an end");
        assert_eq!(matches!(terminal, Terminal::Corrupt { .. }), corrupt, "{terminal:?}");
        assert_eq!(matches!(terminal, Terminal::Rejected { .. }), !corrupt, "{terminal:?}");
    }
}
