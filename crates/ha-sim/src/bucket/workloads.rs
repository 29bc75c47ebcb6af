//! Owns the scripts: what is asked of a store, and in which order. Each is small, so that every crash in it can be looked at.

use bucket_store::format::names::{BucketId, GC_INTENT, NameKind};
use bucket_store::format::test_kit;
use bucket_store::vfs::sim::{EIO, Fault, Op, OpKind, SimDisk};
use bucket_store::{Adoption, DeleteOutcome, Durability};

use super::promise::Object;
use super::situation::Situation;
use super::world::{Setting, World};

/// A script.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    /// How its stores are opened.
    setting: fn() -> Setting,
    /// The disk that it begins with.
    disk: fn() -> SimDisk,
    run: fn(&mut World),
    /// Whether each of its calls is also made to fail; not where it brings its own faults, or is too long.
    pub with_faults: bool,
    /// Whether the process may also die at each moment of it, the power staying on. Not where a sync of the directory fails in it that nothing
    /// repeats: a death right behind that sync, before it is noted, is the one that goes unnoticed (`docs/decisions.md`).
    pub with_deaths: bool,
    /// Whether a recovery of it has too many steps for each to be crashed again.
    pub is_wide: bool,
}

impl Workload {
    /// How its stores are opened.
    #[must_use]
    pub fn setting(&self) -> Setting {
        (self.setting)()
    }

    /// A world before the first step.
    #[must_use]
    pub fn world(&self, change: impl FnOnce(&mut Setting)) -> World {
        let mut setting = self.setting();
        change(&mut setting);
        World::new((self.disk)(), setting)
    }

    /// Runs it.
    pub fn run(&self, world: &mut World) {
        (self.run)(world);
    }

    /// All of them.
    pub const ALL: &[Self] = &[
        Self::plain(
            "write and delete",
            "writes, a delete, a group delete, a version that replaces one, ids used up to now",
            write_and_delete,
        ),
        Self::plain("replace", "three versions of a key, the newest deleted, written again; GC in between", replace),
        Self::plain(
            "merge",
            "GC of two buckets, a delete between copy and commit, one while it copies, one of a moved object",
            merge,
        ),
        Self::wide(
            "merge of eight",
            "GC of eight buckets, a delete in the copy, one before the commit, one after it",
            merge_of_many::<8>,
        ),
        Self::plain("merge of one", "GC of one bucket, and of its target again", merge_of_one),
        Self::plain("dead", "buckets in which all is deleted", dead),
        Self::plain("reopen", "the process ends in the middle of a round, twice", reopen),
        Self {
            setting: relaxed_setting,
            ..Self::plain("relaxed", "writes that are durable later, deletes of such", relaxed)
        },
        Self { setting: small, ..Self::plain("evict", "live buckets go, after a refusal", evict) },
        Self {
            setting: adopting,
            disk: mooncakes,
            ..Self::plain("adoption", "a directory of Mooncake's, its objects deleted, replaced and moved", adoption)
        },
        Self {
            setting: crowded,
            with_faults: false,
            ..Self::plain("full disk", "deletes and GC from the reserve", full_disk)
        },
        Self {
            with_faults: false,
            ..Self::plain("uncertain", "COMMITTED fails to be published, twice; deletes meanwhile", uncertain)
        },
        Self {
            with_faults: false,
            ..Self::plain("rounds", "sources that cannot be unlinked while GC goes on", rounds)
        },
        Self {
            with_faults: false,
            ..Self::plain("rollback", "a copy that fails, and a target that cannot be unlinked", rollback)
        },
        Self {
            with_faults: false,
            with_deaths: false,
            ..Self::plain(
                "another's failure",
                "a sync of another call fails between the end of a copy and its commit",
                anothers_failure,
            )
        },
        Self {
            setting: spoiling,
            with_faults: false,
            ..Self::plain("spoilt", "the target of a round that is over is damaged", spoilt)
        },
        Self {
            with_faults: false,
            ..Self::plain(
                "away",
                "a bucket that cannot be read for a while, with versions that were replaced; meanwhile deletes and GC",
                away,
            )
        },
        Self {
            disk: unsettled,
            with_faults: false,
            ..Self::plain(
                "copy away",
                "a bucket cannot be read for a while; meanwhile an object goes of which it has the newer copy",
                copy_away,
            )
        },
        Self { with_faults: false, ..Self::plain("numbers", "more buckets than one block of ids", numbers) },
        Self::wide("merge of three", "as \"merge of eight\", of three", merge_of_many::<3>),
        Self::wide("merge of four", "as \"merge of eight\", of four", merge_of_many::<4>),
        Self::wide("merge of five", "as \"merge of eight\", of five", merge_of_many::<5>),
        Self::wide("merge of six", "as \"merge of eight\", of six", merge_of_many::<6>),
        Self::wide("merge of seven", "as \"merge of eight\", of seven", merge_of_many::<7>),
    ];

    const fn wide(name: &'static str, about: &'static str, run: fn(&mut World)) -> Self {
        Self { setting: wide, with_faults: false, is_wide: true, ..Self::plain(name, about, run) }
    }

    const fn plain(name: &'static str, about: &'static str, run: fn(&mut World)) -> Self {
        Self {
            name,
            about,
            setting: Setting::default,
            disk: SimDisk::new,
            run,
            with_faults: true,
            with_deaths: true,
            is_wide: false,
        }
    }
}

fn removed(outcomes: &[DeleteOutcome]) -> bool {
    !outcomes.is_empty() && outcomes.iter().all(|outcome| matches!(outcome, DeleteOutcome::Removed))
}

fn write_and_delete(w: &mut World) {
    w.open();
    w.put(&[(1, 1), (2, 1)]);
    w.delete(&[(1, 1)]);
    w.put(&[(3, 1)]);
    w.delete(&[(2, 1), (3, 1), (4, 1)]);
    w.put(&[(1, 2)]);
    w.delete(&[(1, 1)]);
    w.reopen();
    w.put(&[(5, 1)]);
    w.delete(&[(1, 2)]);
}

fn replace(w: &mut World) {
    w.open();
    w.put(&[(1, 1), (2, 1)]);
    w.put(&[(1, 2)]);
    w.put(&[(1, 3), (3, 1)]);
    w.delete(&[(1, 3)]);
    w.gc(20);
    w.put(&[(1, 4)]);
    w.delete(&[(1, 2)]);
    w.gc(20);
    w.reopen();
}

fn on_target_write(op: &Op) -> bool {
    op.kind == OpKind::Write && matches!(NameKind::of(&op.name), NameKind::Data(_))
}

fn merge(w: &mut World) {
    w.open();
    w.put(&[(1, 1), (2, 1), (3, 1)]);
    w.put(&[(4, 1), (5, 1)]);
    w.delete(&[(1, 1), (4, 1)]);
    w.delete_at(on_target_write, &[(2, 1)]);
    // PREPARED, and the copy.
    w.gc(2);
    w.delete(&[(5, 1)]);
    w.gc(20);
    if removed(&w.delete(&[(3, 1)])) {
        w.met(Situation::DeleteFollows);
    }
}

fn wide() -> Setting {
    let mut setting = Setting::default();
    setting.config.bucket_keys = 8;
    setting
}

fn merge_of_many<const SOURCES: u8>(w: &mut World) {
    w.open();
    for key in 1..=SOURCES {
        w.put(&[(key, 1), (100 + key, 1)]);
    }
    let dead: Vec<_> = (1..=SOURCES).map(|key| (key, 1)).collect();
    w.delete(&dead);
    w.forget_moments();
    w.delete_at(on_target_write, &[(101, 1)]);
    // PREPARED, and the first of the copy.
    w.gc(2);
    if removed(&w.delete(&[(100 + SOURCES, 1)])) && SOURCES == 8 {
        w.met(Situation::DeleteInCopyOfEight);
    }
    w.gc(40);
    if removed(&w.delete(&[(102, 1)])) {
        w.met(Situation::DeleteFollows);
    }
}

fn merge_of_one(w: &mut World) {
    w.open();
    w.put(&[(1, 1), (2, 1), (3, 1)]);
    w.delete(&[(1, 1)]);
    w.gc(20);
    w.delete(&[(2, 1)]);
    w.gc(20);
    w.delete(&[(3, 1)]);
    w.gc(20);
}

fn dead(w: &mut World) {
    w.open();
    w.put(&[(1, 1), (2, 1)]);
    w.put(&[(3, 1)]);
    w.put(&[(4, 1)]);
    w.delete(&[(1, 1), (2, 1), (3, 1)]);
    w.gc(20);
    w.delete(&[(1, 1)]);
    w.put(&[(1, 2)]);
}

fn reopen(w: &mut World) {
    w.open();
    w.put(&[(1, 1), (2, 1)]);
    w.put(&[(3, 1), (4, 1)]);
    w.delete(&[(1, 1), (3, 1)]);
    w.gc(2);
    w.reopen();
    w.put(&[(5, 1)]);
    // COMMITTED, and not cleaned up.
    w.gc(4);
    w.reopen();
    w.delete(&[(2, 1)]);
    w.gc(20);
}

fn relaxed_setting() -> Setting {
    let mut setting = Setting::default();
    setting.config.durability = Durability::Relaxed;
    setting
}

fn relaxed(w: &mut World) {
    w.open();
    w.put(&[(1, 1), (2, 1)]);
    w.put(&[(3, 1)]);
    w.publish_pending();
    w.put(&[(1, 2), (4, 1)]);
    if removed(&w.delete(&[(4, 1)])) {
        w.met(Situation::DeleteOfPending);
    }
    w.put(&[(2, 2)]);
    w.delete(&[(2, 1)]);
    w.publish_pending();
    w.gc(20);
    w.put(&[(5, 1)]);
}

fn small() -> Setting {
    let mut setting = Setting::default();
    let config = &mut setting.config;
    (config.capacity_bytes, config.bucket_size_bytes) = (24 << 10, 12 << 10);
    (config.high_watermark, config.low_watermark) = (0.7, 0.5);
    config.normal_dead_ratio = None;
    setting
}

fn evict(w: &mut World) {
    w.open();
    w.put(&[(1, 1), (2, 1)]);
    w.put(&[(1, 2)]);
    w.put(&[(3, 1)]);
    w.refuse_evictions(1);
    w.gc(30);
    w.put(&[(4, 1)]);
    w.gc(30);
}

fn adopting() -> Setting {
    Setting { adoption: Adoption::OneWay, ..Setting::default() }
}

fn mooncakes() -> SimDisk {
    let disk = SimDisk::new();
    let dir = disk.mount().expect("a disk of one's own");
    let record = |key| (Object { key, version: 0 }.storage_key(), Object { key, version: 0 }.value());
    for (id, keys) in [(3, [1, 2].as_slice()), (5, &[2, 3])] {
        let records: Vec<_> = keys.iter().map(|key| record(*key)).collect();
        let records: Vec<_> = records.iter().map(|(key, value)| (&**key, &**value)).collect();
        test_kit::put_mooncake_bucket(&dir, id, &records).expect("a disk without faults");
    }
    drop(dir);
    disk
}

/// One that was adopted without settling which copy counts.
fn unsettled() -> SimDisk {
    let disk = mooncakes();
    test_kit::put_identity(&disk.mount().expect("a disk of one's own")).expect("a disk without faults");
    disk
}

fn adoption(w: &mut World) {
    [1, 2, 3].into_iter().for_each(|key| w.was_there(key));
    w.open();
    w.delete(&[(2, 0)]);
    w.put(&[(1, 1)]);
    w.delete(&[(1, 0)]);
    w.gc(20);
    w.delete(&[(3, 0)]);
    w.reopen();
}

fn crowded() -> Setting {
    Setting { capacity: Some(1 << 30), frees_late: true, ..Setting::default() }
}

fn full_disk(w: &mut World) {
    w.open();
    w.put(&[(1, 1), (2, 1)]);
    w.put(&[(3, 1), (4, 1)]);
    w.disk.set_capacity(w.disk.used_bytes());
    w.delete_for_certain(&[(1, 1), (3, 1)]);
    w.put(&[(5, 1)]);
    w.disk.set_capacity(w.disk.used_bytes());
    w.delete(&[(2, 1)]);
    w.gc(20);
    w.disk.set_capacity(1 << 30);
    w.gc(20);
    w.put(&[(6, 1)]);
}

/// The `nth` replacement of the intents fails at `kind`.
fn fail_intent(w: &World, nth: u32, kind: OpKind) {
    let mut seen = 0;
    w.disk.inject(1, Fault::Errno(EIO), move |op| {
        let renamed = op.kind == OpKind::Rename && &*op.to == GC_INTENT;
        seen += u32::from(renamed);
        seen == nth && op.kind == kind
    });
}

fn uncertain(w: &mut World) {
    w.open();
    w.put(&[(1, 1), (2, 1), (3, 1)]);
    w.delete(&[(1, 1)]);
    fail_intent(w, 2, OpKind::SyncDir);
    w.gc(5);
    w.delete(&[(2, 1)]);
    w.gc(20);
    w.delete(&[(2, 1)]);
    fail_intent(w, 2, OpKind::Rename);
    w.gc(5);
    w.delete(&[(3, 1)]);
    w.settle();
}

fn rounds(w: &mut World) {
    w.open();
    w.put(&[(1, 1), (2, 1), (3, 1)]);
    w.put(&[(4, 1)]);
    w.delete(&[(1, 1)]);
    w.disk.inject(12, Fault::Errno(EIO), |op| op.kind == OpKind::Unlink && &*op.name == "1.bucket");
    w.gc(6);
    w.delete(&[(4, 1)]);
    w.gc(3);
    w.delete(&[(2, 1)]);
    w.gc(6);
    w.disk.mend();
    w.reopen();
    w.delete(&[(3, 1)]);
    let mut failed = false;
    w.disk.inject(1, Fault::Errno(EIO), move |op| {
        let after_unlink = std::mem::replace(&mut failed, op.kind == OpKind::Unlink && op.name.ends_with(".meta"));
        after_unlink && op.kind == OpKind::SyncDir
    });
    w.gc(30);
    if w.disk.image().bytes(GC_INTENT).is_none() {
        w.met(Situation::CleanUpRepeated);
    }
    w.settle();
}

fn rollback(w: &mut World) {
    w.open();
    w.put(&[(1, 1), (2, 1), (3, 1)]);
    w.delete(&[(1, 1)]);
    w.disk.inject(1, Fault::Errno(EIO), on_target_write);
    w.disk.inject(1, Fault::Errno(EIO), |op| op.kind == OpKind::Unlink && op.name.ends_with(".bucket"));
    w.gc(5);
    w.delete(&[(2, 1)]);
    w.gc(20);
    w.settle();
}

fn anothers_failure(w: &mut World) {
    w.open();
    w.put(&[(1, 1), (2, 1), (3, 1)]);
    w.put(&[(4, 1), (5, 1)]);
    w.delete(&[(1, 1)]);
    // PREPARED, the copy, and its syncs.
    w.gc(3);
    w.disk.inject(1, Fault::Errno(EIO), |op| op.kind == OpKind::SyncDir);
    w.delete(&[(4, 1)]);
    w.gc(20);
    w.settle();
}

fn spoiling() -> Setting {
    Setting { spoils: true, ..Setting::default() }
}

fn spoilt(w: &mut World) {
    w.open();
    w.put(&[(1, 1), (2, 1), (3, 1)]);
    w.delete(&[(1, 1)]);
    w.gc(20);
    w.spoil_table_of((2, 1));
}

fn away(w: &mut World) {
    w.open();
    w.put(&[(1, 1), (2, 1), (3, 1)]);
    w.put(&[(1, 2)]);
    w.put(&[(2, 2), (4, 1)]);
    w.close();
    w.open_without(BucketId(1));
    if removed(&w.delete(&[(1, 2), (2, 2)])) {
        w.met(Situation::DeleteWhileAway);
    }
    // A bucket that goes as it is, and one whose target is without what is deleted.
    w.gc(30);
    w.reopen();
    w.gc(30);
    w.delete(&[(3, 1)]);
    w.reopen();
}

fn copy_away(w: &mut World) {
    [1, 2, 3].into_iter().for_each(|key| w.was_there(key));
    w.open_without(BucketId(5));
    if removed(&w.delete(&[(2, 0)])) {
        w.met(Situation::DeleteWhileAway);
    }
    w.gc(30);
    w.reopen();
    w.gc(30);
    w.reopen();
}

fn numbers(w: &mut World) {
    w.open();
    let keys: Vec<_> = (0..62).map(|key| (key, 1)).collect();
    keys.iter().for_each(|object| w.put(&[*object]));
    w.delete(&keys);
    w.gc(100);
    w.forget_moments();
    w.put(&[(100, 1)]);
    w.put(&[(101, 1)]);
    w.put(&[(102, 1)]);
    w.put(&[(103, 1)]);
}
