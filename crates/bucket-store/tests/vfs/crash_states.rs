//! Owns what a power loss may leave on the simulated disk, and that mistakes show in it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use bucket_store::vfs::sim::{CrashPoint, CrashStates, Image, Order, SimDir, SimDisk, UNIT};
use bucket_store::vfs::{Vfs, VfsFile};

const UNIT_LEN: usize = UNIT as usize;

fn weak() -> CrashStates {
    CrashStates::default()
}

fn ordered() -> CrashStates {
    CrashStates { order: Order::Kept, ..CrashStates::default() }
}

/// What the images hold, each file as text, distinct and in order.
fn contents(point: &CrashPoint, states: CrashStates) -> BTreeSet<Vec<(String, String)>> {
    let show = |image: Image| {
        let text = |name: &str| String::from_utf8_lossy(&image.bytes(name).unwrap()).into_owned();
        image.names().map(|name| (name.to_owned(), text(name))).collect()
    };
    point.images(states).map(show).collect()
}

fn fill(dir: &dyn Vfs, name: &str, bytes: &[u8]) -> Arc<dyn VfsFile> {
    let file = dir.create(name).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file
}

fn replace(dir: &SimDir, sync_data: bool, sync_dir: bool, sync_late: bool) {
    let file = fill(dir, "tmp", b"new");
    if sync_data {
        file.sync_data().unwrap();
    }
    dir.rename("tmp", "file").unwrap();
    if sync_late {
        file.sync_data().unwrap();
    }
    if sync_dir {
        dir.sync_dir().unwrap();
    }
}

/// Everything that "file" may hold at any moment of the replacement, and after its end.
fn seen(states: CrashStates, steps: impl FnOnce(&SimDir)) -> (BTreeSet<String>, BTreeSet<String>) {
    let disk = SimDisk::of(&Image::default().with("file", b"old"));
    let dir = disk.mount().unwrap();
    let during = Arc::new(Mutex::new(BTreeSet::new()));
    let collect = move |point: &CrashPoint| -> BTreeSet<String> {
        let text =
            |image: Image| image.bytes("file").map_or("none".into(), |b| String::from_utf8_lossy(&b).into_owned());
        point.images(states).map(text).collect()
    };
    let watched = Arc::clone(&during);
    disk.watch(move |_, point| watched.lock().unwrap().extend(collect(&point)));
    steps(&dir);
    disk.unwatch();
    let during = during.lock().unwrap().clone();
    (during, collect(&disk.crash_point()))
}

fn set(of: &[&str]) -> BTreeSet<String> {
    of.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn the_right_order_shows_old_or_new_and_then_new() {
    let (during, after) = seen(weak(), |dir| replace(dir, true, true, false));
    assert_eq!(during, set(&["old", "new"]));
    assert_eq!(after, set(&["new"]));
}

#[test]
fn a_missing_data_sync_is_found() {
    let (during, after) = seen(weak(), |dir| replace(dir, false, true, false));
    assert_eq!(during, set(&["old", "new", "", "\0\0\0"]));
    assert_eq!(after, set(&["new", "", "\0\0\0"]), "the name is durable and the bytes are not");
}

#[test]
fn a_missing_directory_sync_is_found() {
    let (_, after) = seen(weak(), |dir| replace(dir, true, false, false));
    assert_eq!(after, set(&["old", "new"]));
}

#[test]
fn a_rename_before_the_data_sync_is_found_although_the_end_is_right() {
    let (during, after) = seen(weak(), |dir| replace(dir, false, true, true));
    assert_eq!(after, set(&["new"]));
    assert_eq!(during, set(&["old", "new", "", "\0\0\0"]));
}

#[test]
fn the_weak_rule_finds_what_the_ordered_one_hides() {
    let two_files = |dir: &SimDir| {
        // Rests on the order: the file is replaced although the one that it names may not be there.
        fill(dir, "named", b"x").sync_data().unwrap();
        replace(dir, true, true, false);
    };
    let unsynced_data = |dir: &SimDir| {
        replace(dir, false, false, false);
    };
    let broken =
        |image: &Image| image.bytes("file").is_some_and(|bytes| bytes == b"new") && image.bytes("named").is_none();
    let run = |states: CrashStates| {
        let disk = SimDisk::of(&Image::default().with("file", b"old"));
        let dir = disk.mount().unwrap();
        let found = Arc::new(Mutex::new(false));
        let tell = Arc::clone(&found);
        disk.watch(move |_, point| *tell.lock().unwrap() |= point.images(states).any(|image| broken(&image)));
        two_files(&dir);
        *found.lock().unwrap()
    };
    assert!(!run(ordered()));
    assert!(run(weak()));
    let (during, _) = seen(ordered(), unsynced_data);
    assert_eq!(during, set(&["old", "new"]));
    let (during, _) = seen(weak(), unsynced_data);
    assert_eq!(during, set(&["old", "new", "", "\0\0\0"]));
}

#[test]
fn every_subset_of_units_survives() {
    let disk = SimDisk::new();
    let dir = disk.mount().unwrap();
    let file = dir.create("f").unwrap();
    file.allocate(3 * UNIT).unwrap();
    file.sync_data().unwrap();
    dir.sync_dir().unwrap();
    file.write_all_at(&[1; 3 * UNIT_LEN], 0).unwrap();
    let point = disk.crash_point();
    assert_eq!(point.changes(), 3);
    let first_bytes: BTreeSet<_> = point
        .images(weak())
        .map(|image| {
            image.bytes("f").unwrap().chunks(UNIT_LEN).map(|unit| (unit[0], unit[UNIT_LEN - 1])).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(first_bytes.len(), 8);
    assert!(first_bytes.iter().flatten().all(|(first, last)| first == last), "a unit is never torn");
}

#[test]
fn a_file_that_grew_may_be_short_or_hold_zeros() {
    let disk = SimDisk::of(&Image::default().with("f", b"base"));
    let dir = disk.mount().unwrap();
    dir.unlink("f").unwrap();
    let file = dir.create("f").unwrap();
    dir.sync_dir().unwrap();
    file.write_all_at(&[7; 700], 0).unwrap();
    let lengths: BTreeSet<_> = disk
        .crash_point()
        .images(weak())
        .map(|image| {
            let bytes = image.bytes("f").unwrap();
            (bytes.len(), bytes.first() == Some(&7), bytes.get(512) == Some(&7))
        })
        .collect();
    let expected = [
        (0, false, false),
        (512, true, false),
        (700, false, false),
        (700, false, true),
        (700, true, false),
        (700, true, true),
    ];
    assert_eq!(lengths, expected.into_iter().collect());
}

#[test]
fn names_survive_independently_of_each_other() {
    let disk = SimDisk::of(&Image::default().with("a", b"a").with("b", b"b"));
    let dir = disk.mount().unwrap();
    dir.unlink("a").unwrap();
    dir.unlink("b").unwrap();
    fill(&dir, "c", b"").sync_data().unwrap();
    let file = |name: &str| (name.to_owned(), if name == "c" { String::new() } else { name.to_owned() });
    let all = contents(&disk.crash_point(), weak());
    assert_eq!(all.len(), 8, "{all:?}");
    assert!(all.contains(&vec![file("a"), file("c")]) && all.contains(&vec![file("b")]) && all.contains(&vec![]));
    let in_order = contents(&disk.crash_point(), ordered());
    assert_eq!(in_order.len(), 4, "{in_order:?}");
}

#[test]
fn a_rename_survives_without_the_create_and_no_file_has_two_names() {
    let disk = SimDisk::new();
    let dir = disk.mount().unwrap();
    fill(&dir, "x", b"x").sync_data().unwrap();
    dir.rename("x", "y").unwrap();
    dir.rename("y", "z").unwrap();
    let file = |name: &str| vec![(name.to_owned(), "x".to_owned())];
    let expected = [vec![], file("x"), file("y"), file("z")];
    assert_eq!(contents(&disk.crash_point(), weak()), expected.into_iter().collect());
}

#[test]
fn above_the_bound_prefixes_single_losses_single_survivors_and_samples() {
    let disk = SimDisk::new();
    let dir = disk.mount().unwrap();
    let file = dir.create("f").unwrap();
    file.allocate(13 * UNIT).unwrap();
    file.sync_data().unwrap();
    dir.sync_dir().unwrap();
    file.write_all_at(&[1; 13 * UNIT_LEN], 0).unwrap();
    let survivors = |states: CrashStates| -> Vec<u32> {
        let bits = |image: Image| {
            let bytes = image.bytes("f").unwrap();
            (0..13).filter(|unit| bytes[unit * UNIT_LEN] == 1).map(|unit| 1 << unit).sum()
        };
        disk.crash_point().images(states).map(bits).collect()
    };
    let states = CrashStates { samples: 10, ..weak() };
    let all = survivors(states);
    let whole = (1 << 13) - 1;
    assert_eq!(all.len(), 14 + 13 + 13 + 10);
    assert_eq!(all[..14], (0..14).map(|n| (1 << n) - 1).collect::<Vec<u32>>());
    assert_eq!(all[14..27], (0..13).map(|n| whole ^ 1 << n).collect::<Vec<u32>>());
    assert_eq!(all[27..40], (0..13).map(|n| 1 << n).collect::<Vec<u32>>());
    assert_eq!(all, survivors(states), "the same seed draws the same samples");
    assert_ne!(all[40..], survivors(CrashStates { seed: 1, ..states })[40..]);
    assert_eq!(survivors(CrashStates { exhaustive_up_to: 13, ..states }).len(), 1 << 13);
    let fewer = survivors(CrashStates { thorough: false, ..states });
    assert_eq!((fewer.len(), &fewer[..2], &fewer[2..]), (2 + 10, &[0, whole][..], &all[40..]));
}

#[test]
fn what_was_synced_survives_and_what_nobody_can_reach_is_no_change() {
    let disk = SimDisk::new();
    let dir = disk.mount().unwrap();
    let file = fill(&dir, "f", &[1; 5000]);
    file.sync_data().unwrap();
    dir.sync_dir().unwrap();
    assert_eq!(disk.crash_point().changes(), 0);
    assert_eq!(disk.crash_point().least(), disk.image());
    dir.unlink("f").unwrap();
    dir.sync_dir().unwrap();
    file.write_all_at(&[2; 5000], 0).unwrap();
    assert_eq!(disk.crash_point().changes(), 0, "the file has no name that could survive");
}

#[test]
fn an_image_is_mounted_again_and_crashes_again() {
    let disk = SimDisk::new();
    fill(&disk.mount().unwrap(), "f", b"1");
    let point = disk.crash_point();
    let (least, most) = (point.least(), point.most());
    assert_eq!(most.bytes("f").unwrap(), b"1");
    assert_eq!(least, Image::default());
    let second = SimDisk::of(&most);
    let dir = second.mount().unwrap();
    assert_eq!(second.mount().unwrap_err().to_string(), "the simulated disk is mounted already");
    dir.unlink("f").unwrap();
    assert_eq!(second.crash_point().images(weak()).collect::<Vec<_>>(), [most, least]);
    drop(dir);
    second.mount().unwrap();
}

#[test]
fn equal_images_count_as_one() {
    let image = Image::default().with("a", &[0; 5000]).with("b", b"b");
    let disk = SimDisk::new();
    let dir = disk.mount().unwrap();
    dir.create("a").unwrap().write_all_at(&[0], 4999).unwrap();
    fill(&dir, "b", b"b");
    assert_eq!(disk.image(), image, "a hole and written zeros read alike");
    assert_eq!(disk.image().fingerprint(), image.fingerprint());
    for other in
        [image.clone().without("b"), image.clone().with("b", b"c"), image.clone().with_bit_flipped("a", 4999, 0)]
    {
        assert_ne!(other, image);
        assert_ne!(other.fingerprint(), image.fingerprint());
    }
    assert_eq!(image.clone().with_bit_flipped("a", 4999, 0).with_bit_flipped("a", 4999, 0), image);
}

#[test]
fn a_process_that_died_leaves_everything_and_makes_nothing_durable() {
    let disk = SimDisk::of(&Image::default().with("old", b"old"));
    let dir = disk.mount().unwrap();
    fill(&dir, "f", b"f");
    dir.unlink("old").unwrap();
    let point = disk.crash_point();
    let after = point.restart();
    assert_eq!(after.image(), disk.image());
    assert_eq!(contents(&after.crash_point(), weak()), contents(&point, weak()));
    let again = after.mount().unwrap();
    again.open("f").unwrap().sync_data().unwrap();
    again.sync_dir().unwrap();
    assert_eq!(after.crash_point().least(), after.image(), "what was left can still be synced");
    fill(&again, "g", b"g");
    assert_eq!(after.image().bytes("f").unwrap(), b"f", "a new file is not an old one");
    assert_eq!(disk.image().names().count(), 1, "the disk it came from is another");
}
