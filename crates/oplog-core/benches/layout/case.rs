//! Owns one case: a layout, so many producers, waiting for their own entries or not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ha_types::{Seq, SystemClock, SystemEntropy};
use oplog_core::legacy::{LegacyCommitError, LegacyReplica, LegacyWriter, LegacyWriterConfig};
use oplog_core::{BatchStorage, OrderedWriter, Outcome, WriterConfig, WriterEnv};
use tokio::sync::watch;

use crate::entries::Entries;
use crate::store::{Log, Nothing, Opened};

/// Until the first completions are past, which are nearly empty.
const WARM_UP: Duration = Duration::from_millis(50);

/// How entries lie in the store, and who writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// One put for each entry and nothing else: no `latest`, no compare. A producer has one put in flight.
    Puts,
    /// The per-entry layout by our writer: many entries and `latest` in each transaction.
    Grouped,
    /// Batch records.
    Batches,
}

impl Layout {
    pub(crate) const ALL: [Self; 3] = [Self::Puts, Self::Grouped, Self::Batches];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Puts => "puts",
            Self::Grouped => "grouped",
            Self::Batches => "batches",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) layout: Layout,
    pub(crate) producers: usize,
    pub(crate) waiting: bool,
}

impl Case {
    pub(crate) const PRODUCERS: [usize; 3] = [1, 8, 64];

    /// The whole matrix. A put has no way not to wait.
    pub(crate) fn all() -> Vec<Self> {
        let mut cases = Vec::new();
        for producers in Self::PRODUCERS {
            for layout in Layout::ALL {
                for waiting in [true, false] {
                    if waiting || layout != Layout::Puts {
                        cases.push(Self { layout, producers, waiting });
                    }
                }
            }
        }
        cases
    }

    /// Durable entries a second.
    pub(crate) async fn run(&self, store: &Opened, entries: &Entries, slice: Duration) -> f64 {
        match self.layout {
            Layout::Puts => self.puts(store, entries, slice).await,
            Layout::Grouped => self.grouped(store, entries, slice).await,
            Layout::Batches => self.batches(store, entries, slice).await,
        }
    }

    async fn puts(&self, store: &Opened, entries: &Entries, slice: Duration) -> f64 {
        let storage = store.place().await;
        let (next, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let stop = Arc::new(AtomicBool::new(false));
        let producers: Vec<_> = (0..self.producers)
            .map(|_| {
                let (storage, entries, stop) = (storage.clone(), entries.clone(), Arc::clone(&stop));
                let (next, done) = (Arc::clone(&next), Arc::clone(&done));
                tokio::spawn(async move {
                    while !stop.load(Ordering::Relaxed) {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        put(&storage, &entries, index).await;
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        tokio::time::sleep(WARM_UP).await;
        let (start, before) = (Instant::now(), done.load(Ordering::Relaxed));
        tokio::time::sleep(slice).await;
        let (took, after) = (start.elapsed(), done.load(Ordering::Relaxed));
        stop.store(true, Ordering::Relaxed);
        for producer in producers {
            producer.await.expect("a producer");
        }
        Log::remove(&storage).await;
        (after - before) as f64 / took.as_secs_f64()
    }

    async fn grouped(&self, store: &Opened, entries: &Entries, slice: Duration) -> f64 {
        let storage = store.place().await;
        let writer = grouped_writer(&storage).await;
        let stop = Arc::new(AtomicBool::new(false));
        let producers: Vec<_> = (0..self.producers)
            .map(|_| {
                let (writer, entries, stop, waiting) =
                    (writer.clone(), entries.clone(), Arc::clone(&stop), self.waiting);
                tokio::spawn(async move {
                    let mut index = 0;
                    while !stop.load(Ordering::Relaxed) {
                        commit_grouped(&writer, &entries, index, waiting).await;
                        index += 1;
                    }
                })
            })
            .collect();
        let rate = rate(writer.status(), |status| status.durable, slice).await;
        stop.store(true, Ordering::Relaxed);
        for producer in producers {
            producer.await.expect("a producer");
        }
        assert_eq!(writer.drain(Duration::from_secs(30)).await, 0, "drained");
        writer.stop().await;
        Log::remove(&storage).await;
        rate
    }

    async fn batches(&self, store: &Opened, entries: &Entries, slice: Duration) -> f64 {
        let Log { claimed, storage } = store.log().await;
        let writer = OrderedWriter::start(claimed, WriterConfig::default(), env()).map_err(|(_, why)| why);
        let writer = writer.expect("the writer starts");
        let stop = Arc::new(AtomicBool::new(false));
        let producers: Vec<_> = (0..self.producers)
            .map(|_| {
                let (writer, entries, stop, waiting) =
                    (writer.clone(), entries.clone(), Arc::clone(&stop), self.waiting);
                tokio::spawn(async move {
                    let mut index = 0;
                    while !stop.load(Ordering::Relaxed) {
                        let ticket =
                            writer.ready().await.expect("a slot").commit(entries.get(index)).expect("committed");
                        if waiting {
                            assert_eq!(ticket.await, Outcome::Durable);
                        }
                        index += 1;
                    }
                })
            })
            .collect();
        let rate = rate(writer.status(), |status| status.durable.last_seq, slice).await;
        stop.store(true, Ordering::Relaxed);
        for producer in producers {
            producer.await.expect("a producer");
        }
        drain(&writer).await;
        writer.stop().await;
        Log::remove(&storage).await;
        rate
    }
}

/// One entry as one put.
pub(crate) async fn put(storage: &BatchStorage, entries: &Entries, index: usize) {
    let key = storage.keys().legacy_entry(Seq::new(index as u64 + 1));
    storage.kv().put(&key, entries.value(index)).await.expect("the store works");
}

/// A writer of the per-entry layout, whose entries are the original's: without counts by key.
pub(crate) async fn grouped_writer(storage: &BatchStorage) -> LegacyWriter {
    let config = LegacyWriterConfig { key_sequence_ids: false, ..LegacyWriterConfig::default() };
    let started = LegacyWriter::start(storage, LegacyReplica::empty(Nothing), config, env()).await;
    started.map_err(|failed| failed.error).expect("the writer starts").1
}

/// Commits one entry, as soon as there is room.
pub(crate) async fn commit_grouped(writer: &LegacyWriter, entries: &Entries, index: usize, waiting: bool) {
    let mut status = writer.status();
    let ticket = loop {
        match writer.commit(entries.get(index)) {
            Ok(ticket) => break ticket,
            Err(LegacyCommitError::QueueFull) => status.changed().await.expect("the writer works"),
            Err(e) => panic!("{e}"),
        }
    };
    if waiting {
        assert_eq!(ticket.await, Outcome::Durable);
    }
}

pub(crate) fn env() -> WriterEnv {
    WriterEnv { clock: Arc::new(SystemClock::new()), entropy: Arc::new(SystemEntropy) }
}

pub(crate) async fn drain(writer: &OrderedWriter) {
    // A deadline of the monotonic clock that is never reached.
    let never = ha_types::MonoTime::from_origin(Duration::from_secs(1 << 30));
    writer.drain(never).await.expect("drained");
}

/// Durable entries a second from one completion to another, after the first ones.
async fn rate<S>(mut status: watch::Receiver<S>, durable: impl Fn(&S) -> Seq, slice: Duration) -> f64 {
    tokio::time::sleep(WARM_UP).await;
    let begin = durable(&status.borrow_and_update());
    let first = completion(&mut status, &durable, begin).await;
    let start = Instant::now();
    tokio::time::sleep(slice).await;
    let seen = durable(&status.borrow_and_update());
    let last = completion(&mut status, &durable, seen).await;
    last.distance_from(first) as f64 / start.elapsed().as_secs_f64()
}

/// Waits until more than `seen` is durable.
async fn completion<S>(status: &mut watch::Receiver<S>, durable: impl Fn(&S) -> Seq, seen: Seq) -> Seq {
    let now = status.wait_for(|status| durable(status) > seen).await.expect("the writer works");
    durable(&now)
}
