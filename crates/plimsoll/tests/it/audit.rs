//! `oplog audit` as it is typed: what is printed, for people and for programs, and the exits, beside nodes and without.

use ha_kv::Kv;
use oplog_core::legacy::LegacyEntry;
use oplog_core::mooncake::encode;
use oplog_core::{NewEntry, Seq};
use serde_json::{Value, json};

use crate::damage::{change, log};
use crate::kit::{Place, Ran, block_on, mount, must, refused, run};
use crate::old_primary::open_store;

const BATCH_1: &[u8] = b"/oplog/default/batches/00000000000000000001";

fn audit(place: &Place, more: &[&str]) -> Ran {
    let store = place.store();
    let mut args = vec!["oplog", "audit", "--store", &store];
    args.extend(more);
    run(&args)
}

fn says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word}: {text}");
    }
}

/// Pairs below the cluster, put by hand.
fn by_hand(pairs: &[(&str, Vec<u8>)]) -> Place {
    let place = Place::new(1000);
    block_on(async {
        let kv = open_store(place.db()).await;
        for (key, value) in pairs {
            kv.put(format!("/oplog/default/{key}").as_bytes(), value.clone().into()).await.unwrap();
        }
    });
    place
}

fn entry(n: u64) -> (String, Vec<u8>) {
    let new = NewEntry { op_type: 1, tenant: "default", key: b"k", payload: b"p" };
    (format!("{n:020}"), LegacyEntry::new(Seq::new(n), 0, &new).unwrap().encode().to_vec())
}

#[test]
fn a_sound_log_is_told_in_text_and_json_with_exit_0_beside_a_node_that_writes_it() {
    // No pause of the machine ends the leader's term: a new one would be another epoch.
    let place = Place::new(20_000);
    let (a, b) = place.pair();
    mount(&[&a], "seg-1");
    for n in 0..5 {
        must(&[&a], &["put", &format!("k{n}"), "--size", "64"]);
        let ran = audit(&place, &["--json"]);
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    let ran = audit(&place, &["--json"]);
    let report = ran.json();
    assert_eq!((ran.code, &report["schema"], &report["verdict"]), (0, &json!(1), &json!("sound")), "{report}");
    assert_eq!(report["below"], "/oplog/default/");
    assert_eq!((&report["prefix"]["epoch"], &report["prefix"]["last_seq"]), (&json!(1), &json!(6)));
    assert_eq!(report["owners"][0], report["prefix"]["owner"]);
    assert_eq!((&report["batches"]["plb1"], &report["batches"]["entries"]), (&json!(6), &json!(6)));
    assert_eq!(report["batches"]["epochs"][0]["first_batch"], 1);
    assert_eq!((&report["faults"]["count"], &report["legacy"]["base"]), (&json!(0), &json!(0)));
    assert_eq!(report["keys"], 7);

    let text = audit(&place, &[]);
    assert_eq!((text.code, text.err.as_str()), (0, ""));
    says(&text.out, &["durable prefix", "epoch 1", "batches 1 to 6, 6 entries", "6, from 1 to 6", "absent"]);
    let last = text.out.lines().last().unwrap();
    says(last, &["sound: 7 keys of ", "no fault was found"]);
    drop((a, b));
}

#[test]
fn faults_are_explained_in_text_and_json_with_exit_1() {
    let place = log();
    change(&place, BATCH_1, |mut bytes| {
        *bytes.last_mut().unwrap() ^= 1;
        Some(bytes)
    });
    block_on(async { open_store(place.db()).await.put(b"/oplog/default/readme", "?".into()).await.unwrap() });
    let ran = audit(&place, &["--json"]);
    let report = ran.json();
    assert_eq!((ran.code, &report["verdict"]), (1, &json!("faults")), "{report}");
    let wanted = json!({ "batch_undecodable": 1, "stray_key": 1 });
    assert_eq!((&report["faults"]["by_kind"], &report["faults"]["count"]), (&wanted, &json!(2)));
    let fault = &report["faults"]["listed"][0];
    assert_eq!(fault["key"], BATCH_1.escape_ascii().to_string());
    for field in ["kind", "expected", "found", "remedy"] {
        assert!(fault[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {fault}");
    }
    assert_eq!((&report["batches"]["unreadable"], &report["stray_keys"]), (&json!(1), &json!(1)));

    let text = audit(&place, &[]);
    assert_eq!(text.code, 1, "{text:?}");
    let key = BATCH_1.escape_ascii().to_string();
    says(&text.out, &[&format!("FAULT batch_undecodable: {key}: expected "), ", found ", "restore the store"]);
    says(&text.out, &["FAULT stray_key: /oplog/default/readme"]);
    says(text.out.lines().last().unwrap(), &["2 faults in ", "1 batch_undecodable, 1 stray_key"]);

    let short = audit(&place, &["--max-faults", "1"]);
    assert_eq!((short.code, short.out.matches("FAULT").count()), (1, 1));
    says(&short.out, &["1 more faults are counted and not listed", "2 faults in "]);
}

#[test]
fn what_cannot_be_read_is_exit_2_and_no_verdict() {
    let place = log();
    let missing = place.dir.path().join("nowhere.db");
    let missing = format!("sqlite://{}", missing.display());
    refused(&run(&["oplog", "audit", "--store", &missing]), 2, "nowhere.db", "name the file");
    refused(&run(&["oplog", "audit", "--store", "memory:"]), 2, "memory:", "sqlite:///PATH");
    refused(&audit(&place, &["--cluster", "other"]), 2, "/oplog/other/", "name the cluster");
    refused(&audit(&place, &["--oplog-root", "/elsewhere"]), 2, "/elsewhere/default/", "the root");
    let ran = audit(&place, &["--cluster", "other", "--json"]);
    let report = ran.json();
    assert_eq!((ran.code, &report["verdict"]), (2, &json!("unread")));
    assert!(report["error"].as_str().unwrap().contains("/oplog/other/"), "{report}");
    std::fs::write(place.db(), b"this is no database, whatever its name says, and it is longer than a header is")
        .unwrap();
    let ran = audit(&place, &["--json"]);
    assert_eq!((ran.code, ran.json()["verdict"].clone()), (2, json!("unread")), "{ran:?}");
}

#[test]
fn a_legacy_log_is_listed_with_its_snapshots_and_judged() {
    let mut pairs: Vec<_> = (1..=4).map(entry).collect();
    pairs.push(("latest".to_owned(), b"4".to_vec()));
    pairs.push(("snapshot/20260719/sequence_id".to_owned(), b"3".to_vec()));
    let by_key = |pairs: &[(String, Vec<u8>)]| {
        by_hand(&pairs.iter().map(|(key, value)| (key.as_str(), value.clone())).collect::<Vec<_>>())
    };
    let ran = audit(&by_key(&pairs), &["--json"]);
    let legacy = ran.json()["legacy"].clone();
    assert_eq!(
        (ran.code, &legacy["entries"], &legacy["latest"], &legacy["base"]),
        (0, &json!(4), &json!(4), &Value::Null)
    );
    let snapshot =
        json!({ "key": "/oplog/default/snapshot/20260719/sequence_id", "sequence": 3, "bootstrap_position": false });
    assert_eq!(legacy["snapshots"], json!([snapshot]));

    // Cut over at 3, though an old primary went on to 4.
    let prefix = oplog_core::DurablePrefix { last_seq: Seq::new(3), ..oplog_core::DurablePrefix::FRESH };
    pairs.push(("durable_prefix".to_owned(), prefix.encode().into_bytes()));
    pairs.remove(1);
    let place = by_key(&pairs);
    let ran = audit(&place, &[]);
    assert_eq!(ran.code, 1, "{ran:?}");
    says(&ran.out, &["FAULT legacy_gap: /oplog/default/00000000000000000002", "nothing starts from it"]);
    says(&ran.out, &["FAULT legacy_above_base: /oplog/default/00000000000000000004", "stop the old primary"]);
    let accepted = audit(&place, &["--accept-holes", "--json"]).json();
    assert_eq!(accepted["faults"]["by_kind"], json!({ "legacy_above_base": 1 }));
    assert!(accepted["notes"][0].as_str().unwrap().contains("entries 2"), "{accepted}");
}

#[test]
fn a_log_of_mooncakes_is_judged() {
    let batch = encode::batch(1, 1, &[(1, "default", "k", b"p")]);
    let mut damaged = batch.clone();
    damaged[10] ^= 1;
    for (value, code, verdict) in [(batch, 0, "sound"), (damaged, 1, "faults")] {
        let place = by_hand(&[
            ("batches/00000000000000000001", value),
            ("durable_prefix", encode::prefix(1, 1, None)),
            ("producer_view", b"7".to_vec()),
        ]);
        let ran = audit(&place, &["--json"]);
        let report = ran.json();
        assert_eq!((ran.code, &report["verdict"]), (code, &json!(verdict)), "{report}");
        assert_eq!((&report["producer_view"], &report["batches"]["count"]), (&json!("7"), &json!(1)));
    }
}
