//! Owns the case *foreground beside GC*: the 99th percentile of reads, small writes and offloads in windows with GC and without, in
//! turn, at the default budget; and how much of the unthrottled rate that budget reclaims.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bucket_store::gc::GcStep;
use bucket_store::{Config, ReadRequest, Store, WriteObject};

use crate::gc::{delete_every_second, run_to_the_end};
use crate::kit::{Args, KIB, Objects, Random, fill, incarnation, median, open, sleep, timed};
use crate::report::{Report, Row};

const VALUE_BYTES: usize = 64 * KIB;
const WINDOW: Duration = Duration::from_secs(2);
/// What one thread does, how often, and with how many objects a call.
const KINDS: [(&str, Duration, usize); 3] = [
    ("read", Duration::from_millis(2), 1),
    ("write", Duration::from_millis(50), 4),
    ("offload", Duration::from_millis(100), 64),
];

/// Milliseconds of each call, by whether GC was on.
#[derive(Default)]
struct Latencies {
    off: Vec<f64>,
    on: Vec<f64>,
}

pub(crate) fn run(args: &Args, report: &mut Report) {
    let objects = Objects::new(args.data_bytes() / VALUE_BYTES, VALUE_BYTES);
    let unthrottled = unthrottled_bytes_per_s(args, &objects);
    let folder = tempfile::tempdir_in(&args.directory).expect("a directory");
    let store = open(folder.path(), Config { normal_dead_ratio: Some(0.4), ..Config::default() });
    fill(&store, &objects, 500);
    delete_every_second(&store, &objects);
    let (gc_on, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let windows = if args.quick { 10 } else { 24 };
    let (latencies, freed, busy) = std::thread::scope(|scope| {
        let kinds: Vec<_> = (0..KINDS.len())
            .map(|kind| {
                let (store, objects, gc_on, done) = (&store, &objects, &gc_on, &done);
                scope.spawn(move || foreground(store, objects, kind, gc_on, done))
            })
            .collect();
        let dead_before = store.figures().dead_bytes;
        let mut busy = Duration::ZERO;
        for window in 0..windows {
            gc_on.store(window % 2 == 1, Relaxed);
            if window % 2 == 1 {
                busy += timed(|| gc_window(&store));
            } else {
                sleep(WINDOW);
            }
        }
        done.store(true, Relaxed);
        let latencies: Vec<Latencies> = kinds.into_iter().map(|kind| kind.join().expect("a thread")).collect();
        (latencies, dead_before.saturating_sub(store.figures().dead_bytes), busy)
    });
    for ((name, ..), latency) in KINDS.iter().zip(latencies) {
        report.add(&Row {
            case: format!("foreground {name} beside gc, p99"),
            p99_ratio: Some(p99(latency.on) / p99(latency.off)),
            aim: "<= 1.2",
            ..Row::default()
        });
    }
    let rate = freed as f64 / busy.as_secs_f64();
    report.add(&Row {
        case: "gc at the default budget, against unthrottled".into(),
        ratio: Some(rate / unthrottled),
        mb_per_s: Some(rate / 1e6),
        aim: ">= 0.2",
        ..Row::default()
    });
}

/// Dead bytes that GC takes in a second when it may do nothing else, and nobody else does anything.
fn unthrottled_bytes_per_s(args: &Args, objects: &Objects) -> f64 {
    let rounds = (0..5).map(|_| {
        let folder = tempfile::tempdir_in(&args.directory).expect("a directory");
        let config = Config { normal_dead_ratio: Some(0.4), gc_copy_share: 1.0, ..Config::default() };
        let store = open(folder.path(), config);
        fill(&store, objects, 500);
        delete_every_second(&store, objects);
        let dead = store.figures().dead_bytes;
        let seconds = timed(|| run_to_the_end(&store)).as_secs_f64();
        (dead - store.figures().dead_bytes) as f64 / seconds
    });
    median(rounds.collect())
}

#[allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn gc_window(store: &Store) {
    let until = Instant::now() + WINDOW;
    while Instant::now() < until {
        match store.gc_step() {
            GcStep::Again => {}
            GcStep::Wait(time) => sleep(time.min(WINDOW)),
            other => panic!("GC ran out of work ({other:?}): the windows are too long for the data"),
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn foreground(store: &Store, objects: &Objects, kind: usize, gc_on: &AtomicBool, done: &AtomicBool) -> Latencies {
    let (_, pause, count) = KINDS[kind];
    let mut random = Random::new(kind as u64 + 1);
    let (mut latencies, mut buf) = (Latencies::default(), vec![0; VALUE_BYTES]);
    let mut written = objects.len() * (kind + 1);
    while !done.load(Relaxed) {
        let on = gc_on.load(Relaxed);
        let took = if kind == 0 {
            // Odd ones are alive.
            let n = random.below(objects.len() / 2) * 2 + 1;
            timed(|| {
                store.read_into(&ReadRequest::whole(objects.key(n)), &mut buf).unwrap_or_else(|e| panic!("{e}"));
            })
        } else {
            let keys: Vec<_> =
                (written..written + count).map(|n| format!("default\0new/{kind}/{n}").into_bytes()).collect();
            let batch: Vec<_> = (written..)
                .zip(&keys)
                .map(|(n, key)| WriteObject {
                    key,
                    incarnation: incarnation(n),
                    value: objects.value(n),
                    placement: None,
                })
                .collect();
            written += count;
            timed(|| drop(store.write(&batch).unwrap_or_else(|e| panic!("{e}"))))
        };
        if on == gc_on.load(Relaxed) {
            let millis = took.as_secs_f64() * 1e3;
            if on { latencies.on.push(millis) } else { latencies.off.push(millis) }
        }
        sleep(pause.saturating_sub(took));
    }
    latencies
}

fn p99(mut values: Vec<f64>) -> f64 {
    assert!(values.len() >= 80, "too few calls for a percentile: {}", values.len());
    values.sort_by(f64::total_cmp);
    values[(values.len() * 99 / 100).min(values.len() - 1)]
}
