//! `bucket adopt` as it is typed, on real directories: everything that would become of what is there is said before, and whatever a
//! person must decide about refuses it with the directory as it was.

use bucket_store::format::names::MARKER;
use bucket_store::format::test_kit::{identity, put_mooncake_bucket};
use bucket_store::vfs::{Access, DiskDir};
use bucket_store::{Adoption, Store, StoreErrorKind};
use serde_json::json;

use crate::buckets::{Buckets, says};
use crate::kit::{Ran, plimsoll, refused};
use crate::terminal::answer_on_a_terminal;

#[test]
fn a_directory_of_mooncakes_is_shown_and_adopted_only_when_asked_in_words() {
    let place = Buckets::mooncakes();
    let ran = place.looks("ls", &[]);
    says(&ran.out, &["no marker", "served, Mooncake's", "2 buckets with 2 live objects"]);
    let ran = place.looks("fsck", &[]);
    assert_eq!(ran.code, 0, "{ran:?}");
    says(&ran.out, &["not adopted", "3 of them Mooncake's, which have no checksum"]);
    says(&place.looks("explain", &[]).out, &["refuses, unless the directory is adopted"]);

    let as_whom = ["--segment", "ssd-1", "--cluster", "c1"];
    refused(&place.looks("adopt", &as_whom), 2, "one-way", "--one-way");
    let json = place.looks("adopt", &[&as_whom[..], &["--json"]].concat());
    assert_eq!((json.code, &json.json()["verdict"]), (2, &json!("refused")));
    let ran = place.does("adopt", &[&as_whom[..], &["--one-way"]].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    says(
        &ran.out,
        &[
            "served: 2 buckets with 2 live objects",
            "removed: nothing",
            "adopted for good: ",
            "is now segment ssd-1 of cluster c1",
        ],
    );
    assert_eq!(place.faults(), [""; 0]);
    says(&place.looks("ls", &[]).out, &["segment ssd-1, cluster c1", "2 buckets with 2 live objects"]);
    let objects = place.looks("ls", &["--objects", "--json"]).json();
    assert_eq!(objects["objects"][0]["bucket"], 7, "the highest bucket wins");

    let again = place.looks("adopt", &[&as_whom[..], &["--one-way"]].concat());
    refused(&again, 1, "adopted already", "ssd-1");
    let empty = Buckets::empty();
    refused(&empty.looks("adopt", &[&as_whom[..], &["--one-way"]].concat()), 1, "empty", "marks it by itself");
}

#[test]
fn adoption_is_asked_for_on_a_terminal_and_only_the_segment_id_is_a_yes() {
    let place = Buckets::empty();
    place.writes(|dir| put_mooncake_bucket(dir, 3, &[(b"t\0a", b"old"), (b"t\0b", b"value")]));
    let asked = |line: &str| {
        let mut command = plimsoll();
        command.args(["bucket", "adopt", "--segment", "ssd-1", "--cluster", "c1"]).arg(place.path());
        answer_on_a_terminal(command, line)
    };
    let before = place.snapshot();
    for no in ["", "yes", "ssd-2"] {
        let ran = asked(no);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
        says(&ran.err, &["1 bucket with 2 live objects", "There is no way back", "nothing was changed"]);
        assert_eq!(place.snapshot(), before);
    }
    let ran = asked("ssd-1");
    assert_eq!(ran.code, 0, "{ran:?}");
    says(&ran.out, &["1 bucket with 2 live objects", "adopted for good: "]);
}

const AS_WHOM: [&str; 4] = ["--segment", "ssd-1", "--cluster", "c1"];

fn adopt(place: &Buckets, more: &[&str]) -> Ran {
    place.does("adopt", &[&AS_WHOM[..], more].concat())
}

/// Refused, in the way and by name, with everything as it was.
fn refused_for(place: &Buckets, kind: &str, file: &str, code: &str) {
    let before = place.snapshot();
    let ran = adopt(place, &["--one-way"]);
    refused(&ran, 1, file, "then run it again");
    says(&ran.out, &[&format!("FAULT {kind}: {file}: ")]);
    let json = adopt(place, &["--one-way", "--json"]);
    let report = json.json();
    assert_eq!((json.code, &report["verdict"], &report["code"]), (1, &json!("refused"), &json!("ADOPTION_REFUSED")));
    let fault = &report["plan"]["refused"][0];
    assert_eq!((&fault["kind"], &fault["file"]), (&json!(kind), &json!(file)), "{report}");
    let told = place.looks("explain", &["--json"]).json()["open"].clone();
    assert_eq!((&told["needs_adoption"], &told["adoption_refused"][0]["kind"]), (&json!(true), &json!(kind)), "{told}");
    assert_eq!(told["orphans"], json!([]), "an adoption removes none");
    let said = place.looks("explain", &[]).out;
    says(&said, &["so does an adoption", &format!("{kind}: {file}: ")]);
    assert!(!said.contains("removes"), "{said}");
    // The library refuses for the same reason, and not only the command.
    let dir = std::sync::Arc::new(DiskDir::open(&place.path(), Access::Store).unwrap());
    let builder = Store::builder(identity(), std::sync::Arc::new(ha_types::SystemClock::new()));
    let error = builder.adoption(Adoption::OneWay).open(dir).unwrap_err();
    assert_eq!((error.code(), error.kind()), (code, StoreErrorKind::Refused), "{error}");
    assert!(error.place().starts_with(file), "{error}");
    assert_eq!(place.snapshot(), before);
}

#[test]
fn what_becomes_of_every_object_is_said_before_it_is_adopted() {
    let place = Buckets::mooncakes();
    std::fs::write(place.path().join(".7.meta.0.tmp"), b"half").unwrap();
    let plan = adopt(&place, &["--json"]).json()["plan"].clone();
    let amount = |records: u64, bytes: u64| json!({ "records": records, "bytes": bytes });
    // Keys of three bytes; "value" and "newer" are served, "old" is not.
    assert_eq!((&plan["live"], &plan["superseded"]), (&amount(2, 16), &amount(1, 6)), "{plan}");
    assert_eq!((&plan["refused"], &plan["temporaries"]), (&json!([]), &json!([".7.meta.0.tmp"])));
    let mut command = plimsoll();
    command.args(["bucket", "adopt"]).args(AS_WHOM).arg(place.path());
    let asked = answer_on_a_terminal(command, "no");
    let said = [
        "served: 2 buckets with 2 live objects of 16 B",
        "given up: 1 older record of 6 B, as a bucket with a higher id",
        "removed: 1 temporary file and nothing else",
    ];
    says(&asked.err, &said);

    let done = adopt(&place, &["--one-way", "--json"]).json();
    assert_eq!((&done["verdict"], &done["plan"]), (&json!("adopted"), &plan));
    assert_eq!(place.looks("ls", &["--json"]).json()["totals"]["tombstoned"], amount(1, 6), "and settled on disk");
}

#[test]
fn data_without_a_table_is_neither_adopted_nor_removed() {
    let place = Buckets::mooncakes();
    std::fs::write(place.path().join("5.bucket"), b"t\0kvalue").unwrap();
    assert_eq!(place.faults(), ["unknown_data 5.meta the file"]);
    says(&place.looks("ls", &[]).out, &["no table: plimsoll bucket fsck"]);
    refused_for(&place, "unknown_data", "5.meta", "ADOPTS_ORPHAN");
    std::fs::rename(place.path().join("5.bucket"), place.temp.path().join("5.bucket")).unwrap();
    assert_eq!(adopt(&place, &["--one-way"]).code, 0);
}

#[test]
fn a_bucket_that_cannot_be_read_refuses_an_adoption_by_name() {
    type Spoil = (&'static str, &'static str, fn(&Buckets));
    let spoil: [Spoil; 3] = [
        ("table_damaged", "7.meta", |place| place.change("7.meta", |bytes| bytes.truncate(5))),
        ("data_short", "7.meta", |place| place.change("7.bucket", |bytes| bytes.truncate(5))),
        ("data_missing", "7.bucket", |place| place.remove("7.bucket")),
    ];
    for (kind, file, spoil) in spoil {
        let place = Buckets::mooncakes();
        spoil(&place);
        refused_for(&place, kind, file, "ADOPTS_UNREADABLE");
        // With it out of the way the object of the other bucket counts, for good.
        for name in ["7.meta", "7.bucket"] {
            let _ = std::fs::rename(place.path().join(name), place.temp.path().join(name));
        }
        let done = adopt(&place, &["--one-way", "--json"]);
        assert_eq!((done.code, &done.json()["live"]["records"]), (0, &json!(2)), "{kind}: {done:?}");
    }
}

#[test]
fn a_marker_of_mooncakes_must_name_the_segment() {
    let place = Buckets::mooncakes();
    std::fs::write(place.path().join(MARKER), b"ssd-9\n").unwrap();
    let before = place.snapshot();
    let ran = adopt(&place, &["--one-way"]);
    refused(&ran, 1, "is of segment ssd-9", "--segment ssd-9");
    assert_eq!(adopt(&place, &["--json"]).json()["code"], "OTHER_SEGMENT", "before anybody is asked");
    assert_eq!(place.snapshot(), before);
    let right = place.does("adopt", &["--segment", "ssd-9", "--cluster", "c1", "--one-way"]);
    assert_eq!(right.code, 0, "{right:?}");
}
