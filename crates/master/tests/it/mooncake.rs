//! A log that Mooncake began: its replay, what stops it, and the first primary of ours after it.

use std::sync::Arc;
use std::time::Duration;

use ha_kv::faulty::FaultyKv;
use ha_kv::{Kv, MemoryKv};
use ha_types::{BatchId, ClusterId, Epoch, ObjectIncarnation, OpType, Seq, TenantId};
use master::mooncake::encode::{self, Fields, Style};
use master::mooncake::{Location, ReplicaState};
use master::{Master, MasterError, MasterState, MountSegment, Policy, Promise, ServeEnv};
use oplog_core::{
    BatchStorage, CaughtUp, EntryRef, LogKeys, OpenOptions, Replica, StateMachine, TakeOver, claim_and_verify,
};

use crate::kit::*;

const AT: &str = "10.0.0.1:12345";

/// A state fed by hand.
struct Log {
    state: MasterState,
    epoch: u64,
}

impl Log {
    fn new() -> Self {
        Self { state: MasterState::new(), epoch: 0 }
    }

    fn mounted() -> Self {
        let mut log = Self::new();
        log.apply(OpType::SegmentMount, AT, &encode::mount("seg-a", AT, 1 << 30));
        log
    }

    fn try_apply(&mut self, op: u8, key: &str, payload: &[u8]) -> Result<(), String> {
        let entry = EntryRef {
            seq: self.state.last_applied().next().unwrap(),
            epoch: Epoch::new(self.epoch),
            timestamp_ms: 0,
            op_type: op,
            tenant: "default",
            key: key.as_bytes(),
            payload,
        };
        self.state.apply(entry).map_err(|e| e.reason)
    }

    fn apply(&mut self, op: OpType, key: &str, payload: &[u8]) {
        self.try_apply(op.number(), key, payload).unwrap();
    }

    /// Refused, with that in the sentence, and nothing has changed.
    fn refuses(&mut self, op: u8, key: &str, payload: &[u8], sentence: &str) {
        let all = |state: &MasterState| (state.contents(), state.mooncake_contents(), state.last_applied());
        let before = all(&self.state);
        let reason = self.try_apply(op, key, payload).expect_err(sentence);
        assert!(reason.contains(sentence), "{reason}");
        assert_eq!(all(&self.state), before, "{reason}");
    }

    /// Address of each readable replica of `k`.
    fn readable(&self, k: &str) -> Option<Vec<u64>> {
        let object = self.state.object(&TenantId::default_tenant(), &key(k))?;
        assert_eq!((object.incarnation, object.size), (ObjectIncarnation::LEGACY, 4096));
        Some(object.replicas.into_iter().map(|(_, address)| address).collect())
    }
}

fn put_end(replicas: &[(u64, u64, &str, i32)]) -> Vec<u8> {
    encode::put_end_in(77, 4096, replicas)
}

#[test]
fn an_objects_state_is_replaced_whole_in_any_status() {
    let mut log = Log::mounted();
    for status in [0, 1, 2, 4, 5] {
        log.apply(OpType::PutEnd, "k", &put_end(&[(4096, 0x1000, AT, status)]));
        assert_eq!(log.readable("k"), None, "status {status} is there, and cannot be read");
        assert_eq!(log.state.mooncake_contents().objects.len(), 1);
    }
    log.apply(OpType::PutEnd, "k", &put_end(&[(4096, 0x1000, AT, 3), (4096, 0x8000, AT, 2)]));
    assert_eq!(log.readable("k"), Some(vec![0x1000]));
    log.apply(OpType::PutEnd, "k", &put_end(&[(4096, 0x1800, AT, 3)]));
    assert_eq!(log.readable("k"), Some(vec![0x1800]), "its own earlier range does not stand in its way");
    // Ranges that may still be written are taken; those given back by the newer state are free.
    log.refuses(1, "l", &put_end(&[(4096, 0x2000, AT, 2)]), "is not wholly free");
    log.apply(OpType::PutEnd, "l", &put_end(&[(4096, 0x8000, AT, 2)]));
    log.refuses(1, "k", &put_end(&[(4096, 0x4000, AT, 3), (4096, 0x8000, AT, 3)]), "is not wholly free");
    assert_eq!(log.readable("k"), Some(vec![0x1800]));
    log.apply(OpType::PutEnd, "m", &put_end(&[(4096, 0x4000, AT, 3)]));
    log.apply(OpType::Remove, "l", &[]);
    log.apply(OpType::PutEnd, "n", &put_end(&[(4096, 0x8000, AT, 3)]));
    log.apply(OpType::PutRevoke, "n", &[]);
    log.apply(OpType::PutEnd, "n", &put_end(&[(4096, 0x8000, AT, 3)]));
    log.apply(OpType::Remove, "never there", &[]);
    log.apply(OpType::LeaseRenew, "k", &[]);
    assert_eq!(log.state.objects(), 3);
}

#[test]
fn nothing_that_mooncake_says_is_lost() {
    let mut log = Log::mounted();
    let head = Fields::new(1).u64(1).u64(2).u64(4096).count(6);
    let payload = head
        .memory(1, 4096, 0x1000, AT, 3)
        .memory(2, 4096, 0x1000, "elsewhere:1", 3)
        .u64(3)
        .u8(1)
        .u64(4096)
        .u64(0)
        .string("rdma")
        .string(AT)
        .i32(3)
        .u64(4)
        .u8(2)
        .string("/d/x")
        .u64(4096)
        .i32(3)
        .u64(5)
        .u8(3)
        .u64(7)
        .u64(8)
        .u64(4096)
        .string("e:9")
        .i32(2)
        .u64(6)
        .u8(4)
        .string("/dfs/y")
        .u64(1)
        .u64(4096)
        .u64(8192)
        .i32(3)
        .i32(5)
        .u8(1)
        .string("group")
        .u8(1)
        .u8(4)
        .u8(1)
        .u8(1)
        .sealed(0xc047_38c2, Style::PLAIN);
    log.apply(OpType::PutEnd, "k", &payload);
    let decoded = master::mooncake::MetadataPayload::decode(&payload).unwrap();
    let name = (TenantId::default_tenant(), key("k"));
    assert_eq!(log.state.mooncake_contents().objects.get(&name), Some(&decoded));
    assert_eq!(log.readable("k"), Some(vec![0x1000]), "what lies in memory of a mounted segment is read");
    let segment = &log.state.mooncake_contents().segments[AT];
    assert_eq!(
        (&*segment.name, segment.capacity, segment.is_memory, &*segment.file_path),
        ("seg-a", 1 << 30, true, "")
    );

    // Its memory goes with its segment; the rest stays.
    log.apply(OpType::SegmentUnmount, AT, &encode::unmount(AT));
    log.apply(OpType::SegmentUnmount, AT, &encode::unmount(AT));
    assert_eq!(log.readable("k"), None);
    let left = &log.state.mooncake_contents().objects[&name];
    assert_eq!(left.replicas, decoded.replicas[1..]);
    assert!(
        left.replicas.iter().any(|r| matches!(r.location, Location::Dfs { .. }) && r.state == ReplicaState::Failed)
    );
    // What has nothing but memory there goes.
    let mut log = Log::mounted();
    log.apply(OpType::PutEnd, "k", &put_end(&[(4096, 0x1000, AT, 3)]));
    log.apply(OpType::SegmentUpdate, AT, &encode::mount("seg-b", AT, 1 << 31));
    assert_eq!(&*log.state.mooncake_contents().segments[AT].name, "seg-b");
    assert_eq!(log.readable("k"), Some(vec![0x1000]), "an update moves nothing");
    log.apply(OpType::SegmentUnmount, AT, &encode::unmount(AT));
    assert_eq!(log.state.objects(), 0);
}

#[test]
fn s11_what_cannot_be_decoded_or_held_stops_the_reader() {
    let mut log = Log::mounted();
    log.apply(OpType::PutEnd, "k", &put_end(&[(4096, 0x1000, AT, 3)]));
    let good = put_end(&[(4096, 0x9000, AT, 3)]);
    let cut = &good[..good.len() - 1];
    log.refuses(1, "x", cut, "MetadataPayload, total length at byte 5: ");
    log.refuses(1, "x", b"value1", "type hash at byte 0: ");
    log.refuses(1, "x", &[], "type hash at byte 0: ");
    log.refuses(1, "x", &put_end(&[(4096, 0x9000, AT, 6)]), "status at byte ");
    log.refuses(1, "x", &put_end(&[(4095, 0x9000, AT, 3)]), "a buffer of the object's 4096 bytes, found 4095");
    log.refuses(1, "x", &put_end(&[(4096, u64::MAX - 4095, AT, 3)]), "beyond 2^64");
    log.refuses(1, "x", &put_end(&[(4096, 0x1fff, AT, 3)]), "is not wholly free");
    log.refuses(1, "x", &put_end(&[(4096, 0x9000, AT, 3), (4096, 0x9fff, AT, 3)]), "is not wholly free");
    log.refuses(1, "", &good, "key");
    log.refuses(3, "k", &good, "expected an empty payload");
    log.refuses(2, "k", &good, "expected an empty payload");
    log.refuses(5, AT, &encode::unmount(AT), "SegmentMount, type hash at byte 0: ");
    log.refuses(5, "", &encode::mount("n", "", 1), "the endpoint names no segment");
    log.refuses(6, AT, &encode::mount("n", AT, 1), "SegmentUnmount, type hash at byte 0: ");
    for op in 8..=12 {
        log.refuses(op, "k", &[], "is not written by Mooncake");
    }
    log.refuses(13, "k", &[], "op");
    // Under a claim of ours the same bytes are nothing.
    log.epoch = 1;
    log.refuses(1, "x", &good, "expected version 1, found 195");
    log.refuses(3, "k", &[], "expected version 1, found no byte");
    log.epoch = 0;
    log.apply(OpType::PutEnd, "x", &good);
}

fn keys() -> LogKeys {
    LogKeys::new("/oplog", &ClusterId::new("test").unwrap()).unwrap()
}

/// A log of Mooncake's in the cluster's store: one segment, three objects, one of them on a disk alone.
async fn original(kv: &MemoryKv) {
    use oplog_core::mooncake::encode as log;
    let disk = Fields::new(1).u64(1).u64(2).u64(4096).count(1).u64(4).u8(2).string("/d").u64(4096).i32(3);
    let payloads = [
        encode::mount("seg-a", AT, 1 << 20),
        encode::put_end(77, 4096, 0x10_1000, AT),
        encode::put_end(77, 4096, 0x10_2000, AT),
        disk.sealed(0x0ff3_e7cc, Style::BARE),
    ];
    let [mount, a, b, d] = &payloads;
    let t = "default";
    let first = log::batch(1, 1, &[(5, t, AT, mount), (1, t, "a", a)]);
    let second = log::batch(2, 3, &[(1, t, "b", b), (1, t, "d", d)]);
    kv.put(&keys().batch(BatchId::new(1)), first.into()).await.unwrap();
    kv.put(&keys().batch(BatchId::new(2)), second.into()).await.unwrap();
    kv.put(&keys().durable_prefix(), log::prefix(2, 4, None).into()).await.unwrap();
    kv.put(&keys().producer_view(), "7".into()).await.unwrap();
}

async fn claim(cluster: &Cluster) -> CaughtUp<MasterState> {
    claim_through(cluster, FaultyKv::txn_only(cluster.kv.clone(), 1)).await
}

async fn claim_through(cluster: &Cluster, kv: Arc<FaultyKv>) -> CaughtUp<MasterState> {
    let options = OpenOptions { accept_lost_writes: true, ..OpenOptions::default() };
    let storage = BatchStorage::open(kv, keys(), options).await.unwrap();
    let storage = storage.permit_take_over(TakeOver { old_primary_stopped: true });
    let replica = Replica::empty(MasterState::new());
    let guard = Cluster::guard();
    let pause = Duration::from_millis(1);
    claim_and_verify(storage, replica, &*guard, &*cluster.clock, &*cluster.entropy, pause).await.unwrap()
}

async fn take_over(cluster: &Cluster, change: impl FnOnce(&mut ServeEnv)) -> Master {
    original(&cluster.kv).await;
    promote(cluster, change).await
}

async fn promote(cluster: &Cluster, change: impl FnOnce(&mut ServeEnv)) -> Master {
    let caught_up = claim(cluster).await;
    let mut env = cluster.env(Cluster::guard());
    change(&mut env);
    Master::serve(caught_up, env).unwrap_or_else(|e| panic!("{e}"))
}

fn at(segment_id: &str, base: u64, size: u64) -> MountSegment {
    MountSegment { segment: segment(segment_id), endpoint: AT.into(), base, size }
}

async fn ended(master: &Master, k: &str) -> u64 {
    let grant = master.put_start(&put(k, 4096)).unwrap_or_else(|e| panic!("{e}"));
    master.put_end(&tenant(), &key(k), grant.incarnation, CLIENT, Promise::Durable).await.unwrap();
    grant.replicas[0].address
}

#[tokio::test]
async fn s8_the_first_primary_after_mooncake_serves_what_was_there() {
    let cluster = Cluster::new();
    let master = take_over(&cluster, |_| ()).await;
    let read = master.get(&tenant(), &key("a"), None).unwrap();
    assert_eq!((read.incarnation, read.size), (ObjectIncarnation::LEGACY, 4096));
    assert_eq!((&*read.replicas[0].endpoint, read.replicas[0].address, read.replicas.len()), (AT, 0x10_1000, 1));
    // On a disk alone: there, not readable, not to be put over, and to be removed.
    assert_eq!(
        code(master.get(&tenant(), &key("d"), None)),
        code::<()>(Err(MasterError::ReplicaIsNotReady { key: key("d") }))
    );
    for k in ["a", "d"] {
        assert!(matches!(master.put_start(&put(k, 1)), Err(MasterError::ObjectAlreadyExists { .. })), "{k}");
    }
    for k in ["a", "d"] {
        master.remove(&tenant(), &key(k), Promise::Durable).await.unwrap();
        assert!(matches!(master.get(&tenant(), &key(k), None), Err(MasterError::ObjectNotFound { .. })), "{k}");
    }
    // Memory that Mooncake never knew is free at once, and the key can be put again.
    master.mount_segment(mount("fresh", 0x1000, 1 << 20)).await.unwrap();
    let address = ended(&master, "a").await;
    assert_eq!(address, 0x1000);
    assert_eq!(master.get(&tenant(), &key("a"), None).unwrap().incarnation.to_bytes()[..4], [0, 0, 0, 1]);
    let fold = cluster.fold().await;
    assert_eq!(fold.contents(), master.state().contents());
    assert_eq!(fold.mooncake_contents(), master.state().mooncake_contents());
    assert_eq!(fold.last_applied(), Seq::new(4 + 4));
}

#[tokio::test]
async fn m7_memory_that_mooncake_granted_is_handed_out_after_its_clients_have_stopped_and_never_twice() {
    let cluster = Cluster::new();
    let master = take_over(&cluster, |_| ()).await;
    let info = |master: &Master| master.list_segments().unwrap().remove(0);
    let before = info(&master);
    assert_eq!((before.size, before.used_bytes, before.free_bytes), (1 << 20, 8192, 0), "where it lies nobody knows");
    assert_eq!(before.quarantined_ms, None);

    // A mount of ours says where it lies, under any id; what lies in it stays.
    for (request, sentence) in [(at("s", 0x10_2000, 1 << 20), "0x101000"), (at("s", 0x10_0000, 0x2fff), "0x102fff")] {
        let refused = master.mount_segment(request).await.unwrap_err();
        assert!(matches!(&refused, MasterError::Invalid(why) if why.contains(sentence)), "{refused}");
    }
    master.mount_segment(at("s", 0x10_0000, 0x4000)).await.unwrap();
    master.mount_segment(at("s", 0x10_0000, 0x4000)).await.unwrap();
    let after = info(&master);
    assert_eq!((after.size, after.used_bytes, after.free_bytes), (0x4000, 0x2000, 0x2000));
    assert!(master.state().mooncake_contents().segments.is_empty());
    assert_eq!(master.get(&tenant(), &key("a"), None).unwrap().replicas[0].segment, segment("s"));
    let quarantine = TTL.as_millis() as u64 + Policy::AFTER_MOONCAKE_MS;
    assert!(
        matches!(master.put_start(&put("x", 4096)), Err(MasterError::RetryAfter { ms, .. }) if ms > Policy::AFTER_MOONCAKE_MS)
    );
    cluster.advance(quarantine - 1000);
    assert!(matches!(master.put_start(&put("x", 4096)), Err(MasterError::RetryAfter { .. })));
    cluster.advance(2000);
    let taken = [ended(&master, "x").await, ended(&master, "y").await];
    assert_eq!(taken, [0x10_0000, 0x10_3000]);
    assert!(matches!(master.put_start(&put("z", 1)), Err(MasterError::NoAvailableSpace { .. })));
    let fold = cluster.fold().await;
    assert_eq!(fold.contents(), master.state().contents());
    assert_space_adds_up(&master, &[]);
}

/// Older versions log no mounts; and yet their clients may be writing where they were told to.
#[tokio::test]
async fn m7_memory_that_only_an_object_of_mooncakes_names_is_handed_out_after_the_quarantine() {
    use oplog_core::mooncake::encode as log;
    for status in [2, 3, 5] {
        let cluster = Cluster::new();
        let object = put_end(&[(4096, 0x10_1000, AT, status)]);
        let batch = log::batch(1, 1, &[(1, "default", "a", &object)]);
        cluster.kv.put(&keys().batch(BatchId::new(1)), batch.into()).await.unwrap();
        cluster.kv.put(&keys().durable_prefix(), log::prefix(1, 1, None).into()).await.unwrap();
        let master = promote(&cluster, |_| ()).await;
        master.mount_segment(at("s", 0x10_0000, 0x4000)).await.unwrap();
        assert!(
            matches!(master.put_start(&put("x", 4096)), Err(MasterError::RetryAfter { ms, .. }) if ms > Policy::AFTER_MOONCAKE_MS),
            "status {status}"
        );
        cluster.advance(TTL.as_millis() as u64 + Policy::AFTER_MOONCAKE_MS + 1000);
        ended(&master, "x").await;
        assert_eq!(cluster.fold().await.contents(), master.state().contents());
    }
}

#[tokio::test]
async fn m7_the_long_quarantine_holds_for_every_claim_until_a_policy_is_logged() {
    let cluster = Cluster::new();
    let first = take_over(&cluster, |_| ()).await;
    assert!(first.stats().quarantine_ms > Policy::AFTER_MOONCAKE_MS);
    first.stop().await;
    // The first one of ours is gone at once; its successor cannot know how long ago Mooncake's primary granted.
    let second = promote(&cluster, |_| ()).await;
    assert!(second.stats().quarantine_ms > Policy::AFTER_MOONCAKE_MS);
    cluster.advance(Policy::AFTER_MOONCAKE_MS + 60_000);
    second.set_policy(second.policy()).await.unwrap();
    second.stop().await;
    let third = promote(&cluster, |_| ()).await;
    assert!(third.stats().quarantine_ms < 60_000, "{}", third.stats().quarantine_ms);
}

#[tokio::test]
async fn the_operator_may_know_that_mooncakes_clients_stopped_earlier() {
    let cluster = Cluster::new();
    let master = take_over(&cluster, |env| env.config.after_mooncake = Duration::from_secs(40)).await;
    let quarantine = master.stats().quarantine_ms;
    assert!((40_000..50_000).contains(&quarantine), "{quarantine}");
    // Never shorter than the grants and leases of ours may be.
    let cluster = Cluster::new();
    let master = take_over(&cluster, |env| env.config.after_mooncake = Duration::ZERO).await;
    assert!(master.stats().quarantine_ms >= Policy::INITIAL.span_ms());
}

/// The first primary after Mooncake, whose transactions can be held.
async fn first_node(cluster: &Cluster) -> Node {
    original(&cluster.kv).await;
    let (kv, guard) = (FaultyKv::txn_only(cluster.kv.clone(), 1), Cluster::guard());
    let caught_up = claim_through(cluster, kv.clone()).await;
    let master = Master::serve(caught_up, cluster.env(guard.clone())).unwrap_or_else(|e| panic!("{e}"));
    Node::of(master, kv, guard)
}

/// Row D1 over an object that Mooncake put: the removal's durability is held, the key is put again, then it is let go.
#[tokio::test]
async fn d1_a_key_of_mooncakes_that_is_removed_and_put_again_survives_the_release() {
    for again in [Promise::Accepted, Promise::Durable] {
        let cluster = Cluster::new();
        let node = first_node(&cluster).await;
        let old = node.get("a").unwrap();
        assert_eq!((old.incarnation, old.replicas[0].address), (ObjectIncarnation::LEGACY, 0x10_1000));
        node.mount("fresh", 0x1000, 2 * 4096).await;
        node.hold();
        node.remove("a", Promise::Accepted).await.unwrap();
        assert_eq!(code(node.get("a")), "OBJECT_NOT_FOUND", "M1: invisible from the commit");
        let new = node.start("a", 4096).unwrap();
        assert_eq!(&new.replicas[0].segment.to_string(), "fresh", "M2: not released before it is durable");
        if again == Promise::Accepted {
            node.end("a", &new, again).await.unwrap();
            assert_eq!(node.get("a").unwrap().incarnation, new.incarnation);
        }
        assert_eq!(node.master.stats().pending_removals, 1);
        node.release().await;
        node.settle().await;
        if again == Promise::Durable {
            // It was still being put when the removal became durable.
            assert_eq!(code(node.get("a")), "REPLICA_IS_NOT_READY");
            node.end("a", &new, again).await.unwrap();
        }
        assert_eq!(node.get("a").unwrap().incarnation, new.incarnation, "M3: the finalization left the new one alone");
        assert_eq!((node.master.stats().objects, node.master.stats().pending_removals), (3, 0));
        // The range of Mooncake's may be read by its lease yet; then it is free, once.
        let space = |node: &Node| {
            let all = node.master.list_segments().unwrap();
            let info = all.into_iter().find(|info| info.segment == segment(AT)).unwrap();
            (info.used_bytes, info.held_bytes)
        };
        assert_eq!(space(&node), (4096, 4096), "the lease of the one read");
        cluster.advance(700_000);
        assert_eq!(space(&node), (4096, 0), "released once");
        node.remove("b", Promise::Durable).await.unwrap();
        node.master.unmount_segment(&segment(AT)).await.unwrap();
        assert_eq!(node.get("a").unwrap().incarnation, new.incarnation);
        assert_eq!(node.master.state().contents(), cluster.fold_contents().await);
    }
}
