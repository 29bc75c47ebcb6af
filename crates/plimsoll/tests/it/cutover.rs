//! `oplog cutover` as it is typed: refusals by name, exit codes, and a look that changes nothing.

use std::process::Command;

use ha_kv::{Kv, RangeLimit};
use master::mooncake::encode;
use oplog_core::Seq;
use oplog_core::legacy::LegacyEntry;

use crate::kit::{Place, Ran, block_on, finish, plimsoll, refused, run};
use crate::old_primary::{ENDPOINT, keys, open_store};

/// A store with these legacy entries, made without any process.
pub(crate) fn log(entries: impl IntoIterator<Item = u64>, latest: Option<&str>) -> Place {
    let place = Place::new(1000);
    block_on(async {
        let kv = open_store(place.db()).await;
        for n in entries {
            let (op, key, payload) = match n {
                1 => (5, ENDPOINT.to_owned(), encode::mount("seg-old", ENDPOINT, 1 << 30)),
                _ => (1, format!("k{n}"), encode::put_end(7, 64, 0x1000 + n * 64, ENDPOINT)),
            };
            let new = oplog_core::NewEntry { op_type: op, tenant: "default", key: key.as_bytes(), payload: &payload };
            let entry = LegacyEntry::new(Seq::new(n), 0, &new).unwrap();
            kv.put(&keys().legacy_entry(Seq::new(n)), entry.encode()).await.unwrap();
        }
        if let Some(latest) = latest {
            kv.put(&keys().legacy_latest(), latest.to_owned().into()).await.unwrap();
        }
    });
    place
}

fn contents(place: &Place) -> Vec<(bytes::Bytes, bytes::Bytes)> {
    block_on(async {
        let kv = open_store(place.db()).await;
        let page = kv.range(b"\0", b"\xff", RangeLimit::pairs(10_000)).await.unwrap();
        page.pairs.into_iter().map(|pair| (pair.key, pair.value)).collect()
    })
}

fn cutover(place: &Place, more: &[&str]) -> Ran {
    let store = place.store();
    let mut args = vec!["oplog", "cutover", "--store", &store];
    args.extend(more);
    run(&args)
}

/// Refused with that in the one sentence, whether it is only looked or not; and nothing has changed.
fn refuses(place: &Place, more: &[&str], thing: &str, remedy: &str) {
    let before = contents(place);
    for check in [&["--check"][..], &[]] {
        let ran = cutover(place, &[more, check].concat());
        refused(&ran, 1, thing, remedy);
        let json = cutover(place, &[more, check, &["--json"]].concat());
        assert_eq!((json.code, json.json()["outcome"].as_str()), (1, Some("refused")), "{json:?}");
        assert!(json.json()["error"].as_str().unwrap().contains(thing), "{json:?}");
    }
    assert_eq!(contents(place), before, "{more:?}");
}

const STOPPED: &str = "--old-primary-stopped";

#[test]
fn a_look_shows_what_would_happen_and_changes_nothing() {
    let place = log(1..=9, Some("7"));
    let before = contents(&place);
    let looked = cutover(&place, &["--check", STOPPED]);
    assert_eq!(looked.code, 0, "{looked:?}");
    for shown in ["base", "7", "latest moves", "not watched", "absent", "entry 8", "k8", "without --check"] {
        assert!(looked.out.contains(shown), "{shown}: {}", looked.out);
    }
    assert_eq!(contents(&place), before);
    let json = cutover(&place, &["--check", STOPPED, "--json"]).json();
    assert_eq!((json["base"].as_u64(), json["entries"].as_u64()), (Some(7), Some(7)), "{json}");
    assert!(json["above"].as_str().unwrap().contains("entry 8"), "{json}");

    let done = cutover(&place, &[STOPPED]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.out.contains("cut over at entry 7: batch 1 begins at 8"), "{}", done.out);
    let again = cutover(&place, &[]);
    assert_eq!(again.code, 0, "{again:?}");
    assert!(again.out.contains("cut over before, at entry 7"), "{}", again.out);
    let mut after = contents(&place);
    after.retain(|(key, _)| *key != keys().durable_prefix());
    assert_eq!(after, before, "one key was added and no other touched");
}

#[test]
fn last_seq_above_reality_below_what_counts_and_after_the_cutover_is_refused() {
    let place = log(1..=9, Some("7"));
    refuses(&place, &[STOPPED, "--last-seq", "12"], "--last-seq 12 is above reality", "no such entry");
    refuses(&place, &[STOPPED, "--last-seq", "5"], "--last-seq 5 would drop", "at or below latest");
    assert_eq!(cutover(&place, &[STOPPED, "--last-seq", "9"]).code, 0, "above latest, and there");
    refuses(&place, &["--last-seq", "8"], "--last-seq 8 is below the durable prefix", "taken back");
    refuses(&place, &["--last-seq", "9"], "--last-seq 9 comes after the cutover", "durable prefix is there");
    assert_eq!(cutover(&place, &[]).code, 0);
    assert_eq!(cutover(&place, &["--last-seq", "many"]).code, 2, "no number");
}

#[test]
fn what_is_not_as_it_must_be_is_refused_by_name() {
    refuses(&log(1..=3, None), &[STOPPED], "latest", "name that entry");
    refuses(&log(1..=3, Some("three")), &[STOPPED], "latest", "three");
    refuses(&log(3..=5, Some("5")), &[STOPPED, "--accept-holes"], "00000000000000000001", "snapshot of ours");
    let holes = log([1, 2, 5, 6], Some("7"));
    refuses(
        &holes,
        &[STOPPED],
        "3 entries up to the base 7 are missing, the first ones 3 to 4, 7",
        "accept their loss",
    );
    let looked = cutover(&holes, &["--check", STOPPED, "--json"]).json();
    assert_eq!((looked["missing"].as_u64(), looked["holes"][0]["first"].as_u64()), (Some(3), Some(3)), "{looked}");
    let done = cutover(&holes, &[STOPPED, "--accept-holes"]);
    assert_eq!(done.code, 0, "{done:?}");
    assert!(done.out.contains("accepted: 3 to 4, 7"), "{}", done.out);
}

/// What the nodes are set to is asked of the store now, as `serve` asks it.
#[test]
fn a_batch_that_the_store_does_not_take_is_refused_and_the_limit_is_as_serves() {
    let place = log(1..=3, Some("3"));
    let setting = "--oplog-batch-max-bytes";
    refuses(&place, &[STOPPED, setting, "67108864"], "oplog_batch_max_bytes is 67108864", "at most");
    for (bytes, thing) in [("1023", "not in 1024..=67108864"), ("67108865", "not in 1024"), ("1MiB", "invalid digit")] {
        let ran = cutover(&place, &[STOPPED, setting, bytes]);
        assert!(ran.code == 2 && ran.err.contains(thing), "{bytes}: {ran:?}");
    }
    let mut by_environment = plimsoll();
    by_environment.args(["oplog", "cutover", STOPPED, "--store", &place.store()]);
    by_environment.env("PLIMSOLL_OPLOG_BATCH_MAX_BYTES", "67108864");
    refused(&finish(by_environment), 1, "oplog_batch_max_bytes is 67108864", "at most");
    assert_eq!(cutover(&place, &[STOPPED, setting, "1024"]).code, 0);
}

/// The election key alone refuses, at once; and an entry that does not replay.
#[test]
fn an_old_primary_that_is_elected_and_an_entry_that_cannot_be_applied_are_refused() {
    let place = log(1..=3, Some("3"));
    block_on(async {
        let kv = open_store(place.db()).await;
        kv.put(&keys().old_master_view(), "10.0.0.9:1".into()).await.unwrap();
    });
    let ran = cutover(&place, &[]);
    refused(&ran, 1, "mooncake-store/default/master_view", "stop the old primary");
    assert!(ran.out.contains("10.0.0.9:1"), "{}", ran.out);
    block_on(async {
        let kv = open_store(place.db()).await;
        let new = oplog_core::NewEntry { op_type: 1, tenant: "default", key: b"odd", payload: b"nobody's" };
        let entry = LegacyEntry::new(Seq::new(3), 0, &new).unwrap();
        kv.put(&keys().legacy_entry(Seq::new(3)), entry.encode()).await.unwrap();
    });
    refuses(&place, &[STOPPED], "00000000000000000003", "odd");
}

/// An empty log is cut over at 0: with nothing in it, batch 1 begins at 1.
#[test]
fn a_log_that_was_never_written_is_cut_over_at_nothing() {
    let place = log([], None);
    let done = cutover(&place, &["--old-primary-stopped", "--json"]).json();
    assert_eq!((done["outcome"].as_str(), done["base"].as_u64()), (Some("created"), Some(0)), "{done}");
}

#[test]
fn of_several_at_once_one_creates_and_the_others_read_the_winner() {
    let place = log(1..=50, Some("50"));
    let start = |_| {
        let mut command: Command = plimsoll();
        command.args(["oplog", "cutover", "--json", STOPPED, "--store", &place.store()]);
        std::thread::spawn(move || finish(command))
    };
    let ended: Vec<_> = (0..4).map(start).collect::<Vec<_>>().into_iter().map(|t| t.join().unwrap()).collect();
    let outcome = |ran: &Ran| ran.json()["outcome"].as_str().unwrap().to_owned();
    assert!(ended.iter().all(|ran| ran.code == 0 && ran.json()["base"] == 50), "{ended:?}");
    assert_eq!(ended.iter().filter(|ran| outcome(ran) == "created").count(), 1, "{ended:?}");
    assert_eq!(ended.iter().filter(|ran| outcome(ran) == "found").count(), 3, "{ended:?}");
}

#[test]
fn what_is_typed_wrong_is_said_and_the_help_teaches() {
    let memory = run(&["oplog", "cutover", "--store", "memory:"]);
    refused(&memory, 1, "memory:", "sqlite:///PATH");
    let absent = Place::new(1000);
    refused(&cutover(&absent, &[]), 1, "log.db", "serve");
    let help = run(&["oplog", "cutover", "--help"]);
    for taught in ["serve --legacy", "no way back", "--check", "Exit codes", "run it again", "election key"] {
        assert!(help.out.contains(taught), "{taught}: {}", help.out);
    }
}
