//! From one primary to the next: quarantine, incarnations, leases, the gate, and what waiting calls are told.

use std::collections::HashSet;
use std::time::Duration;

use crate::kit::*;
use ha_kv::faulty::{Fault, OpKind};
use master::{Master, MasterError, Policy, Promise, Serving};

/// Invariant M7: TTL 5 s, longest lease 30 s, margin 100 ms.
const QUARANTINE_MS: u64 = 35_100;

#[tokio::test]
async fn m7_after_promotion_no_range_is_handed_out_before_the_quarantine_has_passed() {
    let cluster = Cluster::new();
    let old = cluster.promote().await;
    old.mount("s", 0, 1000).await;
    old.put("k", 10).await;
    // A client of the old primary that writes, and one that reads what is removed: the log knows neither.
    let writing = old.start("writing", 10).unwrap();
    old.put("read", 10).await;
    let read = old.get("read").unwrap().replicas[0].clone();
    old.remove("read", Promise::Durable).await.unwrap();
    cluster.advance(1000);
    let new = cluster.promote().await;
    let stats = new.master.stats();
    assert_eq!((stats.free_bytes, stats.quarantined_bytes, stats.quarantine_ms), (990, 990, QUARANTINE_MS));
    let error = new.start("n", 10).unwrap_err();
    assert_eq!(error.code(), "RETRY_AFTER");
    assert!(error.to_string().starts_with(&format!("try again in {QUARANTINE_MS} ms")), "{error}");
    assert_eq!(code(new.end("writing", &writing, Promise::Durable).await), "OBJECT_NOT_FOUND");
    // What is removed meanwhile does not come back sooner either.
    new.remove("k", Promise::Durable).await.unwrap();
    // A segment id that never occurred is free at once.
    new.mount("fresh", 5000, 10).await;
    new.put("n", 10).await;
    cluster.advance(QUARANTINE_MS - 1);
    assert_eq!(code(new.start("m", 10)), "RETRY_AFTER");
    cluster.advance(1);
    for k in 0..100 {
        let grant = new.start(&k.to_string(), 10).unwrap();
        let address = grant.replicas[0].address;
        assert_eq!(address % 10, 0);
        if address == writing.replicas[0].address || address == read.address {
            assert!(cluster.now().since_origin() >= Duration::from_millis(1000 + QUARANTINE_MS));
        }
    }
    assert_eq!(code(new.start("full", 10)), "NO_AVAILABLE_SPACE");
}

#[tokio::test]
async fn m7_a_segment_mounted_again_after_promotion_waits_too() {
    let cluster = Cluster::new();
    let old = cluster.promote().await;
    old.mount("s", 0, 1000).await;
    old.start("k", 10).unwrap();
    cluster.advance(2100);
    old.master.unmount_segment(&segment("s")).await.unwrap();
    let new = cluster.promote().await;
    new.mount("s", 0, 1000).await;
    assert_eq!(code(new.start("n", 10)), "RETRY_AFTER");
    cluster.advance(QUARANTINE_MS);
    new.start("n", 10).unwrap();
}

/// Invariant M8.
#[tokio::test]
async fn m8_an_incarnation_names_one_object_for_all_time() {
    let cluster = Cluster::new();
    let mut seen = HashSet::new();
    for failover in 0..5 {
        let node = cluster.promote().await;
        node.mount(&format!("s{failover}"), failover * 10_000, 10_000).await;
        for i in 0..50 {
            let key = format!("{failover}-{i}");
            let grant = node.start(&key, 10).unwrap();
            assert!(seen.insert(grant.incarnation), "{} twice", grant.incarnation);
            match i % 3 {
                0 => node.end(&key, &grant, Promise::Durable).await.unwrap(),
                1 => node.end(&key, &grant, Promise::Accepted).await.unwrap(),
                _ => {}
            }
        }
        node.settle().await;
    }
    assert_eq!(seen.len(), 250);
    // The same epoch claimed twice by two owners, as after a rollback of the store: the owner tells them apart.
    let twice: Vec<_> = [7, 8].map(Cluster::seeded).into_iter().collect();
    let mut first = Vec::new();
    for cluster in &twice {
        let node = cluster.promote().await;
        node.mount("s", 0, 100).await;
        first.push(node.start("k", 10).unwrap().incarnation);
    }
    assert_ne!(first[0], first[1]);
}

/// RFC hot standby §8: leases are not in the log.
#[tokio::test]
async fn an_object_nobody_has_touched_since_the_promotion_is_leased_for_a_default_lease() {
    let cluster = Cluster::new();
    let old = cluster.promote().await;
    old.mount("s", 0, 10).await;
    old.master.set_policy(Policy { put_grant_ms: 10, default_lease_ms: 4000, longest_lease_ms: 4000 }).await.unwrap();
    old.put("k", 10).await;
    let new = cluster.promote_with(|env| env.ttl = Duration::from_millis(1)).await;
    new.remove("k", Promise::Durable).await.unwrap();
    assert_eq!(new.master.stats().held_bytes, 10);
    cluster.advance(4099);
    assert_eq!(new.master.stats().held_bytes, 10);
    cluster.advance(1);
    assert_eq!((new.master.stats().held_bytes, new.master.stats().free_bytes), (0, 10));
}

/// Invariant S4, with an older primary whose last batch nobody saw answered.
#[tokio::test]
async fn s4_what_was_promised_durable_is_there_after_every_failover() {
    let cluster = Cluster::new();
    let mut promised: Vec<(String, ha_types::ObjectIncarnation)> = Vec::new();
    for round in 0..4 {
        let node = cluster.promote().await;
        for (k, incarnation) in &promised {
            assert_eq!(node.get(k).unwrap().incarnation, *incarnation);
        }
        node.mount(&format!("s{round}"), round * 1000, 1000).await;
        for i in 0..10 {
            let k = format!("{round}-{i}");
            let grant = node.put(&k, 10).await;
            promised.push((k, grant.incarnation));
        }
        let gone = format!("{round}-gone");
        node.put(&gone, 10).await;
        node.remove(&gone, Promise::Durable).await.unwrap();
        node.kv.partition(true);
        let (k, _) = &promised[0];
        node.remove(k, Promise::Accepted).await.unwrap();
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(cluster.fold_contents().await.objects.len(), promised.len());
}

#[tokio::test]
async fn s9_nothing_is_answered_past_leadership_reads_included() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    node.mount("s", 0, 1000).await;
    let grant = node.put("k", 10).await;
    let running = node.start("r", 10).unwrap();
    node.guard.lose();
    let m = &node.master;
    let (t, k) = (tenant(), key("k"));
    assert_eq!(code(node.get("k")), "NOT_LEADER");
    assert_eq!(code(m.exists(&t, &k)), "NOT_LEADER");
    assert_eq!(code(m.list(&t, None, 1).await), "NOT_LEADER");
    assert_eq!(code(m.list_segments()), "NOT_LEADER");
    assert_eq!(code(node.start("n", 10)), "NOT_LEADER");
    assert_eq!(code(node.end("k", &grant, Promise::Durable).await), "NOT_LEADER");
    assert_eq!(code(m.put_revoke(&t, &key("r"), running.incarnation, CLIENT)), "NOT_LEADER");
    assert_eq!(code(node.remove("k", Promise::Accepted).await), "NOT_LEADER");
    assert_eq!(code(m.batch_remove(&t, &[k], Promise::Accepted).await), "NOT_LEADER");
    assert_eq!(code(m.mount_segment(mount("t", 5000, 10)).await), "NOT_LEADER");
    assert_eq!(code(m.update_segment(&segment("s"), "host:2".into()).await), "NOT_LEADER");
    assert_eq!(code(m.unmount_segment(&segment("s")).await), "NOT_LEADER");
    assert_eq!(code(m.set_policy(Policy::INITIAL).await), "NOT_LEADER");
    assert_eq!(m.writer().metrics().committed, 2, "and nothing was written");
}

/// NOT_LEADER means that nothing was done and that another node may be asked: never said of an entry that is on its way.
#[tokio::test]
async fn m5_a_call_that_was_committed_never_says_that_another_node_should_do_it() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    node.mount("s", 0, 1000).await;
    node.put("k", 10).await;
    node.put("b", 10).await;
    let grant = node.start("n", 10).unwrap();
    let mut committed = 0;
    for asked in 0..5 {
        for call in 0..3 {
            node.guard.lose_after(asked);
            let before = node.master.writer().metrics().committed;
            let answer = match call {
                0 => node.end("n", &grant, Promise::Accepted).await,
                1 => node.remove("k", Promise::Accepted).await,
                _ => {
                    let each = node.master.batch_remove(&tenant(), &[key("b")], Promise::Accepted).await;
                    each.and_then(|mut each| each.remove(0))
                }
            };
            if node.master.writer().metrics().committed > before {
                assert_eq!(code(answer), "UNKNOWN", "call {call} lost leadership after {asked} questions");
                committed += 1;
            }
        }
    }
    assert_eq!(committed, 3, "each call was cut between its commit and its answer once");
}

/// Leadership ends after the state was read and before the reply leaves: however often it held before, the answer stays here.
#[tokio::test]
async fn s9_leadership_lost_while_the_state_is_read() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    node.mount("s", 0, 1000).await;
    node.put("k", 10).await;
    let m = &node.master;
    let (t, k) = (tenant(), key("k"));
    let mut answers = 0;
    let mut refused = |name: &str, before: u64, result: Result<(), MasterError>| match result {
        Ok(()) => panic!("{name} was answered after leadership held {before} times"),
        Err(e) => {
            assert_eq!(e.code(), "NOT_LEADER", "{name}");
            answers += 1;
        }
    };
    // Each call asks twice or more; only when the last answer is yes may the reply leave.
    node.guard.lose_after(1);
    refused("get", 1, m.get(&t, &k, None).map(drop));
    node.guard.lose_after(1);
    refused("put start", 1, node.start("n", 10).map(drop));
    node.guard.lose_after(1);
    refused("list", 1, m.list(&t, None, 1).await.map(drop));
    node.guard.lose_after(1);
    refused("accepted removal", 1, node.remove("k", Promise::Accepted).await);
    assert!(m.state().object(&t, &k).is_some(), "a refused call changed nothing");
    node.guard.lose();
    refused("exists", 0, m.exists(&t, &k).map(drop));
    refused("segments", 0, m.list_segments().map(drop));
    assert_eq!(answers, 6);
    // Once it is on its way, "not applied" would be a lie.
    node.guard.lose_after(2);
    assert_eq!(code(node.remove("k", Promise::Accepted).await), "UNKNOWN");
}

/// Row W3 seen from above the log: the old primary is paused between seal and transaction.
#[tokio::test]
async fn w3_old_primary_paused_between_seal_and_transaction() {
    let cluster = Cluster::new();
    let old = cluster.promote().await;
    old.mount("s", 0, 1000).await;
    old.put("k", 10).await;
    old.hold();
    let removal = old.remove("k", Promise::Durable);
    tokio::pin!(removal);
    assert!(tokio::time::timeout(Duration::from_millis(20), &mut removal).await.is_err());
    old.held().await;
    let new = cluster.promote().await;
    new.get("k").unwrap();
    old.kv.release();
    assert_eq!(code(removal.await), "NOT_APPLIED");
    let mut serving = old.master.serving();
    serving.wait_for(|s| matches!(s, Serving::Closed { .. })).await.unwrap();
    assert_eq!(code(old.get("k")), "NOT_LEADER");
    new.get("k").unwrap();
    new.remove("k", Promise::Durable).await.unwrap();
    assert_eq!(new.master.state().contents(), cluster.fold_contents().await);
}

/// The reply of the last batch is lost, and a successor has claimed: nobody can say for the entries behind it.
#[tokio::test]
async fn calls_cut_short_are_told_what_is_known() {
    let cluster = Cluster::new();
    let old = cluster.promote().await;
    old.mount("s", 0, 1000).await;
    let first = old.start("a", 10).unwrap();
    let second = old.start("b", 10).unwrap();
    old.kv.script(OpKind::Txn, Fault::HoldReply);
    let calls = old.kv.calls(OpKind::Txn);
    let ended = {
        let (a, b) = (old.end("a", &first, Promise::Durable), async {
            old.kv.reached(OpKind::Txn, calls + 1).await;
            old.end("b", &second, Promise::Durable).await
        });
        let stop = async {
            old.kv.reached(OpKind::Txn, calls + 1).await;
            // Behind the batch on its way.
            while old.master.writer().metrics().waiting_entries == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            old.master.stop().await;
        };
        tokio::join!(a, b, stop)
    };
    assert_eq!(code(ended.0), "UNKNOWN");
    assert_eq!(code(ended.1), "NOT_APPLIED");
    assert_eq!(code(old.get("a")), "NOT_LEADER");
    let objects = cluster.fold_contents().await.objects;
    assert!(objects.contains_key(&(tenant(), key("a"))) && !objects.contains_key(&(tenant(), key("b"))));
}

#[tokio::test]
async fn a_drain_finishes_what_is_on_its_way_and_then_the_gate_closes() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    node.mount("s", 0, 1000).await;
    let grant = node.start("k", 10).unwrap();
    node.hold();
    let deadline = cluster.now().saturating_add(Duration::from_secs(10));
    let (ended, drained, ()) = tokio::join!(
        node.end("k", &grant, Promise::Durable),
        async {
            node.held().await;
            node.master.drain(deadline).await
        },
        async {
            node.held().await;
            node.master.serving().wait_for(|s| *s == Serving::Draining).await.unwrap();
            assert_eq!(code(node.start("n", 10)), "RETRY_AFTER");
            assert!(node.get("k").is_ok(), "reads go on");
            node.kv.release();
        }
    );
    ended.unwrap();
    drained.unwrap();
    assert!(node.get("k").is_ok());
    node.master.close("leadership was handed over");
    let closed = node.get("k").unwrap_err();
    assert_eq!(closed.to_string(), "this node is not the leader: leadership was handed over");
    node.master.stop().await;
    let next = cluster.promote().await;
    assert!(next.get("k").is_ok());
}

#[tokio::test]
async fn a_drain_that_cannot_finish_says_how_much_is_left() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    node.mount("s", 0, 1000).await;
    let grant = node.start("k", 10).unwrap();
    node.hold();
    let ended = node.end("k", &grant, Promise::Durable);
    tokio::pin!(ended);
    assert!(tokio::time::timeout(Duration::from_millis(20), &mut ended).await.is_err());
    let deadline = cluster.now().saturating_add(Duration::from_millis(20));
    let error = node.master.drain(deadline).await.unwrap_err();
    assert_eq!(error.to_string(), "not applied: 1 calls were not answered at the deadline");
    node.release().await;
    ended.await.unwrap();
}

#[tokio::test]
async fn settings_that_are_wrong_give_state_and_log_back() {
    type Change = fn(&mut master::ServeEnv);
    let changes: [(Change, &str); 4] = [
        (|env| env.config.max_replicas = 33, "max_replicas is 33; give 1 to 32"),
        (|env| env.config.max_batch_remove_keys = 0, "max_batch_remove_keys is 0"),
        (|env| env.ttl = Duration::ZERO, "the leadership TTL is 0ns"),
        (|env| env.writer.oplog_batch_max_entries = 0, "oplog_batch_max_entries is 0"),
    ];
    for (change, sentence) in changes {
        let cluster = Cluster::new();
        let old = cluster.promote().await;
        old.mount("s", 0, 1000).await;
        old.put("k", 10).await;
        let guard = Cluster::guard();
        let caught_up = cluster.claim(ha_kv::faulty::FaultyKv::txn_only(cluster.kv.clone(), 1), &guard).await;
        let mut env = cluster.env(guard);
        change(&mut env);
        let failed = Master::serve(caught_up, env).unwrap_err();
        assert!(failed.reason.contains(sentence), "{}", failed.reason);
        assert!(failed.state.object(&tenant(), &key("k")).is_some());
        assert_eq!(failed.log.claim().epoch.get(), 2);
    }
}

#[tokio::test]
async fn a_dropped_master_leaves_no_task_behind() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    node.mount("s", 0, 10).await;
    let mut serving = node.master.serving();
    drop(node);
    serving.wait_for(|s| matches!(s, Serving::Closed { .. })).await.unwrap();
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let gone = async {
        while alive() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(60), gone).await;
    assert!(ended.is_ok(), "{} tasks are left", alive());
}
