//! Owns the writer's part: the same entries through the ordered writer with and without compression, on a real store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ha_types::{Clock, SystemClock, SystemEntropy};
use oplog_core::record::{BatchCompression, BatchRecord};
use oplog_core::test_kit::metadata::{Metadata, MetadataEntry, Payloads};
use oplog_core::{BatchId, NewEntry, OrderedWriter, Outcome, WriterConfig, WriterEnv};

use crate::cpu;
use crate::rounds::median;
use crate::store::{Log, Opened};

/// As many entries in every run, so that inputs are equal.
const ENTRIES: usize = 40_000;
/// Callers that each wait for their own entry, in the other case: so many entries in all.
const CALLERS: usize = 64;
const WAITED: usize = 6_400;

#[derive(Clone, Copy, Debug)]
struct Figures {
    entries_per_s: f64,
    cpu_s_per_million: f64,
    stored_bytes_per_entry: f64,
    /// From a batch's seal, which compresses it, to its durability.
    writing_us: f64,
    latency_us: f64,
}

/// Interleaved rounds of both, printed.
pub(crate) async fn run(store: &Opened, rounds: usize, json: bool) {
    let entries: Arc<Vec<_>> = Arc::new(Metadata::new(Payloads::Plimsoll, 1).skip(100).take(ENTRIES).collect());
    let modes = [BatchCompression::Off, BatchCompression::Zstd];
    for waiting in [false, true] {
        let mut all: [Vec<Figures>; 2] = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            for (mode, figures) in modes.iter().zip(&mut all) {
                figures.push(one(store, &entries, *mode, waiting).await);
            }
        }
        let of = |figures: &[Figures], field: fn(&Figures) -> f64| median(figures.iter().map(field).collect());
        for (mode, figures) in modes.iter().zip(&all) {
            let (rate, cpu) = (of(figures, |f| f.entries_per_s), of(figures, |f| f.cpu_s_per_million));
            let (bytes, writing) = (of(figures, |f| f.stored_bytes_per_entry), of(figures, |f| f.writing_us));
            let (latency, backend) = (of(figures, |f| f.latency_us), store.store.backend());
            if json {
                println!(
                    "{{\"suite\":\"compression\",\"backend\":\"{backend}\",\"compression\":\"{mode}\",\"waiting\":{waiting},\
                     \"entries_per_s\":{rate:.0},\"cpu_s_per_million\":{cpu:.3},\"stored_bytes_per_entry\":{bytes:.1},\
                     \"seal_to_durable_us\":{writing:.0},\"latency_us\":{latency:.0}}}"
                );
            } else {
                let who = if waiting { "64 waiting callers" } else { "one producer" };
                println!(
                    "{backend:>6}, {who:>18}, {mode:>4}: {rate:>8.0} entries/s, {cpu:.2} CPU s a million, {bytes:>5.1} bytes stored an entry, \
                     seal to durable {writing:>5.0} us, latency {latency:>5.0} us"
                );
            }
        }
    }
}

async fn one(store: &Opened, entries: &Arc<Vec<MetadataEntry>>, mode: BatchCompression, waiting: bool) -> Figures {
    let Log { claimed, storage } = store.log().await;
    let config = WriterConfig { oplog_batch_compression: mode, ..WriterConfig::default() };
    let clock = Arc::new(SystemClock::new());
    let env = WriterEnv { clock: clock.clone(), entropy: Arc::new(SystemEntropy) };
    let writer = OrderedWriter::start(claimed, config, env).map_err(|(_, why)| why).expect("the writer starts");
    let (start, cpu_start) = (Instant::now(), cpu::now());
    let mut latencies = if waiting {
        let callers = (0..CALLERS).map(|caller| tokio::spawn(call(writer.clone(), Arc::clone(entries), caller)));
        let mut latencies = Vec::new();
        for caller in callers.collect::<Vec<_>>() {
            latencies.extend(caller.await.expect("a caller"));
        }
        latencies
    } else {
        for entry in entries.iter() {
            drop(writer.ready().await.expect("a slot").commit(entry.as_new()).expect("committed"));
        }
        Vec::new()
    };
    writer.drain(clock.now().saturating_add(Duration::from_secs(60))).await.expect("drained");
    let (took, cpu) = (start.elapsed().as_secs_f64(), (cpu::now() - cpu_start).as_secs_f64());
    let metrics = writer.metrics();
    writer.stop().await;
    let count = if waiting { WAITED } else { ENTRIES };
    assert_eq!((metrics.durable, metrics.retries), (count as u64, 0));
    let batches = check(&storage, entries, metrics.batches, mode, waiting).await;
    assert_eq!(batches, count, "all entries are in the log");
    Log::remove(&storage).await;
    latencies.sort_by(f64::total_cmp);
    Figures {
        entries_per_s: count as f64 / took,
        cpu_s_per_million: cpu * 1e6 / count as f64,
        stored_bytes_per_entry: metrics.bytes as f64 / count as f64,
        writing_us: metrics.writing.total_us as f64 / metrics.writing.count.max(1) as f64,
        latency_us: latencies.get(latencies.len() / 2).copied().unwrap_or(0.0),
    }
}

/// Commits its share one after the other, and gives the microseconds of each.
async fn call(writer: OrderedWriter, entries: Arc<Vec<MetadataEntry>>, caller: usize) -> Vec<f64> {
    let mut latencies = Vec::new();
    for entry in entries.iter().take(WAITED).skip(caller).step_by(CALLERS) {
        let start = Instant::now();
        let ticket = writer.ready().await.expect("a slot").commit(entry.as_new()).expect("committed");
        assert_eq!(ticket.await, Outcome::Durable);
        latencies.push(start.elapsed().as_secs_f64() * 1e6);
    }
    latencies
}

/// How many entries the log has. Without callers they must be those that went in, in order; full batches must be compressed as asked.
async fn check(
    storage: &oplog_core::BatchStorage,
    entries: &[MetadataEntry],
    batches: u64,
    mode: BatchCompression,
    waiting: bool,
) -> usize {
    let mut next = entries.iter();
    let mut count = 0;
    for id in 1..=batches {
        let record = storage.read_batch(BatchId::new(id)).await.expect("read").expect("the batch is there");
        let record = BatchRecord::decode(record).expect("it decodes");
        let long = record.raw_bytes() > WriterConfig::default().oplog_batch_compress_min_bytes + 64;
        assert!(!long || record.compression() == mode, "batch {id} of {} bytes", record.raw_bytes());
        count += record.count();
        if !waiting {
            let same =
                record.entries().map(NewEntry::from).all(|found| next.next().map(MetadataEntry::as_new) == Some(found));
            assert!(same, "equal inputs");
        }
    }
    count
}
