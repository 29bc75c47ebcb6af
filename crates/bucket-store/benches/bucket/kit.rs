//! Owns what the cases share: arguments, the objects, a store to measure, turns and medians.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bucket_store::format::marker::Marker;
use bucket_store::vfs::{Access, DiskDir};
use bucket_store::{Config, Store, WriteObject};
use ha_types::{ObjectIncarnation, SystemClock};

pub(crate) const KIB: usize = 1 << 10;
pub(crate) const MIB: usize = 1 << 20;

/// Flags; anything else of cargo's is ignored.
pub(crate) struct Args {
    pub(crate) quick: bool,
    pub(crate) json: bool,
    pub(crate) only: Option<String>,
    /// Where files are made; the disk under it is what is measured.
    pub(crate) directory: PathBuf,
}

impl Args {
    #[allow(clippy::disallowed_methods, reason = "a benchmark is a program")]
    pub(crate) fn read() -> Self {
        let all: Vec<String> = std::env::args().collect();
        let has = |flag: &str| all.iter().any(|arg| arg == flag);
        let value = |flag: &str| all.iter().position(|arg| arg == flag).and_then(|at| all.get(at + 1).cloned());
        let directory = value("--directory").map_or_else(|| env!("CARGO_TARGET_TMPDIR").into(), PathBuf::from);
        Self { quick: has("--quick"), json: has("--json"), only: value("--only"), directory }
    }

    /// Bytes of values that a case works on.
    pub(crate) fn data_bytes(&self) -> usize {
        if self.quick { 2 << 30 } else { 8 << 30 }
    }

    /// Interleaved rounds of each case.
    pub(crate) fn rounds(&self) -> usize {
        if self.quick { 5 } else { 9 }
    }
}

/// Objects of one size. Their values are windows of one pool without a pattern, so that making them costs nothing.
pub(crate) struct Objects {
    pool: Vec<u8>,
    keys: Vec<Vec<u8>>,
    pub(crate) value_bytes: usize,
}

impl Objects {
    pub(crate) fn new(count: usize, value_bytes: usize) -> Self {
        let mut random = Random::new(1);
        let pool = (0..(64 * MIB + value_bytes) / 8).flat_map(|_| random.next().to_le_bytes()).collect();
        let keys = (0..count).map(|n| format!("default\0model-7b/block/{n:012x}").into_bytes()).collect();
        Self { pool, keys, value_bytes }
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn key(&self, n: usize) -> &[u8] {
        &self.keys[n]
    }

    pub(crate) fn value(&self, n: usize) -> &[u8] {
        let at = n.wrapping_mul(4_099 * 8) % (64 * MIB);
        &self.pool[at..at + self.value_bytes]
    }

    pub(crate) fn object(&self, n: usize) -> WriteObject<'_> {
        WriteObject { key: self.key(n), incarnation: incarnation(n), value: self.value(n), placement: None }
    }

    /// The pool as such: bytes for whoever needs any.
    pub(crate) fn pool(&self) -> &[u8] {
        &self.pool
    }
}

/// The incarnation of object `n`.
pub(crate) fn incarnation(n: usize) -> ObjectIncarnation {
    ObjectIncarnation::without_log(7, n as u64 + 1).expect("a counter from 1")
}

pub(crate) fn open(path: &Path, config: Config) -> Store {
    let dir = DiskDir::open(path, Access::Store).unwrap_or_else(|e| panic!("{e}"));
    let marker = Marker { segment: "bench".parse().expect("an id"), cluster: "bench".parse().expect("an id") };
    let builder = Store::builder(marker, Arc::new(SystemClock::new())).config(config);
    builder.open(Arc::new(dir)).unwrap_or_else(|e| panic!("{e}"))
}

/// Writes all objects, `per_bucket` with a call.
pub(crate) fn fill(store: &Store, objects: &Objects, per_bucket: usize) {
    for first in (0..objects.len()).step_by(per_bucket) {
        let batch: Vec<_> = (first..objects.len().min(first + per_bucket)).map(|n| objects.object(n)).collect();
        store.write(&batch).unwrap_or_else(|e| panic!("{e}"));
    }
}

/// A bucket holds a descriptor, and small writes make many.
pub(crate) fn allow_many_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // Where that is refused the cases with few buckets can be measured all the same.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

#[allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
pub(crate) fn timed(step: impl FnOnce()) -> Duration {
    let start = Instant::now();
    step();
    start.elapsed()
}

#[allow(clippy::disallowed_methods, reason = "a benchmark waits on its own threads")]
pub(crate) fn sleep(time: Duration) {
    std::thread::sleep(time);
}

/// Times both sides in every round, taking turns at being first. Seconds of each round.
pub(crate) fn interleaved(
    rounds: usize,
    mut ours: impl FnMut() -> f64,
    mut theirs: impl FnMut() -> f64,
) -> (Vec<f64>, Vec<f64>) {
    let (mut us, mut them) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        if round % 2 == 0 {
            us.push(ours());
            them.push(theirs());
        } else {
            them.push(theirs());
            us.push(ours());
        }
    }
    (us, them)
}

/// The middle one; of an even number the upper of the two.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Marsaglia's xorshift: the same numbers in every run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// All numbers below `count` in an order without a pattern.
    pub(crate) fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            order.swap(last, self.below(last + 1));
        }
        order
    }
}
