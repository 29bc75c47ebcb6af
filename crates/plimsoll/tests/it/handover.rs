//! Leadership is given up on purpose: it changes hands long before its lease would run out, and nothing is cut.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ha_rpc::v1::{ErrorCode, ErrorDetail, GetRequest, MountSegmentRequest, PutEndRequest, PutStartRequest};

use crate::kit::{Place, block_on, eventually, mount, must, raw, run};

/// So long that a role that is waited for cannot come of its end: what is left of it after the last keep-alive is more than
/// [`SOON`](crate::kit::SOON).
const LONG_TTL_MS: u64 = 120_000;

#[test]
fn sigterm_hands_over_at_once_and_exits_0() {
    let place = Place::new(LONG_TTL_MS);
    let (a, b) = place.pair();
    mount(&[&a], "seg-1");
    must(&[&a], &["put", "k", "--size", "5"]);
    a.signal("TERM");
    b.wait_for_role("leader");
    assert_eq!(a.ended(), Some(0));
    must(&[&b], &["get", "k"]);
}

#[test]
fn step_down_hands_over_and_the_old_leader_follows() {
    let place = Place::new(LONG_TTL_MS);
    let (a, b) = place.pair();
    let epoch = a.role()["epoch"].clone();
    let said = must(&[&b], &["step-down"]);
    assert_eq!(said["epoch"], epoch);
    b.wait_for_role("leader");
    a.wait_for_role("standby");
    mount(&[&a], "seg-1");
    let durable = b.role()["durable"]["seq"].clone();
    eventually("the old leader to follow", || (a.role()["applied_seq"] == durable).then_some(()));
}

/// Under load every call at the old leader ends with an answer: done, or NOT_LEADER with the address. None is cut, none unknown.
#[test]
fn a_graceful_end_cuts_no_call() {
    let place = Place::new(LONG_TTL_MS);
    let (a, b) = place.pair();
    mount(&[&a], "seg-1");
    let (done, told, ended) =
        (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    block_on(async {
        let mut callers = tokio::task::JoinSet::new();
        for caller in 0..16_u8 {
            let (mut client, done, told, ended) =
                (raw(&a).await, Arc::clone(&done), Arc::clone(&told), Arc::clone(&ended));
            let address = b.grpc.clone();
            callers.spawn(async move {
                for n in 0_u32.. {
                    let key = bytes::Bytes::from(format!("{caller}/{n}"));
                    let client_id = bytes::Bytes::from(vec![caller; 16]);
                    let start = PutStartRequest {
                        key: key.clone(),
                        size: 8,
                        client_id: client_id.clone(),
                        ..Default::default()
                    };
                    let put = match client.put_start(start).await {
                        Ok(granted) => {
                            let incarnation = granted.into_inner().incarnation;
                            let end = PutEndRequest { key, incarnation, client_id, ..Default::default() };
                            client.put_end(end).await.map(|_| ())
                        }
                        Err(status) => Err(status),
                    };
                    match put {
                        Ok(()) => done.fetch_add(1, Ordering::SeqCst),
                        Err(status) => match ErrorDetail::of(&status) {
                            Some(detail) => {
                                assert_eq!(detail.code(), ErrorCode::NotLeader, "{detail:?}");
                                if detail.leader_address == address {
                                    return told.fetch_add(1, Ordering::SeqCst);
                                }
                                // Drained, and nobody leads yet: ask again.
                                tokio::time::sleep(Duration::from_millis(5)).await;
                                0
                            }
                            None => panic!("a call was cut: {status}"),
                        },
                    };
                    if ended.load(Ordering::SeqCst) {
                        return 0;
                    }
                }
                0
            });
        }
        while done.load(Ordering::SeqCst) < 200 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let client = raw(&b).await;
        drop(client);
        must(&[&b], &["step-down"]);
        while let Some(caller) = callers.join_next().await {
            caller.unwrap();
        }
        ended.store(true, Ordering::SeqCst);
    });
    assert_eq!(told.load(Ordering::SeqCst), 16, "every caller was sent to the new leader");
    let listed = must(&[&b], &["ls"]);
    assert_eq!(
        listed["objects"].as_array().unwrap().len() as u64,
        done.load(Ordering::SeqCst),
        "what was answered is there"
    );
}

/// A standby answers every call with NOT_LEADER and the leader's address; commands follow it.
#[test]
fn a_standby_names_the_leader_and_commands_follow() {
    let place = Place::new(LONG_TTL_MS);
    let (a, b) = place.pair();
    let (get, mount_it) = block_on(async {
        let mut client = raw(&b).await;
        let get = client.get(GetRequest { key: "k".into(), ..Default::default() }).await.unwrap_err();
        let mount = client.mount_segment(MountSegmentRequest::default()).await.unwrap_err();
        (ErrorDetail::of(&get).unwrap(), ErrorDetail::of(&mount).unwrap())
    });
    for detail in [get, mount_it] {
        assert_eq!((detail.code(), detail.leader_address.as_str()), (ErrorCode::NotLeader, a.grpc.as_str()));
        assert!(detail.message.contains(&a.grpc), "{}", detail.message);
    }
    mount(&[&b], "seg-1");
    must(&[&b], &["put", "k", "--size", "5"]);
    must(&[&b], &["get", "k"]);
}

/// A second signal does not wait for a drain that cannot end.
#[test]
fn a_second_signal_ends_at_once() {
    let place = Place::new(LONG_TTL_MS);
    let full = format!("{}?max_file_bytes=131072", place.store());
    let a = place.node_with("a", &["--set", "drain_ms=600000", "--set", &format!("store={full}")]);
    a.wait_for_role("leader");
    mount(&[&a], "seg-1");
    // Long keys fill the file; the put that no longer fits waits for room, which never comes.
    let endpoint = a.grpc.clone();
    let put = std::thread::spawn(move || {
        for n in 0..1000 {
            let key = format!("{n:04000}");
            let put = run(&["put", &key, "--size", "5", "--endpoints", &endpoint, "--timeout-ms", "600000"]);
            if put.code != 0 {
                return put;
            }
        }
        panic!("the file never filled up");
    });
    eventually("the store to be full", || {
        let (_, metrics) = crate::kit::http(&a.admin, "/metrics");
        metrics
            .as_str()
            .unwrap()
            .lines()
            .any(|l| l.starts_with("plimsoll_writer_accepting") && l.ends_with(" 0"))
            .then_some(())
    });
    a.signal("TERM");
    a.wait_for_role("draining");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(a.role()["role"], "draining", "the drain waits for the put");
    a.signal("TERM");
    assert_eq!(a.ended(), Some(130));
    // The connection was cut with the change on its way: nobody can say, and the command says just that.
    let put = put.join().unwrap();
    assert_eq!(put.code, 4, "{put:?}");
    assert!(put.err.contains("outcome unknown"), "{}", put.err);
}
