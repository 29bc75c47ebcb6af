//! The leader is lost: killed, or stopped past its time and woken again.

use std::time::Duration;

use ha_rpc::v1::{ErrorCode, ErrorDetail, GetRequest, PutStartRequest, RemoveRequest};

use crate::kit::{Place, block_on, eventually, mount, must, raw};

/// The main job: everything that was answered as durable is at the next leader, which goes on.
#[test]
fn kill_9_promotes_the_standby_with_everything_acknowledged() {
    let place = Place::new(1000);
    let (a, b) = place.pair();
    mount(&[&a, &b], "seg-1");
    for n in 0..20 {
        let put = must(&[&a, &b], &["put", &format!("key-{n}"), "--size", "100"]);
        assert_eq!(put["durability"], "durable");
    }
    let removed = must(&[&a, &b], &["remove", "key-3"]);
    assert_eq!(removed["results"][0]["durability"], "durable");
    let before = a.role();
    a.kill_9();

    let role = b.wait_for_role("leader");
    assert_eq!(role["epoch"].as_u64(), before["epoch"].as_u64().map(|e| e + 1));
    assert_eq!(role["applied_seq"], before["durable"]["seq"], "nothing was lost and nothing was made up");
    let listed = must(&[&b], &["ls"]);
    assert_eq!(listed["objects"].as_array().unwrap().len(), 19);
    for n in (0..20).filter(|n| *n != 3) {
        must(&[&b], &["get", &format!("key-{n}")]);
    }
    // A segment that never occurred in the log is free at once (M7).
    mount(&[&b], "seg-2");
    let put = must(&[&b], &["put", "after", "--size", "100"]);
    assert_eq!(put["replicas"][0]["segment"], "seg-2");
}

/// The killed node comes back under its name, follows, and leads again when it is its turn.
#[test]
fn a_killed_node_comes_back_as_standby() {
    let place = Place::new(1000);
    let (a, b) = place.pair();
    mount(&[&a], "seg-1");
    must(&[&a], &["put", "k", "--size", "5"]);
    a.kill_9();
    b.wait_for_role("leader");
    let a = place.node("a");
    a.wait_for_role("standby");
    b.kill_9();
    a.wait_for_role("leader");
    must(&[&a], &["get", "k"]);
}

/// W15's read path: a leader stopped past its TTL answers nothing from its old state when it wakes, not even a read.
#[test]
fn w15_stopped_leader_answers_no_stale_read_when_it_wakes() {
    let place = Place::new(1000);
    let (a, b) = place.pair();
    mount(&[&a], "seg-1");
    must(&[&a], &["put", "k", "--size", "5"]);
    block_on(async {
        // A connection made before, so that a call is waiting when the process wakes.
        let mut client = raw(&a).await;
        let get = GetRequest { key: "k".into(), ..GetRequest::default() };
        client.get(get.clone()).await.unwrap();
        a.signal("STOP");
        let waiting = tokio::spawn(async move { client.get(get).await });
        b.wait_for_role("leader");
        raw(&b).await.remove(RemoveRequest { key: "k".into(), ..RemoveRequest::default() }).await.unwrap();
        a.signal("CONT");
        let status = waiting.await.unwrap().expect_err("k is removed at the new leader");
        let detail = ErrorDetail::of(&status).expect("a typed answer");
        assert_eq!(detail.code(), ErrorCode::NotLeader, "{}", detail.message);
    });
    a.wait_for_role("standby");
    assert_eq!(a.role()["leader"].as_str(), Some(b.grpc.as_str()));
}

/// After an unclean loss ranges that the log does not cover are kept back, and the client is told for how long (M7).
#[test]
fn m7_put_start_waits_for_the_quarantine_after_a_kill() {
    let place = Place::new(1000);
    let (a, b) = place.pair();
    mount(&[&a], "seg-1");
    must(&[&a], &["put", "k", "--size", "5"]);
    a.kill_9();
    b.wait_for_role("leader");
    let detail = block_on(async {
        let start =
            PutStartRequest { key: "n".into(), size: 5, client_id: vec![7; 16].into(), ..PutStartRequest::default() };
        ErrorDetail::of(&raw(&b).await.put_start(start).await.expect_err("the quarantine runs")).unwrap()
    });
    assert_eq!(detail.code(), ErrorCode::RetryAfter);
    let longest = Duration::from_secs(40).as_millis() as u64;
    assert!((1..longest).contains(&detail.retry_after_ms), "{detail:?}");
}

/// The store's file goes away under both nodes: the leader stops, nobody serves, both still answer and say why.
#[test]
fn a_deleted_store_ends_serving_and_is_reported() {
    let place = Place::new(1000);
    let (mut a, mut b) = place.pair();
    for file in ["log.db", "log.db-wal", "log.db-shm"] {
        std::fs::remove_file(place.dir.path().join(file)).unwrap();
    }
    eventually("the leader to stop", || (a.role()["role"] != "leader").then_some(()));
    b.wait_for_role("unhealthy");
    let why = b.role()["reason"].as_str().unwrap_or_default().to_owned();
    assert!(why.contains("log.db"), "the file is named: {why}");
    assert!(a.is_running() && b.is_running());
    assert!(!place.db().exists(), "nobody makes an empty store in place of the lost one");
}
