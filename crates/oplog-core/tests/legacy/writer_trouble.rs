//! Owns the tests of a legacy writer whose store fails: the three classes of errors, silence and the retry budget, and who cures what.

use std::sync::Arc;
use std::time::Duration;

use ha_kv::faulty::{Fault, FaultyKv, Link, OpKind};
use ha_kv::{ErrorClass, Kv, KvErrorKind, MemoryKv};
use ha_types::{Clock, MonoTime};
use oplog_core::legacy::{
    LegacyCommitError, LegacyTerminal, LegacyTicket, LegacyWriter, LegacyWriterConfig, LegacyWriterStatus,
};
use oplog_core::{Closed, LogKeys, Outcome};

use crate::support::{Ledger, contents, env, keys, log, new, open, seq, start_with};

const MS: fn(u64) -> Duration = Duration::from_millis;

struct Node {
    memory: Arc<MemoryKv>,
    keys: LogKeys,
    kv: Arc<FaultyKv>,
    writer: LegacyWriter,
    clock: Arc<dyn Clock>,
}

impl Node {
    async fn new(retry_budget: Option<Duration>) -> Self {
        let (memory, keys) = (Arc::new(MemoryKv::new()), keys("c"));
        let (kv, storage) = open(&memory, &keys).await;
        let config = LegacyWriterConfig { retry_budget, ..LegacyWriterConfig::default() };
        let writer = start_with(&storage, config).await.unwrap();
        Self { memory, keys, kv, writer, clock: env().clock }
    }

    fn commit(&self, payload: &str) -> LegacyTicket {
        self.writer.commit(new(payload)).unwrap()
    }

    fn status(&self) -> LegacyWriterStatus {
        self.writer.status().borrow().clone()
    }

    async fn until(&self, holds: impl FnMut(&LegacyWriterStatus) -> bool) -> LegacyWriterStatus {
        let mut status = self.writer.status();
        let reached = tokio::time::timeout(Duration::from_secs(7200), status.wait_for(holds)).await;
        reached.expect("the status is reached").unwrap().clone()
    }

    fn since(&self, at: MonoTime) -> Duration {
        self.clock.now().saturating_since(at)
    }

    async fn stored(&self) -> Vec<String> {
        let log = log(&self.memory, &self.keys);
        let mut all = Vec::new();
        while let Some(entry) = log.read_entry(seq(all.len() as u64 + 1)).await.unwrap() {
            all.push(String::from_utf8(entry.payload.to_vec()).unwrap());
        }
        all
    }
}

fn kinds() -> impl Iterator<Item = KvErrorKind> {
    Closed::ALL.into_iter().filter_map(|closed| match closed {
        Closed::Store(kind) => Some(kind),
        Closed::Ended | Closed::Prefix | Closed::Draining => None,
    })
}

/// Design §2 for the legacy writer: admission is closed with the reason as long as it takes, nothing ends, and the cure is noticed
/// without a word, sequences contiguous.
#[tokio::test(start_paused = true)]
async fn legacy_what_time_or_an_operator_cures_closes_admission_with_the_reason_and_recovers_alone() {
    let mut operators = 0;
    for kind in kinds().filter(|kind| kind.class() != ErrorClass::Permanent) {
        for unknown in [false, true] {
            let node = Node::new(None).await;
            let fault = if unknown { Fault::LoseRequest(kind) } else { Fault::FailBefore(kind) };
            assert_eq!(node.commit("1").await, Outcome::Durable);
            node.kv.always(OpKind::Txn, Some(fault));
            let (stuck, beside) = (node.commit("2"), node.commit("3"));
            let closed = Closed::Store(kind);
            node.until(|s| s.closed == Some(closed)).await;
            tokio::time::sleep(Duration::from_secs(300)).await;
            let status = node.status();
            assert_eq!((status.accepting, status.closed, status.terminal), (false, Some(closed), None), "{kind:?}");
            assert_eq!(status.undecided, 2);
            // Only silence counts as silence: what an operator has to cure was said by the store.
            let silent = unknown && kind.class() == ErrorClass::Transient;
            assert_eq!(status.unanswered_since.is_some(), silent, "{kind:?}, unknown: {unknown}");
            let refused = node.writer.commit(new("refused")).unwrap_err();
            assert!(
                matches!(&refused, LegacyCommitError::Unavailable { closed: why, .. } if *why == closed),
                "{refused:?}"
            );
            node.kv.always(OpKind::Txn, None);
            assert_eq!((stuck.await, beside.await), (Outcome::Durable, Outcome::Durable));
            let status = node.until(|s| s.accepting).await;
            assert_eq!((status.closed, status.reason, status.unanswered_since), (None, None, None));
            let next = node.commit("4");
            assert_eq!((next.seq(), next.await), (seq(4), Outcome::Durable), "a refused call used no sequence");
            assert_eq!(node.stored().await, ["1", "2", "3", "4"]);
            operators += u32::from(kind.class() == ErrorClass::Operator);
        }
    }
    assert_eq!(operators, 6, "no space, no trust, no writes; each with both effects");
}

/// A definite answer that no retry cures ends the writer at once; *too large* cuts first. One that leaves it open is asked about.
#[tokio::test(start_paused = true)]
async fn legacy_what_nobody_cures_ends_the_writer_with_the_truth() {
    for kind in kinds().filter(|kind| kind.class() == ErrorClass::Permanent) {
        let corrupt = matches!(kind, KvErrorKind::Corrupt | KvErrorKind::WrongStore);
        let node = Node::new(None).await;
        node.kv.always(OpKind::Txn, Some(Fault::FailBefore(kind)));
        let (stuck, beside) = (node.commit("1"), node.commit("2"));
        let status = node.until(|s| s.terminal.is_some()).await;
        let terminal = status.terminal.unwrap();
        assert_eq!(matches!(terminal, LegacyTerminal::Corrupt { .. }), corrupt, "{kind:?}: {terminal}");
        assert_eq!(matches!(terminal, LegacyTerminal::Rejected { .. }), !corrupt, "{kind:?}: {terminal}");
        assert_eq!((stuck.await, beside.await), (Outcome::Never, Outcome::Never), "{kind:?}");
        assert_eq!((status.closed, status.accepting), (Some(Closed::Ended), false));

        // Applied, and answered with an error all the same: the log tells.
        let node = Node::new(None).await;
        node.kv.script(OpKind::Txn, Fault::FailAfter(kind));
        assert_eq!(node.commit("1").await, Outcome::Durable, "{kind:?}");
        assert!(node.until(|s| s.accepting).await.terminal.is_none(), "{kind:?}");

        // The log cannot be asked.
        let node = Node::new(None).await;
        node.kv.script(OpKind::Txn, Fault::LoseRequest(KvErrorKind::Timeout));
        node.kv.always(OpKind::Get, Some(Fault::FailBefore(kind)));
        assert_eq!(node.commit("1").await, Outcome::Unknown, "{kind:?}");
        let terminal = node.until(|s| s.terminal.is_some()).await.terminal.unwrap();
        assert_eq!(matches!(terminal, LegacyTerminal::Corrupt { .. }), corrupt, "{kind:?}: {terminal}");
        assert_eq!(matches!(terminal, LegacyTerminal::Rejected { .. }), !corrupt, "{kind:?}: {terminal}");
    }
}

/// W16, the signal: since when the store has not answered.
#[tokio::test(start_paused = true)]
async fn w16_legacy_unanswered_since_counts_from_the_first_send_and_only_a_definite_answer_ends_it() {
    let node = Node::new(None).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(node.status().unanswered_since, None, "an idle writer is answered");
    let sent_at = node.clock.now();
    node.kv.set_link(Link::BlackHole);
    let ticket = node.commit("x");
    let status = node.until(|s| s.unanswered_since.is_some()).await;
    assert_eq!(status.unanswered_since, Some(sent_at), "a call that hangs counts from its sending");
    assert!(node.since(sent_at) <= MS(101), "and shows soon");
    assert!(status.accepting, "it has not failed yet");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(node.status().unanswered_since, Some(sent_at));
    // Writes are lost, reads work: the store does not answer the writer all the same.
    node.kv.always(OpKind::Txn, Some(Fault::LoseRequest(KvErrorKind::Timeout)));
    node.kv.set_link(Link::Up);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let status = node.status();
    assert_eq!((status.unanswered_since, status.accepting), (Some(sent_at), false));
    // A definite refusal is an answer.
    node.kv.fill_server(true);
    node.kv.always(OpKind::Txn, None);
    node.until(|s| s.unanswered_since.is_none()).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let status = node.status();
    assert_eq!((status.unanswered_since, status.accepting), (None, false));
    node.kv.fill_server(false);
    assert_eq!(ticket.await, Outcome::Durable);
    assert_eq!(node.until(|s| s.accepting).await.unanswered_since, None);
}

/// W7: full is an operator's reason, shown, and cured without a restart, however long it takes. What was refused for space and applied
/// all the same is recognised, and the budget counts none of it.
#[tokio::test(start_paused = true)]
async fn w7_legacy_a_full_store_is_shown_and_recovered_from_and_what_it_applied_is_recognised() {
    let node = Node::new(Some(Duration::from_secs(5))).await;
    node.kv.script(OpKind::Txn, Fault::FailAfter(KvErrorKind::NoSpace));
    let sent = node.kv.calls(OpKind::Txn);
    assert_eq!(node.commit("1").await, Outcome::Durable);
    assert_eq!(node.kv.calls(OpKind::Txn), sent + 1, "it is not sent again");
    node.kv.fill_server(true);
    let ticket = node.commit("2");
    let status = node.until(|s| !s.accepting).await;
    let full = Closed::Store(KvErrorKind::NoSpace);
    assert_eq!((status.closed, full.class()), (Some(full), ErrorClass::Operator));
    assert!(status.reason.as_deref().is_some_and(|r| r.contains("the store is full")), "{status:?}");
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let before = contents(&node.memory).await;
    assert_eq!((node.status().terminal, node.status().unanswered_since), (None, None));
    node.kv.fill_server(false);
    assert_eq!(ticket.await, Outcome::Durable);
    assert_eq!(contents(&node.memory).await.len(), before.len() + 1);
    assert_eq!(node.commit("3").await, Outcome::Durable);
    assert_eq!(node.stored().await, ["1", "2", "3"]);
    // Refused without being applied, and nobody can tell: still no silence, and never called lost.
    node.kv.always(OpKind::Txn, Some(Fault::LoseRequest(KvErrorKind::NoSpace)));
    let ticket = node.commit("4");
    tokio::time::sleep(Duration::from_secs(600)).await;
    let status = node.status();
    assert_eq!((status.accepting, status.unanswered_since, status.terminal), (false, None, None));
    assert_eq!(node.writer.stop().await, LegacyTerminal::Shutdown);
    assert_eq!(ticket.await, Outcome::Unknown);
    let reason = node.status().reason.unwrap();
    assert!(
        reason.starts_with("shut down; ") && reason.contains("injected"),
        "the cause is kept after the end: {reason}"
    );
}

/// W16, the end: a store that is silent for the whole budget closes admission with the reason, and the writer steps down.
#[tokio::test(start_paused = true)]
async fn w16_legacy_a_store_that_is_silent_for_the_whole_budget_ends_the_writer() {
    let node = Node::new(Some(Duration::from_secs(5))).await;
    node.kv.fill_server(true);
    let (ledger, ticket) = (Ledger::default(), node.commit("x"));
    ledger.commit(&node.writer, "beside").unwrap();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(node.status().terminal, None, "an hour of definite refusals counts nothing");
    node.kv.fill_server(false);
    node.kv.partition(true);
    let cut_at = node.clock.now();
    let status = node.until(|s| s.terminal.is_some()).await;
    let took = node.since(cut_at);
    assert!((MS(4000)..=MS(7000)).contains(&took), "{took:?}");
    assert_eq!((status.terminal, status.closed), (Some(LegacyTerminal::RetryBudget), Some(Closed::Ended)));
    let reason = status.reason.unwrap();
    assert!(
        reason.contains("longer than retry_budget") && reason.contains("the store is full"),
        "the first cause is kept: {reason}"
    );
    assert_eq!(ticket.await, Outcome::Unknown);
    assert_eq!(ledger.wait_for(1).await, [(2, Outcome::Unknown)]);
    assert!(matches!(node.writer.commit(new("y")), Err(LegacyCommitError::Terminal(LegacyTerminal::RetryBudget))));
}

/// A store that reads and does not write uses the budget up, and what is refused in between costs nothing.
#[tokio::test(start_paused = true)]
async fn w16_legacy_the_retry_budget_is_not_refilled_by_reads_and_not_spent_by_refusals() {
    let node = Node::new(Some(Duration::from_secs(5))).await;
    node.kv.always(OpKind::Txn, Some(Fault::LoseRequest(KvErrorKind::Timeout)));
    let ticket = node.commit("x");
    tokio::time::sleep(Duration::from_secs(3)).await;
    node.kv.always(OpKind::Txn, Some(Fault::FailBefore(KvErrorKind::NoSpace)));
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(node.status().terminal, None);
    node.kv.always(OpKind::Txn, Some(Fault::LoseRequest(KvErrorKind::Timeout)));
    let silent_from = node.clock.now();
    node.until(|s| s.terminal.is_some()).await;
    // A pause of up to a second may pass before each change is met.
    let took = node.since(silent_from);
    assert!((MS(1000)..=MS(5000)).contains(&took), "{took:?}");
    assert_eq!((ticket.await, node.status().terminal), (Outcome::Unknown, Some(LegacyTerminal::RetryBudget)));
    assert!(node.kv.calls(OpKind::Get) > 8, "the log was read and answered all the time");
}

/// A call that hangs, be it the transaction or a read after it, is not waited for beyond the budget; each group has its own.
#[tokio::test(start_paused = true)]
async fn w16_legacy_the_retry_budget_ends_a_call_that_hangs() {
    for hangs in [OpKind::Txn, OpKind::Get, OpKind::Range] {
        let node = Node::new(Some(Duration::from_secs(5))).await;
        node.kv.script(OpKind::Txn, Fault::Delay(Duration::from_secs(4)));
        assert_eq!(node.commit("slow").await, Outcome::Durable, "answered within its budget");
        if hangs != OpKind::Txn {
            node.kv.script(OpKind::Txn, Fault::FailAfter(KvErrorKind::Timeout));
        }
        node.kv.script(hangs, Fault::HoldReply);
        let sent_at = node.clock.now();
        assert_eq!(node.commit("x").await, Outcome::Unknown, "{hangs:?}");
        let took = node.since(sent_at);
        assert!((MS(5000)..=MS(5010)).contains(&took), "{hangs:?}: {took:?}");
        assert_eq!(node.status().terminal, Some(LegacyTerminal::RetryBudget));
    }
}

/// One damaged or torn reading of the prefix ends nobody.
#[tokio::test(start_paused = true)]
async fn legacy_a_prefix_that_cannot_be_read_is_read_again_before_it_ends_the_writer() {
    for passes in [true, false] {
        let node = Node::new(None).await;
        node.memory.put(&node.keys.durable_prefix(), "no prefix".into()).await.unwrap();
        let ticket = node.commit("x");
        node.until(|s| s.reason.as_ref().is_some_and(|r| r.contains("corrupt"))).await;
        if passes {
            node.memory.delete(&node.keys.durable_prefix()).await.unwrap();
            assert_eq!(ticket.await, Outcome::Durable);
            assert!(node.until(|s| s.accepting).await.terminal.is_none());
        } else {
            assert_eq!(ticket.await, Outcome::Never);
            let terminal = node.until(|s| s.terminal.is_some()).await.terminal.unwrap();
            assert!(matches!(&terminal, LegacyTerminal::Corrupt { reason } if reason.contains("durable_prefix")));
        }
    }
}

/// W9: the backend is gone for 30 s, then the writer is stopped in mid-backoff.
#[tokio::test(start_paused = true)]
async fn w9_legacy_backend_gone_for_30_s() {
    let node = Node::new(None).await;
    node.kv.script(OpKind::Txn, Fault::FailAfter(KvErrorKind::Timeout));
    node.kv.script(OpKind::Get, Fault::FailBefore(KvErrorKind::Timeout));
    let calls = || node.kv.calls(OpKind::Txn) + node.kv.calls(OpKind::Get);
    let (before, ticket) = (calls(), node.commit("x"));
    node.until(|s| !s.accepting).await;
    node.kv.partition(true);
    tokio::time::sleep(Duration::from_secs(30)).await;
    let attempts = calls() - before;
    assert!((30..=90).contains(&attempts), "{attempts} calls in 30 s");
    let stopped_at = node.clock.now();
    assert_eq!(node.writer.stop().await, LegacyTerminal::Shutdown);
    assert!(node.since(stopped_at) <= MS(100));
    let reason = node.status().reason.unwrap();
    assert!(reason.contains("the reply was lost") && reason.contains("this client is cut off"), "{reason}");
    assert_eq!(ticket.await, Outcome::Unknown);
}
