//! RFC batch record §12: callbacks. L5.

use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ha_kv::faulty::{Fault, OpKind};
use ha_kv::{Kv, KvErrorKind};
use ha_types::Clock;
use oplog_core::record::BatchRecord;
use oplog_core::{DurablePrefix, Outcome, Seq, WriterConfig};

use crate::support::{Log, entry};

/// L5: at the instant of a success callback the prefix in the store is at or above the sequence, and the entry there is the one
/// that was committed.
#[tokio::test]
async fn l5_a_success_means_this_entry_is_in_the_log_at_that_instant() {
    let log = Log::new().await;
    let node = log.node(WriterConfig { oplog_retry_max: Duration::from_millis(4), ..WriterConfig::default() }).await;
    let (checked, store) = (Arc::new(Mutex::new(0)), log.store.clone());
    node.kv.plan_for(OpKind::Txn, ha_kv::faulty::FaultPlan::rough(Duration::from_millis(1)));
    let mut committed = 0;
    for i in 0..200_u32 {
        let slot = loop {
            match node.writer.reserve() {
                Ok(slot) => break slot,
                Err(_) => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        };
        let (checked, store, payload) = (checked.clone(), store.clone(), i.to_le_bytes());
        let callback = move |seq: Seq, outcome| {
            assert_eq!(outcome, Outcome::Durable);
            assert_eq!(payload_at(&store, seq), payload, "the log holds another entry at {seq}");
            *checked.lock().expect("lock") += 1;
        };
        slot.commit_with(entry(&payload), callback).expect("committed");
        committed += 1;
        if i % 5 == 0 {
            tokio::time::sleep(Duration::from_micros(500)).await;
        }
    }
    node.kv.plan(ha_kv::faulty::FaultPlan::NONE);
    node.writer.drain(log.clock.now().saturating_add(Duration::from_secs(60))).await.expect("drained");
    assert_eq!((*checked.lock().expect("lock"), node.writer.metrics().callback_panics), (committed, 0));
}

fn payload_at(store: &ha_kv::MemoryKv, seq: Seq) -> Vec<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let keys = Log::keys();
        let prefix = store.get(&keys.durable_prefix()).await.expect("memory").expect("a prefix");
        let prefix = DurablePrefix::decode(&prefix).expect("a prefix");
        assert!(prefix.last_seq >= seq, "{seq} was called durable at {prefix}");
        let mut id = prefix.batch_id;
        loop {
            let bytes = store.get(&keys.batch(id)).await.expect("memory").expect("a batch at or below the prefix");
            let batch = BatchRecord::decode(bytes).expect("decodes");
            if batch.header().first_seq <= seq {
                let index = seq.distance_from(batch.header().first_seq);
                return batch.entry(index as usize).expect("the entry").payload.to_vec();
            }
            id = oplog_core::BatchId::new(id.get() - 1);
        }
    })
}

#[tokio::test]
async fn a_callback_does_not_fire_before_the_prefix_advanced() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    node.kv.script(OpKind::Txn, Fault::HoldRequest);
    let (sender, receiver) = sync_channel(1);
    let sent = node.kv.calls(OpKind::Txn);
    node.reserve().commit_with(entry(b"x"), move |_, outcome| sender.send(outcome).expect("sent")).expect("committed");
    node.kv.reached(OpKind::Txn, sent + 1).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(receiver.try_recv().is_err());
    node.kv.release();
    let outcome = tokio::task::spawn_blocking(move || receiver.recv_timeout(Duration::from_secs(60)));
    assert_eq!(outcome.await.expect("joined"), Ok(Outcome::Durable));
}

/// On a runtime of one thread: the callback blocks until later batches have become durable.
#[tokio::test]
async fn a_blocking_callback_does_not_block_the_next_backend_write() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    let (go, wait) = sync_channel::<()>(1);
    let order = Arc::new(Mutex::new(Vec::new()));
    let note = |name: &'static str| {
        let order = order.clone();
        move || order.lock().expect("lock").push(name)
    };
    let first = note("first");
    let blocks = move |_: Seq, _: Outcome| {
        wait.recv_timeout(Duration::from_secs(60)).expect("released");
        first();
    };
    node.reserve().commit_with(entry(b"1"), blocks).expect("committed");
    // In another batch, so that nothing but the order of the notices holds the second callback back.
    assert_eq!(node.reserve().commit(entry(b"between")).expect("committed").await, Outcome::Durable);
    let second = note("second");
    node.reserve().commit_with(entry(b"2"), move |_, _| second()).expect("committed");
    for i in 0..5_u8 {
        assert_eq!(node.reserve().commit(entry(&[i])).expect("committed").await, Outcome::Durable);
    }
    // Long enough for another thread to run what it must not.
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(order.lock().expect("lock").is_empty());
    assert_eq!(node.writer.metrics().callbacks_waiting, 2);
    go.send(()).expect("sent");
    node.writer.drain(log.clock.now().saturating_add(Duration::from_secs(60))).await.expect("drained");
    assert_eq!(*order.lock().expect("lock"), ["first", "second"], "in order of sequence");
}

#[tokio::test]
async fn a_callback_that_panics_is_counted_and_holds_up_nothing() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    let told = Arc::new(Mutex::new(Vec::new()));
    for i in 1..=4_u64 {
        let told = told.clone();
        let callback = move |seq: Seq, _| {
            told.lock().expect("lock").push(seq.get());
            assert!(i != 2, "a callback that panics on purpose");
        };
        node.reserve().commit_with(entry(b"x"), callback).expect("committed");
    }
    assert_eq!(node.reserve().commit(entry(b"y")).expect("committed").await, Outcome::Durable);
    node.writer.drain(log.clock.now().saturating_add(Duration::from_secs(60))).await.expect("drained");
    let told = told.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    assert_eq!(told, [1, 2, 3, 4]);
    assert_eq!(node.writer.metrics().callback_panics, 1);
    assert_eq!(node.writer.metrics().callbacks_waiting, 0);
}

/// What a callback holds is dropped with it, and may come back to the writer: never under its lock.
#[test]
fn a_callback_that_is_refused_is_dropped_uncalled_and_outside_the_lock() {
    let (done, is_done) = sync_channel(1);
    // On a thread of its own: one that waits for its own lock never comes back, and must fail the test, not hold it up.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(refused_callbacks());
        done.send(()).expect("sent");
    });
    is_done.recv_timeout(Duration::from_secs(60)).expect("it failed, or waits for its own lock");
}

async fn refused_callbacks() {
    let log = Log::new().await;
    let node = log.node(WriterConfig { oplog_batch_max_bytes: 1000, ..WriterConfig::default() }).await;
    let held_by_the_callback = |node: &crate::support::Node| {
        let (slot, writer) = (node.reserve(), node.writer.clone());
        move |_: Seq, _: Outcome| panic!("a refused callback was called: {slot:?} {writer:?}")
    };
    for (payload, why) in [(&[1; 2000][..], "too large"), (&[][..], "invalid")] {
        let callback = held_by_the_callback(&node);
        node.reserve().commit_with(entry(payload), callback).expect_err(why);
        assert_eq!(
            node.writer.metrics().slots,
            0,
            "{why}: the slot of the call and the one inside the callback are back"
        );
    }
    let (last, callback) = (node.reserve(), held_by_the_callback(&node));
    node.writer.stop().await;
    last.commit_with(entry(b"x"), callback).expect_err("it has ended");
    assert_eq!(node.writer.metrics().slots, 0);
    assert_eq!(node.writer.metrics().callbacks_waiting, 0);
}

/// A panic may carry a value whose own end panics: the callbacks behind it still run.
#[tokio::test]
async fn a_panic_with_a_value_that_panics_when_dropped_holds_up_nothing() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("a panic's value that panics on purpose");
        }
    }
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    let told = Arc::new(Mutex::new(Vec::new()));
    for i in 1..=4_u64 {
        let told = told.clone();
        let callback = move |seq: Seq, _| {
            told.lock().expect("lock").push(seq.get());
            if i % 2 == 1 {
                std::panic::panic_any(Bomb);
            }
        };
        node.reserve().commit_with(entry(b"x"), callback).expect("committed");
        if i == 2 {
            // The others are in another batch, so in another notice.
            assert_eq!(node.reserve().commit(entry(b"y")).expect("committed").await, Outcome::Durable);
        }
    }
    node.writer.drain(log.clock.now().saturating_add(Duration::from_secs(60))).await.expect("drained");
    let told = told.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
    assert_eq!(told, [1, 2, 4, 5]);
    assert_eq!((node.writer.metrics().callback_panics, node.writer.metrics().callbacks_waiting), (2, 0));
}

/// A callback may use the writer.
#[tokio::test]
async fn a_callback_may_commit() {
    let log = Log::new().await;
    let node = log.node(WriterConfig::default()).await;
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let writer = node.writer.clone();
    let callback = move |_: Seq, _: Outcome| {
        let ticket = writer.reserve().expect("a slot").commit(entry(b"from the callback")).expect("committed");
        sender.send(ticket).expect("sent");
    };
    node.reserve().commit_with(entry(b"x"), callback).expect("committed");
    assert_eq!(receiver.await.expect("a ticket").await, Outcome::Durable);
}

/// A runtime that goes away runs what it still owes: every callback is called once, no thread waits for ever.
#[test]
fn a_runtime_that_shuts_down_leaves_nobody_waiting() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().expect("a runtime");
    let log = runtime.block_on(Log::new());
    let node = runtime.block_on(log.node(WriterConfig::default()));
    node.kv.always(OpKind::Txn, Some(Fault::LoseRequest(KvErrorKind::Timeout)));
    let (sender, receiver) = sync_channel(4);
    let second = node.reserve();
    node.reserve()
        .commit_with(entry(b"x"), move |seq, outcome| sender.send((seq.get(), outcome)).expect("sent"))
        .expect("committed");
    runtime.block_on(node.until(|s| !s.accepting));
    let ticket = second.commit(entry(b"y")).expect("committed");
    let waiter = std::thread::spawn(move || ticket.wait());
    runtime.shutdown_timeout(Duration::from_secs(30));
    assert_eq!(receiver.recv_timeout(Duration::from_secs(60)), Ok((1, Outcome::Unknown)));
    assert_eq!(waiter.join().expect("joined"), Outcome::Never);
    assert_eq!(node.status().terminal, Some(oplog_core::Terminal::Shutdown));
    assert!(node.writer.reserve().is_err());
}
