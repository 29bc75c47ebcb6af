//! Owns the tests of errors: each problem there is says what, where and what to do.

use std::io;

use ha_types::ObjectIncarnation;

use super::problem::KeyText;
use super::{DiskOp, Problem, StoreError, StoreErrorKind};
use crate::config::Config;
use crate::format::names::BucketId;
use crate::key::StorageKey;

#[test]
fn a_full_disk_is_no_broken_disk() {
    let full = StoreError::io(DiskOp::Write, "7.bucket", io::ErrorKind::StorageFull.into());
    assert_eq!((full.kind(), full.code()), (StoreErrorKind::NoSpace, "DISK_FULL"));
    let files = StoreError::io(DiskOp::Create, "7.bucket", io::Error::from_raw_os_error(24));
    assert_eq!((files.kind(), files.code()), (StoreErrorKind::Disk, "TOO_MANY_FILES"));
    assert!(files.to_string().contains("ulimit -n"), "{files}");
    let broken = StoreError::io(DiskOp::Write, "7.bucket", io::Error::other("EIO"));
    assert_eq!((broken.kind(), broken.code()), (StoreErrorKind::Disk, "IO"));
    assert!(broken.to_string().starts_with("write of 7.bucket failed: EIO; try again"), "{broken}");
    assert!(std::error::Error::source(&broken).is_some());
}

#[test]
fn a_key_is_shown_escaped_and_cut() {
    assert_eq!(KeyText::new(b"a\0b").to_string(), "\"a\\x00b\"");
    assert!(KeyText::new(&[b'k'; 200]).to_string().ends_with("k\""));
    assert!(KeyText::new(&[b'k'; 4096]).to_string().ends_with("\"… (4096 bytes)"));
}

#[test]
fn the_text_names_file_field_expected_and_found() {
    let error = StoreError::from(refused());
    assert_eq!(error.to_string(), ".marker: segment is b, expected a; open the right directory");
    assert_eq!((error.kind(), error.code()), (StoreErrorKind::Refused, "OTHER_SEGMENT"));
    assert!(!error.is_retryable());
}

fn refused() -> Problem {
    Problem::Refused {
        code: "OTHER_SEGMENT",
        file: ".marker".into(),
        field: "segment",
        expected: "a".into(),
        found: "b".into(),
        remedy: "open the right directory",
    }
}

/// One of each, with the words that say where it is.
fn one_of_each() -> Vec<(Problem, &'static str)> {
    let key = || KeyText::new(b"t\0k");
    let incarnation = ObjectIncarnation::LEGACY;
    let (op, file) = (DiskOp::Write, || "7.bucket".to_owned());
    let health = crate::health::Health::new(1);
    health.failed(op, "7.meta", &io::Error::other("EIO"), &crate::observer::NoObserver);
    let limit = Config { bucket_keys: 0, ..Config::default() };
    let inner = StoreError::io(DiskOp::Sync, "9.meta", io::Error::other("EIO"));
    let bucket = BucketId(5);
    vec![
        (Problem::Config(limit.validate().unwrap_err()), "bucket_keys"),
        (Problem::Argument { argument: "objects", expected: "give 1".into(), found: "2".into() }, "objects"),
        (Problem::BadKey { key: key(), reason: StorageKey::check(b"t").unwrap_err() }, "\"t\\x00k\""),
        (Problem::KeyTwice { key: key(), first: 0, second: 1 }, "\"t\\x00k\""),
        (Problem::BadValueLength { key: key(), found: 0, expected: "give 1 or more".into() }, "\"t\\x00k\""),
        (Problem::BadRange { key: key(), offset: 1, len: 2, value_len: 2 }, "\"t\\x00k\""),
        (Problem::NotFound { key: key() }, "\"t\\x00k\""),
        (Problem::Tombstoned { key: key(), incarnation }, "\"t\\x00k\""),
        (Problem::Superseded { key: key(), incarnation }, "\"t\\x00k\""),
        (Problem::Busy { key: key(), doing: "being written" }, "\"t\\x00k\""),
        (Problem::TableBusy { bucket }, "bucket 5"),
        (Problem::BucketStays { bucket, reason: "it became suspect" }, "bucket 5"),
        (Problem::InQuarantine { bucket, key: key() }, "bucket 5"),
        (Problem::NoSpace { what: "a copy", needed: 2, free: 1 }, "a copy"),
        (Problem::ReserveMissing { needed: 1 }, ".bucket_reserve"),
        (Problem::DiskFull { op, file: file(), source: io::ErrorKind::StorageFull.into() }, "7.bucket"),
        (
            Problem::TooManyFiles {
                op,
                file: file(),
                limit: "4 open files".into(),
                source: io::Error::from_raw_os_error(24),
            },
            "7.bucket",
        ),
        (Problem::ReadOnly(health.read_only().unwrap()), "7.meta"),
        (refused(), ".marker: segment"),
        (Problem::UnknownVersion { file: file(), found: 2, known: "version 1" }, "7.bucket"),
        (Problem::CommittedTargetDamaged { target: bucket, reason: "there is no 5.meta".into() }, "5.meta"),
        (
            Problem::Damaged { file: file(), field: "the record", expected: "a".into(), found: "b".into() },
            "7.bucket: the record",
        ),
        (Problem::NotDurable(inner), "9.meta"),
        (Problem::Io { op, file: file(), source: io::Error::other("EIO") }, "7.bucket"),
        (Problem::TooFewFiles { limit: 4, needed: 8, buckets: 6, open: 2 }, "limit"),
        (Problem::DataBusy { bucket }, "bucket 5"),
        (Problem::NumbersExhausted { what: "bucket ids", needed: 2, left: 1 }, "bucket ids"),
    ]
}

/// Its place in [`one_of_each`]: a new problem does not compile before it is there.
fn number(problem: &Problem) -> usize {
    match problem {
        Problem::Config(_) => 0,
        Problem::Argument { .. } => 1,
        Problem::BadKey { .. } => 2,
        Problem::KeyTwice { .. } => 3,
        Problem::BadValueLength { .. } => 4,
        Problem::BadRange { .. } => 5,
        Problem::NotFound { .. } => 6,
        Problem::Tombstoned { .. } => 7,
        Problem::Superseded { .. } => 8,
        Problem::Busy { .. } => 9,
        Problem::TableBusy { .. } => 10,
        Problem::BucketStays { .. } => 11,
        Problem::InQuarantine { .. } => 12,
        Problem::NoSpace { .. } => 13,
        Problem::ReserveMissing { .. } => 14,
        Problem::DiskFull { .. } => 15,
        Problem::TooManyFiles { .. } => 16,
        Problem::ReadOnly(_) => 17,
        Problem::Refused { .. } => 18,
        Problem::UnknownVersion { .. } => 19,
        Problem::CommittedTargetDamaged { .. } => 20,
        Problem::Damaged { .. } => 21,
        Problem::NotDurable(_) => 22,
        Problem::Io { .. } => 23,
        Problem::TooFewFiles { .. } => 24,
        Problem::DataBusy { .. } => 25,
        Problem::NumbersExhausted { .. } => 26,
    }
}

/// The words with which a remedy may begin: it tells somebody to do something.
const ORDERS: [&str; 20] = [
    "ask", "create", "delete", "get", "give", "go on", "let", "mend", "mount", "move", "name", "open", "publish",
    "raise", "restore", "run", "stop", "try", "use", "write",
];

pub(crate) fn is_an_order(remedy: &str) -> bool {
    ORDERS.iter().any(|order| remedy.strip_prefix(order).is_some_and(|rest| rest.starts_with([' ', ','])))
}

#[test]
fn every_problem_says_what_where_and_what_to_do() {
    let all = one_of_each();
    for (at, (problem, place)) in all.into_iter().enumerate() {
        assert_eq!(number(&problem), at, "{problem}");
        let error = StoreError::from(problem);
        let text = error.to_string();
        assert!(text.contains(place), "where is it: {text}");
        assert!(error.place().contains(place), "{:?} of {text}", error.place());
        assert!(is_an_order(&error.remedy()), "what to do: {text}");
        assert_eq!(text, format!("{}; {}", error.what(), error.remedy()));
        assert!(!error.what().ends_with(&*error.remedy()), "said twice: {text}");
        assert!(error.code().bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_'), "{}", error.code());
    }
}

#[test]
fn the_remedy_of_a_failed_call_is_that_of_its_reason() {
    let remedy = |kind: io::ErrorKind| StoreError::io(DiskOp::Open, "7.meta", kind.into()).remedy().into_owned();
    assert!(remedy(io::ErrorKind::PermissionDenied).starts_with("give this user permission"));
    assert!(remedy(io::ErrorKind::ReadOnlyFilesystem).starts_with("mount the file system writable"));
    assert!(remedy(io::ErrorKind::NotFound).starts_with("stop whoever else"));
    assert!(remedy(io::ErrorKind::Other).starts_with("try again; if it goes on"));
}
