//! `plimsoll oplog` on real etcd: the audit, and the cutover from the legacy log with its look before.

use std::sync::Arc;

use bytes::Bytes;
use ha_kv::{EtcdKv, EtcdOptions, Kv, RangeLimit};
use master::mooncake::encode;
use oplog_core::legacy::LegacyEntry;
use oplog_core::{LogKeys, NewEntry, Seq};
use plimsoll_tests::{EtcdServer, EtcdServerOptions, Ran, audit_a_sound_and_a_damaged_log, plimsoll};
use serde_json::json;

use crate::log_kit::cluster;
use crate::support::{connect, etcd_or_skip, options, start, start_with};

const AT: &str = "10.0.0.1:12345";
/// The one word that makes a cutover not wait for the old primary.
const STOPPED: &str = "--old-primary-stopped";

fn url(server: &EtcdServer, options: &str) -> String {
    format!("etcd://{}{options}", server.address())
}

#[tokio::test]
async fn an_audit_tells_a_sound_log_from_a_damaged_one() {
    let program = etcd_or_skip!("an_audit_tells_a_sound_log_from_a_damaged_one");
    let Some(plimsoll) = plimsoll("an_audit_tells_a_sound_log_from_a_damaged_one") else { return };
    let server = start(&program).await;
    audit_a_sound_and_a_damaged_log(&plimsoll, connect(&server).await, &url(&server, "")).await;
    server.process().kill();
    let gone = plimsoll.run(&["oplog", "audit", "--store", &url(&server, "?timeout_ms=1000")]).await;
    assert!(gone.code == 2 && gone.err.contains("cannot be reached"), "{gone:?}");
}

/// A server that takes little, with a legacy log of `entries`.
async fn legacy(kv: &EtcdKv, entries: u64) -> LogKeys {
    let keys = LogKeys::of(&cluster());
    for n in 1..=entries {
        let (op_type, key, payload) = match n {
            1 => (5, AT.to_owned(), encode::mount("seg-old", AT, 1 << 30)),
            _ => (1, format!("k{n}"), encode::put_end(7, 64, 0x1000 + n * 64, AT)),
        };
        let new = NewEntry { op_type, tenant: "default", key: key.as_bytes(), payload: &payload };
        let entry = LegacyEntry::new(Seq::new(n), 0, &new).unwrap();
        kv.put(&keys.legacy_entry(Seq::new(n)), entry.encode()).await.unwrap();
    }
    kv.put(&keys.legacy_latest(), entries.to_string().into()).await.unwrap();
    keys
}

async fn contents(kv: &EtcdKv) -> Vec<(Bytes, Bytes)> {
    let page = kv.range(b"\0", b"\xff", RangeLimit::pairs(1000)).await.unwrap();
    page.pairs.into_iter().map(|pair| (pair.key, pair.value)).collect()
}

#[tokio::test]
async fn a_cutover_looks_first_and_takes_the_limits_that_serve_has() {
    let program = etcd_or_skip!("a_cutover_looks_first_and_takes_the_limits_that_serve_has");
    let Some(plimsoll) = plimsoll("a_cutover_looks_first_and_takes_the_limits_that_serve_has") else { return };
    let small = EtcdServerOptions { max_request_bytes: Some(64 << 10), ..EtcdServerOptions::default() };
    let server = start_with(&program, small).await;
    let own = EtcdOptions { max_request_bytes: 64 << 10, ..options([server.endpoint()]) };
    let kv = Arc::new(EtcdKv::connect(own).await.unwrap());
    let keys = legacy(&kv, 3).await;
    let store = url(&server, "?max_request_bytes=65536");
    let cutover = async |more: &[&str]| {
        plimsoll.run(&[&["oplog", "cutover", "--store", &store, "--cluster", cluster().as_str()], more].concat()).await
    };
    let refused = |ran: &Ran, words: &str| {
        assert!(ran.code == 1 && ran.err.contains(words), "{words}: {ran:?}");
    };
    let before = contents(&kv).await;

    // The nodes' limit is the cutover's, looked or not: this server does not take the default.
    for look in [&["--check"][..], &[]] {
        let ran = cutover(&[&[STOPPED], look].concat()).await;
        refused(&ran, "oplog_batch_max_bytes is 1048576; the etcd store as configured takes records of at most");
    }
    let fits = ["--oplog-batch-max-bytes", "16384"];
    let look = cutover(&[&fits[..], &["--check", STOPPED, "--json"]].concat()).await;
    let seen = look.json();
    assert_eq!((look.code, &seen["outcome"]), (0, &json!("ready")), "{look:?}");
    assert_eq!((&seen["base"], &seen["entries"]), (&json!(3), &json!(3)), "{look:?}");

    // An elected primary is named, with its key; and so is an entry that is gone.
    kv.put(&keys.old_master_view(), "10.0.0.9:50051".into()).await.unwrap();
    refused(&cutover(&[&fits[..], &["--check"]].concat()).await, "mooncake-store/rows/master_view");
    kv.delete(&keys.old_master_view()).await.unwrap();
    let second = keys.legacy_entry(Seq::new(2));
    let entry = kv.get(&second).await.unwrap().unwrap();
    kv.delete(&second).await.unwrap();
    refused(&cutover(&[&fits[..], &[STOPPED]].concat()).await, "1 entries up to the base 3 are missing");
    kv.put(&second, entry).await.unwrap();
    assert_eq!(contents(&kv).await, before, "nothing was written by any of them");

    let done = cutover(&[&fits[..], &[STOPPED]].concat()).await;
    assert!(done.code == 0 && done.out.contains("cut over at entry 3: batch 1 begins at 4"), "{done:?}");
    let mut after = contents(&kv).await;
    assert!(after.iter().any(|(key, _)| *key == keys.durable_prefix()));
    after.retain(|(key, _)| *key != keys.durable_prefix());
    assert_eq!(after, before, "one key was added");
    let again = cutover(&[&fits[..], &["--json"]].concat()).await;
    assert_eq!((again.code, &again.json()["base"]), (0, &json!(3)), "{again:?}");
    let audited = plimsoll.run(&["oplog", "audit", "--store", &store, "--cluster", cluster().as_str(), "--json"]).await;
    assert_eq!((audited.code, &audited.json()["legacy"]["base"]), (0, &json!(3)), "{audited:?}");
}
