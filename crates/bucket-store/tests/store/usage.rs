//! Owns the tests of the figures: which of them ask the disk, and that both kinds agree with what is there.

use std::sync::{Arc, Mutex};

use bucket_store::vfs::sim::{EIO, Fault, OpKind, SimDisk, on};
use bucket_store::{Config, Durability};

use crate::kit::{builder, code, config, delete, open, open_with, write_all};

#[test]
fn figures_ask_no_disk_and_usage_asks_once() {
    let disk = SimDisk::new();
    let store = open(&disk);
    write_all(&store, &[("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 5)]).unwrap();
    assert!(delete(&store, "e", 5).is_terminal());
    disk.set_capacity(1 << 30);
    disk.record();
    let figures = store.figures();
    assert_eq!((figures.live_objects, figures.buckets, figures.gc_candidates), (4, 2, 1));
    assert_eq!(disk.log(), [], "the figures come from memory");
    let usage = store.usage().unwrap();
    assert_eq!(disk.log().iter().map(|op| op.kind).collect::<Vec<_>>(), [OpKind::Space]);
    assert_eq!((usage.capacity_bytes, usage.physical_bytes), (config().capacity_bytes, figures.physical_bytes));
    assert_eq!((usage.reserve_bytes, usage.promised_bytes), (64 << 10, 0));
    assert_eq!(usage.disk_total_bytes, 1 << 30);
    assert_eq!(usage.disk_free_bytes, (1 << 30) - disk.used_bytes());
    disk.inject(1, Fault::Errno(EIO), on(OpKind::Space, ""));
    assert_eq!(code(store.usage()), "IO");
    assert_eq!(store.figures(), figures, "whatever the disk says");
}

#[test]
fn tables_that_wait_are_promised() {
    let disk = SimDisk::new();
    let store = open_with(builder().config(Config { durability: Durability::Relaxed, ..config() }), &disk).unwrap();
    write_all(&store, &[("a", 1)]).unwrap();
    assert_eq!(store.usage().unwrap().promised_bytes, 4096);
    store.publish_pending().unwrap();
    write_all(&store, &[("b", 2)]).unwrap();
    assert_eq!(store.usage().unwrap().promised_bytes, 4096, "of the second alone");
}

#[test]
fn the_table_of_data_that_is_written_anew_is_promised_until_it_is_in_place() {
    let disk = SimDisk::new();
    let relaxed = Config { durability: Durability::Relaxed, ..config() };
    let store = Arc::new(open_with(builder().config(relaxed), &disk).unwrap());
    write_all(&store, &[("a", 1)]).unwrap();
    disk.inject(1, Fault::Errno(EIO), on(OpKind::SyncData, "1.bucket"));
    let (asks, told) = (Arc::clone(&store), Arc::new(Mutex::new(None)));
    let promised = Arc::clone(&told);
    disk.when(
        |op| op.kind == OpKind::Create && op.name.contains("2.meta."),
        move || *promised.lock().unwrap() = Some(asks.usage().unwrap().promised_bytes),
    );
    assert_eq!(store.publish_pending().unwrap(), 1);
    assert_eq!(told.lock().unwrap().take(), Some(4096), "of the new bucket");
    write_all(&store, &[("b", 2)]).unwrap();
    assert_eq!(store.usage().unwrap().promised_bytes, 4096, "of that alone");
}
