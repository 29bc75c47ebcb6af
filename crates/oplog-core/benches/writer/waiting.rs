//! Owns the measurement of callers that each wait for their own entry: the seal delay off and on, what it costs those who do not
//! wait, and waiters beside a producer of bulk. Every case of a round runs once off and once on; ratios are taken within a round.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ha_types::{Clock, SystemClock, SystemEntropy};
use oplog_core::{OrderedWriter, Outcome, WriterConfig, WriterEnv};

use crate::bare::Bare;
use crate::entries::Entries;
use crate::slow::SlowKv;
use crate::store::{Log, place_in};
use crate::waiting_report as report;

/// The delay that is measured as *on*.
const ON: Duration = Duration::from_micros(200);
/// Transaction times of the stores.
const TIMES: [Duration; 3] = [Duration::from_micros(200), Duration::from_millis(1), Duration::from_millis(5)];

/// Who writes beside the waiting callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beside {
    Nobody,
    /// One producer that never waits, admitted as everybody.
    Producer,
    /// The same, admitted as bulk.
    Bulk,
}

/// One case, measured with the delay off and on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) time: Duration,
    pub(crate) waiting: usize,
    /// Producers that never wait, where these are what is measured.
    pub(crate) producers: usize,
    pub(crate) beside: Beside,
}

/// What one run of a case gave.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    /// Of the waiting callers, or of the producers if there are none.
    pub(crate) entries_per_s: f64,
    /// Entries of the producer beside them.
    pub(crate) beside_per_s: f64,
    /// From the wish for a slot to durable, in transactions of the bare loop with as many entries.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

/// One round of one case.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    pub(crate) off: Figures,
    pub(crate) on: Figures,
    /// Of the bare loop, in seconds.
    pub(crate) transaction: f64,
}

/// A run's count of entries and its latencies.
#[derive(Debug, Default)]
struct Told {
    entries: u64,
    latencies: Vec<Duration>,
}

impl Case {
    fn all() -> Vec<Self> {
        let none = Self { time: TIMES[1], waiting: 0, producers: 0, beside: Beside::Nobody };
        let mut cases = Vec::new();
        for time in TIMES {
            cases.extend([1, 8, 32, 256].map(|waiting| Self { time, waiting, ..none }));
            cases.push(Self { time, producers: 8, ..none });
        }
        cases.extend([Beside::Producer, Beside::Bulk].map(|beside| Self { waiting: 32, beside, ..none }));
        cases
    }

    /// Entries in a transaction of the bare loop: the callers of one cohort, and a full batch where producers saturate.
    fn batch(&self) -> usize {
        if self.producers > 0 || self.beside != Beside::Nobody { 1024 } else { self.waiting }
    }

    async fn run(&self, delay: Duration, slice: Duration, transaction: f64) -> Figures {
        let Log { claimed, .. } = fresh(self.time).await;
        let config = WriterConfig { oplog_max_seal_delay: delay, ..WriterConfig::default() };
        let clock = Arc::new(SystemClock::new());
        let env = WriterEnv { clock: clock.clone(), entropy: Arc::new(SystemEntropy) };
        let writer = OrderedWriter::start(claimed, config, env).map_err(|(_, why)| why).expect("the writer starts");
        let (entries, stop) = (Arc::new(Entries::new()), Arc::new(AtomicBool::new(false)));
        let run = Run { writer: writer.clone(), entries, stop: stop.clone(), from: Instant::now() + slice / 4 };
        let waiting: Vec<_> = (0..self.waiting).map(|at| tokio::spawn(run.clone().wait(at))).collect();
        let bulk = self.beside == Beside::Bulk;
        let producing = self.producers + usize::from(self.beside != Beside::Nobody);
        let producing: Vec<_> = (0..producing).map(|_| tokio::spawn(run.clone().produce(bulk))).collect();
        tokio::time::sleep(slice / 4).await;
        let (start, before) = (Instant::now(), writer.metrics().durable);
        tokio::time::sleep(slice).await;
        let (took, durable) = (start.elapsed().as_secs_f64(), writer.metrics().durable - before);
        stop.store(true, Ordering::Relaxed);
        let mut told = Told::default();
        for caller in waiting {
            let of_one = caller.await.expect("a caller");
            told.entries += of_one.iter().filter(|(end, _)| *end <= start + slice).count() as u64;
            told.latencies.extend(of_one.into_iter().map(|(_, latency)| latency));
        }
        for producer in producing {
            producer.await.expect("a producer");
        }
        writer.drain(clock.now().saturating_add(Duration::from_secs(30))).await.expect("drained");
        writer.stop().await;
        told.latencies.sort_unstable();
        let quantile = |of: f64| {
            let at = (told.latencies.len() as f64 * of) as usize;
            told.latencies.get(at).map_or(0.0, |latency| latency.as_secs_f64() / transaction)
        };
        let waited = if self.waiting == 0 { durable } else { told.entries.min(durable) };
        Figures {
            entries_per_s: waited as f64 / took,
            beside_per_s: (durable - waited) as f64 / took,
            p50: quantile(0.5),
            p99: quantile(0.99),
        }
    }
}

/// What every task of a run needs.
#[derive(Clone)]
struct Run {
    writer: OrderedWriter,
    entries: Arc<Entries>,
    stop: Arc<AtomicBool>,
    /// What began earlier is not counted.
    from: Instant,
}

impl Run {
    /// When each entry was durable, and how long that took.
    async fn wait(self, at: usize) -> Vec<(Instant, Duration)> {
        let (mut told, mut index) = (Vec::new(), at);
        while !self.stop.load(Ordering::Relaxed) {
            let start = Instant::now();
            let slot = self.writer.ready().await.expect("a slot");
            let ticket = slot.commit(self.entries.get(index)).expect("committed");
            assert_eq!(ticket.await, Outcome::Durable);
            let end = Instant::now();
            if start >= self.from {
                told.push((end, end - start));
            }
            index += 1;
        }
        told
    }

    async fn produce(self, bulk: bool) {
        let mut index = 0;
        while !self.stop.load(Ordering::Relaxed) {
            let slot = if bulk { self.writer.ready_bulk().await } else { self.writer.ready().await };
            drop(slot.expect("a slot").commit(self.entries.get(index)).expect("committed"));
            index += 1;
        }
    }
}

/// A log in a store of its own whose transactions take `time`.
async fn fresh(time: Duration) -> Log {
    Log::begin(place_in(SlowKv::new(time), "waiting").await).await
}

/// Runs all cases, interleaved: a round is the bare loop, then each case off and on, in turns which of them first.
pub(crate) async fn measure(quick: bool, json: bool) {
    let cases = Case::all();
    let (rounds, most) = if quick { (5, Duration::from_millis(120)) } else { (7, Duration::from_millis(300)) };
    let mut measured: Vec<Vec<Round>> = vec![Vec::new(); cases.len()];
    for round in 0..rounds {
        for (case, rounds) in cases.iter().zip(&mut measured) {
            let slice = most.max(case.time * 40);
            let bare = Bare::run_on(fresh(case.time).await, case.batch(), slice / 3).await;
            let run = |delay| case.run(delay, slice, bare.seconds_per_txn);
            let (off, on) = if round % 2 == 0 {
                let off = run(Duration::ZERO).await;
                (off, run(ON).await)
            } else {
                let on = run(ON).await;
                (run(Duration::ZERO).await, on)
            };
            rounds.push(Round { off, on, transaction: bare.seconds_per_txn });
        }
    }
    for (case, rounds) in cases.iter().zip(&measured) {
        report::case(case, rounds, json);
    }
    report::aims(&cases, &measured, json);
}
