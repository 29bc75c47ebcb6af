//! Owns the tests of a term: what moves the deadline, what ends it, and that nothing opens the gate again.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ha_kv::faulty::{Fault, Link, Op, OpKind, Stage};
use ha_kv::{KvErrorKind, LeaseKv};
use ha_types::{Clock, ManualClock, MonoTime};
use leadership::{LossReason, Resignation};
use parking_lot::Mutex;
use support::*;

const SPAN: Duration = Duration::from_millis(2500);

/// When each keep-alive was called for, by the runtime's clock.
fn sent_times(cluster: &Cluster, node: &Node) -> Arc<Mutex<Vec<MonoTime>>> {
    let sent = Arc::new(Mutex::new(Vec::new()));
    let (clock, times) = (cluster.clock.clone(), sent.clone());
    node.link.observe(move |op, stage| {
        if let (Op::KeepAlive { .. }, Stage::Called) = (op, stage) {
            times.lock().push(clock.now());
        }
    });
    sent
}

#[tokio::test(start_paused = true)]
async fn s9_the_deadline_counts_from_before_the_keep_alive_was_sent() {
    let cluster = Cluster::new();
    let a = cluster.node("a", 1);
    let sent = sent_times(&cluster, &a);
    let before = cluster.clock.now();
    let term = win(&a).await;
    let guard = term.guard();
    assert_eq!(until(&*guard), before.saturating_add(SPAN), "the first deadline counts from the grant's sending");

    // A reply that is long on its way moves the deadline to where a quick one would have.
    a.link.script(OpKind::KeepAlive, Fault::HoldReply);
    a.link.reached(OpKind::KeepAlive, 1).await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert_eq!(until(&*guard), before.saturating_add(SPAN), "nothing is confirmed yet");
    a.link.release();
    tokio::time::sleep(Duration::from_millis(1)).await;
    let first_sent = sent.lock()[0];
    assert_eq!(until(&*guard), first_sent.saturating_add(SPAN));
    assert!(cluster.clock.now() > first_sent.saturating_add(Duration::from_millis(700)));
}

#[tokio::test(start_paused = true)]
async fn s9_a_slow_request_counts_from_its_sending_too() {
    let cluster = Cluster::new();
    let a = cluster.node("a", 1);
    let sent = sent_times(&cluster, &a);
    let term = win(&a).await;
    a.link.always(OpKind::KeepAlive, Some(Fault::Delay(Duration::from_millis(600))));
    tokio::time::sleep(Duration::from_secs(30)).await;
    let guard = term.guard();
    let sent = sent.lock();
    let confirmed = sent.iter().rev().find(|at| at.saturating_add(Duration::from_millis(600)) <= cluster.clock.now());
    assert_eq!(until(&*guard), confirmed.unwrap().saturating_add(SPAN));
}

#[tokio::test(start_paused = true)]
async fn a_hanging_store_loses_leadership_on_time() {
    let cluster = Cluster::new();
    let a = cluster.node("a", 1);
    let term = win(&a).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    a.link.set_link(Link::BlackHole);
    let guard = term.guard();
    let deadline = until(&*guard);
    let reason = within(SPAN * 2, term.lost()).await;
    assert!(matches!(&reason, LossReason::Expired { last_error: Some(e) } if e.contains("no answer")), "{reason}");
    let now = cluster.clock.now();
    assert!(now >= deadline && now <= deadline.saturating_add(Duration::from_millis(5)), "{now:?} for {deadline:?}");

    // Whatever arrives now opens nothing.
    a.link.set_link(Link::Up);
    a.link.release();
    tokio::time::sleep(TTL * 2).await;
    assert!(!guard.holds());
    assert_eq!(guard.serve_until(), None);
}

#[tokio::test(start_paused = true)]
async fn a_keep_alive_that_fails_for_a_while_is_repeated_until_it_is_confirmed() {
    for kind in
        [KvErrorKind::Unavailable, KvErrorKind::Timeout, KvErrorKind::Busy, KvErrorKind::NoSpace, KvErrorKind::Auth]
    {
        let cluster = Cluster::new();
        let a = cluster.node("a", 1);
        let term = win(&a).await;
        for _ in 0..3 {
            a.link.script(OpKind::KeepAlive, Fault::FailBefore(kind));
        }
        tokio::time::sleep(TTL * 5).await;
        assert!(holds(&term), "{kind:?}");
        assert_eq!(a.elector.metrics().keep_alives_failed, 3);
    }
}

#[tokio::test(start_paused = true)]
async fn w14_a_lease_that_is_gone_ends_the_term_at_once() {
    let cluster = Cluster::new();
    let a = cluster.node("a", 1);
    let lease = Arc::new(Mutex::new(None));
    let seen = lease.clone();
    a.link.observe(move |op, _| {
        if let Op::KeepAlive { lease } = op {
            *seen.lock() = Some(*lease);
        }
    });
    let term = win(&a).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let lease = lease.lock().expect("a keep-alive was sent");
    cluster.store.revoke(lease).await.unwrap();
    let deadline = until(&*term.guard());
    let reason = within(SPAN, term.lost()).await;
    assert!(matches!(reason, LossReason::LeaseLost { .. }), "{reason}");
    assert!(cluster.clock.now() < deadline, "known before the deadline, acted on before the deadline");
    assert!(!holds(&term));
}

#[tokio::test(start_paused = true)]
async fn w14_the_end_of_the_clients_stream_ends_the_term_at_once() {
    for kind in [KvErrorKind::Closed, KvErrorKind::WrongStore, KvErrorKind::LeaseNotFound] {
        let cluster = Cluster::new();
        let a = cluster.node("a", 1);
        let term = win(&a).await;
        a.link.script(OpKind::KeepAlive, Fault::FailBefore(kind));
        let reason = within(SPAN, term.lost()).await;
        assert!(matches!(reason, LossReason::LeaseLost { .. }), "{kind:?}: {reason}");
    }
}

/// The process is stopped (`SIGSTOP`) past its lease: nothing of it runs, but its monotonic clock goes on.
#[tokio::test(start_paused = true)]
async fn w15_a_leader_that_was_stopped_refuses_with_its_first_question() {
    let cluster = Cluster::new();
    let clock = Arc::new(ManualClock::new());
    let a = cluster.node_with("a", 1, config(), clock.clone());
    let term = win(&a).await;
    let guard = term.guard();
    clock.advance(SPAN - Duration::from_millis(1));
    assert!(guard.holds());
    clock.advance(Duration::from_millis(1));
    // No await: no task had a turn since the process went on.
    assert!(!guard.holds());
    assert_eq!(*term.loss().borrow(), Some(LossReason::Expired { last_error: None }));

    // The store never knew and confirms the next keep-alive, if one is sent; the gate stays shut.
    tokio::time::sleep(TTL * 2).await;
    assert!(!guard.holds());
    assert_eq!(a.elector.metrics().remaining_ms, 0);
}

#[tokio::test(start_paused = true)]
async fn w16_a_store_silent_to_the_writer_for_a_whole_ttl_ends_the_keep_alive() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.node("a", 1), cluster.node("b", 2));
    let term = win(&a).await;
    let unanswered = Arc::new(Mutex::new(None));
    let seen = unanswered.clone();
    let rule = tokio::spawn(term.enforce(move || *seen.lock()));
    let standby = tokio::spawn({
        let b = b.elector.clone();
        async move { b.campaign().await }
    });
    // Idle, then short silences that end: the leader stays.
    tokio::time::sleep(TTL * 5).await;
    for _ in 0..10 {
        *unanswered.lock() = Some(cluster.clock.now());
        tokio::time::sleep(TTL - Duration::from_millis(10)).await;
        *unanswered.lock() = None;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(holds(&term) && !rule.is_finished());

    let silent_since = cluster.clock.now();
    *unanswered.lock() = Some(silent_since);
    let reason = within(TTL * 2, rule).await.unwrap();
    assert!(matches!(reason, LossReason::StoreSilent { silent_for } if silent_for >= TTL), "{reason}");
    assert!(cluster.clock.now() <= silent_since.saturating_add(TTL + Duration::from_millis(10)));
    assert!(!holds(&term));
    let second = within(TTL + Duration::from_secs(1), standby).await.unwrap().unwrap();
    assert!(holds(&second), "the lease ran out though the store would have kept it alive");
}

#[tokio::test(start_paused = true)]
async fn w16_a_definite_refusal_never_ends_the_term() {
    let cluster = Cluster::new();
    let a = cluster.node("a", 1);
    let term = win(&a).await;
    a.link.fill_server(true);
    // What the writer reports while the store refuses it in so many words.
    let rule = tokio::spawn(term.enforce(|| None));
    tokio::time::sleep(TTL * 20).await;
    assert!(holds(&term) && !rule.is_finished());
}

#[tokio::test(start_paused = true)]
async fn the_rule_ends_with_the_term() {
    let cluster = Cluster::new();
    let a = cluster.node("a", 1);
    let term = win(&a).await;
    let rule = tokio::spawn(term.enforce(|| None));
    let _ = term.resign().await;
    assert_eq!(within(Duration::from_millis(10), rule).await.unwrap(), LossReason::Resigned);
}

#[tokio::test(start_paused = true)]
async fn resigning_shuts_the_gate_before_the_store_hears_of_it_and_once_only() {
    let cluster = Cluster::new();
    let a = cluster.node("a", 1);
    let term = win(&a).await;
    let open_at_revoke = Arc::new(AtomicBool::new(false));
    let (guard, seen) = (term.guard(), open_at_revoke.clone());
    a.link.observe(move |op, stage| {
        if let (Op::Revoke { .. }, Stage::Called) = (op, stage) {
            seen.store(guard.holds(), Ordering::SeqCst);
        }
    });
    a.link.script(OpKind::Revoke, Fault::FailBefore(KvErrorKind::Busy));
    assert_eq!(term.resign().await, Resignation::HandedOver, "a refusal that did nothing is tried again");
    assert!(!open_at_revoke.load(Ordering::SeqCst));
    assert_eq!(a.link.calls(OpKind::Revoke), 2);
    let keep_alives = a.link.calls(OpKind::KeepAlive);
    assert_eq!(term.resign().await, Resignation::HandedOver);
    assert_eq!(a.link.calls(OpKind::Revoke), 2, "the second resignation asks nothing of the store");
    tokio::time::sleep(TTL * 2).await;
    assert_eq!(a.link.calls(OpKind::KeepAlive), keep_alives);
}

#[tokio::test(start_paused = true)]
async fn a_resignation_without_answer_leaves_the_lease_to_run_out() {
    for fault in [Fault::LoseRequest(KvErrorKind::Timeout), Fault::HoldRequest] {
        let cluster = Cluster::new();
        let (a, b) = (cluster.node("a", 1), cluster.node("b", 2));
        let term = win(&a).await;
        a.link.script(OpKind::Revoke, fault.clone());
        let resigned = within(config().request_timeout * 2, term.resign()).await;
        assert_eq!(resigned, Resignation::LeftToExpire, "{fault:?}");
        assert!(!holds(&term));
        let second = within(TTL + Duration::from_secs(1), b.elector.campaign()).await.unwrap();
        assert!(holds(&second));
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_leadership_shuts_every_gate_and_ends_the_keep_alive() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.node("a", 1), cluster.node("b", 2));
    let term = win(&a).await;
    let (guard, loss) = (term.guard(), term.loss());
    assert!(guard.holds());
    drop(term);
    assert!(!guard.holds());
    assert_eq!(*loss.borrow(), Some(LossReason::Dropped));
    let keep_alives = a.link.calls(OpKind::KeepAlive);
    let second = within(TTL + Duration::from_secs(1), b.elector.campaign()).await.unwrap();
    assert!(holds(&second));
    assert_eq!(a.link.calls(OpKind::KeepAlive), keep_alives);
}

#[tokio::test(start_paused = true)]
async fn the_figures_tell_the_story() {
    let cluster = Cluster::new();
    let a = cluster.node("a", 1);
    assert_eq!(a.elector.metrics(), leadership::ElectionMetrics::default());
    let term = win(&a).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    a.link.script(OpKind::KeepAlive, Fault::FailBefore(KvErrorKind::Unavailable));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let metrics = a.elector.metrics();
    assert!(metrics.leading && metrics.remaining_ms > 1000 && metrics.remaining_ms <= 2500, "{metrics:?}");
    assert_eq!((metrics.terms_won, metrics.attempts, metrics.keep_alives_failed), (1, 1, 1));
    assert!(metrics.keep_alives_ok >= 12, "{metrics:?}");
    assert!(metrics.last_error.is_some());
    drop(term);
    let metrics = a.elector.metrics();
    assert!(!metrics.leading && metrics.remaining_ms == 0);
}
