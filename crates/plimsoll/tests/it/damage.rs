//! A damaged log is never served: the node says what is wrong and stays up, and `oplog inspect` names it.

use std::sync::Arc;

use ha_kv::{Kv, SqliteKv, SqliteOptions};
use ha_rpc::v1::{ErrorCode, ErrorDetail, GetRequest};
use ha_types::{SystemClock, SystemEntropy};

use crate::kit::{Place, block_on, http, mount, must, raw, run};

const BATCH_1: &[u8] = b"/oplog/default/batches/00000000000000000001";
const PREFIX: &[u8] = b"/oplog/default/durable_prefix";

/// A log of a few batches whose nodes have ended.
pub(crate) fn log() -> Place {
    let place = Place::new(1000);
    let a = place.node("a");
    a.wait_for_role("leader");
    mount(&[&a], "seg-1");
    must(&[&a], &["put", "k", "--size", "5"]);
    must(&[&a], &["put", "--hex", "ff00", "--size", "6"]);
    a.signal("TERM");
    assert_eq!(a.ended(), Some(0));
    place
}

pub(crate) fn change(place: &Place, key: &[u8], change: impl FnOnce(Vec<u8>) -> Option<Vec<u8>>) {
    block_on(async {
        let options = SqliteOptions::new(place.db());
        let store = SqliteKv::open(options, Arc::new(SystemClock::new()), Arc::new(SystemEntropy)).await.unwrap();
        let value = store.get(key).await.unwrap().expect("the key is there");
        match change(value.to_vec()) {
            Some(changed) => store.put(key, changed.into()).await.unwrap(),
            None => store.delete(key).await.unwrap(),
        }
    });
}

fn inspect(place: &Place) -> crate::kit::Ran {
    run(&["oplog", "inspect", "--store", &place.store(), "--entries", "--json"])
}

fn lines(ran: &crate::kit::Ran, kind: &str) -> Vec<serde_json::Value> {
    let all = ran.out.lines().map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap());
    all.filter(|v| v["kind"] == kind).collect()
}

#[test]
fn inspect_shows_a_good_log_and_changes_nothing() {
    let place = log();
    let ran = inspect(&place);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(lines(&ran, "prefix")[0]["last_seq"], 3);
    assert_eq!(lines(&ran, "batch").len(), 3);
    let entries = lines(&ran, "entry");
    let ops: Vec<_> = entries.iter().map(|e| e["op"].as_str().unwrap()).collect();
    assert_eq!(ops, ["SEGMENT_MOUNT", "PUT_END", "PUT_END"]);
    assert_eq!(entries[2]["key"]["hex"], "ff00");
    assert_eq!(lines(&ran, "summary")[0]["faults"], 0);
    let text = run(&["oplog", "inspect", "--store", &place.store(), "--entries"]);
    for word in [
        "durable prefix",
        "epoch=1",
        "SEGMENT_MOUNT",
        "default/\\xff\\x00",
        "3 batches, 3 entries",
        "nothing truncates",
    ] {
        assert!(text.out.contains(word), "{word}: {}", text.out);
    }
    assert_eq!(inspect(&place).out, ran.out);
}

#[test]
fn compressed_batches_are_followed_taken_over_and_inspected() {
    let place = Place::new(1000);
    let zstd = ["--set", "oplog_batch_compression=zstd", "--set", "oplog_batch_compress_min_bytes=0"];
    let a = place.node_with("a", &zstd);
    a.wait_for_role("leader");
    mount(&[&a], "seg-1");
    let key = "k".repeat(1000);
    must(&[&a], &["put", &key, "--size", "5"]);
    // A node that does not write compressed batches reads them all the same.
    let b = place.node("b");
    b.wait_for_role("standby");
    a.signal("TERM");
    assert_eq!(a.ended(), Some(0));
    b.wait_for_role("leader");
    assert_eq!(must(&[&b], &["get", &key])["size"], 5);
    b.signal("TERM");
    assert_eq!(b.ended(), Some(0));
    let ran = inspect(&place);
    let batches = lines(&ran, "batch");
    let put = batches.iter().find(|b| b["compression"] == "zstd").expect("a compressed batch");
    assert!(put["bytes"].as_u64().unwrap() * 2 < put["raw_bytes"].as_u64().unwrap(), "{put}");
    assert_eq!(lines(&ran, "summary")[0]["faults"], 0);
    assert!(lines(&ran, "entry").iter().any(|e| e["key"]["text"] == key.as_str()));
}

#[test]
fn inspect_makes_no_file_that_is_not_there() {
    let place = Place::new(1000);
    let ran = inspect(&place);
    crate::kit::refused(&ran, 1, "log.db", "name the file");
    assert!(!place.db().exists());
}

/// W10 and S10 at the whole program: each damage makes the node unhealthy, which it says and survives; it never serves.
#[test]
fn w10_damaged_log_is_never_served() {
    type Damage = fn(Vec<u8>) -> Option<Vec<u8>>;
    let flip: Damage = |mut bytes| {
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        Some(bytes)
    };
    let gone: Damage = |_| None;
    let garbage: Damage = |_| Some(b"garbage".to_vec());
    let largest: Damage = |bytes| {
        let text = String::from_utf8(bytes).unwrap();
        Some(text.replace("batch_id=3", &format!("batch_id={}", u64::MAX)).into_bytes())
    };
    for (what, key, damage, fault) in [
        ("a flipped bit in a batch", BATCH_1, flip, "batch_undecodable"),
        ("a missing batch", BATCH_1, gone, "batch_missing"),
        ("a garbled prefix", PREFIX, garbage, "prefix_undecodable"),
        ("a prefix of u64::MAX", PREFIX, largest, "prefix_undecodable"),
        ("a missing prefix", PREFIX, gone, "prefix_missing"),
    ] {
        let place = log();
        change(&place, key, damage);
        let ran = inspect(&place);
        assert_eq!(ran.code, 1, "{what}: {ran:?}");
        let faults = lines(&ran, "fault");
        assert!(faults.iter().any(|f| f["fault"] == fault), "{what}: {faults:?}");

        let mut node = place.node("a");
        node.wait_for_role("unhealthy");
        let (code, ready) = http(&node.admin, "/ready");
        assert_eq!((code, &ready["ready"]), (503, &serde_json::json!(false)), "{what}");
        let reason = ready["reason"].as_str().unwrap();
        let key = key.escape_ascii().to_string();
        assert!(reason.contains(&key) || reason.contains("/oplog/default"), "{what}: the key is named: {reason}");
        assert_eq!(http(&node.admin, "/health").0, 200, "{what}: a restart would not help");
        let status = block_on(async {
            raw(&node).await.get(GetRequest { key: "k".into(), ..Default::default() }).await.expect_err("never served")
        });
        assert_eq!(ErrorDetail::of(&status).unwrap().code(), ErrorCode::NotLeader, "{what}");
        assert!(node.is_running(), "{what}");
        node.signal("TERM");
        assert_eq!(node.ended(), Some(0), "{what}");
    }
}
