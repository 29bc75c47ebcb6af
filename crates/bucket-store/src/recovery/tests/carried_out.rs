//! The table carried out on a disk: crashes at every operation and again inside recovery, failures at every operation, hostile bytes.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;

use super::*;
use crate::error::StoreError;
use crate::format::names::{GC_INTENT, ID_HIGH_WATER, RESERVE};
use crate::vfs::Vfs as _;
use crate::vfs::sim::{CrashStates, EIO, ENOSPC, Fault, Image, Op, OpKind, SimDisk};

/// Buckets 1, 2, 3 and 9 with different bytes, a high-water mark, and these rounds.
fn image_of(rounds: &[Round]) -> Image {
    let high_water = HighWater { next_bucket: 65, next_write_number: 1 }.encode().unwrap();
    let mut image = Image::default().with(ID_HIGH_WATER, &high_water).with(RESERVE, &[0; 65_536]);
    for id in [1, 2, 3, 9] {
        image = image
            .with(&BucketId(id).data_name(), &[id as u8; 100])
            .with(&BucketId(id).table_name(), &table(id).encode().unwrap());
    }
    image.with(GC_INTENT, &Intents { rounds: rounds.to_vec() }.encode().unwrap())
}

fn without(image: &Image, ids: &[u64]) -> Image {
    let ids = ids.iter().map(|id| BucketId(*id));
    ids.fold(image.clone(), |image, id| image.without(&id.data_name()).without(&id.table_name())).without(GC_INTENT)
}

fn recover_on(disk: &SimDisk) -> Result<RecoveryReport, StoreError> {
    let dir = disk.mount().unwrap();
    let mut survey = survey(&dir)?;
    let report = recover(&dir, &mut survey)?;
    // What is left of the survey is what an open goes on with. A fault may hit one of the two looks.
    if let Ok(left) = super::survey(&dir)
        && disk.faults_met() == 0
    {
        assert_eq!(format!("{survey:?}"), format!("{:?}", Survey { temporaries: survey.temporaries.clone(), ..left }));
    }
    Ok(report)
}

/// Temporary files are swept after recovery; they are no part of the outcome.
fn swept(mut image: Image) -> Image {
    let names: Vec<_> = image.names().filter(|name| name.ends_with(".tmp")).map(str::to_owned).collect();
    for name in names {
        image = image.without(&name);
    }
    image
}

/// Every row that removes something, with what must be left.
fn rows() -> Vec<(&'static str, Image, Image)> {
    let rounds = [
        ("prepared", vec![prepared(&[1, 2], 9)], vec![9]),
        ("committed", vec![committed(&[1, 2], Some(9))], vec![1, 2]),
        ("sources only", vec![committed(&[1, 3], None)], vec![1, 3]),
        ("all at once", vec![committed(&[1], Some(9)), committed(&[2], None), prepared(&[3], 64)], vec![1, 2]),
        ("nothing", vec![], vec![]),
    ];
    let row = |(name, rounds, gone): (_, Vec<Round>, Vec<u64>)| {
        let image = image_of(&rounds);
        (name, image.clone(), without(&image, &gone))
    };
    rounds.map(row).into()
}

#[test]
fn each_row_leaves_what_it_should_and_says_so() {
    for (name, before, after) in rows() {
        let disk = SimDisk::of(&before);
        let report = recover_on(&disk).unwrap();
        assert_eq!(disk.image(), after, "{name}");
        assert_eq!(disk.crash_point().least(), after, "{name}: not all of it is durable");
        let gone = report.rolled_back.len() + report.retired.len();
        assert_eq!(
            gone * 2 + 1,
            before.names().count() - after.names().count() + usize::from(name == "all at once") * 2
        );
        assert_eq!(report.freed_bytes > 0, name != "nothing", "{name}");
        assert_eq!(recover_on(&disk).unwrap(), RecoveryReport::default(), "{name}: a second time");
    }
}

#[test]
fn b4_b6_recovery_crashes_at_every_operation_and_again_inside_of_itself() {
    let mut distinct = HashSet::new();
    for (name, before, after) in rows() {
        let disk = SimDisk::of(&before);
        for image in crashes_of(&disk) {
            if !distinct.insert(image.fingerprint()) {
                continue;
            }
            let again = SimDisk::of(&image);
            for nested in crashes_of(&again) {
                if distinct.insert(nested.fingerprint()) {
                    let last = SimDisk::of(&nested);
                    recover_on(&last).unwrap_or_else(|e| panic!("{name}: {e} in {nested:?} of {image:?}"));
                    assert_eq!(swept(last.image()), after, "{name}: {nested:?} of {image:?}");
                }
            }
            assert_eq!(swept(again.image()), after, "{name}: {image:?}");
        }
        assert_eq!(swept(disk.image()), after, "{name}");
    }
    assert!(distinct.len() > 100, "only {} images", distinct.len());
}

/// Recovers, and gives every image that a power loss on the way may leave.
fn crashes_of(disk: &SimDisk) -> Vec<Image> {
    let images = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&images);
    disk.watch(move |_, point| seen.lock().extend(point.images(CrashStates::default())));
    recover_on(disk).unwrap();
    disk.unwatch();
    std::mem::take(&mut *images.lock())
}

#[test]
fn b8_whatever_operation_fails_the_next_recovery_ends_the_same() {
    for (name, before, after) in rows() {
        let operations = {
            let disk = SimDisk::of(&before);
            recover_on(&disk).unwrap();
            disk.operations()
        };
        for (number, errno) in (1..=operations).flat_map(|number| [(number, EIO), (number, ENOSPC)]) {
            let disk = SimDisk::of(&before);
            disk.fail_at(number, Fault::Errno(errno));
            let failed = recover_on(&disk).is_err();
            let dies = |when: &str| {
                for image in disk.crash_point().images(CrashStates::default()) {
                    let disk = SimDisk::of(&image);
                    recover_on(&disk).unwrap_or_else(|e| panic!("{name} {number} {errno} {when}: {e} in {image:?}"));
                    let left = swept(disk.image()).without(RESERVE);
                    assert_eq!(left, after.clone().without(RESERVE), "{name} {number} {errno} {when}");
                }
            };
            dies("and the power goes");
            if failed {
                // The process died, but not the power: names may be in the cache that no sync vouches for.
                recover_on(&disk).unwrap_or_else(|e| panic!("{name} {number} {errno}: {e} at once"));
                assert_eq!(swept(disk.image()).without(RESERVE), after.clone().without(RESERVE), "{name} {number}");
                dies("and the power goes after the next recovery");
            }
        }
    }
}

#[test]
fn b8_no_file_and_no_directory_is_synced_again_after_its_sync_failed() {
    for kind in [OpKind::SyncData, OpKind::SyncDir] {
        let disk = SimDisk::of(&image_of(&[committed(&[1, 2], Some(9))]));
        disk.record();
        disk.inject(1, Fault::Errno(EIO), move |op| op.kind == kind);
        recover_on(&disk).unwrap_err();
        let log = disk.log();
        let is_failed = |op: &&Op| op.kind == kind;
        assert_eq!(log.iter().filter(is_failed).count(), 1, "{log:?}");
        assert!(!log.iter().any(|op| op.kind == OpKind::Unlink && op.name.ends_with(".bucket")), "{log:?}");
    }
}

#[test]
fn b7_on_a_full_disk_the_reserve_lets_recovery_make_room() {
    let before = image_of(&[committed(&[1, 2], Some(9))]);
    let disk = SimDisk::of(&before);
    disk.set_capacity(disk.used_bytes());
    recover_on(&disk).unwrap();
    assert_eq!(disk.image(), without(&before, &[1, 2]).without(RESERVE));
}

#[test]
fn b7_b15_an_unknown_version_anywhere_is_refused_with_the_directory_as_it_was() {
    let whole = image_of(&[committed(&[1, 2], Some(9)), prepared(&[3], 10)]);
    for name in [GC_INTENT, ID_HIGH_WATER, "9.meta", "3.meta", "1.meta"] {
        let mut bytes = whole.bytes(name).unwrap();
        bytes[4] = 3;
        refused(&whole.clone().with(name, &bytes), "UNKNOWN_VERSION", name);
    }
}

#[test]
fn b3_b7_damage_is_refused_with_the_directory_as_it_was() {
    let whole = image_of(&[committed(&[1, 2], Some(9)), prepared(&[3], 10)]);
    let cut = |name: &str| whole.clone().with(name, &whole.bytes(name).unwrap()[..20]);
    refused(&cut(GC_INTENT), "INTENT_DAMAGED", GC_INTENT);
    refused(&cut(ID_HIGH_WATER), "HIGH_WATER_DAMAGED", ID_HIGH_WATER);
    refused(&cut("9.meta"), "COMMITTED_TARGET_DAMAGED", "9.meta");
    refused(&cut("9.bucket"), "COMMITTED_TARGET_DAMAGED", "9.meta");
    refused(&whole.clone().with("9.meta", &whole.bytes("3.meta").unwrap()), "COMMITTED_TARGET_DAMAGED", "9.meta");
    refused(&whole.clone().without("9.meta"), "COMMITTED_TARGET_DAMAGED", "9.meta");
    refused(&whole.clone().without("9.bucket"), "COMMITTED_TARGET_DAMAGED", "9.bucket");
    refused(&whole.clone().without("3.meta"), "PREPARED_SOURCE_MISSING", "3.meta");
    refused(&whole.clone().without("3.bucket"), "PREPARED_SOURCE_MISSING", "3.bucket");
}

#[test]
fn b3_every_bit_of_the_intents_and_of_the_committed_target_counts() {
    let whole = image_of(&[committed(&[1, 2], Some(9))]);
    for name in [GC_INTENT, "9.meta"] {
        let bits = whole.bytes(name).unwrap().len() * 8;
        for bit in 0..bits {
            let spoilt = whole.clone().with_bit_flipped(name, bit / 8, (bit % 8) as u8);
            let disk = SimDisk::of(&spoilt);
            let error = recover_on(&disk).expect_err("a flipped bit must be noticed");
            assert_eq!(error.kind(), StoreErrorKind::Refused, "{name} bit {bit}: {error}");
            assert_eq!(disk.image(), spoilt);
        }
    }
}

fn refused(image: &Image, code: &str, named: &str) {
    let disk = SimDisk::of(image);
    let error = recover_on(&disk).expect_err(named);
    assert_eq!((error.code(), error.kind()), (code, StoreErrorKind::Refused), "{error}");
    assert!(error.to_string().contains(named), "{error}");
    assert_eq!(disk.image(), *image, "{named}: something was changed");
    assert_eq!(disk.crash_point().changes(), 0, "{named}: something was written");
}

#[test]
fn b3_b6_a_commit_that_only_the_cache_has_is_made_durable_before_a_source_is_unlinked() {
    let before = image_of(&[prepared(&[1, 2], 9)]);
    let commit = Intents { rounds: vec![committed(&[1, 2], Some(9))] }.encode().unwrap();
    for sync_failed in [false, true] {
        // The process dies at the end of publishing COMMITTED; its last sync failed, or never came.
        let disk = SimDisk::of(&before);
        let dir = disk.mount().unwrap();
        let file = dir.create(".next").unwrap();
        file.write_all_at(&commit, 0).unwrap();
        file.sync_data().unwrap();
        dir.rename(".next", GC_INTENT).unwrap();
        if sync_failed {
            disk.inject(1, Fault::Errno(EIO), |op| op.kind == OpKind::SyncDir);
            dir.sync_dir().unwrap_err();
        }
        drop((dir, file));
        let (rolled_back, finished) = (without(&before, &[9]), without(&before, &[1, 2]));
        for image in crashes_of(&disk) {
            let again = SimDisk::of(&image);
            recover_on(&again).unwrap();
            let left = swept(again.image()).without(".next");
            assert!(
                left == rolled_back || left == finished,
                "neither source nor target is whole: {left:?} of {image:?}"
            );
        }
        assert_eq!(swept(disk.image()), finished);
    }
}

#[test]
fn what_an_open_sees_is_durable_before_anything_rests_on_it() {
    let disk = SimDisk::of(&image_of(&[]).without(GC_INTENT));
    let dir = disk.mount().unwrap();
    dir.rename("2.meta", "4.meta").unwrap();
    drop(dir);
    let seen = disk.image();
    recover_on(&disk).unwrap();
    assert_eq!(disk.crash_point().least(), seen);
}
