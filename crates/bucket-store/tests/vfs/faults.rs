//! Owns how the simulated disk fails: each fault as the test asked for it, and nothing else.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bucket_store::vfs::sim::{BLOCK, CrashStates, EIO, ENOSPC, Fault, Image, OpKind, SimDisk, nth, on};
use bucket_store::vfs::{Vfs, VfsFile};
use ha_types::{Clock as _, ManualClock, MonoTime};

fn fill(dir: &dyn Vfs, name: &str, bytes: &[u8]) -> Arc<dyn VfsFile> {
    let file = dir.create(name).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file
}

fn errno<T: std::fmt::Debug>(result: std::io::Result<T>) -> i32 {
    result.unwrap_err().raw_os_error().unwrap()
}

#[test]
fn the_nth_call_fails_and_does_nothing() {
    // create, write, sync, rename, sync of the directory: each in turn.
    for number in 1..=5 {
        let disk = SimDisk::new();
        let dir = disk.mount().unwrap();
        disk.record();
        disk.fail_at(number, Fault::Errno(EIO));
        let run = || -> std::io::Result<()> {
            let file = dir.create("t")?;
            file.write_all_at(b"x", 0)?;
            file.sync_data()?;
            dir.rename("t", "f")?;
            dir.sync_dir()
        };
        assert_eq!(errno(run()), EIO, "{number}");
        assert_eq!(disk.operations(), number);
        assert_eq!(disk.faults_met(), 1);
        let failed = disk.log().last().unwrap().clone();
        assert_eq!(failed.number, number);
        let expected =
            [None, Some(("t", &b""[..])), Some(("t", b"x")), Some(("t", b"x")), Some(("f", b"x"))][number as usize - 1];
        let image = disk.image();
        let found = image.names().next().map(|name| (name, image.bytes(name).unwrap()));
        assert_eq!(found, expected.map(|(name, bytes)| (name, bytes.to_vec())), "{number}");
    }
}

#[test]
fn b8_a_data_sync_that_failed_is_not_made_good_by_the_next() {
    let disk = SimDisk::new();
    let dir = disk.mount().unwrap();
    let file = fill(&dir, "f", b"x");
    dir.sync_dir().unwrap();
    disk.inject(1, Fault::Errno(EIO), on(OpKind::SyncData, "f"));
    assert_eq!(errno(file.sync_data()), EIO);
    file.sync_data().unwrap();
    let mut bytes = [0];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 1, "the cache still has it");
    let after: BTreeSet<_> = disk.crash_point().images(CrashStates::default()).map(|i| i.bytes("f").unwrap()).collect();
    assert_eq!(after, [vec![], b"\0".to_vec(), b"x".to_vec()].into_iter().collect());
    file.write_all_at(b"y", 0).unwrap();
    file.sync_data().unwrap();
    assert_eq!(disk.crash_point().least().bytes("f").unwrap(), b"y", "what is written anew is synced anew");
    assert_eq!(disk.crash_point().most().bytes("f").unwrap(), b"y", "and lies over what was forgotten");
}

#[test]
fn b8_a_directory_sync_that_failed_is_not_made_good_by_the_next() {
    let disk = SimDisk::of(&Image::default().with("f", b"f"));
    let dir = disk.mount().unwrap();
    dir.unlink("f").unwrap();
    disk.inject(1, Fault::Errno(EIO), |op| op.kind == OpKind::SyncDir);
    assert_eq!(errno(dir.sync_dir()), EIO);
    dir.sync_dir().unwrap();
    assert_eq!(disk.crash_point().least().bytes("f").unwrap(), b"f", "the name can come back");
    assert_eq!(disk.crash_point().most().bytes("f"), None);
    dir.create("f").unwrap();
    dir.unlink("f").unwrap();
    dir.sync_dir().unwrap();
    assert_eq!(disk.crash_point().changes(), 0);
    assert_eq!(disk.crash_point().least().bytes("f"), None, "the change made anew was synced");
}

#[test]
fn a_sync_that_lies_changes_nothing_and_says_success() {
    let disk = SimDisk::new();
    let dir = disk.mount().unwrap();
    let file = fill(&dir, "f", b"x");
    disk.inject(2, Fault::Lie, |op| matches!(op.kind, OpKind::SyncData | OpKind::SyncDir));
    file.sync_data().unwrap();
    dir.sync_dir().unwrap();
    assert_eq!(disk.crash_point().least(), Image::default());
    file.sync_data().unwrap();
    dir.sync_dir().unwrap();
    assert_eq!(disk.crash_point().least().bytes("f").unwrap(), b"x", "an honest one makes it good");
}

#[test]
fn the_disk_is_full_at_the_block() {
    let disk = SimDisk::new();
    disk.set_capacity(3 * BLOCK);
    let dir = disk.mount().unwrap();
    let file = fill(&dir, "a", &[1; 5000]);
    assert_eq!(dir.space().unwrap().free_bytes, BLOCK);
    let error = file.write_all_at(&[2; 10_000], 5000).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(file.len().unwrap(), 3 * BLOCK, "as much as there was room for was written");
    let other = dir.create("b").unwrap();
    assert_eq!(other.allocate(1).unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(other.write_all_at(b"x", 0).unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    file.write_all_at(&[3; 5000], 0).unwrap();
    dir.unlink("a").unwrap();
    assert_eq!(dir.space().unwrap().free_bytes, 0, "an open file keeps its blocks");
    drop(file);
    assert_eq!(dir.space().unwrap().free_bytes, 3 * BLOCK);
    other.allocate(3 * BLOCK).unwrap();
    other.write_all_at(&[1; 3 * BLOCK as usize], 0).unwrap();
    assert_eq!(disk.used_bytes(), 3 * BLOCK);
}

#[test]
fn a_write_stops_short() {
    let disk = SimDisk::new();
    let dir = disk.mount().unwrap();
    let file = dir.create("f").unwrap();
    disk.inject(1, Fault::Short { written: 600, errno: ENOSPC }, nth(2, |op| op.kind == OpKind::Write));
    file.write_all_at(&[1; 100], 0).unwrap();
    assert_eq!(errno(file.write_all_at(&[2; 1000], 100)), ENOSPC);
    assert_eq!(file.len().unwrap(), 700);
    file.write_all_at(&[2; 1000], 100).unwrap();
}

#[test]
fn a_bad_range_is_unreadable_and_the_rest_is_not() {
    let disk = SimDisk::of(&Image::default().with("f", &[1; 3000]));
    let dir = disk.mount().unwrap();
    disk.make_unreadable("f", 1000..1001);
    let file = dir.open("f").unwrap();
    let mut buf = [0; 1000];
    assert_eq!(file.read_at(&mut buf, 0).unwrap(), 1000);
    assert_eq!(file.read_at(&mut buf, 1001).unwrap(), 1000);
    assert_eq!(errno(file.read_at(&mut buf, 1000)), EIO);
    assert_eq!(errno(file.read_at(&mut buf, 1)), EIO);
    disk.mend();
    assert_eq!(file.read_at(&mut buf, 1000).unwrap(), 1000);
}

#[test]
fn a_flipped_bit_is_on_the_disk_and_in_the_cache() {
    let disk = SimDisk::of(&Image::default().with("f", b"ab"));
    let dir = disk.mount().unwrap();
    disk.flip_bit("f", 1, 0).unwrap();
    disk.flip_bit("f", 2, 0).unwrap();
    let mut buf = [0; 3];
    assert_eq!(dir.open("f").unwrap().read_at(&mut buf, 0).unwrap(), 2);
    assert_eq!(&buf[..2], b"ac");
    assert_eq!(disk.crash_point().least().bytes("f").unwrap(), b"ac");
    assert!(disk.flip_bit("g", 0, 0).is_err());
}

#[test]
fn slowness_moves_the_clock_and_nothing_waits() {
    let disk = SimDisk::new();
    let dir = disk.mount().unwrap();
    let (clock, slow) = (Arc::new(ManualClock::new()), Duration::from_millis(50));
    disk.inject(2, Fault::Slow(slow), |op| op.kind == OpKind::Write);
    let file = fill(&dir, "f", b"x");
    assert_eq!((disk.slowness(), clock.now()), (slow, MonoTime::ZERO), "nobody asked for the time");
    disk.tell_time(Arc::clone(&clock));
    file.write_all_at(b"y", 1).unwrap();
    file.write_all_at(b"z", 2).unwrap();
    assert_eq!((disk.slowness(), disk.image().bytes("f").unwrap()), (2 * slow, b"xyz".to_vec()));
    assert_eq!(clock.now(), MonoTime::from_origin(slow), "a clock is moved by what comes after it was given");
}

#[test]
fn code_runs_before_an_operation_and_its_own_come_first() {
    let disk = SimDisk::new();
    let dir = Arc::new(disk.mount().unwrap());
    let inside = Arc::clone(&dir);
    disk.record();
    disk.when(on(OpKind::Rename, "t"), move || inside.unlink("f").unwrap());
    fill(&*dir, "f", b"f");
    fill(&*dir, "t", b"t");
    dir.rename("t", "f").unwrap();
    let log: Vec<_> = disk.log().iter().map(ToString::to_string).collect();
    let expected =
        ["1 Create f", "2 Write f [0..+1]", "3 Create t", "4 Write t [0..+1]", "5 Unlink f", "6 Rename t -> f"];
    assert_eq!(log, expected);
    dir.rename("f", "t").unwrap();
    assert_eq!(disk.operations(), 7, "the hook ran once");
}

#[test]
fn without_power_nothing_happens_any_more() {
    let disk = SimDisk::new();
    let dir = disk.mount().unwrap();
    disk.power_off_at(3);
    let file = fill(&dir, "f", b"f");
    assert!(disk.is_powered());
    file.sync_data().unwrap_err();
    dir.sync_dir().unwrap_err();
    dir.list().unwrap_err();
    assert!(!disk.is_powered());
    assert_eq!(disk.operations(), 2);
    assert_eq!(disk.crash_point().changes(), 3, "nothing was synced");
}

#[test]
fn handles_of_an_earlier_mount_are_dead_once_there_is_a_new_one() {
    let disk = SimDisk::new();
    let dir = disk.mount().unwrap();
    let file = fill(&dir, "f", b"f");
    drop(dir);
    assert_eq!(file.len().unwrap(), 1, "a reader outlives the store that it came from");
    let _again = disk.mount().unwrap();
    file.write_all_at(b"g", 0).unwrap_err();
    assert_eq!(disk.image().bytes("f").unwrap(), b"f");
}

#[test]
fn looking_aside_is_not_numbered_and_meets_nothing() {
    let disk = SimDisk::of(&Image::default().with("f", b"f"));
    let dir = disk.mount().unwrap();
    disk.record();
    disk.inject(1, Fault::Errno(EIO), |_| true);
    disk.when(|_| true, || panic!("a hook ran"));
    assert_eq!(disk.aside(|| dir.open("f").unwrap().len().unwrap()), 1);
    assert_eq!((disk.operations(), disk.log().len(), disk.faults_met()), (0, 0, 0));
}
