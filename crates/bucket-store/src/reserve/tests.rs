//! Owns the tests of the reserve: what is taken, when it is given, and what a full or failing disk leaves of it.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{Reserve, STEP_BYTES};
use crate::error::StoreErrorKind;
use crate::format::names::RESERVE;
use crate::observer::{Event, Observer};
use crate::vfs::Vfs;
use crate::vfs::sim::{CrashStates, EIO, Fault, OpKind, SimDir, SimDisk, on};

#[derive(Debug, Default)]
struct Heard(Mutex<Vec<String>>);

impl Observer for Heard {
    fn event(&self, event: &Event) {
        let name = format!("{event:?}");
        self.0.lock().push(name.split([' ', '{']).next().unwrap_or_default().to_owned());
    }
}

fn disk(capacity: u64) -> (SimDisk, SimDir, Heard) {
    let disk = SimDisk::new();
    disk.set_capacity(capacity);
    let dir = disk.mount().unwrap();
    (disk, dir, Heard::default())
}

#[test]
fn it_is_twice_table_and_intent_in_whole_steps_and_only_grows() {
    let (disk, dir, heard) = disk(1 << 30);
    let reserve = Reserve::open(&dir, &heard);
    assert!(!reserve.is_missing(), "nothing is needed yet");
    reserve.cover(&dir, 30_000, 3_000, &heard).unwrap();
    assert_eq!(reserve.held_and_needed(), (2 * STEP_BYTES, 2 * STEP_BYTES));
    assert_eq!(disk.used_bytes(), 2 * STEP_BYTES);
    disk.record();
    reserve.cover(&dir, 100, 3_000, &heard).unwrap();
    assert!(disk.log().is_empty(), "a smaller table asks for nothing");
    assert_eq!(reserve.held_and_needed(), (2 * STEP_BYTES, 2 * STEP_BYTES), "and does not make the next one smaller");
    reserve.cover(&dir, 100_000, 3_000, &heard).unwrap();
    assert_eq!(disk.used_bytes(), 4 * STEP_BYTES);
    assert_eq!(dir.list().unwrap().len(), 1, "the smaller one is gone");
    assert!(heard.0.lock().is_empty());
}

#[test]
fn b7_what_is_spent_is_free_for_others_and_comes_back_when_there_is_room() {
    let (disk, dir, heard) = disk(2 * STEP_BYTES);
    let reserve = Reserve::open(&dir, &heard);
    reserve.cover(&dir, 10, 10, &heard).unwrap();
    dir.create("data").unwrap().write_all_at(&vec![1; STEP_BYTES as usize], 0).unwrap();
    assert!(dir.create("more").unwrap().write_all_at(b"x", 0).is_err(), "the disk is full");

    assert!(reserve.spend(&dir, &heard));
    assert!(reserve.is_missing());
    dir.create("tombstone").unwrap().write_all_at(b"x", 0).unwrap();
    assert!(!reserve.spend(&dir, &heard), "there is nothing left to give");

    let refused = reserve.take_back(&dir, &heard).unwrap_err();
    assert_eq!((refused.kind(), refused.code()), (StoreErrorKind::NoSpace, "RESERVE_MISSING"));
    assert_eq!(reserve.cover(&dir, 10, 10, &heard).unwrap_err().code(), "RESERVE_MISSING");
    assert!(reserve.is_missing());
    assert!(!dir.list().unwrap().iter().any(|entry| entry.name.ends_with(".tmp")), "an attempt leaves nothing");

    dir.unlink("data").unwrap();
    reserve.take_back(&dir, &heard).unwrap();
    assert!(!reserve.is_missing());
    assert_eq!(*heard.0.lock(), ["ReserveSpent", "ReserveBack"]);
    assert_eq!(disk.faults_met(), 0);
}

#[test]
fn b7_growing_on_a_full_disk_keeps_what_is_held() {
    let (_disk, dir, heard) = disk(2 * STEP_BYTES);
    let reserve = Reserve::open(&dir, &heard);
    reserve.cover(&dir, 10, 10, &heard).unwrap();
    assert_eq!(reserve.cover(&dir, 100_000, 10, &heard).unwrap_err().code(), "RESERVE_MISSING");
    assert_eq!(reserve.held_and_needed(), (STEP_BYTES, STEP_BYTES));
    assert_eq!(dir.open(RESERVE).unwrap().allocated_bytes().unwrap(), STEP_BYTES);
}

#[test]
fn a_reopened_store_finds_it_and_counts_blocks_not_length() {
    let (disk, dir, heard) = disk(1 << 30);
    Reserve::open(&dir, &heard).cover(&dir, 10, 10, &heard).unwrap();
    drop(dir);
    let dir = disk.mount().unwrap();
    let reserve = Reserve::open(&dir, &heard);
    assert_eq!(reserve.held_and_needed(), (STEP_BYTES, 0));
    disk.record();
    reserve.cover(&dir, 10, 10, &heard).unwrap();
    assert!(disk.log().is_empty(), "it is still there");
    dir.unlink(RESERVE).unwrap();
    drop(dir.create(RESERVE).unwrap());
    assert_eq!(Reserve::open(&dir, &heard).held_and_needed(), (0, 0), "a file without blocks holds nothing");
}

#[test]
fn one_that_cannot_be_opened_or_measured_is_told_and_taken_anew_in_its_place() {
    for kind in [OpKind::Open, OpKind::Len, OpKind::AllocatedBytes] {
        let (disk, dir, heard) = disk(1 << 30);
        Reserve::open(&dir, &heard).cover(&dir, 10, 10, &heard).unwrap();
        disk.inject(1, Fault::Errno(EIO), on(kind, RESERVE));
        let reserve = Reserve::open(&dir, &heard);
        assert_eq!(reserve.held_and_needed(), (0, 0), "who knows what is there");
        assert_eq!(*heard.0.lock(), ["DiskFailed"]);
        reserve.cover(&dir, 10, 10, &heard).unwrap();
        assert_eq!((disk.used_bytes(), dir.list().unwrap().len()), (STEP_BYTES, 1));
    }
}

#[test]
fn any_failure_while_it_is_taken_names_the_step_and_leaves_nothing_behind() {
    for (kind, step) in [(OpKind::Create, "create"), (OpKind::Allocate, "allocate"), (OpKind::Rename, "rename")] {
        let (disk, dir, heard) = disk(1 << 30);
        let reserve = Reserve::open(&dir, &heard);
        disk.inject(1, Fault::Errno(EIO), on(kind, ".tmp"));
        let error = reserve.cover(&dir, 10, 10, &heard).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Disk);
        assert!(error.to_string().starts_with(step), "{error}");
        assert!(dir.list().unwrap().is_empty());
        assert_eq!(disk.used_bytes(), 0);
        reserve.cover(&dir, 10, 10, &heard).unwrap();
    }
}

#[test]
fn giving_it_up_that_fails_says_so_and_keeps_it() {
    let (disk, dir, heard) = disk(1 << 30);
    let reserve = Reserve::open(&dir, &heard);
    reserve.cover(&dir, 10, 10, &heard).unwrap();
    disk.inject(1, Fault::Errno(EIO), on(OpKind::Unlink, RESERVE));
    assert!(!reserve.spend(&dir, &heard));
    assert!(!reserve.is_missing());
    assert_eq!(*heard.0.lock(), ["DiskFailed"]);
}

#[test]
fn b7_whatever_a_power_loss_leaves_the_next_open_has_a_whole_reserve_or_knows_that_it_has_none() {
    let (disk, dir, heard) = disk(1 << 30);
    let points = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&points);
    disk.watch(move |_, point| seen.lock().push(point));
    let reserve = Reserve::open(&dir, &heard);
    reserve.cover(&dir, 10, 10, &heard).unwrap();
    reserve.cover(&dir, 100_000, 10, &heard).unwrap();
    reserve.spend(&dir, &heard);
    reserve.take_back(&dir, &heard).unwrap();
    let (mut named, mut none) = (0, 0);
    for image in points.lock().iter().flat_map(|point| point.images(CrashStates::default()).collect::<Vec<_>>()) {
        let dir = SimDisk::of(&image).mount().unwrap();
        let reserve = Reserve::open(&dir, &heard);
        *if image.bytes(RESERVE).is_some() { &mut named } else { &mut none } += 1;
        reserve.cover(&dir, 100_000, 10, &heard).unwrap();
        let blocks = dir.open(RESERVE).unwrap().allocated_bytes().unwrap();
        assert!(blocks >= reserve.held_and_needed().1, "{blocks} there");
    }
    assert!(named > 0 && none > 0, "{named} {none}");
}
