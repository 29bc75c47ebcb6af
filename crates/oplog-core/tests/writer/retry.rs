//! RFC batch record §11: the first failure closes admission, the stuck batch is retried for ever, success opens it again. L7;
//! rows W9 and W16.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ha_kv::faulty::{Fault, Link, OpKind};
use ha_kv::{ErrorClass, KvErrorKind};
use ha_types::Clock;
use oplog_core::{Closed, Outcome, Refusal, ReserveError, Terminal, WriterConfig};

use crate::support::{Log, ends, entry};

const MS: fn(u64) -> Duration = Duration::from_millis;

#[tokio::test(start_paused = true)]
async fn l7_from_the_first_failure_to_the_durable_success_nothing_is_admitted_or_told() {
    ends(async {
        let log = Log::new().await;
        let node = log.node(WriterConfig { oplog_batch_max_entries: 4, ..WriterConfig::default() }).await;
        let told = Arc::new(AtomicU64::new(0));
        let count = || {
            let told = told.clone();
            move |_, outcome| {
                assert_eq!(outcome, Outcome::Durable);
                told.fetch_add(1, Ordering::SeqCst);
            }
        };
        let (a, b, c) = (node.reserve(), node.reserve(), node.reserve());
        let last = node.reserve();
        let in_line = || {
            let writer = node.writer.clone();
            tokio::spawn(async move { writer.ready().await.map(drop) })
        };
        let (first_in_line, second_in_line) = (in_line(), in_line());
        tokio::task::yield_now().await;
        node.kv.always(OpKind::Txn, Some(Fault::FailBefore(KvErrorKind::NoSpace)));
        a.commit_with(entry(b"a"), count()).expect("committed");
        let failing = node.until(|s| !s.accepting).await;
        assert!(failing.reason.as_deref().is_some_and(|r| r.contains("refused before it applied")), "{failing:?}");
        assert_eq!(failing.terminal, None);
        assert!(matches!(node.writer.reserve(), Err(ReserveError::Unavailable { .. })));
        assert!(matches!(node.writer.ready().await, Err(ReserveError::Unavailable { .. })));
        // The seal of `a` freed one slot before the failure; nobody else is left in line.
        assert!(first_in_line.await.expect("joined").is_ok());
        assert!(matches!(second_in_line.await.expect("joined"), Err(ReserveError::Unavailable { .. })));
        // What is reserved may still commit or abort.
        b.commit_with(entry(b"b"), count()).expect("committed");
        drop(c);
        tokio::time::sleep(MS(100)).await;
        assert!(!node.status().accepting);
        assert_eq!(told.load(Ordering::SeqCst), 0);
        assert!(node.writer.metrics().refused.unavailable() >= 3);
        node.kv.always(OpKind::Txn, None);
        node.until(|s| s.accepting).await;
        drop(last);
        node.writer.drain(log.clock.now().saturating_add(MS(1000))).await.expect("drained");
        assert_eq!(told.load(Ordering::SeqCst), 2);
        assert_eq!(log.payloads().await, [b"a", b"b"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_stuck_batch_is_retried_for_ever_with_pauses_from_1_ms_to_1_s() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    node.kv.always(OpKind::Txn, Some(Fault::FailBefore(KvErrorKind::Busy)));
    let ticket = node.reserve().commit(entry(b"a")).expect("committed");
    let sent = node.kv.calls(OpKind::Txn);
    tokio::time::sleep(MS(200)).await;
    let early = node.kv.calls(OpKind::Txn) - sent;
    assert!(
        (7..=12).contains(&early),
        "{early} attempts in 200 ms: 1, 2, 4, ... ms with up to half of each taken away"
    );
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let hour = node.kv.calls(OpKind::Txn) - sent;
    assert!((3600..=7300).contains(&hour), "{hour} attempts in an hour of pauses of 0.5 to 1 s");
    assert_eq!(ticket.outcome(), None);
    assert!(node.writer.metrics().stuck_batch_age_ms >= 3_600_000);
    assert!(node.writer.metrics().retries >= 3600);
    node.kv.always(OpKind::Txn, None);
    assert_eq!(ticket.await, Outcome::Durable);
    assert!(node.status().accepting);
    assert_eq!(node.writer.metrics().stuck_batch_age_ms, 0);
}

#[tokio::test(start_paused = true)]
async fn each_batch_starts_with_short_pauses_again() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    for _ in 0..3 {
        let start = log.clock.now();
        for _ in 0..3 {
            node.kv.script(OpKind::Txn, Fault::FailBefore(KvErrorKind::Busy));
        }
        assert_eq!(node.reserve().commit(entry(b"a")).expect("committed").await, Outcome::Durable);
        assert!(log.clock.now().saturating_since(start) <= MS(10));
    }
}

/// W9: the backend is gone for 30 s, then stopped in mid-backoff.
#[tokio::test(start_paused = true)]
async fn w9_backend_gone_for_30_s() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    node.kv.script(OpKind::Txn, Fault::FailAfter(KvErrorKind::Timeout));
    node.kv.set_link(Link::Up);
    let slots = node.writer.reserve_many(3).expect("slots");
    let mut slots = slots.into_iter();
    let mut next = || slots.next().expect("a slot").commit(entry(b"x")).expect("committed");
    node.kv.script(OpKind::Get, Fault::FailBefore(KvErrorKind::Timeout));
    let (calls, first) = (|| node.kv.calls(OpKind::Txn) + node.kv.calls(OpKind::Get), next());
    let before = calls();
    node.until(|s| !s.accepting).await;
    node.kv.partition(true);
    let (second, third) = (next(), next());
    tokio::time::sleep(Duration::from_secs(30)).await;
    let attempts = calls() - before;
    assert!((30..=90).contains(&attempts), "{attempts} calls in 30 s");
    let reason = node.status().reason.expect("a reason");
    assert!(
        reason.contains("the reply was lost") && reason.contains("this client is cut off"),
        "first cause kept: {reason}"
    );
    let stopped_at = log.clock.now();
    node.writer.stop().await;
    assert!(log.clock.now().saturating_since(stopped_at) <= MS(100));
    assert_eq!(node.status().terminal, Some(Terminal::Shutdown));
    let reason = node.status().reason.expect("a reason");
    assert!(reason.contains("the reply was lost"), "first cause kept after the end: {reason}");
    // The first one's transaction is in the store, which this writer cannot know; the others were never sent.
    assert_eq!((first.await, second.await, third.await), (Outcome::Unknown, Outcome::Never, Outcome::Never));
    assert_eq!(log.payloads().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn w9_stop_in_mid_backoff_of_definite_refusals_says_never() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    node.kv.always(OpKind::Txn, Some(Fault::FailBefore(KvErrorKind::Unavailable)));
    let ticket = node.reserve().commit(entry(b"x")).expect("committed");
    tokio::time::sleep(Duration::from_secs(10)).await;
    let stopped_at = log.clock.now();
    node.writer.stop().await;
    assert!(log.clock.now().saturating_since(stopped_at) <= MS(100));
    assert_eq!(ticket.await, Outcome::Never);
    assert!(log.payloads().await.is_empty());
}

/// W16, the signal: since when the store has not answered.
#[tokio::test(start_paused = true)]
async fn w16_unanswered_since_counts_from_the_first_send_and_only_a_definite_answer_ends_it() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(node.status().unanswered_since, None, "an idle writer is answered");
    let sent_at = log.clock.now();
    node.kv.set_link(Link::BlackHole);
    let slots = node.writer.reserve_many(2).expect("slots");
    let mut slots = slots.into_iter();
    let ticket = slots.next().expect("one").commit(entry(b"x")).expect("committed");
    let status = node.until(|s| s.unanswered_since.is_some()).await;
    assert_eq!(status.unanswered_since, Some(sent_at), "a call that hangs counts from its sending");
    assert!(log.clock.now().saturating_since(sent_at) <= MS(101), "and shows soon");
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
    assert_eq!(node.status().unanswered_since, None);
}

/// W7's half of the writer: full is an operator's reason, shown, cured without a restart, sequences contiguous.
#[tokio::test(start_paused = true)]
async fn a_full_store_is_shown_and_recovered_from() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    assert_eq!(node.reserve().commit(entry(b"1")).expect("committed").await, Outcome::Durable);
    node.kv.fill_server(true);
    let ticket = node.reserve().commit(entry(b"2")).expect("committed");
    let status = node.until(|s| !s.accepting).await;
    assert!(status.reason.as_deref().is_some_and(|r| r.contains("the store is full")), "{status:?}");
    let full = Closed::Store(KvErrorKind::NoSpace);
    assert_eq!((status.closed, full.class()), (Some(full), ErrorClass::Operator));
    let refused = node.writer.reserve().expect_err("closed");
    assert!(matches!(refused, ReserveError::Unavailable { closed, .. } if closed == full), "{refused:?}");
    assert_eq!(node.writer.metrics().refused.of(Refusal::Closed(full)), 1, "and counted by reason");
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(node.status().terminal, None);
    assert!(node.writer.metrics().last_error.is_some_and(|e| e.contains("full")));
    node.kv.fill_server(false);
    assert_eq!(ticket.await, Outcome::Durable);
    assert_eq!(node.reserve().commit(entry(b"3")).expect("committed").await, Outcome::Durable);
    assert_eq!(log.payloads().await, [b"1", b"2", b"3"]);
}

/// A full etcd refuses the transaction that crosses its quota and applies it all the same: the prefix tells, and the store counts
/// as one that answers.
#[tokio::test(start_paused = true)]
async fn w7_a_batch_refused_for_space_and_applied_is_recognised() {
    let log = Log::new().await;
    let config = WriterConfig { oplog_retry_budget: Some(Duration::from_secs(5)), ..WriterConfig::default() };
    let node = log.node(config).await;
    node.kv.script(OpKind::Txn, Fault::FailAfter(KvErrorKind::NoSpace));
    let sent = node.kv.calls(OpKind::Txn);
    assert_eq!(node.reserve().commit(entry(b"1")).expect("committed").await, Outcome::Durable);
    assert_eq!(node.kv.calls(OpKind::Txn), sent + 1, "it is not sent again");
    assert_eq!(log.payloads().await, [b"1"]);
    // Refused without being applied, for far longer than any lease and the budget.
    node.kv.always(OpKind::Txn, Some(Fault::LoseRequest(KvErrorKind::NoSpace)));
    let ticket = node.reserve().commit(entry(b"2")).expect("committed");
    tokio::time::sleep(Duration::from_secs(600)).await;
    let status = node.status();
    assert_eq!((status.accepting, status.unanswered_since, status.terminal), (false, None, None));
    node.writer.stop().await;
    assert_eq!(ticket.await, Outcome::Unknown, "an attempt that may have been applied is never called lost");
}

#[tokio::test(start_paused = true)]
async fn the_retry_budget_counts_silence_and_no_refusal() {
    let log = Log::new().await;
    let config = WriterConfig { oplog_retry_budget: Some(Duration::from_secs(5)), ..WriterConfig::default() };
    let node = log.node(config).await;
    node.kv.fill_server(true);
    let ticket = node.reserve().commit(entry(b"x")).expect("committed");
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(node.status().terminal, None, "an hour of definite refusals counts nothing");
    node.kv.fill_server(false);
    node.kv.partition(true);
    let cut_at = log.clock.now();
    let status = node.until(|s| s.terminal.is_some()).await;
    let took = log.clock.now().saturating_since(cut_at);
    assert_eq!(status.terminal, Some(Terminal::RetryBudget));
    assert!((MS(4000)..=MS(7000)).contains(&took), "{took:?}");
    assert_eq!(ticket.await, Outcome::Unknown);
    assert!(matches!(node.writer.reserve(), Err(ReserveError::Unavailable { .. })));
}

/// A store that reads and does not write uses the budget up, and what is refused in between costs nothing.
#[tokio::test(start_paused = true)]
async fn the_retry_budget_is_not_refilled_by_reads_and_not_spent_by_refusals() {
    let log = Log::new().await;
    let config = WriterConfig { oplog_retry_budget: Some(Duration::from_secs(5)), ..WriterConfig::default() };
    let node = log.node(config).await;
    node.kv.always(OpKind::Txn, Some(Fault::LoseRequest(KvErrorKind::Timeout)));
    let ticket = node.reserve().commit(entry(b"x")).expect("committed");
    tokio::time::sleep(Duration::from_secs(3)).await;
    node.kv.always(OpKind::Txn, Some(Fault::FailBefore(KvErrorKind::NoSpace)));
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(node.status().terminal, None);
    node.kv.always(OpKind::Txn, Some(Fault::LoseRequest(KvErrorKind::Timeout)));
    let silent_from = log.clock.now();
    node.until(|s| s.terminal.is_some()).await;
    let took = log.clock.now().saturating_since(silent_from);
    // A pause of up to a second may pass before each change is met.
    assert!((MS(1000)..=MS(5000)).contains(&took), "{took:?}");
    assert_eq!((ticket.await, node.status().terminal), (Outcome::Unknown, Some(Terminal::RetryBudget)));
    assert!(node.kv.calls(OpKind::Get) > 4, "the prefix was read and answered all the time");
}

#[tokio::test(start_paused = true)]
async fn the_retry_budget_ends_a_call_that_hangs() {
    let log = Log::new().await;
    let config = WriterConfig { oplog_retry_budget: Some(Duration::from_secs(5)), ..WriterConfig::default() };
    let node = log.node(config).await;
    node.kv.set_link(Link::BlackHole);
    let sent_at = log.clock.now();
    let ticket = node.reserve().commit(entry(b"x")).expect("committed");
    assert_eq!(ticket.await, Outcome::Unknown);
    let took = log.clock.now().saturating_since(sent_at);
    assert!((MS(5000)..=MS(5010)).contains(&took), "{took:?}");
    assert_eq!(node.status().terminal, Some(Terminal::RetryBudget));
}
