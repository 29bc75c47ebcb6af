//! Owns an example: a store that tells what happens to it, while it is filled past its watermark, emptied and collected.
//! Run it with `cargo run -p bucket-store --example observed`.

use std::sync::Arc;

use bucket_store::format::marker::Marker;
use bucket_store::gc::GcStep;
use bucket_store::vfs::{Access, DiskDir};
use bucket_store::{Config, DeleteRequest, Event, Figures, Observer, Store, WriteObject};
use ha_types::{ClusterId, ObjectIncarnation, SegmentId, SystemClock};

/// Prints what it hears. In a real program: a log line and a counter.
#[derive(Debug)]
struct Printer;

impl Observer for Printer {
    fn event(&self, event: &Event) {
        println!("  event: {event:?}");
    }
}

fn main() -> anyhow::Result<()> {
    let path = tempfile::tempdir()?;
    let dir = Arc::new(DiskDir::open(path.path(), Access::Store)?);
    let identity = Marker { segment: SegmentId::new("ssd-1")?, cluster: ClusterId::new("demo")? };
    let config = Config {
        capacity_bytes: 16 << 20,
        bucket_size_bytes: 1 << 20,
        bucket_keys: 16,
        gc_copy_share: 1.0,
        ..Config::default()
    };
    let clock = Arc::new(SystemClock::new());
    let store = Store::builder(identity, clock).config(config).observer(Arc::new(Printer)).open(dir)?;

    println!("filling");
    let value = vec![42; 64 << 10];
    let objects: Vec<_> = (1..=240_u64)
        .map(|n| {
            let incarnation = ObjectIncarnation::without_log(1, n).expect("counters begin at 1");
            (format!("demo\0object-{n}").into_bytes(), incarnation)
        })
        .collect();
    for batch in objects.chunks(16) {
        let batch: Vec<_> = batch
            .iter()
            .map(|(key, incarnation)| WriteObject { key, incarnation: *incarnation, value: &value, placement: None })
            .collect();
        store.write(&batch)?;
    }
    show(&store.figures());

    println!("deleting two of three");
    let doomed = objects.iter().enumerate().filter(|(n, _)| n % 3 != 0);
    let requests: Vec<_> =
        doomed.map(|(_, (key, incarnation))| DeleteRequest { key, incarnation: *incarnation }).collect();
    let acknowledged = store.delete(&requests)?.iter().filter(|outcome| outcome.is_terminal()).count();
    println!("{acknowledged} are deleted for ever");
    show(&store.figures());

    println!("collecting");
    loop {
        match store.gc_step() {
            GcStep::Again => {}
            // A real program sleeps for so long, or drives `AsyncStore::drive_gc`.
            GcStep::Wait(_) => std::thread::yield_now(),
            GcStep::Idle(why) => {
                println!("nothing left to do: {why:?}");
                break;
            }
            other => anyhow::bail!("{other:?}"),
        }
    }
    show(&store.figures());
    Ok(())
}

fn show(figures: &Figures) {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!(
        "{} objects in {} buckets: {:.1} MiB live, {:.1} MiB dead, {:.1} of {:.1} MiB of blocks used",
        figures.live_objects,
        figures.buckets,
        mib(figures.live_bytes),
        mib(figures.dead_bytes),
        mib(figures.physical_bytes),
        mib(figures.capacity_bytes),
    );
}
