//! A log that Mooncake began, in a store that nodes share: shown, followed, refused without the operator's word, taken over with it.

use std::sync::Arc;

use ha_kv::{Kv, SqliteKv, SqliteOptions};
use ha_types::{SystemClock, SystemEntropy};
use master::mooncake::encode as payload;
use oplog_core::mooncake::encode as log;
use serde_json::Value;

use crate::kit::{Node, Place, block_on, eventually, must, refused, run};

const AT: &str = "10.0.0.1:12345";
const ELECTION: &[u8] = b"mooncake-store/default/master_view";

async fn store(place: &Place) -> SqliteKv {
    SqliteKv::open(SqliteOptions::new(place.db()), Arc::new(SystemClock::new()), Arc::new(SystemEntropy)).await.unwrap()
}

/// Two batches: a segment and two objects in it. Its primary is still elected.
fn original() -> Place {
    // No pause of the machine ends a leader's term: a new one would be another epoch.
    let place = Place::new(20_000);
    block_on(async {
        let kv = store(&place).await;
        let segment = payload::mount("seg-a", AT, 1 << 20);
        let objects = [payload::put_end(7, 4096, 0x1000, AT), payload::put_end(7, 4096, 0x2000, AT)];
        let t = "default";
        let batches = [
            log::batch(1, 1, &[(5, t, AT, &segment), (1, t, "a", &objects[0])]),
            log::batch(2, 3, &[(1, t, "b", &objects[1])]),
        ];
        for (id, batch) in (1..).zip(batches) {
            kv.put(format!("/oplog/default/batches/{id:020}").as_bytes(), batch.into()).await.unwrap();
        }
        kv.put(b"/oplog/default/durable_prefix", log::prefix(2, 3, None).into()).await.unwrap();
        kv.put(b"/oplog/default/producer_view", "7".into()).await.unwrap();
        kv.put(ELECTION, "10.0.0.9:50051".into()).await.unwrap();
    });
    place
}

fn inspect(place: &Place) -> Vec<Value> {
    let ran = run(&["oplog", "inspect", "--store", &place.store(), "--entries", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Waits until the node says why it does not lead, in words that hold `flag`.
fn says(node: &Node, flag: &str) {
    eventually(flag, || {
        let role = node.role();
        role["reason"].as_str().is_some_and(|why| why.contains(flag)).then_some(())
    });
}

fn end(node: Node) {
    node.signal("TERM");
    assert_eq!(node.ended(), Some(0));
}

#[test]
fn inspect_shows_a_log_of_mooncakes() {
    let place = original();
    let lines = inspect(&place);
    let of = |kind: &str| lines.iter().filter(|l| l["kind"] == kind).cloned().collect::<Vec<_>>();
    let prefix = &of("prefix")[0];
    assert_eq!(
        (&prefix["encoding"], &prefix["last_seq"], &prefix["producer_view"]),
        (&"mooncake".into(), &3.into(), &"7".into())
    );
    let batches = of("batch");
    assert_eq!((batches.len(), &batches[1]["encoding"], &batches[1]["epoch"]), (2, &"mooncake".into(), &0.into()));
    let ops: Vec<_> = of("entry").iter().map(|e| e["op"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ops, ["SEGMENT_MOUNT", "PUT_END", "PUT_END"]);
    assert_eq!(of("summary")[0]["faults"], 0);
    let text = run(&["oplog", "inspect", "--store", &place.store()]);
    for word in [
        "of Mooncake's",
        "producer view 7",
        r#"{\"batch_id\":2,\"last_seq\":3,\"schema_version\":1}"#,
        "2 batches, 3 entries",
    ] {
        assert!(text.out.contains(word), "{word}: {}", text.out);
    }
}

#[test]
fn inspect_names_key_and_field_of_a_damaged_batch_of_mooncakes() {
    let place = original();
    block_on(async {
        let damaged = log::sealed(r#"[1,2,3,3,[[1,"default","b","dmFsdWU"]]"#);
        store(&place).await.put(b"/oplog/default/batches/00000000000000000002", damaged.into()).await.unwrap();
    });
    let ran = run(&["oplog", "inspect", "--store", &place.store()]);
    assert_ne!(ran.code, 0);
    for word in ["/oplog/default/batches/00000000000000000002", "payload at byte 27", "padded standard base64"] {
        assert!(ran.out.contains(word), "{word}: {}", ran.out);
    }
}

#[test]
fn a_log_of_mooncakes_is_followed_then_taken_over_at_the_operators_word() {
    let place = original();
    let follower = place.node("follower");
    says(&follower, "--take-over-mooncake");
    end(follower);
    let careful = place.node_with("careful", &["--take-over-mooncake"]);
    says(&careful, "--old-primary-stopped");
    says(&careful, "mooncake-store/default/master_view");
    end(careful);
    assert_eq!(inspect(&place)[0]["encoding"], "mooncake", "nobody changed anything");

    let leader = place.node_with("leader", &["--take-over-mooncake", "--old-primary-stopped"]);
    leader.wait_for_role("leader");
    let read = must(&[&leader], &["get", "b"]);
    assert!(read.to_string().contains(AT), "{read}");
    must(&[&leader], &["segment", "mount", "fresh", "--size", "1048576", "--endpoint", "fresh.host:9000"]);
    must(&[&leader], &["put", "c", "--size", "5"]);
    must(&[&leader], &["remove", "a"]);
    // A plain node follows over the boundary, and leads after it.
    let next = place.node("next");
    next.wait_for_role("standby");
    end(leader);
    next.wait_for_role("leader");
    must(&[&next], &["get", "b"]);
    must(&[&next], &["get", "c"]);
    end(next);
    let lines = inspect(&place);
    assert_eq!((&lines[0]["epoch"], &lines[0]["last_seq"]), (&2.into(), &6.into()), "{}", lines[0]);
    let encodings: Vec<_> =
        lines.iter().filter(|l| l["kind"] == "batch").map(|l| l["encoding"].as_str().unwrap()).collect();
    assert_eq!(encodings, ["mooncake", "mooncake", "plb1", "plb1", "plb1"]);
}

#[test]
fn the_word_about_the_old_primary_alone_is_refused() {
    let place = Place::new(1000);
    let mut serve = place.serve("a");
    serve.arg("--old-primary-stopped");
    refused(&crate::kit::finish(serve), 2, "old_primary_stopped", "take_over_mooncake");
}
