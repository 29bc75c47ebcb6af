//! Owns the case *foreground beside GC*: the 99th percentile of reads, small writes and offloads in windows with GC and without, in
//! turn, at the default budget; and how much of the unthrottled rate that budget reclaims.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bucket_store::gc::GcStep;
use bucket_store::{Config, DeleteRequest, ReadRequest, Store, WriteObject};

use crate::gc::{delete_every_second, run_to_the_end};
use crate::kit::{Args, KIB, Objects, Random, fill, incarnation, median, open, sleep, timed};
use crate::report::{Aim, Report, Row};

const VALUE_BYTES: usize = 64 * KIB;
const WINDOW: Duration = Duration::from_secs(2);
/// What one thread does, how often, and with how many objects a call: often enough that a window has a percentile of its own.
const KINDS: [(&str, Duration, usize); 3] = [
    ("read", Duration::from_millis(2), 1),
    ("write", Duration::from_millis(20), 2),
    ("offload", Duration::from_millis(20), 13),
];
/// The fewest calls of a window that have a percentile. With a disk that takes longer than a period for a call there are fewer than planned.
const FEWEST_CALLS: usize = 20;

/// Milliseconds of each call, by window.
type Latencies = Vec<Vec<f64>>;

/// What the threads share.
struct Shared<'a> {
    store: &'a Store,
    objects: &'a Objects,
    /// The window that runs, counted from 1; 0: none, and nothing is noted.
    window: AtomicUsize,
    done: AtomicBool,
}

pub(crate) fn run(args: &Args, report: &mut Report) {
    let objects = Objects::new(args.data_bytes() / VALUE_BYTES, VALUE_BYTES);
    let unthrottled = unthrottled_bytes_per_s(args);
    let folder = tempfile::tempdir_in(&args.directory).expect("a directory");
    let store = open(folder.path(), Config { normal_dead_ratio: Some(0.4), ..Config::default() });
    fill(&store, &objects, 500);
    delete_every_second(&store, &objects);
    let pairs = if args.quick { 7 } else { 15 };
    let shared = Shared { store: &store, objects: &objects, window: AtomicUsize::new(0), done: AtomicBool::new(false) };
    let (latencies, freed, busy) = std::thread::scope(|scope| {
        let kinds: Vec<_> = (0..KINDS.len())
            .map(|kind| {
                let shared = &shared;
                scope.spawn(move || foreground(shared, kind, 2 * pairs))
            })
            .collect();
        let (mut freed, mut busy, mut more) = (0, Duration::ZERO, More(objects.len() * (KINDS.len() + 2)));
        // The first calls of a thread are not like the others.
        sleep(WINDOW / 2);
        for pair in 0..pairs {
            more.until_there_is_enough(&store, &objects, unthrottled * WINDOW.as_secs_f64());
            for turn in 0..2 {
                shared.window.store(1 + 2 * pair + turn, Relaxed);
                if has_gc(2 * pair + turn) {
                    let dead = store.figures().dead_bytes;
                    busy += timed(|| gc_window(&store));
                    freed += dead.saturating_sub(store.figures().dead_bytes);
                } else {
                    sleep(WINDOW);
                }
            }
            shared.window.store(0, Relaxed);
        }
        shared.done.store(true, Relaxed);
        let latencies: Vec<Latencies> = kinds.into_iter().map(|kind| kind.join().expect("a thread")).collect();
        (latencies, freed, busy)
    });
    for ((name, ..), latencies) in KINDS.iter().zip(latencies) {
        report.add(&Row {
            case: format!("foreground {name} beside gc, p99"),
            p99_ratio: Some(median(ratios(latencies))),
            aims: &[Aim::AtMost("p99_ratio", 1.2)],
            ..Row::default()
        });
    }
    let rate = freed as f64 / busy.as_secs_f64();
    report.add(&Row {
        case: "gc at the default budget, against unthrottled".into(),
        ratio: Some(rate / unthrottled),
        mb_per_s: Some(rate / 1e6),
        aims: &[Aim::AtLeast("ratio", 0.2)],
        ..Row::default()
    });
}

/// Of each pair of windows one has GC, the second and the first in turn, so that whatever drifts favours neither.
fn has_gc(window: usize) -> bool {
    (window / 2).is_multiple_of(2) == (window % 2 == 1)
}

/// For each pair of windows, the percentile with GC over the one without.
fn ratios(latencies: Latencies) -> Vec<f64> {
    let percentiles: Vec<_> = latencies.into_iter().map(p99).collect();
    let ratio = |(pair, both): (usize, &[f64])| {
        let (first, second) = (both[0], both[1]);
        if has_gc(2 * pair) { first / second } else { second / first }
    };
    percentiles.chunks_exact(2).enumerate().map(ratio).collect()
}

/// Dead bytes that GC takes in a second when it may do nothing else, and nobody else does anything.
fn unthrottled_bytes_per_s(args: &Args) -> f64 {
    let objects = Objects::new(args.data_bytes() / 2 / VALUE_BYTES, VALUE_BYTES);
    let rounds = (0..5).map(|_| {
        let folder = tempfile::tempdir_in(&args.directory).expect("a directory");
        let config = Config { normal_dead_ratio: Some(0.4), gc_copy_share: 1.0, ..Config::default() };
        let store = open(folder.path(), config);
        fill(&store, &objects, 500);
        delete_every_second(&store, &objects);
        let dead = store.figures().dead_bytes;
        let seconds = timed(|| run_to_the_end(&store)).as_secs_f64();
        (dead - store.figures().dead_bytes) as f64 / seconds
    });
    median(rounds.collect())
}

/// The number of the next object beyond those that the foreground writes.
struct More(usize);

impl More {
    /// Writes buckets and deletes half of each, until GC cannot run out of work within one window.
    fn until_there_is_enough(&mut self, store: &Store, objects: &Objects, dead_bytes: f64) {
        while (store.figures().dead_bytes as f64) < dead_bytes {
            let (keys, first) = (keys_of("more", self.0, 500), self.0);
            write(store, objects, first, &keys);
            let dead: Vec<_> = (first..)
                .zip(&keys)
                .step_by(2)
                .map(|(n, key)| DeleteRequest { key, incarnation: incarnation(n) })
                .collect();
            let outcomes = store.delete(&dead).unwrap_or_else(|e| panic!("{e}"));
            assert!(outcomes.iter().all(|outcome| outcome.is_terminal()), "every delete is done");
            self.0 += keys.len();
        }
    }
}

fn keys_of(name: &str, first: usize, count: usize) -> Vec<Vec<u8>> {
    (first..first + count).map(|n| format!("default\0{name}/{n}").into_bytes()).collect()
}

fn write(store: &Store, objects: &Objects, first: usize, keys: &[Vec<u8>]) {
    let object = |(n, key)| WriteObject { key, incarnation: incarnation(n), value: objects.value(n), placement: None };
    let batch: Vec<_> = (first..).zip(keys.iter().map(Vec::as_slice)).map(object).collect();
    store.write(&batch).unwrap_or_else(|e| panic!("{e}"));
}

#[allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn gc_window(store: &Store) {
    let until = Instant::now() + WINDOW;
    while Instant::now() < until {
        match store.gc_step() {
            GcStep::Again => {}
            GcStep::Wait(time) => sleep(time.min(WINDOW)),
            other => panic!("GC ran out of work ({other:?})"),
        }
    }
}

fn foreground(shared: &Shared<'_>, kind: usize, windows: usize) -> Latencies {
    let Shared { store, objects, window, done } = shared;
    let (_, period, count) = KINDS[kind];
    let mut random = Random::new(kind as u64 + 1);
    let (mut latencies, mut buf) = (vec![Vec::new(); windows], vec![0; VALUE_BYTES]);
    let mut written = objects.len() * (kind + 1);
    while !done.load(Relaxed) {
        let begun_in = window.load(Relaxed);
        let took = if kind == 0 {
            // Odd ones are alive.
            let n = random.below(objects.len() / 2) * 2 + 1;
            timed(|| {
                store.read_into(&ReadRequest::whole(objects.key(n)), &mut buf).unwrap_or_else(|e| panic!("{e}"));
            })
        } else {
            let keys = keys_of(&format!("new/{kind}"), written, count);
            let took = timed(|| write(store, objects, written, &keys));
            written += count;
            took
        };
        if begun_in > 0 && begun_in == window.load(Relaxed) {
            latencies[begun_in - 1].push(took.as_secs_f64() * 1e3);
        }
        sleep(period.saturating_sub(took));
    }
    latencies
}

/// The nearest rank.
fn p99(mut values: Vec<f64>) -> f64 {
    assert!(values.len() >= FEWEST_CALLS, "too few calls for a percentile: {}", values.len());
    values.sort_by(f64::total_cmp);
    values[(values.len() * 99).div_ceil(100) - 1]
}
