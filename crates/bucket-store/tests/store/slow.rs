//! Owns the tests of a disk that is slow: what is slow is no failure, and GC pays for the time that it takes.

use std::sync::Arc;
use std::time::Duration;

use bucket_store::gc::GcStep;
use bucket_store::vfs::sim::{Fault, OpKind, SimDisk};
use bucket_store::{Config, Store};
use ha_types::{Clock as _, ManualClock};

use crate::kit::{config, delete, inc, key, marker, read, value, write_all, write_one};

/// A little less than a chunk, so that a step of the copy is one object.
const BYTES: usize = 60_000;

fn on_a_slow_disk(disk: &SimDisk, clock: &Arc<ManualClock>, config: Config) -> Store {
    disk.tell_time(Arc::clone(clock));
    let builder = Store::builder(marker("ssd-1", "c1"), Arc::clone(clock) as _).config(config);
    builder.open(Arc::new(disk.mount().unwrap())).unwrap()
}

/// Buckets of two objects each, of which the first is deleted.
fn half_dead(store: &Store, buckets: u64) {
    for bucket in 0..buckets {
        let names = [format!("dead{bucket}"), format!("live{bucket}")];
        let (keys, bytes) = (names.clone().map(|name| key(&name)), [0, 1].map(|n| value(2 * bucket + n, BYTES)));
        let object = |n: usize| bucket_store::WriteObject {
            key: &keys[n],
            incarnation: inc(2 * bucket + n as u64 + 1),
            value: &bytes[n],
            placement: None,
        };
        store.write(&[object(0), object(1)]).unwrap();
        assert!(delete(store, &names[0], 2 * bucket + 1).is_terminal());
    }
}

#[test]
fn the_slower_the_disk_is_the_longer_gc_leaves_it_to_others() {
    for (share, slow_ms) in [(0.25, 4), (0.25, 400), (0.5, 40)] {
        let (disk, clock) = (SimDisk::new(), Arc::new(ManualClock::new()));
        let settings = Config {
            gc_copy_share: share,
            normal_dead_ratio: Some(0.3),
            bucket_size_bytes: 1 << 20,
            copy_buffer_bytes: 4096,
            read_only_after_failures: 1,
            ..config()
        };
        let store = on_a_slow_disk(&disk, &clock, settings);
        half_dead(&store, 4);
        let slow = Fault::Slow(Duration::from_millis(slow_ms));
        disk.inject(usize::MAX, slow, |op| {
            matches!(op.kind, OpKind::Read | OpKind::Write | OpKind::SyncData) && op.name.ends_with(".bucket")
        });
        let (mut copied, mut waited) = (Duration::ZERO, Duration::ZERO);
        for steps in 0.. {
            assert!(steps < 1_000, "GC does not come to an end");
            let (before, slow_before) = (clock.now(), disk.slowness());
            match store.gc_step() {
                GcStep::Again => {
                    let took = clock.now().saturating_since(before);
                    assert_eq!(took, disk.slowness() - slow_before, "time passes only while the disk works");
                    copied += took;
                }
                GcStep::Wait(pause) => {
                    clock.advance(pause);
                    waited += pause;
                }
                GcStep::Idle(_) => break,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(store.figures().buckets, 1, "it merged them");
        assert!(copied >= Duration::from_millis(8 * slow_ms), "the copy took {copied:?}");
        assert_eq!(waited, copied.mul_f64((1.0 - share) / share), "at a share of {share}");
        for bucket in 0..4 {
            assert_eq!(read(&store, &format!("live{bucket}")).unwrap(), value(2 * bucket + 1, BYTES));
        }
    }
}

#[test]
fn what_is_slow_has_not_failed() {
    let (disk, clock) = (SimDisk::new(), Arc::new(ManualClock::new()));
    let settings = Config { read_only_after_failures: 1, normal_dead_ratio: Some(0.1), ..config() };
    let store = on_a_slow_disk(&disk, &clock, settings);
    disk.inject(usize::MAX, Fault::Slow(Duration::from_secs(3600)), |_| true);
    write_all(&store, &[("a", 1), ("b", 2)]).unwrap();
    write_one(&store, "c", 3, &value(3, BYTES)).unwrap();
    assert!(delete(&store, "a", 1).is_terminal());
    assert_eq!(read(&store, "c").unwrap(), value(3, BYTES));
    while store.gc_step() == GcStep::Again {}
    assert!(disk.slowness() > Duration::from_secs(10 * 3600), "{:?}", disk.slowness());
    let figures = store.figures();
    assert_eq!((figures.read_only, figures.suspect_buckets, figures.quarantined_buckets), (false, 0, 0));
    assert!(store.read_only().is_none());
}
