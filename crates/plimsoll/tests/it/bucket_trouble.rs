//! What programs are told where a command on a bucket directory does not do what it was asked: one JSON object on standard output, whatever the
//! reason, with a stable code, what is wrong, where, and what to do; and for people the same sentence on standard error.

use std::path::Path;

use bucket_store::format::names::{ID_HIGH_WATER, MARKER};
use bucket_store::vfs::{Access, DiskDir};
use serde_json::{Value, json};

use crate::buckets::Buckets;
use crate::kit::run;

const ADOPT: [&str; 5] = ["--segment", "s", "--cluster", "c", "--one-way"];

/// Each command with the words that it needs.
const ALL: [(&str, &[&str]); 5] =
    [("ls", &[]), ("explain", &[]), ("fsck", &[]), ("fsck", &["--repair"]), ("adopt", &ADOPT)];

/// Runs it with `--json`, and checks the shape of what it says.
fn trouble(dir: &Path, what: &str, more: &[&str]) -> (i32, Value) {
    let dir = dir.display().to_string();
    let ran = run(&[&["bucket", what, &dir, "--json"], more].concat());
    let lines = ran.out.lines().count();
    assert_eq!(lines, 1, "{what} {more:?}: one object in one line: {ran:?}");
    let report = ran.json();
    let text = |name: &str| report[name].as_str().unwrap_or_else(|| panic!("{name} of {report}")).to_owned();
    assert_eq!(report["schema"], json!(1));
    assert_eq!(text("error"), format!("{}; {}", text("what"), text("remedy")), "{report}");
    assert!(!text("where").is_empty() && !text("code").is_empty() && !text("remedy").is_empty(), "{report}");
    if text("verdict") != "usage" || text("code") != "USAGE" {
        assert!(ran.err.lines().any(|line| line == format!("plimsoll: {}", text("error"))), "{ran:?}");
    }
    assert!(!ran.err.is_empty(), "people are told too");
    (ran.code, report)
}

/// As [`trouble`], and it must be this.
fn is(dir: &Path, words: (&str, &[&str]), exit: i32, verdict: &str, code: &str, place: &str) {
    let (ended, report) = trouble(dir, words.0, words.1);
    assert_eq!(
        (ended, &report["verdict"], &report["code"]),
        (exit, &json!(verdict), &json!(code)),
        "{words:?}: {report}"
    );
    assert!(report["where"].as_str().unwrap().contains(place), "{words:?}: {report}");
}

#[test]
fn a_directory_that_cannot_be_had_is_one_object_from_every_command() {
    let place = Buckets::usual();
    let at = |name: &str| place.temp.path().join(name);
    std::fs::write(at("file"), "x").unwrap();
    std::os::unix::fs::symlink(place.path(), at("link")).unwrap();
    std::os::unix::fs::symlink("nowhere", at("dangling")).unwrap();
    let long = at(&"n".repeat(300));
    for words in ALL {
        is(&at("missing"), words, 2, "unread", "DIR_MISSING", "missing");
        is(&at("file"), words, 2, "unread", "DIR_NOT_A_DIRECTORY", "file");
        is(&at("file/below"), words, 2, "unread", "DIR_NOT_A_DIRECTORY", "file/below");
        is(&at("link"), words, 2, "unread", "DIR_SYMLINK", "link");
        is(&at("dangling"), words, 2, "unread", "DIR_SYMLINK", "dangling");
        is(&long, words, 2, "unread", "DIR_IO", "nnn");
    }
    let store = DiskDir::open(&place.path(), Access::Store).unwrap();
    for words in ALL {
        is(&place.path(), words, 2, "unread", "DIR_IN_USE", "buckets");
    }
    drop(store);
}

#[test]
fn what_is_typed_wrong_is_one_object_from_every_command() {
    let place = Buckets::usual();
    let before = place.snapshot();
    let dir = place.path();
    let wrong: [(&str, &[&str], &str, &str); 22] = [
        ("ls", &["--bucket", "999"], "NO_SUCH_BUCKET", "bucket 999"),
        ("ls", &["--objects", "--bucket", "1", "--bucket", "998"], "NO_SUCH_BUCKET", "bucket 998"),
        ("ls", &["--prefix", "6", "--hex"], "BAD_PREFIX", "--prefix"),
        ("ls", &["--width", "0"], "USAGE", "--width"),
        ("ls", &["--all"], "USAGE", "--objects"),
        ("ls", &["--hex"], "USAGE", "--prefix"),
        ("ls", &["--no-such-flag"], "USAGE", "--no-such-flag"),
        ("explain", &["999"], "NO_SUCH_BUCKET", "bucket 999"),
        ("explain", &["1", "x"], "USAGE", "BUCKET"),
        ("explain", &["--capacity", "0"], "CONFIG", "capacity_bytes"),
        ("explain", &["--capacity", "1MB"], "USAGE", "--capacity"),
        ("explain", &["--bucket-size", "0"], "CONFIG", "bucket_size_bytes"),
        ("explain", &["--bucket-keys", "0"], "CONFIG", "bucket_keys"),
        ("explain", &["--low-watermark", "0.9", "--high-watermark", "0.9"], "CONFIG", "low_watermark"),
        ("explain", &["--dead-ratio", "NaN"], "CONFIG", "normal_dead_ratio"),
        ("explain", &["--dead-ratio", "1.1"], "CONFIG", "normal_dead_ratio"),
        ("explain", &["--floor", "0"], "CONFIG", "dead_ratio_floor"),
        ("fsck", &["--segment", ""], "USAGE", "--segment"),
        ("fsck", &["--cluster", "no such id"], "USAGE", "--cluster"),
        ("fsck", &["--max-faults", "-1"], "USAGE", ""),
        ("adopt", &["--one-way"], "USAGE", "--segment"),
        ("adopt", &["--segment", "s", "--cluster", "a b"], "USAGE", "--cluster"),
    ];
    for (what, more, code, place) in wrong {
        is(&dir, (what, more), 2, "usage", code, place);
    }
    assert_eq!(place.snapshot(), before);
    let nothing = run(&["bucket", "--json"]);
    assert_eq!((nothing.code, &nothing.json()["code"]), (2, &json!("USAGE")), "{nothing:?}");
    // Other commands have another shape.
    let put = run(&["put", "--json"]);
    assert_eq!((put.code, &put.json()["error"]["code"]), (2, &json!("USAGE")), "{put:?}");
    let put = run(&["put", "k", "--size", "1", "--json", "--token-file", "/nowhere"]);
    assert_eq!((put.code, &put.json()["error"]["code"]), (2, &json!("USAGE")), "{put:?}");
}

#[test]
fn an_adoption_that_is_refused_is_one_object_with_its_reason() {
    let adopt = ("adopt", &ADOPT[..]);
    is(&Buckets::usual().path(), adopt, 1, "refused", "ADOPTED_ALREADY", MARKER);
    is(&Buckets::empty().path(), adopt, 1, "refused", "NOTHING_TO_ADOPT", MARKER);
    let place = Buckets::mooncakes();
    is(&place.path(), ("adopt", &ADOPT[..4]), 2, "refused", "NOT_CONFIRMED", "--one-way");
    std::fs::write(place.path().join("notes.txt"), "x").unwrap();
    is(&place.path(), adopt, 1, "refused", "ADOPTION_REFUSED", "notes.txt");
    place.remove("notes.txt");
    std::fs::write(place.path().join(MARKER), [0xff; 30]).unwrap();
    is(&place.path(), adopt, 1, "refused", "ADOPTION_REFUSED", MARKER);
}

#[test]
fn a_repair_that_is_refused_says_so_in_its_report() {
    let repaired = |place: &Buckets, more: &[&str]| {
        let ran = place.looks("fsck", &[&["--repair", "--json"], more].concat());
        assert_eq!((ran.code, ran.out.lines().count()), (1, 1), "{ran:?}");
        let repair = ran.json()["repair"].clone();
        let text = |name: &str| repair[name].as_str().unwrap_or_else(|| panic!("{name} of {repair}")).to_owned();
        assert_eq!(text("refused"), format!("{}; {}", text("what"), text("remedy")));
        (text("code"), text("where"))
    };
    let told = |code: &str, place: String| (code.to_owned(), place);
    let place = Buckets::usual();
    assert_eq!(repaired(&place, &["--segment", "x"]), told("OTHER_SEGMENT", format!("{MARKER}: segment")));
    assert_eq!(repaired(&place, &["--cluster", "x"]), told("OTHER_CLUSTER", format!("{MARKER}: cluster")));
    place.change("2.meta", |bytes| bytes[4] = 9);
    assert_eq!(repaired(&place, &[]), told("UNKNOWN_VERSION", "2.meta: version".to_owned()));
    let place = Buckets::usual();
    place.change(ID_HIGH_WATER, |bytes| bytes[8] ^= 1);
    assert_eq!(repaired(&place, &[]), told("HIGH_WATER_DAMAGED", format!("{ID_HIGH_WATER}: the content")));
    let place = Buckets::usual();
    place.remove(MARKER);
    assert_eq!(repaired(&place, &[]), told("MARKER_MISSING", format!("{MARKER}: the file")));
    std::fs::create_dir(place.path().join(MARKER)).unwrap();
    assert_eq!(repaired(&place, &[]).0, "MARKER_MISSING");
}
