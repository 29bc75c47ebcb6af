//! Owns the tests of campaigns: who wins, who waits, what a campaign leaves behind.

mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ha_kv::faulty::{Fault, Link, OpKind, Situation};
use ha_kv::{Kv, KvErrorKind};
use ha_types::Clock;
use leadership::{CampaignError, ElectionConfig, LossReason, Resignation};
use support::*;

#[tokio::test(start_paused = true)]
async fn two_candidates_one_winner_and_the_other_wins_when_it_resigns() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.node("a", 1), cluster.node("b", 2));
    let first = win(&a).await;
    let mut second = tokio::spawn({
        let b = b.elector.clone();
        async move { b.campaign().await }
    });
    let early = tokio::time::timeout(Duration::from_secs(60), &mut second).await;
    assert!(early.is_err(), "twenty TTLs, and the leader's keep-alive kept the other waiting");
    assert_eq!(b.elector.leader().await.unwrap().unwrap(), "a");
    assert!(holds(&first));

    assert_eq!(first.resign().await, Resignation::HandedOver);
    assert!(!holds(&first));
    let before = cluster.clock.now();
    let second = second.await.unwrap().unwrap();
    assert!(
        cluster.since(before) < Duration::from_millis(50),
        "a hint, not the poll, ended the wait: {:?}",
        cluster.since(before)
    );
    assert!(holds(&second));
    assert_eq!(a.elector.leader().await.unwrap().unwrap(), "b");
    assert_eq!(*first.loss().borrow(), Some(LossReason::Resigned));
}

#[tokio::test(start_paused = true)]
async fn without_hints_the_poll_ends_the_wait() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.node("a", 1), cluster.node("b", 2));
    b.link.always(OpKind::Watch, Some(Fault::FailBefore(KvErrorKind::Unavailable)));
    let first = win(&a).await;
    let second = tokio::spawn({
        let b = b.elector.clone();
        async move { b.campaign().await }
    });
    tokio::time::sleep(Duration::from_secs(5)).await;
    let _ = first.resign().await;
    let before = cluster.clock.now();
    let second = second.await.unwrap().unwrap();
    assert!(cluster.since(before) <= config().poll, "{:?}", cluster.since(before));
    assert!(holds(&second));
    assert!(b.link.calls(OpKind::Watch) <= 7, "no busy loop: {} set-ups", b.link.calls(OpKind::Watch));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_of_the_put_is_asked_again_with_the_same_lease() {
    for fault in [
        Fault::FailAfter(KvErrorKind::Unavailable),
        Fault::LoseRequest(KvErrorKind::Timeout),
        Fault::ApplyLater(Some(Duration::from_millis(5))),
        Fault::Duplicate,
        Fault::HoldReply,
        Fault::HoldRequest,
    ] {
        let cluster = Cluster::new();
        let a = cluster.node("a", 3);
        a.link.script(OpKind::PutIfAbsent, fault.clone());
        let term = win(&a).await;
        assert!(holds(&term), "{fault:?}");
        assert_eq!(a.leases.granted.load(Ordering::SeqCst), 1, "{fault:?} must not cost a second lease");
        assert_eq!(cluster.holder().await.unwrap(), "a");
        let _ = term.resign().await;
        assert_eq!(cluster.holder().await, None, "{fault:?}: resigning removed the key");
    }
}

#[tokio::test(start_paused = true)]
async fn a_campaign_given_up_leaves_no_lease_behind() {
    // Dropped while it waits for another leader.
    let cluster = Cluster::new();
    let (a, b) = (cluster.node("a", 1), cluster.node("b", 2));
    let term = win(&a).await;
    let given_up = tokio::time::timeout(Duration::from_secs(10), b.elector.campaign()).await;
    assert!(given_up.is_err());
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(b.leases.alive(), 0);
    drop(term);

    // Dropped while each of its requests is without answer, before and after the store did it.
    for kind in [OpKind::PutIfAbsent, OpKind::KeepAlive, OpKind::Get] {
        for fault in [Fault::HoldRequest, Fault::HoldReply] {
            let cluster = Cluster::new();
            let node = cluster.node("c", 4);
            let other = match kind {
                OpKind::PutIfAbsent => None,
                _ => Some(win(&cluster.node("d", 5)).await),
            };
            node.link.always(kind, Some(fault.clone()));
            let mut campaign = Box::pin(node.elector.campaign());
            tokio::select! {
                _ = &mut campaign => panic!("nobody answers {kind:?}"),
                () = node.link.reached(kind, 1) => {}
                () = tokio::time::sleep(Duration::from_secs(5)) => assert_eq!(kind, OpKind::Get, "{kind:?} was never sent"),
            }
            tokio::task::yield_now().await;
            drop(campaign);
            tokio::time::sleep(Duration::from_millis(1)).await;
            assert_eq!(node.leases.alive(), 0, "{kind:?} {fault:?}");
            node.link.always(kind, None);
            node.link.release();
            tokio::time::sleep(Duration::from_millis(1)).await;
            let holder = cluster.holder().await;
            assert!(holder.as_deref() != Some(&b"c"[..]), "{kind:?} {fault:?}: nobody campaigns as c any more");
            drop(other);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_put_that_lands_after_its_campaign_was_given_up_is_refused() {
    let cluster = Cluster::new();
    let a = cluster.node("a", 1);
    a.link.always(OpKind::PutIfAbsent, Some(Fault::ApplyLater(None)));
    assert!(tokio::time::timeout(Duration::from_secs(1), a.elector.campaign()).await.is_err());
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(a.link.land_held().await > 0);
    assert!(a.link.count(Situation::LandedRefused) > 0, "its lease was revoked");
    assert_eq!(a.link.count(Situation::LandedApplied), 0);
    assert_eq!(cluster.holder().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_ran_out_while_the_store_was_away_is_granted_anew() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.node("a", 1), cluster.node("b", 2));
    let first = win(&a).await;
    let second = tokio::spawn({
        let b = b.elector.clone();
        async move { b.campaign().await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    b.link.partition(true);
    tokio::time::sleep(TTL * 4).await;
    assert!(b.elector.metrics().last_error.is_some());
    b.link.partition(false);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(b.leases.granted.load(Ordering::SeqCst), 2);
    let _ = first.resign().await;
    assert!(holds(&within(Duration::from_secs(1), second).await.unwrap().unwrap()));
}

#[tokio::test(start_paused = true)]
async fn w7_a_full_store_is_waited_for_and_a_leader_there_goes_on() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.node("a", 1), cluster.node("b", 2));
    let term = win(&a).await;
    a.link.fill_server(true);
    b.link.fill_server(true);
    let second = tokio::spawn({
        let b = b.elector.clone();
        async move { b.campaign().await }
    });
    tokio::time::sleep(TTL * 10).await;
    assert!(holds(&term), "a full store still keeps leases alive; stepping down would leave nobody able to lead");
    assert!(!second.is_finished());
    let metrics = b.elector.metrics();
    assert!(metrics.attempts_failed >= 10 && metrics.attempts_failed < 60, "retried with pauses: {metrics:?}");
    b.link.fill_server(false);
    let _ = term.resign().await;
    assert!(holds(&within(Duration::from_secs(2), second).await.unwrap().unwrap()));
}

#[tokio::test(start_paused = true)]
async fn a_store_without_leases_ends_the_campaign_with_its_reason() {
    let cluster = Cluster::new();
    let node = cluster.node("a", 1);
    node.link.always(OpKind::Grant, Some(Fault::FailBefore(KvErrorKind::Unsupported)));
    let error = node.elector.campaign().await.unwrap_err();
    assert!(matches!(&error, CampaignError::Store(e) if e.kind == KvErrorKind::Unsupported), "{error}");
    assert!(error.to_string().contains("election cannot be held"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_setting_that_cannot_work_is_refused_at_once() {
    let cluster = Cluster::new();
    let refused = leadership::Elector::new(
        cluster.store.clone(),
        KEY.into(),
        "a".into(),
        ElectionConfig { margin: TTL, ..config() },
        cluster.clock.clone(),
        Arc::new(ha_types::SeededEntropy::new(1)),
    );
    assert_eq!(refused.unwrap_err().setting, "margin");
}

#[tokio::test(start_paused = true)]
async fn w20_a_leader_whose_member_stops_loses_in_time_and_there_is_never_a_second() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.node("a", 1), cluster.node("b", 2));
    let first = win(&a).await;
    let second = tokio::spawn({
        let b = b.elector.clone();
        async move { b.campaign().await }
    });
    tokio::time::sleep(Duration::from_secs(5)).await;
    a.link.set_link(Link::BlackHole);
    let stopped = cluster.clock.now();
    let mut lost_at = None;
    while !second.is_finished() {
        if !holds(&first) {
            lost_at.get_or_insert(cluster.since(stopped));
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let lost_at = lost_at.expect("the old leader stopped before the new one began");
    assert!(lost_at <= TTL - MARGIN, "{lost_at:?}");
    assert!(cluster.since(stopped) <= TTL + Duration::from_secs(1), "detected after {:?}", cluster.since(stopped));
    let second = second.await.unwrap().unwrap();
    assert!(holds(&second) && !holds(&first));

    // The member runs again: the node it served wins a later term under a new lease.
    a.link.set_link(Link::Up);
    drop(first);
    let third = tokio::spawn({
        let a = a.elector.clone();
        async move { a.campaign().await }
    });
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(!third.is_finished() && holds(&second));
    let _ = second.resign().await;
    assert!(holds(&within(Duration::from_secs(1), third).await.unwrap().unwrap()));
    assert_eq!(a.elector.metrics().terms_won, 2);
    assert_eq!(a.leases.granted.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn whom_the_store_names_is_read_with_a_bound() {
    let cluster = Cluster::new();
    let node = cluster.node("a", 1);
    assert_eq!(node.elector.leader().await.unwrap(), None);
    node.link.set_link(Link::BlackHole);
    let error = within(config().request_timeout * 2, node.elector.leader()).await.unwrap_err();
    assert_eq!(error.kind, KvErrorKind::Timeout);
    cluster.store.put(KEY, "somebody".into()).await.unwrap();
    node.link.set_link(Link::Up);
    assert_eq!(node.elector.leader().await.unwrap().unwrap(), "somebody");
}
