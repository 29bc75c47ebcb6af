//! Owns the tests of the store on a tokio runtime: the bound on blocking work, and what a dropped future leaves.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use bucket_store::format::marker::Marker;
use bucket_store::vfs::sim::{OpKind, SimDisk};
use bucket_store::{AsyncStore, ByteRange, Config, DeleteOutcome, OwnedObject, OwnedRead, Store, WriteOutcome};
use ha_types::{ClusterId, Epoch, ManualClock, ObjectIncarnation, Owner, SegmentId};

fn store(blocking_calls: usize) -> AsyncStore {
    store_on(&SimDisk::new(), blocking_calls)
}

fn store_on(disk: &SimDisk, blocking_calls: usize) -> AsyncStore {
    let identity = Marker { segment: SegmentId::new("s").unwrap(), cluster: ClusterId::new("c").unwrap() };
    let config = Config { blocking_calls, ..Config::default() };
    let builder = Store::builder(identity, Arc::new(ManualClock::new())).config(config);
    AsyncStore::new(Arc::new(builder.open(Arc::new(disk.mount().unwrap())).unwrap()))
}

fn object(n: u64) -> OwnedObject {
    let incarnation = ObjectIncarnation::of_claim(Epoch::new(1), Owner::new(1), n).unwrap();
    OwnedObject {
        key: format!("t\0{n}").into_bytes().into(),
        incarnation,
        value: vec![n as u8; 100].into(),
        placement: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_is_read_deleted_and_collected() {
    let store = store(2);
    let objects: Vec<_> = (1..=4).map(object).collect();
    assert_eq!(store.write(objects.clone()).await.unwrap(), [WriteOutcome::Stored; 4]);
    let part = Some(ByteRange { offset: 98, len: 2 });
    let read = |n: usize, range| OwnedRead { key: objects[n].key.clone(), incarnation: None, range };
    assert_eq!(store.read(read(2, part)).await.unwrap(), [3, 3]);
    let all = objects.iter().map(|it| (it.key.clone(), it.incarnation)).collect();
    let outcomes = store.delete(all).await.unwrap();
    assert!(outcomes.iter().all(|outcome| matches!(outcome, DeleteOutcome::Removed)));
    assert_eq!(store.read(read(2, None)).await.unwrap_err().code(), "NOT_FOUND");
    assert_eq!(store.publish_pending().await.unwrap(), 0);
    let gc = {
        let store = store.clone();
        tokio::spawn(async move { store.drive_gc(Duration::from_millis(1)).await })
    };
    while store.store().figures().physical_bytes > 0 {
        tokio::task::yield_now().await;
    }
    gc.abort();
    assert!(gc.await.unwrap_err().is_cancelled());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_calls_run_at_once_than_the_bound_says() {
    let store = store(3);
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    // The first three wait for each other, so that three at once do occur.
    let meet = Arc::new(std::sync::Barrier::new(3));
    let calls: Vec<_> = (0..30)
        .map(|n| {
            let (store, running, most, meet) = (store.clone(), running.clone(), most.clone(), meet.clone());
            tokio::spawn(async move {
                let work = move |_: &Store| {
                    most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
                    meet.wait();
                    running.fetch_sub(1, SeqCst);
                    n
                };
                store.run(work).await
            })
        })
        .collect();
    for (n, call) in calls.into_iter().enumerate() {
        assert_eq!(call.await.unwrap(), n);
    }
    assert_eq!(most.load(SeqCst), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_future_ends_no_operation_and_keeps_its_place() {
    let store = store(1);
    let (begin, begun) = mpsc::sync_channel(1);
    let (go_on, may_go_on) = mpsc::sync_channel::<()>(1);
    let first = {
        let store = store.clone();
        tokio::spawn(async move {
            let work = move |store: &Store| {
                begin.send(()).unwrap();
                may_go_on.recv().unwrap();
                let OwnedObject { key, incarnation, value, placement } = object(1);
                store.write(&[bucket_store::WriteObject { key: &key, incarnation, value: &value, placement }]).unwrap();
            };
            store.run(work).await
        })
    };
    tokio::task::block_in_place(|| begun.recv()).unwrap();
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    // It has the only place still: this one waits in line, and dropped there it does nothing.
    let (ran, waits) = (Arc::new(AtomicUsize::new(0)), store.clone());
    {
        let ran = ran.clone();
        let mut waiting = Box::pin(waits.run(move |_| ran.fetch_add(1, SeqCst)));
        let polled = std::future::poll_fn(|cx| std::task::Poll::Ready(waiting.as_mut().poll(cx).is_ready())).await;
        assert!(!polled, "it ran beside the one that has the place");
    }
    go_on.send(()).unwrap();
    let found = store.run(|store| store.find(&object(1).key).is_some()).await;
    assert!(found, "the operation went on to its end");
    assert_eq!(ran.load(SeqCst), 0);
}

#[tokio::test]
async fn what_asks_the_disk_does_so_on_a_thread_for_that_and_what_does_not_asks_memory_alone() {
    let disk = SimDisk::new();
    let store = store_on(&disk, 1);
    store.write(vec![object(1)]).await.unwrap();
    let mine = std::thread::current().id();
    disk.when(|op| op.kind == OpKind::Space, move || assert_ne!(std::thread::current().id(), mine));
    let before = disk.operations();
    let usage = store.usage().await.unwrap();
    assert_eq!(disk.operations(), before + 1, "it asks the disk, once");
    assert_eq!(usage.physical_bytes, 4096);
    // No call that may be made from here touches the disk.
    let (before, inner) = (disk.operations(), store.store());
    assert_eq!(inner.figures().physical_bytes, 4096);
    assert!(inner.find(&object(1).key).is_some() && inner.read_only().is_none());
    assert_eq!(inner.list(None, 10).unwrap().objects.len(), 1);
    assert_eq!(disk.operations(), before);
}

#[tokio::test]
async fn a_panic_in_the_work_is_the_callers() {
    let store = store(1);
    let caller = {
        let store = store.clone();
        tokio::spawn(async move { store.run(|_| panic!("in the work")).await })
    };
    let panic = caller.await.unwrap_err().into_panic();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"in the work"));
    assert_eq!(store.run(|_| 7).await, 7, "its place is free again");
}
