//! Owns the tests of records that decode and break a constraint of RFC batch record §2.

use super::super::{MAX_BATCH_ENTRIES, MAX_PAYLOAD_BYTES, RecordErrorKind};
use super::{Mirror, framed, refused};

use RecordErrorKind::{Constraint, Malformed, Truncated};

#[track_caller]
fn breaks(field: &str, kind: RecordErrorKind, change: impl FnOnce(&mut Mirror)) {
    let mut mirror = Mirror::sample();
    change(&mut mirror);
    let error = refused(&mirror.record());
    assert_eq!((error.field, error.kind), (field, kind), "{error}");
}

#[test]
fn numbers_of_the_header() {
    breaks("batch_id", Constraint, |m| m.batch_id = 0);
    breaks("batch_id", Constraint, |m| m.batch_id = u64::MAX);
    breaks("first_seq", Constraint, |m| m.first_seq = 0);
    breaks("first_seq", Constraint, |m| m.first_seq = m.batch_id - 1);
    breaks("epoch", Constraint, |m| m.epoch = 0);
    breaks("epoch", Constraint, |m| m.epoch = u64::MAX);
    breaks("prev_crc", Constraint, |m| m.batch_id = 1);
    breaks("entry count", Constraint, |m| m.first_seq = u64::MAX - 2);
    breaks("entry count", Constraint, |m| m.first_seq = u64::MAX - 1);
}

#[test]
fn the_last_sequence_may_leave_room_for_exactly_one_more() {
    let mut mirror = Mirror::sample();
    mirror.first_seq = u64::MAX - 3;
    mirror.entries.pop();
    let record = mirror.record();
    let batch = super::super::BatchRef::decode(&record).unwrap();
    assert_eq!(batch.last_seq().get(), u64::MAX - 2);
    assert_eq!(batch.entries().count(), 2);
}

#[test]
fn tenants() {
    breaks("tenant count", Malformed, |m| m.tenants.clear());
    breaks("tenant", Constraint, |m| m.tenants[0].clear());
    breaks("tenant", Constraint, |m| m.tenants[1] = "_system".into());
    breaks("tenant", Constraint, |m| m.tenants[1] = "a\u{7f}".into());
    breaks("tenant", Constraint, |m| m.tenants[1] = "x".repeat(129));
    breaks("tenants", Constraint, |m| m.tenants[1] = "default".into());
    breaks("tenants", Constraint, |m| m.tenants.push("nobody".into()));
    breaks("tenant index", Constraint, |m| m.entries[2].tenant = 2);
    breaks("tenant index", Constraint, |m| m.entries[0].tenant = 1);
    breaks("tenants", Constraint, |m| m.entries[1].tenant = 0);
}

#[test]
fn a_tenant_that_is_no_utf8() {
    let body = Mirror::sample().body();
    let at = body.windows(8).position(|w| w == b"tenant-a").unwrap();
    let mut bad = body.clone();
    bad[at + 3] = 0xff;
    let error = refused(&framed(&bad));
    assert_eq!((error.field, error.kind), ("tenant", Constraint), "{error}");
}

#[test]
fn entries() {
    breaks("entry count", Malformed, |m| m.entries.clear());
    breaks("key length", Constraint, |m| m.entries[1].key.clear());
    breaks("key length", Constraint, |m| m.entries[1].key = vec![0; 4097]);
    breaks("payload length", Constraint, |m| m.entries[1].payload.clear());
    breaks("payload length", Constraint, |m| m.entries[1].payload = vec![0; MAX_PAYLOAD_BYTES + 1]);
}

#[test]
fn the_error_names_entry_and_offset() {
    let mut mirror = Mirror::sample();
    mirror.entries[1].key.clear();
    let error = refused(&mirror.record());
    let first_entry = [1, 0, 4].len() + 4 + 1 + 6;
    let header = 10 + mirror.body().len() - (first_entry + (1 + 1 + 1 + 2 + 200) + (1 + 1 + 1 + 4 + 1 + 1));
    assert_eq!(error.offset, header + first_entry + 2, "{error}");
    assert!(error.found.contains("in entry 1"), "{error}");
}

#[test]
fn counts_are_judged_by_the_bytes_left_before_anything_is_allocated() {
    // A count that were believed would ask for terabytes.
    let head = [7, 0xac, 2, 3, 1, 0];
    for count in [&b"\x80\x80\x80\x80\x80\x80\x01"[..], b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x80\x80\x04"] {
        let error = refused(&framed(&[&head[..], count, &[b'x'; 40]].concat()));
        assert_eq!((error.field, error.kind), ("tenant count", Malformed), "{error}");
        let tenants = [&head[..], b"\x01\x01t", count, &[b'x'; 40]].concat();
        let error = refused(&framed(&tenants));
        assert_eq!((error.field, error.kind), ("entry count", Malformed), "{error}");
    }
}

#[test]
fn lengths_beyond_the_record_are_refused() {
    let body = Mirror::sample().body();
    let at = body.windows(4).position(|w| w == b"key2").unwrap();
    let mut bad = body.clone();
    bad[at - 1] = 100;
    let error = refused(&framed(&bad));
    assert_eq!((error.field, error.kind), ("key", Truncated), "{error}");
}

#[test]
fn a_number_has_one_form_only() {
    let body = Mirror::sample().body();
    for (name, wrong) in [
        ("a zero at its end", &b"\x87\x00"[..]),
        ("two zeros at its end", b"\x87\x80\x00"),
        ("above 2^64", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"),
        ("eleven bytes", b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"),
    ] {
        let error = refused(&framed(&[wrong, &body[1..]].concat()));
        assert_eq!((error.field, error.kind, error.offset), ("batch_id", Malformed, 10), "{name}: {error}");
    }
    // prev_crc has 32 bits: one more is too many.
    let at = [7].len() + 2 + 1;
    let wide = [&body[..at], b"\x80\x80\x80\x80\x10", &body[at + 5..]].concat();
    let error = refused(&framed(&wide));
    assert_eq!((error.field, error.kind), ("prev_crc", Malformed), "{error}");
}

#[test]
fn more_entries_than_a_record_may_have() {
    let mut mirror = Mirror::sample();
    mirror.tenants.truncate(1);
    let one = super::MirrorEntry { op_type: 1, tenant: 0, key: vec![1], payload: vec![1] };
    mirror.entries = vec![one; MAX_BATCH_ENTRIES];
    assert_eq!(super::super::BatchRef::decode(&mirror.record()).unwrap().count(), MAX_BATCH_ENTRIES);
    mirror.entries.push(mirror.entries[0].clone());
    assert_eq!(refused(&mirror.record()).field, "entry count");
}
