//! Owns one case of the writer: so many producers, waiting for their own entries or not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ha_types::{Clock, SystemClock, SystemEntropy};
use oplog_core::record::BatchRef;
use oplog_core::{BatchId, BatchStorage, OrderedWriter, Outcome, WriterConfig, WriterEnv};

use crate::bare::{Bare, full_record};
use crate::cpu;
use crate::entries::Entries;
use crate::report::Row;
use crate::store::{Log, Opened, Store};

/// One in so many calls is timed.
const SAMPLE: usize = 32;

/// One case.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) producers: usize,
    pub(crate) waiting: bool,
    pub(crate) max_entries: usize,
    pub(crate) seal_delay: Duration,
}

impl Case {
    /// The cases of one store: the six of every store, and beside them the larger admission limit and the seal delay.
    pub(crate) fn on(store: &Opened) -> Vec<Self> {
        let case = |producers, waiting| Self { producers, waiting, max_entries: 1024, seal_delay: Duration::ZERO };
        let mut cases = Vec::new();
        for waiting in [false, true] {
            cases.extend([1, 8, 32].map(|producers| case(producers, waiting)));
        }
        if matches!(store.store, Store::Memory { delay_ms: 1 }) {
            cases.push(Self { max_entries: 4096, ..case(8, false) });
            let seal_delay = Duration::from_micros(200);
            cases.extend([1, 8, 32].map(|producers| Self { seal_delay, ..case(producers, true) }));
        }
        cases
    }

    pub(crate) async fn run(&self, store: &Opened, slice: Duration, bare: Bare) -> Row {
        let Log { claimed, storage } = store.log().await;
        let clock = Arc::new(SystemClock::new());
        let config = WriterConfig {
            oplog_batch_max_entries: self.max_entries,
            oplog_max_seal_delay: self.seal_delay,
            ..WriterConfig::default()
        };
        let env = WriterEnv { clock: clock.clone(), entropy: Arc::new(SystemEntropy) };
        let writer = OrderedWriter::start(claimed, config, env).map_err(|(_, why)| why).expect("the writer starts");
        let (entries, stop) = (Arc::new(Entries::new()), Arc::new(AtomicBool::new(false)));
        let mut status = writer.status();
        let producers: Vec<_> = (0..self.producers)
            .map(|_| tokio::spawn(produce(writer.clone(), entries.clone(), stop.clone(), self.waiting)))
            .collect();
        // From one completion to another: neither the first, nearly empty batch nor a half-done one is measured.
        for _ in 0..3 {
            status.changed().await.expect("the writer works");
        }
        let (start, cpu_start) = (Instant::now(), cpu::now());
        let (first, before) = (status.borrow_and_update().durable.last_seq, writer.metrics().batches);
        tokio::time::sleep(slice).await;
        status.borrow_and_update();
        status.changed().await.expect("the writer works");
        let (took, cpu) = (start.elapsed().as_secs_f64(), (cpu::now() - cpu_start).as_secs_f64());
        let durable = status.borrow().durable.last_seq.distance_from(first) as f64;
        let batches = (writer.metrics().batches - before) as f64;
        stop.store(true, Ordering::Relaxed);
        let mut samples = Vec::new();
        for producer in producers {
            samples.extend(producer.await.expect("a producer"));
        }
        let deadline = clock.now().saturating_add(Duration::from_secs(30));
        writer.drain(deadline).await.expect("drained");
        let metrics = writer.metrics();
        assert_eq!((metrics.durable, metrics.retries), (metrics.committed, 0));
        writer.stop().await;
        self.check(&storage, metrics.batches).await;
        Log::remove(&storage).await;
        samples.sort_unstable();
        let entries_per_s = durable / took;
        let against = if self.waiting { self.producers as f64 / bare.seconds_per_txn } else { bare.entries_per_s };
        Row {
            entries_per_s,
            ratio_to_bare: entries_per_s / against,
            commit_ns: samples.get(samples.len() / 2).copied().unwrap_or(0) as f64,
            cpu_s_per_million: cpu * 1e6 / durable,
            mean_batch: durable / batches,
        }
    }

    /// A full record of the writer has the bytes of the baseline's, but for the numbers in its header.
    async fn check(&self, storage: &BatchStorage, batches: u64) {
        let prebuilt = full_record(self.max_entries);
        for id in [batches / 3, batches / 2, batches] {
            let Some(record) = storage.read_batch(BatchId::new(id.max(1))).await.expect("read") else {
                panic!("batch {id} of {batches} is not in the store")
            };
            let batch = BatchRef::decode(&record).expect("it decodes");
            let per_entry = 165 * batch.count();
            assert!(record.len().abs_diff(per_entry) < 64, "{} bytes for {} entries", record.len(), batch.count());
            if batch.count() == self.max_entries {
                assert!(record.len().abs_diff(prebuilt.len()) <= 16, "{} against {}", record.len(), prebuilt.len());
            }
        }
    }
}

/// Commits until told to stop; every so many calls the nanoseconds of one reservation and commit, waits for admission apart.
async fn produce(writer: OrderedWriter, entries: Arc<Entries>, stop: Arc<AtomicBool>, waiting: bool) -> Vec<u64> {
    let mut samples = Vec::new();
    let mut index = 0;
    while !stop.load(Ordering::Relaxed) {
        let timed = index % SAMPLE == 0;
        let start = timed.then(Instant::now);
        let slot = writer.ready().await.expect("a slot");
        let ticket = slot.commit(entries.get(index)).expect("committed");
        if let Some(start) = start {
            samples.push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
        if waiting {
            assert_eq!(ticket.await, Outcome::Durable);
        } else {
            drop(ticket);
        }
        index += 1;
    }
    samples
}
