//! `bucket ls|fsck|explain` as they are typed, on real directories: what is printed, for people and for programs, the exits, and that
//! looking changes nothing.

use std::path::PathBuf;

use bucket_store::format::intent::Round;
use bucket_store::format::names::{BucketId, GC_INTENT, ID_HIGH_WATER, MARKER};
use bucket_store::format::test_kit::{TestRecord, put_identity, put_mooncake_bucket};
use bucket_store::vfs::{Access, DiskDir};
use serde_json::json;

use crate::buckets::{Buckets, ids, says};
use crate::kit::{Ran, finish, plimsoll, refused, run};
use crate::terminal::finish_on_a_terminal;

#[test]
fn ls_draws_live_and_dead_space_of_each_bucket() {
    let place = Buckets::usual();
    let ran = place.looks("ls", &["--width", "10"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    says(&ran.out, &["segment ssd-1, cluster c1", "buckets below 65, writes below 65537"]);
    says(&ran.out, &["░░░░░░░░░░", "██████████", "████▓░░░░░", "█ live", "░ dead"]);
    says(ran.out.lines().last().unwrap(), &["3 buckets with 3 live objects of ", " dead (", " on disk", " free"]);

    let ran = place.looks("ls", &["--json", "--width", "10"]);
    let report = ran.json();
    assert_eq!((ran.code, &report["schema"]), (0, &json!(1)));
    assert_eq!(report["marker"], json!({ "kind": "ours", "segment": "ssd-1", "cluster": "c1" }));
    assert_eq!(report["totals"]["live"]["records"], 3);
    let third = &report["buckets"][2];
    assert_eq!(
        (&third["id"], &third["standing"], &third["layout"]),
        (&json!(3), &json!("served"), &json!("checksummed"))
    );
    assert_eq!((&third["live"]["records"], &third["tombstoned"]["records"]), (&json!(1), &json!(1)));
    assert_eq!(third["picture"], "████▓░░░░░");
    assert_eq!(report["buckets"][0]["superseded"]["records"], 1);
}

#[test]
fn ls_lists_objects_by_key_with_filters() {
    let place = Buckets::usual();
    let keys = |more: &[&str]| {
        let ran = place.looks("ls", &[&["--objects", "--json"], more].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
        let report = ran.json();
        let text = |value: &serde_json::Value| value["hex"].as_str().unwrap().to_owned();
        let objects = report["objects"].as_array().unwrap().clone();
        let listed: Vec<_> = objects
            .iter()
            .map(|o| (text(&o["key"]), o["bucket"].as_u64().unwrap(), o["state"].as_str().unwrap().to_owned()))
            .collect();
        (listed, report["not_listed"].as_u64().unwrap())
    };
    let live = |key: &str, bucket| (key.to_owned(), bucket, "live".to_owned());
    let (a, c1, other) = (live("61", 2), live("632f31", 2), live("63ff", 3));
    assert_eq!(keys(&[]), (vec![a.clone(), c1.clone(), other.clone()], 0));
    assert_eq!(keys(&["--tenant", "default"]).0, [a.clone(), c1.clone()]);
    assert_eq!(keys(&["--prefix", "c"]).0, [c1.clone(), other.clone()]);
    assert_eq!(keys(&["--prefix", "63ff", "--hex"]).0, std::slice::from_ref(&other));
    assert_eq!(keys(&["--bucket", "3"]).0, [other]);
    assert_eq!(keys(&["--limit", "1"]), (vec![a], 2));
    let dead: Vec<_> = keys(&["--all"]).0.into_iter().filter(|(.., state)| state != "live").collect();
    let dead: Vec<_> = dead.iter().map(|(key, bucket, state)| (key.as_str(), *bucket, state.as_str())).collect();
    assert_eq!(dead, [("61", 1, "superseded"), ("62", 1, "tombstoned"), ("632f32", 3, "tombstoned")]);

    let text = place.looks("ls", &["--objects", "--prefix", "c"]);
    says(&text.out, &["default", "c/1", "other", "c\\xff", "70000", "2 records"]);
    let buckets = place.looks("ls", &["--tenant", "other"]);
    says(&buckets.out, &["█", "3 "]);
    refused(
        &place.looks("ls", &["--prefix", "6", "--hex"]),
        2,
        "\"6\"",
        "without --hex".trim_start_matches("without "),
    );
    assert_eq!(place.looks("ls", &["--all"]).code, 2, "dead objects, but of objects nothing was said");
}

#[test]
fn fsck_reads_everything_and_says_sound() {
    let place = Buckets::usual();
    let ran = place.looks("fsck", &["--json", "--segment", "ssd-1", "--cluster", "c1"]);
    let report = ran.json();
    assert_eq!((ran.code, &report["verdict"], &report["schema"]), (0, &json!("sound"), &json!(1)), "{report}");
    assert_eq!((&report["records"], &report["verified_records"]), (&json!(6), &json!(6)));
    let bytes: usize = (1..=3).map(|id| place.snapshot()[&format!("{id}.bucket")].as_ref().unwrap().len()).sum();
    assert_eq!(report["read_bytes"], bytes);
    let text = place.looks("fsck", &[]);
    assert_eq!((text.code, text.err.as_str()), (0, ""));
    says(&text.out, &["sound: 6 records in 3 buckets, ", "no fault was found"]);
    let quick = place.looks("fsck", &["--tables-only", "--json"]);
    assert_eq!((quick.code, &quick.json()["read_bytes"]), (0, &json!(0)));
}

#[test]
fn fsck_names_file_field_expected_and_found_of_a_damaged_record() {
    let place = Buckets::usual();
    place.change("2.bucket", |bytes| *bytes.last_mut().unwrap() ^= 1);
    assert_eq!(place.faults(), ["record_damaged 2.bucket of a chunk of the value"]);
    let text = place.looks("fsck", &[]);
    says(
        &text.out,
        &[
            "FAULT record_damaged: 2.bucket: of a chunk of the value at byte ",
            "default\\x00c/1",
            "get the object from elsewhere",
        ],
    );
    says(text.out.lines().last().unwrap(), &["1 fault in 6 records in 3 buckets, ", "1 record_damaged"]);
    let fault = &place.looks("fsck", &["--json"]).json()["faults"]["listed"][0];
    assert_eq!((&fault["key"]["text"], &fault["file"]), (&json!("default\0c/1"), &json!("2.bucket")));
    place.change("1.bucket", |bytes| bytes.fill(0));
    let short = place.looks("fsck", &["--max-faults", "1"]);
    assert_eq!((short.code, short.out.matches("FAULT").count()), (1, 1));
    says(&short.out, &["2 more faults are counted and not listed", "3 faults in "]);
}

#[test]
fn a_directory_that_cannot_be_had_is_exit_2_by_name_with_every_command() {
    let place = Buckets::usual();
    let at = |name: &str| place.temp.path().join(name);
    std::fs::write(at("file"), "x").unwrap();
    std::os::unix::fs::symlink(place.path(), at("link")).unwrap();
    let asked = [
        &["ls"][..],
        &["fsck"],
        &["fsck", "--repair"],
        &["explain"],
        &["adopt", "--segment", "s", "--cluster", "c", "--one-way"],
    ];
    for words in asked {
        let on = |path: &std::path::Path| {
            let path = path.display().to_string();
            run(&[&["bucket", words[0], &path], &words[1..]].concat())
        };
        refused(&on(&at("missing")), 2, "missing", "create the directory");
        refused(&on(&at("file")), 2, "file", "not a directory");
        refused(&on(&at("link")), 2, "link", "symbolic link");
        let json = run(&[&["bucket", words[0], &at("missing").display().to_string(), "--json"], &words[1..]].concat());
        assert_eq!((json.code, &json.json()["verdict"]), (2, &json!("unread")), "{json:?}");
    }
}

#[test]
fn b3_a_directory_in_use_is_refused_with_its_owners_pid() {
    let place = Buckets::usual();
    let pid = format!("process {}", std::process::id());
    // Those that look may look together; what changes something may not.
    let looker = DiskDir::open(&place.path(), Access::Inspect).unwrap();
    assert_eq!(place.looks("ls", &[]).code, 0);
    assert_eq!(place.looks("fsck", &[]).code, 0);
    refused(&place.looks("fsck", &["--repair"]), 2, "in use", &pid);
    drop(looker);

    let place = Buckets::usual();
    let store = DiskDir::open(&place.path(), Access::Store).unwrap();
    for words in [&["ls"][..], &["fsck"], &["fsck", "--repair"], &["explain"]] {
        refused(&place.looks(words[0], &words[1..]), 2, "in use", &pid);
    }
    let adopt = ["--segment", "s", "--cluster", "c", "--one-way"];
    refused(&place.looks("adopt", &adopt), 2, "in use", &pid);
    drop(store);
}

#[test]
fn another_users_directory_may_be_looked_at_and_not_changed() {
    let place = Buckets::usual();
    let root = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata("/proc/self").unwrap()) == 0;
    // Only root can give a directory away; whoever is not has one of root's everywhere.
    let path = if root { place.path() } else { PathBuf::from("/etc") };
    if root {
        std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
        assert_eq!(place.looks("ls", &[]).code, 0);
        assert_eq!(place.looks("fsck", &[]).code, 0);
    }
    let path = path.display().to_string();
    refused(&run(&["bucket", "fsck", &path, "--repair"]), 2, &path, "run as the owner");
    let adopt = ["bucket", "adopt", &path, "--segment", "s", "--cluster", "c", "--one-way"];
    refused(&run(&adopt), 2, &path, "run as the owner");
}

#[test]
fn whose_directory_it_is_is_checked() {
    let place = Buckets::usual();
    let ran = place.looks("fsck", &["--segment", "ssd-2", "--cluster", "c2"]);
    assert_eq!(ran.code, 1);
    says(&ran.out, &["segment: expected ssd-2, found ssd-1", "cluster: expected c2, found c1", "2 marker_of_another"]);
    assert_eq!(place.looks("fsck", &["--cluster", "no such id"]).code, 2);
    place.change(MARKER, |bytes| bytes.truncate(30));
    assert_eq!(place.faults(), [format!("marker_damaged {MARKER} segment")]);
    place.change(MARKER, |bytes| bytes.splice(.., *b"plimsoll-local-disk 2\n").for_each(drop));
    assert_eq!(place.faults(), [format!("unknown_version {MARKER} version")]);
    place.remove(MARKER);
    assert_eq!(place.faults(), [format!("marker_missing {MARKER} the file")]);
    says(&place.looks("ls", &[]).out, &["no marker says whose it is"]);
}

#[test]
fn what_does_not_belong_is_named() {
    let place = Buckets::usual();
    std::fs::create_dir(place.path().join("sub")).unwrap();
    std::fs::create_dir(place.path().join("lost+found")).unwrap();
    std::fs::create_dir(place.path().join("77.bucket")).unwrap();
    std::fs::write(place.path().join("notes.txt"), "x").unwrap();
    std::fs::write(place.path().join("007.meta"), "x").unwrap();
    std::os::unix::fs::symlink("2.bucket", place.path().join("78.bucket")).unwrap();
    let wanted = [
        "strange_name 007.meta",
        "not_a_file 77.bucket",
        "not_a_file 78.bucket",
        "strange_name notes.txt",
        "not_a_file sub",
    ];
    assert_eq!(place.faults(), wanted.map(|fault| format!("{fault} the name")));
    place.remove("1.meta");
    place.remove("2.bucket");
    let faults = place.faults();
    assert_eq!(faults[5..], ["orphan_data 1.meta the file", "data_missing 2.bucket the file"], "{faults:?}");
}

#[test]
fn tables_and_intents_that_contradict_themselves_are_named() {
    let place = Buckets::empty();
    place.writes(|dir| put_mooncake_bucket(dir, 3, &[(b"t\0a", b"old"), (b"t\0b", b"value")]));
    assert_eq!(place.faults(), [""; 0]);
    let whole = std::fs::read(place.path().join("3.meta")).unwrap();
    place.change("3.meta", |bytes| bytes.truncate(12));
    assert_eq!(place.faults(), ["table_damaged 3.meta count of metadatas"]);
    place.change("3.meta", |bytes| *bytes = whole.clone());
    // The second record's offset, one less.
    let at = whole.iter().rposition(|byte| *byte == 6).unwrap();
    place.change("3.meta", |bytes| bytes[at] -= 1);
    assert_eq!(place.faults(), ["table_damaged 3.meta offset of \"t\\x00b\""]);

    let place = Buckets::usual();
    place.intents(&[Round::Committed { sources: ids(&[1, 900]), target: None }]);
    assert_eq!(place.faults().last(), Some(&format!("intent_bucket_unknown {GC_INTENT} bucket id")));
    let signed = |round: &[u8]| {
        let mut bytes = [b"PLBI\x01\0\x01\0\0\0", round].concat();
        let crc = crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    };
    let equal = signed(&[&[3, 2][..], &1_u64.to_le_bytes(), &1_u64.to_le_bytes()].concat());
    place.change(GC_INTENT, |bytes| *bytes = equal);
    assert_eq!(place.faults(), [format!("intent_damaged {GC_INTENT} rounds[0].sources")]);
    let nine = signed(&[vec![3, 9], (1..=9_u64).flat_map(u64::to_le_bytes).collect()].concat());
    place.change(GC_INTENT, |bytes| *bytes = nine);
    assert_eq!(place.faults(), [format!("intent_damaged {GC_INTENT} count of sources")]);
    place.remove(GC_INTENT);
    place.change(ID_HIGH_WATER, |bytes| bytes[3] ^= 1);
    assert_eq!(place.faults(), [format!("high_water_damaged {ID_HIGH_WATER} magic")]);
}

/// Castagnoli's, bit by bit: nothing of the product.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 })
    })
}

#[test]
fn b12_one_object_live_in_two_buckets_is_named() {
    let place = Buckets::usual();
    place.put(7, &[TestRecord::live(b"default\0c/1", 4, 70_000)]);
    assert_eq!(place.faults(), ["live_twice 2.meta a live record"]);
}

#[test]
fn explain_says_why_a_bucket_is_a_candidate_and_what_recovery_would_do() {
    let place = Buckets::usual();
    let ran = place.looks("explain", &["--capacity", "1MiB"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    says(&ran.out, &["serves 3 buckets", "there is no pressure", "first it would remove 1, in which nothing is alive"]);
    says(&ran.out, &["fully dead: goes next", "nothing in it is dead", "waits for the high watermark"]);
    let ran = place.looks("explain", &["--capacity", "1MiB", "--dead-ratio", "0.4", "--json"]);
    let gc = ran.json()["gc"].clone();
    let candidates: Vec<_> = gc["buckets"].as_array().unwrap().iter().map(|b| b["candidate"].clone()).collect();
    assert_eq!(candidates, [json!(true), json!(false), json!(true)], "{gc}");
    assert_eq!(gc["next"], json!({ "does": "remove_dead", "buckets": [1] }));
    assert_eq!(gc["quarantined_bytes"], 0);
    let one = place.looks("explain", &["2", "--json"]).json();
    assert_eq!(one["gc"]["buckets"].as_array().unwrap().len(), 1);
    refused(&place.looks("explain", &["42"]), 2, "42", "plimsoll bucket ls");

    place.put(9, &[TestRecord::live(b"default\0a", 3, 300), TestRecord::live(b"default\0c/1", 4, 70_000)]);
    place.put(10, &[TestRecord::live(b"other\0c\xff", 5, 50_000)]);
    std::fs::write(place.path().join("11.bucket"), b"half").unwrap();
    place.intents(&[
        Round::Committed { sources: ids(&[1, 2]), target: Some(BucketId(9)) },
        Round::Prepared { sources: ids(&[3]), target: BucketId(10) },
    ]);
    let ran = place.looks("explain", &[]);
    says(
        &ran.out,
        &["9 has replaced 1, 2: 9 stays, 1, 2 go", "a copy of 3 into 10 was not committed: 3 stay, 10 goes"],
    );
    says(&ran.out, &["removes 1 data file that no table names: 11", "serves 2 buckets"]);
    let open = place.looks("explain", &["--json"]).json()["open"].clone();
    assert_eq!(
        open["rounds"][0],
        json!({ "state": "committed", "sources": [1, 2], "target": 9, "action": "finish", "gone": [1, 2] })
    );
    assert_eq!((&open["rounds"][1]["action"], &open["orphans"]), (&json!("roll_back"), &json!([11])));
    assert_eq!((&open["rounds"][1]["sources"], &open["rounds"][1]["gone"]), (&json!([3]), &json!([10])));

    place.remove("9.meta");
    let ran = place.looks("explain", &[]);
    says(&ran.out, &["The next open refuses, and changes nothing", "committed_target_damaged: 9.meta"]);
}

#[test]
fn explain_says_what_is_in_quarantine_and_that_no_gc_gives_it_back() {
    let place = Buckets::usual();
    std::fs::write(place.path().join("2.meta"), b"PLBT and then nothing").unwrap();
    let ran = place.looks("explain", &["--capacity", "1MiB"]);
    says(&ran.out, &["are in quarantine, and no GC gives them back", "smaller by as much"]);
    let gc = place.looks("explain", &["--capacity", "1MiB", "--json"]).json()["gc"].clone();
    let of = |field: &str| gc[field].as_u64().unwrap();
    let quarantined = of("quarantined_bytes");
    let blocks = std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(place.path().join("2.bucket")).unwrap());
    assert_eq!(quarantined, blocks * 512);
    assert!(quarantined > 0 && of("used_bytes") > quarantined, "{gc}");
    // The watermarks are shares of what is left.
    assert_eq!(of("high_bytes"), quarantined + ((1 << 20) - quarantined) * 9 / 10, "{gc}");
}

#[test]
fn explain_refuses_settings_that_no_store_takes() {
    let place = Buckets::usual();
    let wrong: [(&[&str], &str); 8] = [
        (&["--capacity", "0"], "capacity_bytes"),
        (&["--low-watermark", "0.9", "--high-watermark", "0.9"], "low_watermark"),
        (&["--dead-ratio", "NaN"], "normal_dead_ratio"),
        (&["--dead-ratio", "0"], "normal_dead_ratio"),
        (&["--dead-ratio", "1.1"], "normal_dead_ratio"),
        (&["--floor", "-0.1"], "dead_ratio_floor"),
        (&["--bucket-keys", "0"], "bucket_keys"),
        (&["--bucket-size", "0"], "bucket_size_bytes"),
    ];
    for (words, field) in wrong {
        let words: Vec<_> = words.chunks(2).map(|pair| format!("{}={}", pair[0], pair[1])).collect();
        refused(&place.looks("explain", &words.iter().map(String::as_str).collect::<Vec<_>>()), 2, field, "give");
    }
    assert_eq!(place.looks("explain", &["--capacity", "1MB"]).code, 2);
}

#[test]
fn b6_a_repair_does_what_was_foretold_and_loses_nothing_live() {
    let place = Buckets::usual();
    place.put(9, &[TestRecord::live(b"default\0a", 3, 300), TestRecord::live(b"default\0c/1", 4, 70_000)]);
    std::fs::write(place.path().join("11.bucket"), b"half").unwrap();
    std::fs::write(place.path().join(".3.meta.4.tmp"), b"x").unwrap();
    place.intents(&[Round::Committed { sources: ids(&[1, 2]), target: Some(BucketId(9)) }]);
    let objects = |place: &Buckets| place.looks("ls", &["--objects", "--json"]).json()["objects"].clone();
    let before = objects(&place);
    assert_eq!(before.as_array().unwrap().len(), 3);
    assert_eq!(place.faults(), ["orphan_data 11.meta the file"]);
    let ran = place.does("fsck", &["--repair"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    says(
        &ran.out,
        &[
            "repaired: 9 has replaced 1, 2",
            "1 data file without a table removed",
            "1 temporary file removed",
            "sound: ",
        ],
    );
    assert_eq!(objects(&place), before);
    let names: Vec<_> = place.snapshot().into_keys().filter(|name| !name.starts_with('.')).collect();
    assert_eq!(names, ["3.bucket", "3.meta", "9.bucket", "9.meta"]);
    let again = place.does("fsck", &["--repair", "--json"]);
    assert_eq!((again.code, &again.json()["repair"]["rounds"]), (0, &json!([])));
    says(&place.does("fsck", &["--repair"]).out, &["there was nothing to repair"]);

    // What only cannot be read is left where it is.
    place.change("9.meta", |bytes| bytes[40] ^= 1);
    let ran = place.does("fsck", &["--repair"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    says(&ran.out, &["left alone: bucket 9: 9.meta", "FAULT table_damaged: 9.meta: crc"]);
    assert!(place.path().join("9.bucket").exists());
}

#[test]
fn a_repair_of_another_storages_directory_changes_nothing() {
    let place = Buckets::usual();
    std::fs::write(place.path().join("11.bucket"), b"half").unwrap();
    let before = place.snapshot();
    for (flag, what) in [("--segment", "segment"), ("--cluster", "cluster")] {
        let ran = place.does("fsck", &["--repair", flag, "another"]);
        assert_eq!(ran.code, 1, "{ran:?}");
        says(&ran.out, &[&format!("not repaired: the directory is of {what} "), "not of another: nothing was changed"]);
        assert_eq!(place.snapshot(), before, "{flag}");
    }
}

#[test]
fn b15_a_repair_of_an_unknown_version_changes_nothing() {
    let place = Buckets::usual();
    std::fs::write(place.path().join("11.bucket"), b"half").unwrap();
    place.change("2.meta", |bytes| bytes[4] = 3);
    let ran = place.looks("fsck", &["--repair"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    says(&ran.out, &["not repaired: 2.meta has version 3", "FAULT unknown_version: 2.meta: version at byte 4"]);
    let json = place.looks("fsck", &["--repair", "--json"]).json();
    assert!(json["repair"]["refused"].as_str().unwrap().contains("2.meta"), "{json}");
}

#[test]
fn fsck_draws_how_far_it_is_on_a_terminal_only() {
    let place = Buckets::usual();
    place.change("1.bucket", |bytes| bytes.fill(0));
    let command = |more: &[&str]| {
        let mut command = plimsoll();
        command.args(["bucket", "fsck"]).arg(place.path()).args(more);
        command
    };
    let drawn = finish_on_a_terminal(command(&[]));
    assert_eq!(drawn.code, 1, "{drawn:?}");
    says(&drawn.err, &["checking ", "KiB/", "2 faults"]);
    assert!(drawn.err.ends_with("\r\x1b[2K"), "it is gone at the end: {drawn:?}");
    let plain = finish(command(&[]));
    assert_eq!((plain.err.as_str(), &plain.out), ("", &drawn.out), "no terminal, no bar, and the same report");
    assert_eq!(finish_on_a_terminal(command(&["--json"])).err, "");
}

#[test]
fn the_help_teaches_with_examples_and_exit_codes() {
    let bucket = run(&["bucket", "--help"]);
    assert_eq!(bucket.code, 0);
    says(&bucket.out, &["ls", "fsck", "explain", "adopt", "Examples:", "docs/formats/bucket-files.md"]);
    for what in ["ls", "fsck", "explain", "adopt"] {
        let help = run(&["bucket", what, "--help"]);
        assert_eq!(help.code, 0);
        says(&help.out, &["Examples:", &format!("plimsoll bucket {what} /mnt"), "Exit codes:", "--json"]);
        assert!(help.out.lines().all(|line| line.chars().count() <= 110), "{}", help.out);
    }
}

/// The program with this said to the shell before it.
fn with_limit(limit: &str, args: &[&str]) -> Ran {
    let mut command = std::process::Command::new("sh");
    command.arg("-c").arg(format!("{limit} && exec \"$0\" \"$@\"")).arg(env!("CARGO_BIN_EXE_plimsoll")).args(args);
    finish(command)
}

#[test]
fn more_buckets_than_the_soft_limit_of_open_files_are_opened_and_the_hard_one_is_named() {
    let place = Buckets::empty();
    place.writes(put_identity);
    for id in 1..=60 {
        place.put(id, &[TestRecord::live(format!("default\0{id}").as_bytes(), id as u8, 10)]);
    }
    std::fs::write(place.path().join("61.bucket"), "half").unwrap();
    let path = place.path().display().to_string();
    let repair = ["bucket", "fsck", &path, "--repair"];
    let before = place.snapshot();
    let ran = with_limit("ulimit -n 100", &repair);
    assert_eq!(ran.code, 1, "{ran:?}");
    says(&ran.out, &["not repaired: ", "its limit is 100", "ulimit -n"]);
    assert_eq!(place.snapshot(), before);
    let ran = with_limit("ulimit -S -n 100", &repair);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(!place.path().join("61.bucket").exists());
}
