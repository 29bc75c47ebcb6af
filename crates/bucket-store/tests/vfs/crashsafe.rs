//! Owns the proof that replacing and removing files is safe at every crash and every failure.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use bucket_store::crashsafe::{Attempt, Step, publish, remove, sweep, temporary_for, temporary_name};
use bucket_store::vfs::sim::{CrashStates, EIO, ENOSPC, Fault, Image, OpKind, SimDisk};
use bucket_store::vfs::{Access, DiskDir, Vfs};

const NEW: &[u8] = &[b'n'; 1300];

fn disk() -> SimDisk {
    SimDisk::of(&Image::default().with("f", b"old"))
}

fn at_rest(disk: &SimDisk) -> BTreeSet<Option<Vec<u8>>> {
    disk.crash_point().images(CrashStates::default()).map(|image| image.bytes("f")).collect()
}

fn only<const N: usize>(of: [Option<&[u8]>; N]) -> BTreeSet<Option<Vec<u8>>> {
    of.into_iter().map(|bytes| bytes.map(<[u8]>::to_vec)).collect()
}

fn watched(disk: &SimDisk, steps: impl FnOnce()) -> BTreeSet<Option<Vec<u8>>> {
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let collect = Arc::clone(&seen);
    disk.watch(move |_, point| {
        collect.lock().unwrap().extend(point.images(CrashStates::default()).map(|image| image.bytes("f")));
    });
    steps();
    disk.unwatch();
    seen.lock().unwrap().clone()
}

#[test]
fn b1_a_replaced_file_is_old_or_new_at_every_crash_and_new_after_success() {
    let disk = disk();
    let dir = disk.mount().unwrap();
    let during = watched(&disk, || publish(&dir, "f", NEW).unwrap());
    assert_eq!(during, only([Some(b"old"), Some(NEW)]));
    assert_eq!(at_rest(&disk), only([Some(NEW)]));
    assert_eq!(disk.image().names().collect::<Vec<_>>(), ["f"]);
}

#[test]
fn the_first_publish_of_a_name_is_none_or_whole() {
    let disk = SimDisk::new();
    let dir = disk.mount().unwrap();
    let during = watched(&disk, || publish(&dir, "f", NEW).unwrap());
    assert_eq!(during, only([None, Some(NEW)]));
}

#[test]
fn an_empty_file_is_published_too() {
    let disk = disk();
    publish(&disk.mount().unwrap(), "f", b"").unwrap();
    assert_eq!(at_rest(&disk), only([Some(b"")]));
}

#[test]
fn b8_every_call_of_a_publish_fails_in_turn_and_the_error_says_what_may_be() {
    let expected = [Step::Create, Step::Write, Step::SyncData, Step::Rename, Step::SyncDir];
    for (number, step) in (1..).zip(expected) {
        let disk = disk();
        let dir = disk.mount().unwrap();
        disk.fail_at(number, Fault::Errno(EIO));
        let during = watched(&disk, || {
            let error = publish(&dir, "f", NEW).unwrap_err();
            assert_eq!((error.step, &*error.name), (step, "f"));
            assert_eq!(error.may_be_in_place(), number >= 4);
            assert!(!error.is_no_space());
        });
        let may_be = if number < 5 { only([Some(b"old")]) } else { only([Some(b"old"), Some(NEW)]) };
        assert_eq!(during, may_be, "{step}");
        assert_eq!(at_rest(&disk), may_be, "{step}");
        assert_eq!(
            disk.image().names().collect::<Vec<_>>(),
            ["f"],
            "no temporary file is left on a disk that may be full"
        );
        let again = watched(&disk, || publish(&dir, "f", NEW).unwrap());
        assert_eq!(again, only([Some(b"old"), Some(NEW)]), "{step}");
        assert_eq!(at_rest(&disk), only([Some(NEW)]), "{step}");
    }
}

#[test]
fn a_temporary_file_that_cannot_be_taken_away_is_not_used_again() {
    let disk = disk();
    let dir = disk.mount().unwrap();
    disk.record();
    disk.fail_at(3, Fault::Errno(EIO));
    disk.inject(1, Fault::Errno(EIO), |op| op.kind == OpKind::Unlink);
    publish(&dir, "f", NEW).unwrap_err();
    publish(&dir, "f", NEW).unwrap();
    assert_eq!(at_rest(&disk), only([Some(NEW)]));
    let synced: Vec<_> =
        disk.log().into_iter().filter(|op| op.kind == OpKind::SyncData).map(|op| op.name.to_string()).collect();
    assert_eq!(synced, [".f.0.tmp", ".f.1.tmp"], "no descriptor is synced twice");
    assert_eq!(sweep(&dir, |name| name == "f").unwrap(), 1);
    assert_eq!(disk.image().names().collect::<Vec<_>>(), ["f"]);
}

#[test]
fn a_full_disk_is_told_from_a_broken_one() {
    for fault in [Fault::Errno(ENOSPC), Fault::Short { written: 512, errno: ENOSPC }] {
        let disk = disk();
        let dir = disk.mount().unwrap();
        disk.inject(1, fault, |op| op.kind == OpKind::Write);
        let error = publish(&dir, "f", NEW).unwrap_err();
        assert!(error.is_no_space() && !error.may_be_in_place(), "{error}");
        assert!(error.to_string().starts_with("f was not published: writing the temporary file failed: "), "{error}");
        assert_eq!(at_rest(&disk), only([Some(b"old")]));
    }
}

#[test]
fn a_removed_file_does_not_come_back() {
    let disk = disk();
    let dir = disk.mount().unwrap();
    let during = watched(&disk, || remove(&dir, &["f", "not there"], Attempt::First).unwrap());
    assert_eq!(during, only([None, Some(b"old")]));
    assert_eq!(at_rest(&disk), only([None]));
    remove(&dir, &["f"], Attempt::First).unwrap();
    remove::<&str>(&dir, &[], Attempt::First).unwrap();
}

#[test]
fn b8_a_removal_whose_sync_failed_is_certain_only_when_repeated_as_such() {
    let run = |attempt| {
        let disk = disk();
        let dir = disk.mount().unwrap();
        disk.inject(1, Fault::Errno(EIO), |op| op.kind == OpKind::SyncDir);
        let error = remove(&dir, &["f"], Attempt::First).unwrap_err();
        assert_eq!((error.step, &*error.name), (Step::SyncDir, "f"));
        let during = watched(&disk, || remove(&dir, &["f"], attempt).unwrap());
        (during, at_rest(&disk))
    };
    let (_, after) = run(Attempt::First);
    assert_eq!(after, only([None, Some(b"old")]), "the simulated disk shows why it matters");
    let (during, after) = run(Attempt::Repeated);
    assert_eq!(during, only([None, Some(b""), Some(b"old")]));
    assert_eq!(after, only([None]));
}

#[test]
fn every_call_of_a_removal_fails_in_turn() {
    for (number, step) in [(1, Step::Create), (2, Step::Unlink), (3, Step::SyncDir)] {
        let disk = SimDisk::new();
        let dir = disk.mount().unwrap();
        disk.fail_at(number, Fault::Errno(EIO));
        assert_eq!(remove(&dir, &["f"], Attempt::Repeated).unwrap_err().step, step);
        remove(&dir, &["f"], Attempt::Repeated).unwrap();
        assert_eq!(at_rest(&disk), only([None]));
    }
}

#[test]
fn only_temporary_names_of_our_files_are_swept() {
    assert_eq!(temporary_name("7.meta", 12), ".7.meta.12.tmp");
    assert_eq!(temporary_for(".7.meta.12.tmp"), Some("7.meta"));
    assert_eq!(temporary_for("..bucket_gc_intent.0.tmp"), Some(".bucket_gc_intent"));
    for foreign in [
        "7.meta",
        "7.meta.0.tmp",
        ".7.meta.tmp",
        ".7.meta.01.tmp",
        ".7.meta.+1.tmp",
        ".7.meta.0.tmp~",
        "..0.tmp",
        ".0.tmp",
    ] {
        assert_eq!(temporary_for(foreign), None, "{foreign}");
    }
    let left = ["7.meta", ".notes.0.tmp", ".7.meta.tmp"];
    let image = left.iter().fold(Image::default(), |image, name| image.with(name, b"x"));
    let disk = SimDisk::of(&image.clone().with(".7.meta.0.tmp", b"x").with("..bucket_gc_intent.3.tmp", b"x"));
    let dir = disk.mount().unwrap();
    let ours = |name: &str| name.ends_with(".meta") || name == ".bucket_gc_intent";
    assert_eq!(sweep(&dir, ours).unwrap(), 2);
    assert_eq!(disk.image(), image);
    assert_eq!(sweep(&dir, ours).unwrap(), 0);
}

#[test]
fn on_a_real_directory_a_file_is_replaced_removed_and_swept() {
    let folder = tempfile::tempdir().unwrap();
    let dir = DiskDir::open(folder.path(), Access::Store).unwrap();
    for bytes in [b"1".as_slice(), b"22", b""] {
        publish(&dir, "f", bytes).unwrap();
        assert_eq!(std::fs::read(folder.path().join("f")).unwrap(), bytes);
    }
    std::fs::create_dir(folder.path().join(".f.0.tmp")).unwrap();
    publish(&dir, "f", b"3").unwrap();
    std::fs::write(folder.path().join(".f.1.tmp"), b"x").unwrap();
    assert_eq!(sweep(&dir, |name| name == "f").unwrap(), 1, "a directory is not ours");
    remove(&dir, &["f"], Attempt::First).unwrap();
    remove(&dir, &["f"], Attempt::Repeated).unwrap();
    assert_eq!(dir.list().unwrap().len(), 1);
}
