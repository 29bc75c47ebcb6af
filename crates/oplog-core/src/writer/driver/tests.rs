//! Tests of the driver that its public interface cannot bring about: it is polled by hand, and dropped.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};

use async_trait::async_trait;
use ha_kv::test_kit::Detour;
use ha_kv::{KvError, MemoryKv, Txn, TxnKv, TxnOutcome};
use ha_types::{BatchId, ManualClock, SeededEntropy, Seq};
use tokio::sync::Semaphore;

use super::super::class::Class;
use super::super::reservation::Reservation;
use super::super::shared::Handle;
use super::super::tests::kit::{ENTRY, claimed, claimed_in};
use super::*;
use crate::{ClaimedLog, Ticket, WriterConfig};

/// A driver of `log` that nobody polls yet, and what it drives.
fn driver(log: ClaimedLog) -> (Driver, Arc<Shared>) {
    let shared = Shared::new(&log, WriterConfig::default(), Arc::new(ManualClock::new()));
    let entropy = Arc::new(SeededEntropy::new(1));
    let (delay, compressor) = (SealDelay::new(Duration::ZERO), BatchCompressor::off());
    (Driver::new(Arc::clone(&shared), log.storage, entropy, delay, compressor), shared)
}

fn commit(handle: &Arc<Handle>) -> Ticket {
    handle.0.with_core(|core| core.reserve(Class::Waiter, 1)).expect("a slot");
    Reservation::of_slot(Arc::clone(handle), Class::Waiter).commit(ENTRY).expect("a commit")
}

#[tokio::test]
async fn v5_a_writer_ends_whose_last_commit_and_last_handle_woke_it_as_one() {
    let log = claimed().await;
    let storage = log.storage.clone();
    let (driver, shared) = driver(log);
    // An idle driver has looked; both events come before it waits, and it has woken for them.
    assert!(shared.with_core(|core| core.depart(0, MonoTime::ZERO)).is_none());
    let handle = Arc::new(Handle(Arc::clone(&shared)));
    drop(commit(&handle));
    drop(handle);
    shared.work.notified().await;
    tokio::time::timeout(Duration::from_secs(10), driver.run()).await.expect("the driver ends");
    let prefix = storage.require_prefix().await.expect("a prefix");
    assert_eq!((prefix.batch_id, prefix.last_seq), (BatchId::new(1), Seq::new(1)), "after it wrote the entry");
}

/// A memory store that answers as many transactions as it is told to.
#[derive(Debug)]
struct WhenTold {
    memory: MemoryKv,
    answers: Semaphore,
}

#[async_trait]
impl Detour for WhenTold {
    fn store(&self) -> &dyn TxnKv {
        &self.memory
    }

    async fn txn(&self, txn: &Txn) -> Result<TxnOutcome, KvError> {
        self.answers.acquire().await.expect("it stays open").forget();
        self.store().txn(txn).await
    }
}

#[derive(Debug, Default)]
struct Rings(AtomicUsize);

impl Wake for Rings {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// The callers of a batch are woken when the next one is on its way. In between the driver waits, and may go with its runtime.
#[tokio::test]
async fn v1_a_caller_is_woken_though_the_driver_is_dropped_before_it_wakes_anybody() {
    for dropped in [false, true] {
        let store = Arc::new(WhenTold { memory: MemoryKv::new(), answers: Semaphore::new(10) });
        let (driver, shared) = driver(claimed_in(store.clone()).await);
        store.answers.forget_permits(10);
        let handle = Arc::new(Handle(Arc::clone(&shared)));
        let mut running = Box::pin(driver.run());
        let mut run = || {
            let polled = running.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending(), "the driver ended");
        };
        let mut ticket = commit(&handle);
        let rings = Arc::new(Rings::default());
        let waker = Waker::from(Arc::clone(&rings));
        assert!(Pin::new(&mut ticket).poll(&mut Context::from_waker(&waker)).is_pending());
        run();
        let next = commit(&handle);
        store.answers.add_permits(1);
        run();
        assert_eq!(ticket.outcome(), Some(Outcome::Durable));
        assert_eq!(rings.0.load(Ordering::SeqCst), 0, "the next batch goes first");
        match dropped {
            true => drop(running),
            false => run(),
        }
        assert_eq!(rings.0.load(Ordering::SeqCst), 1);
        drop(next);
    }
}
