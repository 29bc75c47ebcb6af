//! Owns what every disk must do, run on each of them.

use std::io;
use std::sync::Arc;

use bucket_store::vfs::sim::SimDisk;
use bucket_store::vfs::{Access, DirEntry, DiskDir, EntryKind, Vfs, VfsFile};

macro_rules! on_both_disks {
    ($($case:ident),+ $(,)?) => {
        mod on_the_real_disk {
            $(#[test]
            fn $case() {
                let folder = tempfile::tempdir().unwrap();
                super::$case(&super::DiskDir::open(folder.path(), super::Access::Store).unwrap());
            })+
        }
        mod on_the_simulated_disk {
            $(#[test]
            fn $case() {
                super::$case(&super::SimDisk::new().mount().unwrap());
            })+
        }
    };
}

on_both_disks!(
    a_name_is_created_once,
    a_missing_file_is_not_found,
    only_plain_names_are_accepted,
    a_read_ends_where_the_file_ends,
    a_gap_reads_as_zeros,
    a_rename_replaces_and_old_handles_keep_the_old_file,
    a_rename_that_fails_changes_nothing,
    an_unlinked_file_stays_readable_for_its_holder,
    names_are_listed_with_their_kinds,
    allocation_takes_blocks_and_never_shortens,
    blocks_are_counted,
    a_file_opened_for_reading_is_not_written,
    syncs_succeed_on_a_healthy_disk,
    there_is_no_more_room_than_the_whole,
);

fn kind<T: std::fmt::Debug>(result: io::Result<T>) -> io::ErrorKind {
    result.unwrap_err().kind()
}

fn bytes(file: &dyn VfsFile) -> Vec<u8> {
    let mut bytes = vec![b'?'; file.len().unwrap() as usize];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}

fn put(dir: &dyn Vfs, name: &str, bytes: &[u8]) -> Arc<dyn VfsFile> {
    let file = dir.create(name).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file
}

fn names(dir: &dyn Vfs) -> Vec<String> {
    let mut names: Vec<_> = dir.list().unwrap().into_iter().map(|entry| entry.name).collect();
    names.sort();
    names
}

fn a_name_is_created_once(dir: &dyn Vfs) {
    put(dir, "a", b"first");
    assert_eq!(kind(dir.create("a")), io::ErrorKind::AlreadyExists);
    assert_eq!(bytes(&*dir.open("a").unwrap()), b"first");
}

fn a_missing_file_is_not_found(dir: &dyn Vfs) {
    assert_eq!(kind(dir.open("a")), io::ErrorKind::NotFound);
    assert_eq!(kind(dir.unlink("a")), io::ErrorKind::NotFound);
    assert_eq!(kind(dir.rename("a", "b")), io::ErrorKind::NotFound);
}

fn only_plain_names_are_accepted(dir: &dyn Vfs) {
    put(dir, "a", b"");
    for name in ["", ".", "..", "a/b", "/a", "a\0"] {
        assert_eq!(kind(dir.create(name)), io::ErrorKind::InvalidInput, "{name:?}");
        assert_eq!(kind(dir.open(name)), io::ErrorKind::InvalidInput, "{name:?}");
        assert_eq!(kind(dir.unlink(name)), io::ErrorKind::InvalidInput, "{name:?}");
        assert_eq!(kind(dir.rename(name, "b")), io::ErrorKind::InvalidInput, "{name:?}");
        assert_eq!(kind(dir.rename("a", name)), io::ErrorKind::InvalidInput, "{name:?}");
    }
    assert_eq!(names(dir), ["a"]);
}

fn a_read_ends_where_the_file_ends(dir: &dyn Vfs) {
    let file = put(dir, "a", b"0123456789");
    let mut buf = [b'x'; 4];
    assert_eq!(file.read_at(&mut buf, 8).unwrap(), 2);
    assert_eq!(&buf, b"89xx");
    assert_eq!(file.read_at(&mut buf, 10).unwrap(), 0);
    assert_eq!(file.read_at(&mut buf, 1 << 40).unwrap(), 0);
    assert_eq!(file.read_at(&mut [], 0).unwrap(), 0);
}

fn a_gap_reads_as_zeros(dir: &dyn Vfs) {
    let file = put(dir, "a", b"ab");
    file.write_all_at(b"z", 9000).unwrap();
    let mut expected = vec![0; 9001];
    expected[..2].copy_from_slice(b"ab");
    expected[9000] = b'z';
    assert_eq!(bytes(&*file), expected);
    file.write_all_at(&[7; 5000], 4000).unwrap();
    expected[4000..9000].fill(7);
    assert_eq!(bytes(&*file), expected);
}

fn a_rename_replaces_and_old_handles_keep_the_old_file(dir: &dyn Vfs) {
    let old = put(dir, "a", b"old");
    let new = put(dir, "b", b"newer");
    dir.rename("b", "a").unwrap();
    assert_eq!(names(dir), ["a"]);
    assert_eq!(bytes(&*old), b"old");
    assert_eq!(bytes(&*dir.open("a").unwrap()), b"newer");
    new.write_all_at(b"N", 0).unwrap();
    assert_eq!(bytes(&*dir.open("a").unwrap()), b"Newer", "the handle follows the file, not the name");
}

fn a_rename_that_fails_changes_nothing(dir: &dyn Vfs) {
    put(dir, "a", b"a");
    assert_eq!(kind(dir.rename("b", "a")), io::ErrorKind::NotFound);
    assert_eq!(bytes(&*dir.open("a").unwrap()), b"a");
    dir.rename("a", "a").unwrap();
    assert_eq!(names(dir), ["a"]);
}

fn an_unlinked_file_stays_readable_for_its_holder(dir: &dyn Vfs) {
    let file = put(dir, "a", b"still here");
    dir.unlink("a").unwrap();
    assert_eq!(kind(dir.open("a")), io::ErrorKind::NotFound);
    put(dir, "a", b"another");
    assert_eq!(bytes(&*file), b"still here");
}

fn names_are_listed_with_their_kinds(dir: &dyn Vfs) {
    assert_eq!(dir.list().unwrap(), []);
    put(dir, "b", b"");
    put(dir, ".a", b"");
    let mut listed = dir.list().unwrap();
    listed.sort();
    let entry = |name: &str| DirEntry { name: name.into(), kind: EntryKind::File };
    assert_eq!(listed, [entry(".a"), entry("b")]);
    dir.unlink("b").unwrap();
    assert_eq!(dir.list().unwrap(), [entry(".a")], "a second list starts from the beginning");
}

fn allocation_takes_blocks_and_never_shortens(dir: &dyn Vfs) {
    let file = put(dir, "a", b"kept");
    file.allocate(100_000).unwrap();
    assert_eq!(file.len().unwrap(), 100_000);
    assert!(file.allocated_bytes().unwrap() >= 100_000);
    let mut expected = vec![0; 100_000];
    expected[..4].copy_from_slice(b"kept");
    assert_eq!(bytes(&*file), expected);
    file.allocate(10).unwrap();
    file.allocate(0).unwrap();
    assert_eq!(file.len().unwrap(), 100_000);
}

fn blocks_are_counted(dir: &dyn Vfs) {
    let file = dir.create("a").unwrap();
    assert_eq!(file.allocated_bytes().unwrap(), 0);
    file.write_all_at(&[1; 10_000], 0).unwrap();
    file.sync_data().unwrap();
    let allocated = file.allocated_bytes().unwrap();
    assert!((10_000..30_000).contains(&allocated), "{allocated}");
}

fn a_file_opened_for_reading_is_not_written(dir: &dyn Vfs) {
    put(dir, "a", b"a");
    let file = dir.open("a").unwrap();
    assert_eq!(file.write_all_at(b"b", 0).unwrap_err().raw_os_error(), Some(9));
    assert_eq!(file.allocate(10).unwrap_err().raw_os_error(), Some(9));
    assert_eq!(bytes(&*file), b"a");
}

fn syncs_succeed_on_a_healthy_disk(dir: &dyn Vfs) {
    let file = put(dir, "a", b"a");
    file.sync_data().unwrap();
    dir.open("a").unwrap().sync_data().unwrap();
    dir.sync_dir().unwrap();
}

fn there_is_no_more_room_than_the_whole(dir: &dyn Vfs) {
    let space = dir.space().unwrap();
    assert!(space.free_bytes > 0 && space.free_bytes <= space.total_bytes, "{space:?}");
}
