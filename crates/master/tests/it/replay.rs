//! Replay: what it refuses, that a refusal changes nothing (S2), and that it equals what the primary did (S8).

use ha_types::{Epoch, ObjectIncarnation, OpType, Owner, Seq};
use master::{MasterState, Policy, Promise};
use oplog_core::{EntryRef, StateMachine};

use crate::kit::*;

/// A state fed by hand.
struct Log {
    state: MasterState,
    seq: u64,
}

struct Entry<'a> {
    op: u8,
    tenant: &'a str,
    key: &'a [u8],
    payload: &'a [u8],
}

fn entry<'a>(op: OpType, key: &'a str, payload: &'a [u8]) -> Entry<'a> {
    Entry { op: op.number(), tenant: "default", key: key.as_bytes(), payload }
}

impl Log {
    fn new() -> Self {
        Self { state: MasterState::new(), seq: 0 }
    }

    fn try_apply(&mut self, entry: &Entry<'_>) -> Result<(), String> {
        let entry = EntryRef {
            seq: Seq::new(self.seq + 1),
            epoch: Epoch::new(1),
            timestamp_ms: 0,
            op_type: entry.op,
            tenant: entry.tenant,
            key: entry.key,
            payload: entry.payload,
        };
        self.state.apply(entry).map_err(|e| e.reason)?;
        self.seq += 1;
        Ok(())
    }

    fn apply(&mut self, entry: &Entry<'_>) {
        self.try_apply(entry).unwrap();
    }

    /// Refused, with that in the sentence, and nothing has changed (S2, row S4).
    fn refuses(&mut self, entry: &Entry<'_>, sentence: &str) {
        let before = (self.state.contents(), self.state.last_applied());
        let reason = self.try_apply(entry).expect_err(sentence);
        assert!(reason.contains(sentence), "{reason}");
        assert!(reason.starts_with(&format!("entry {} (", self.seq + 1)), "{reason}");
        assert_eq!((self.state.contents(), self.state.last_applied()), before, "{reason}");
    }
}

fn incarnation(counter: u64) -> ObjectIncarnation {
    ObjectIncarnation::of_claim(Epoch::new(1), Owner::new(9), counter).unwrap()
}

fn about(incarnation: ObjectIncarnation) -> Vec<u8> {
    [&[1][..], &incarnation.to_bytes()].concat()
}

/// A PUT_END of addresses and sizes below 128, by the published format alone.
fn put_end(incarnation: ObjectIncarnation, size: u8, replicas: &[(&str, u8)]) -> Vec<u8> {
    let mut out = about(incarnation);
    out.extend([7; 16]);
    out.extend([size, replicas.len() as u8]);
    for (segment, address) in replicas {
        out.push(segment.len() as u8);
        out.extend(segment.as_bytes());
        out.push(*address);
    }
    out
}

fn mount_at(endpoint: &str, base: u8, size: u8) -> Vec<u8> {
    [&[1, endpoint.len() as u8][..], endpoint.as_bytes(), &[base, size]].concat()
}

fn two_segments() -> Log {
    let mut log = Log::new();
    log.apply(&entry(OpType::SegmentMount, "s", &mount_at("h", 10, 100)));
    log.apply(&entry(OpType::SegmentMount, "t", &mount_at("i", 10, 100)));
    log
}

#[test]
fn s4_a_put_end_that_cannot_be_applied_is_refused() {
    let mut log = two_segments();
    log.apply(&entry(OpType::PutEnd, "k", &put_end(incarnation(1), 10, &[("s", 20), ("t", 50)])));
    let mut refuses = |key: &str, payload: Vec<u8>, sentence: &str| {
        log.refuses(&entry(OpType::PutEnd, key, &payload), sentence);
    };
    refuses("k", put_end(incarnation(2), 10, &[("s", 40)]), "expected no object, found one of incarnation");
    refuses("n", put_end(incarnation(2), 10, &[("x", 40)]), "segment \"x\" is not mounted");
    refuses("n", put_end(incarnation(2), 10, &[("s", 9)]), "is outside segment s");
    refuses("n", put_end(incarnation(2), 10, &[("s", 101)]), "is outside segment s");
    refuses("n", put_end(incarnation(2), 10, &[("s", 29)]), "is not wholly free");
    refuses("n", put_end(incarnation(2), 10, &[("s", 11)]), "is not wholly free");
    // The first range would do; nothing is taken of it.
    refuses("n", put_end(incarnation(2), 10, &[("s", 40), ("t", 50)]), "is not wholly free");
    refuses("n", put_end(incarnation(2), 10, &[("s", 40), ("s", 60)]), "two replicas in segment \"s\"");
    refuses("n", put_end(incarnation(2), 0, &[("s", 40)]), "expected a size above 0");
    refuses("n", put_end(incarnation(2), 10, &[]), "expected 1 to 32 replicas");
    refuses("n", put_end(ObjectIncarnation::LEGACY, 10, &[("s", 40)]), "found all zero");
    let other_epoch = ObjectIncarnation::of_claim(Epoch::new(2), Owner::new(9), 1).unwrap();
    refuses("n", put_end(other_epoch, 10, &[("s", 40)]), "expected an incarnation of epoch 1");
    let mut longer = put_end(incarnation(2), 10, &[("s", 40)]);
    longer.push(0);
    refuses("n", longer, "expected the end, found 1 bytes more");
    log.apply(&entry(OpType::PutEnd, "n", &put_end(incarnation(2), 10, &[("s", 40), ("t", 10)])));
}

/// Rows S11 and D8.
#[test]
fn s11_unknown_versions_and_ops_stop_replay_and_are_not_read_as_something_else() {
    let mut log = two_segments();
    log.apply(&entry(OpType::PutEnd, "k", &put_end(incarnation(1), 10, &[("s", 20)])));
    for op in [
        OpType::PutEnd,
        OpType::PutRevoke,
        OpType::Remove,
        OpType::SegmentMount,
        OpType::SegmentUnmount,
        OpType::SegmentUpdate,
    ] {
        log.refuses(&entry(op, "s", &[2, 0, 0]), "expected version 1, found 2");
        log.refuses(&entry(op, "s", &[]), "expected version 1, found no byte");
    }
    log.refuses(&entry(OpType::Policy, "cluster", &[2]), "expected version 1, found 2");
    for op in [OpType::LocalDeleteAck, OpType::StorageMount, OpType::StorageRetire, OpType::ExtentOpen] {
        log.refuses(&entry(op, "k", &[1]), &format!("{op} is not built into this version"));
    }
    for number in [0, 13, 255] {
        log.refuses(&Entry { op: number, ..entry(OpType::PutEnd, "k", &[1]) }, &format!("op type {number} is unknown"));
    }
    // Mooncake's empty REMOVE is another format's.
    log.refuses(&entry(OpType::Remove, "k", &[]), "found no byte");
    log.refuses(&entry(OpType::Remove, "k", &about(incarnation(1))[..16]), "expected 16 bytes of incarnation");
    log.apply(&entry(OpType::Remove, "k", &about(incarnation(1))));
}

#[test]
fn a_lease_renewal_is_read_as_nothing() {
    let mut log = two_segments();
    let before = log.state.contents();
    for payload in [&b""[..], b"\x02", b"anything"] {
        log.apply(&entry(OpType::LeaseRenew, "k", payload));
    }
    assert_eq!(log.state.contents(), before);
    assert_eq!(log.state.last_applied(), Seq::new(5));
}

#[test]
fn removals_and_revocations_name_their_object() {
    let mut log = two_segments();
    log.refuses(&entry(OpType::Remove, "k", &about(incarnation(1))), "found none");
    log.apply(&entry(OpType::PutEnd, "k", &put_end(incarnation(1), 100, &[("s", 10)])));
    log.refuses(&entry(OpType::Remove, "k", &about(incarnation(2))), "expected an object of incarnation");
    log.apply(&entry(OpType::PutRevoke, "k", &about(incarnation(2))));
    log.apply(&entry(OpType::PutRevoke, "x", &about(incarnation(1))));
    assert_eq!(log.state.objects(), 1);
    log.apply(&entry(OpType::PutRevoke, "k", &about(incarnation(1))));
    assert_eq!(log.state.objects(), 0);
    // All of its range is free again.
    log.apply(&entry(OpType::PutEnd, "k", &put_end(incarnation(3), 100, &[("s", 10)])));
    log.apply(&entry(OpType::Remove, "k", &about(incarnation(3))));
    log.apply(&entry(OpType::PutEnd, "k", &put_end(incarnation(4), 50, &[("s", 60)])));
}

#[test]
fn segments_that_cannot_change_are_refused() {
    let mut log = two_segments();
    log.refuses(&entry(OpType::SegmentMount, "s", &mount_at("j", 0, 1)), "is mounted already");
    log.refuses(&entry(OpType::SegmentMount, "u", &mount_at("h", 109, 1)), "it overlaps segment s");
    log.refuses(&entry(OpType::SegmentMount, "u", &mount_at("h", 0, 0)), "expected addresses below 2^64");
    log.refuses(&entry(OpType::SegmentMount, "", &mount_at("h", 0, 1)), "the key is no segment id");
    log.refuses(&entry(OpType::SegmentUnmount, "u", &[1]), "is not mounted");
    log.refuses(&entry(OpType::SegmentUnmount, "s", &[1, 0]), "expected the end");
    log.refuses(&entry(OpType::SegmentUpdate, "u", &[1, 1, b'x']), "is not mounted");
    log.refuses(&entry(OpType::SegmentUpdate, "s", &[1, 1, b'i']), "it would overlap segment t");
    log.refuses(&entry(OpType::SegmentUpdate, "s", &[1, 0]), "expected an endpoint of 1 to 255 bytes");
    log.refuses(&Entry { tenant: "other", ..entry(OpType::SegmentUnmount, "s", &[1]) }, "expected tenant \"default\"");
    log.apply(&entry(OpType::SegmentUpdate, "s", &[1, 1, b'x']));
    log.apply(&entry(OpType::SegmentMount, "u", &mount_at("h", 109, 1)));
    log.refuses(&entry(OpType::Policy, "tenant", &[1, 0, 100, 100, 100, 100]), "expected key \"cluster\"");
    log.refuses(&entry(OpType::Policy, "cluster", &[1, 0, 100, 100, 100, 99]), "expected a quarantine of 100 to");
    log.refuses(&entry(OpType::Policy, "cluster", &[1, 1, 100, 100, 100, 100]), "expected scope 0");
    log.refuses(&entry(OpType::Policy, "cluster", &[1, 0, 9, 100, 100, 100]), "put_grant_ms is 9");
    log.apply(&entry(OpType::Policy, "cluster", &[1, 0, 20, 30, 40, 50]));
    let policy = Policy { put_grant_ms: 20, default_lease_ms: 30, longest_lease_ms: 40 };
    assert_eq!((log.state.contents().policy, log.state.contents().quarantine_ms), (policy, 50));
}

#[test]
fn an_unmount_takes_the_objects_of_the_segment_and_their_other_ranges_stay_taken() {
    let mut log = two_segments();
    log.apply(&entry(OpType::PutEnd, "one", &put_end(incarnation(1), 10, &[("s", 20)])));
    log.apply(&entry(OpType::PutEnd, "two", &put_end(incarnation(2), 10, &[("s", 40), ("t", 40)])));
    log.apply(&entry(OpType::SegmentUnmount, "s", &[1]));
    assert_eq!(log.state.objects(), 1);
    log.refuses(&entry(OpType::Remove, "one", &about(incarnation(1))), "found none");
    log.refuses(&entry(OpType::PutEnd, "n", &put_end(incarnation(3), 1, &[("t", 49)])), "not wholly free");
    log.apply(&entry(OpType::SegmentMount, "s", &mount_at("h", 10, 100)));
    assert_eq!(log.state.objects(), 1, "what was lost does not come back with the id");
    log.apply(&entry(OpType::PutEnd, "one", &put_end(incarnation(4), 100, &[("s", 10)])));
    log.apply(&entry(OpType::Remove, "two", &about(incarnation(2))));
    log.apply(&entry(OpType::PutEnd, "n", &put_end(incarnation(5), 100, &[("t", 10)])));
}

#[test]
fn s1_an_entry_out_of_order_is_refused() {
    let mut log = two_segments();
    log.seq = 5;
    let reason = log.try_apply(&entry(OpType::SegmentUnmount, "s", &[1])).unwrap_err();
    assert!(reason.contains("expected the entry after 2"), "{reason}");
    log.seq = 1;
    log.try_apply(&entry(OpType::SegmentUnmount, "s", &[1])).unwrap_err();
    assert_eq!(log.state.last_applied(), Seq::new(2));
}

#[test]
fn a_hole_whose_loss_was_accepted_is_passed_and_changes_nothing_else() {
    let mut log = two_segments();
    let before = log.state.contents();
    log.state.pass_hole(Seq::new(9)).unwrap();
    assert_eq!((log.state.last_applied(), log.state.contents()), (Seq::new(9), before));
    log.try_apply(&entry(OpType::SegmentUnmount, "s", &[1])).unwrap_err();
    log.seq = 9;
    log.apply(&entry(OpType::SegmentUnmount, "s", &[1]));
    assert_eq!(log.state.last_applied(), Seq::new(10));
}

#[test]
fn keys_that_are_not_utf_8_survive() {
    let mut log = two_segments();
    let raw = Entry { key: b"\xff\0\xfe", ..entry(OpType::PutEnd, "", &[]) };
    let payload = put_end(incarnation(1), 10, &[("s", 20)]);
    log.apply(&Entry { payload: &payload, ..raw });
    let found = log.state.object(&tenant(), &ha_types::ObjectKey::new(b"\xff\0\xfe").unwrap()).unwrap();
    assert_eq!(found.incarnation, incarnation(1));
}

/// Invariant S8, over every kind of entry; and a second replay of the same log gives the same again.
#[tokio::test]
async fn s8_replaying_a_masters_log_gives_its_state() {
    let cluster = Cluster::new();
    let node = cluster.promote().await;
    node.mount("s", 0, 1000).await;
    node.mount("t", 5000, 1000).await;
    for i in 0..20 {
        let grant =
            node.master.put_start(&master::PutStart { replicas: 1 + i % 2, ..put(&i.to_string(), 10) }).unwrap();
        node.end(&i.to_string(), &grant, Promise::Accepted).await.unwrap();
    }
    for i in 0..10 {
        node.remove(&(i * 2).to_string(), Promise::Accepted).await.unwrap();
    }
    node.start("never ended", 10).unwrap();
    node.master.update_segment(&segment("t"), "host:2".into()).await.unwrap();
    node.master.set_policy(Policy { put_grant_ms: 50, default_lease_ms: 50, longest_lease_ms: 50 }).await.unwrap();
    cluster.advance(10_000);
    node.master.unmount_segment(&segment("s")).await.unwrap();
    node.mount("s", 0, 500).await;
    let live = node.master.state().contents();
    assert!(!live.objects.is_empty());
    assert_eq!(live, cluster.fold_contents().await);
    assert_eq!(live, cluster.fold_contents().await);
    assert_eq!(live, cluster.promote().await.master.state().contents());
}

/// What the benches call realistic is a log that a master takes.
#[test]
fn generated_metadata_is_a_sound_log() {
    use oplog_core::test_kit::metadata::{Metadata, Payloads};
    let mut state = MasterState::new();
    for (entry, seq) in Metadata::first(Payloads::Plimsoll, 1, 20_000).iter().zip(1..) {
        let entry = entry.as_new();
        let entry = EntryRef {
            seq: Seq::new(seq),
            epoch: Epoch::new(Metadata::EPOCH),
            timestamp_ms: 0,
            op_type: entry.op_type,
            tenant: entry.tenant,
            key: entry.key,
            payload: entry.payload,
        };
        state.apply(entry).unwrap_or_else(|e| panic!("entry {seq}: {e}"));
    }
    assert!(state.contents().objects.len() > 15_000);
}
