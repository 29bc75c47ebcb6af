//! Owns the tests of data that is written anew after a failed sync: the copy takes as long as it takes, and nobody waits for it.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bucket_store::vfs::sim::{EIO, Fault, Op, OpKind, SimDisk, nth, on};
use bucket_store::{Config, DeleteOutcome, Durability, Store, StoreErrorKind};

use crate::kit::{builder, code, config, delete, key, list, open_with, read, seed_of, value, write_all, write_one};

/// Far longer than anything takes that does not wait for the copy, on any machine.
const FOR_EVER: Duration = Duration::from_secs(60);

fn relaxed(disk: &SimDisk) -> Arc<Store> {
    let config = Config { durability: Durability::Relaxed, ..config() };
    Arc::new(open_with(builder().config(config), disk).unwrap())
}

/// Writes to a data file but for the first.
fn copying(op: &Op) -> bool {
    op.kind == OpKind::Write && op.name.ends_with(".bucket") && &*op.name != "1.bucket"
}

/// Lets the sync of the first bucket's data fail, and runs `meanwhile` on a thread of its own in the middle of the copy, which goes on when that
/// has ended. Gives what came out of it.
#[expect(clippy::disallowed_methods, reason = "a thread that must not be waited for is what is tested")]
fn in_the_copy<T: Send + 'static>(
    disk: &SimDisk,
    store: &Arc<Store>,
    meanwhile: impl FnOnce(&Store) -> T + Send + 'static,
) -> Arc<Mutex<Option<T>>> {
    disk.inject(1, Fault::Errno(EIO), on(OpKind::SyncData, ".bucket"));
    let (store, result) = (Arc::clone(store), Arc::new(Mutex::new(None)));
    let found = Arc::clone(&result);
    disk.when(nth(2, copying), move || {
        let (done, ended) = sync_channel(1);
        let beside = std::thread::spawn(move || {
            let came_out = meanwhile(&store);
            drop(store);
            done.send(came_out).unwrap();
        });
        match ended.recv_timeout(FOR_EVER) {
            Ok(came_out) => *found.lock().unwrap() = Some(came_out),
            Err(RecvTimeoutError::Timeout) => panic!("it waits for the copy"),
            Err(RecvTimeoutError::Disconnected) => {}
        }
        if let Err(panic) = beside.join() {
            std::panic::resume_unwind(panic);
        }
    });
    result
}

fn came_out<T>(result: &Mutex<Option<T>>) -> T {
    result.lock().unwrap().take().expect("the copy was reached")
}

#[test]
fn a_delete_during_the_copy_does_not_wait_for_it_and_is_not_lost() {
    let disk = SimDisk::new();
    let store = relaxed(&disk);
    write_all(&store, &[("a", 1), ("b", 2), ("c", 3)]).unwrap();
    let outcome = in_the_copy(&disk, &store, |store| {
        let outcome = delete(store, "b", 2);
        assert_eq!(code(read(store, "b")), "NOT_FOUND", "hidden at once");
        assert_eq!((seed_of(store, "a"), seed_of(store, "c")), (Some(1), Some(3)), "others are read");
        assert_eq!(list(store, 10).len(), 2);
        assert_eq!(store.find(&key("a")).unwrap().bucket.0, 1, "out of the old file, as nothing is swapped yet");
        outcome
    });
    assert_eq!(store.publish_pending().unwrap(), 1);
    let DeleteOutcome::Retryable(error) = came_out(&outcome) else { panic!("it cannot be durable yet") };
    assert_eq!((error.kind(), error.code()), (StoreErrorKind::Busy, "DATA_BUSY"));
    assert_eq!(
        error.to_string(),
        "the data of bucket 1 is being written anew after a sync that failed; try again soon"
    );
    store.audit().unwrap();
    assert_eq!(store.find(&key("a")).unwrap().bucket.0, 2);
    assert_eq!(code(read(&store, "b")), "NOT_FOUND", "the new bucket knows of it");
    let image = disk.crash_point().least();
    assert!(matches!(delete(&store, "b", 2), DeleteOutcome::AlreadyRemoved), "its tombstone went with the new table");
    assert_eq!(store.figures().physical_bytes, 4096);
    drop(store);
    let store = relaxed(&SimDisk::of(&image));
    assert_eq!((seed_of(&store, "a"), seed_of(&store, "b"), seed_of(&store, "c")), (Some(1), None, Some(3)));
}

#[test]
fn a_newer_object_that_is_written_during_the_copy_stays_the_newer_one() {
    let disk = SimDisk::new();
    let store = relaxed(&disk);
    write_all(&store, &[("a", 1), ("b", 2), ("c", 3)]).unwrap();
    let written = in_the_copy(&disk, &store, |store| {
        write_all(store, &[("b", 4)]).unwrap();
        seed_of(store, "b")
    });
    store.publish_pending().unwrap();
    assert_eq!(came_out(&written), Some(4));
    store.audit().unwrap();
    assert_eq!((seed_of(&store, "b"), store.figures().live_objects), (Some(4), 3));
    drop(store);
    assert_eq!(seed_of(&relaxed(&disk), "b"), Some(4));
}

#[test]
fn another_publish_during_the_copy_is_told_and_publishes_the_others() {
    let disk = SimDisk::new();
    let store = relaxed(&disk);
    write_all(&store, &[("a", 1), ("b", 2), ("c", 3)]).unwrap();
    let published = in_the_copy(&disk, &store, |store| {
        write_all(store, &[("d", 4)]).unwrap();
        let error = store.publish_pending().unwrap_err();
        assert_eq!((error.kind(), error.code()), (StoreErrorKind::Busy, "DATA_BUSY"));
        store.figures().pending_bytes
    });
    store.publish_pending().unwrap();
    let waits = came_out(&published);
    assert!(waits > 0 && waits < 1000, "only the first bucket still waits: {waits}");
    assert_eq!(store.figures().pending_bytes, 0);
}

#[test]
fn a_write_past_the_limit_during_the_copy_is_no_failure() {
    let disk = SimDisk::new();
    let config = Config { durability: Durability::Relaxed, relaxed_limit_bytes: 2000, ..config() };
    let store = Arc::new(open_with(builder().config(config), &disk).unwrap());
    write_all(&store, &[("a", 1), ("b", 2), ("c", 3)]).unwrap();
    let written = in_the_copy(&disk, &store, |store| write_one(store, "d", 4, &value(4, 3000)));
    store.publish_pending().unwrap();
    came_out(&written).unwrap();
    assert_eq!(store.figures().pending_bytes, 0);
}

#[test]
fn what_is_deleted_during_a_copy_that_fails_is_gone_and_what_it_replaced_is_back() {
    let disk = SimDisk::new();
    let store = relaxed(&disk);
    write_all(&store, &[("a", 1)]).unwrap();
    store.publish_pending().unwrap();
    write_all(&store, &[("a", 2), ("c", 3)]).unwrap();
    write_all(&store, &[("d", 5), ("e", 6)]).unwrap();
    disk.inject(1, Fault::Errno(EIO), on(OpKind::SyncData, "2.bucket"));
    disk.inject(1, Fault::Errno(EIO), on(OpKind::SyncData, "4.bucket"));
    let hidden = Arc::clone(&store);
    let copy = |op: &Op| op.kind == OpKind::Write && &*op.name == "4.bucket";
    disk.when(nth(2, copy), move || assert!(!delete(&hidden, "a", 2).is_terminal()));
    assert_eq!(code(store.publish_pending()), "IO");
    store.audit().unwrap();
    assert_eq!((seed_of(&store, "a"), seed_of(&store, "c"), seed_of(&store, "d")), (Some(1), None, Some(5)));
    assert!(matches!(delete(&store, "a", 2), DeleteOutcome::StaleVersion), "as a restart has it");
    let names = disk.image().names().filter(|name| name.ends_with(".bucket")).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(names, ["1.bucket", "3.bucket"], "nothing is left of the lost ones");
}
