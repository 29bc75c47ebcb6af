//! The cluster's times: logged before they are raised, and a successor never waits too short.

use std::time::Duration;

use crate::kit::*;
use master::{Policy, PolicyChange, Promise};

fn times(put_grant_ms: u64, default_lease_ms: u64, longest_lease_ms: u64) -> Policy {
    Policy { put_grant_ms, default_lease_ms, longest_lease_ms }
}

#[tokio::test]
async fn values_out_of_range_are_refused_by_name() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    for (policy, name) in [
        (times(0, 5000, 30_000), "put_grant_ms is 0"),
        (times(2000, 9, 30_000), "default_lease_ms is 9"),
        (times(2000, 5000, 3_600_001), "longest_lease_ms is 3600001"),
        (times(2000, 5000, 4000), "default_lease_ms is 5000, above longest_lease_ms 4000"),
    ] {
        let error = node.master.set_policy(policy).await.unwrap_err();
        assert_eq!(error.code(), "INVALID");
        assert!(error.to_string().contains(name), "{error}");
    }
    assert_eq!(node.master.policy(), Policy::INITIAL);
    assert_eq!(node.master.writer().metrics().committed, 0);
}

#[tokio::test]
async fn a_longer_time_is_logged_before_it_is_granted() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    node.mount("s", 0, 1000).await;
    node.put("k", 10).await;
    node.hold();
    let raise = node.master.set_policy(times(60_000, 1000, 60_000));
    tokio::pin!(raise);
    assert!(tokio::time::timeout(Duration::from_millis(20), &mut raise).await.is_err());
    // Longer not yet, shorter at once.
    assert_eq!(node.master.policy(), times(2000, 1000, 30_000));
    assert_eq!(node.start("a", 10).unwrap().grant_ms, 2000);
    assert_eq!(code(node.master.get(&tenant(), &key("k"), Some(30_001))), "INVALID");
    assert_eq!(node.get("k").unwrap().lease_ms, 1000);
    node.release().await;
    raise.await.unwrap();
    assert_eq!(node.start("b", 10).unwrap().grant_ms, 60_000);
    assert_eq!(node.master.get(&tenant(), &key("k"), Some(60_000)).unwrap().lease_ms, 60_000);
    let next = cluster.promote().await;
    assert_eq!(next.master.stats().quarantine_ms, 5000 + 60_000 + 100);
    assert_eq!(next.master.policy(), times(60_000, 1000, 60_000));
}

#[tokio::test]
async fn m7_shorter_times_do_not_shorten_the_quarantine_while_longer_grants_run() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    node.mount("s", 0, 1000).await;
    node.put("k", 10).await;
    // Everything before has ended; a lease of the longest kind begins.
    cluster.advance(60_000);
    node.master.get(&tenant(), &key("k"), Some(30_000)).unwrap();
    let short = times(100, 100, 100);
    node.master.set_policy(short).await.unwrap();
    assert_eq!(cluster.fold_contents().await.quarantine_ms, 30_000);
    // Again while it runs: no shorter. Again after it: as short as the times.
    cluster.advance(30_099);
    node.master.set_policy(short).await.unwrap();
    assert_eq!(cluster.fold_contents().await.quarantine_ms, 30_000);
    cluster.advance(30_100);
    node.master.set_policy(short).await.unwrap();
    assert_eq!(cluster.fold_contents().await.quarantine_ms, 100);
    assert_eq!(node.master.state().contents(), cluster.fold_contents().await);
    assert_eq!(cluster.promote().await.master.stats().quarantine_ms, 5000 + 100 + 100);
}

#[tokio::test]
async fn m7_a_new_primary_does_not_shorten_what_its_predecessor_granted() {
    let cluster = Cluster::new();
    let old = cluster.promote().await;
    old.mount("s", 0, 1000).await;
    old.put("k", 10).await;
    old.master.set_policy(times(100, 100, 600_000)).await.unwrap();
    old.master.get(&tenant(), &key("k"), Some(600_000)).unwrap();
    let new = cluster.promote().await;
    new.master.set_policy(times(100, 100, 100)).await.unwrap();
    let third = cluster.promote().await;
    assert_eq!(third.master.stats().quarantine_ms, 5000 + 600_000 + 100);
    assert_eq!(third.master.policy(), times(100, 100, 100));
    assert_eq!(code(third.start("n", 10)), "RETRY_AFTER");
}

/// A shorter time holds before it is durable: who promises it as durable waits, and asks for leadership afterwards.
#[tokio::test]
async fn s4_s9_times_are_called_durable_only_once_they_are() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    assert_eq!(node.master.durable_policy().await.unwrap(), Policy::INITIAL);
    node.hold();
    let short = times(100, 100, 100);
    let change = node.master.set_policy(short);
    tokio::pin!(change);
    let wait = Duration::from_millis(20);
    assert!(tokio::time::timeout(wait, &mut change).await.is_err());
    assert_eq!(node.master.policy(), short);
    let asked = node.master.durable_policy();
    tokio::pin!(asked);
    assert!(tokio::time::timeout(wait, &mut asked).await.is_err());
    node.release().await;
    change.await.unwrap();
    assert_eq!(asked.await.unwrap(), short);
    node.guard.lose();
    assert_eq!(code(node.master.durable_policy().await), "NOT_LEADER");
}

#[tokio::test]
async fn two_changes_on_their_way_hold_the_shorter_of_both() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    node.hold();
    let (first, second) =
        (node.master.set_policy(times(50, 5000, 40_000)), node.master.set_policy(times(3000, 20, 30)));
    tokio::pin!(first, second);
    let wait = Duration::from_millis(20);
    assert!(tokio::time::timeout(wait, &mut first).await.is_err());
    assert!(tokio::time::timeout(wait, &mut second).await.is_err());
    assert_eq!(node.master.policy(), times(50, 20, 30));
    node.release().await;
    first.await.unwrap();
    second.await.unwrap();
    assert_eq!(node.master.policy(), times(3000, 20, 30));
    assert_eq!(node.master.state().contents(), cluster.fold_contents().await);
    node.mount("s", 0, 10).await;
    node.put("k", 10).await;
    node.remove("k", Promise::Durable).await.unwrap();
}

/// A change of one time keeps the others as the log has them, what is on its way included, and not as they are in force.
#[tokio::test]
async fn changes_of_single_times_at_once_take_nothing_back() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    let (longer, shorter, bad) = (
        PolicyChange { put_grant_ms: Some(60_000), ..PolicyChange::default() },
        PolicyChange { default_lease_ms: Some(20), ..PolicyChange::default() },
        PolicyChange { longest_lease_ms: Some(19), ..PolicyChange::default() },
    );
    node.hold();
    let (first, second) = (node.master.change_policy(longer), node.master.change_policy(shorter));
    tokio::pin!(first, second);
    let wait = Duration::from_millis(20);
    assert!(tokio::time::timeout(wait, &mut first).await.is_err());
    assert!(tokio::time::timeout(wait, &mut second).await.is_err());
    assert_eq!(node.master.policy(), times(2000, 20, 30_000), "what is longer does not hold yet");
    let error = node.master.change_policy(bad).await.unwrap_err();
    assert!(error.to_string().contains("default_lease_ms is 20, above longest_lease_ms 19"), "{error}");
    node.release().await;
    assert_eq!(first.await.unwrap(), times(60_000, 5000, 30_000));
    assert_eq!(second.await.unwrap(), times(60_000, 20, 30_000));
    assert_eq!(node.master.policy(), times(60_000, 20, 30_000));
    assert_eq!(node.master.state().contents(), cluster.fold_contents().await);
}
