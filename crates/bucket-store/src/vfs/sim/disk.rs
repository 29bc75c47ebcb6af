//! Owns the simulated disk as a test sees it: its faults, its log, and the moments at which the power may go.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use ha_types::ManualClock;
use parking_lot::Mutex;

use super::change::Inode;
use super::crash::CrashPoint;
use super::dir::SimDir;
use super::fault::{Fault, Faults};
use super::image::Image;
use super::op::{Op, OpKind};
use super::state::State;

/// A disk that is not there. A clone is the same disk.
#[derive(Clone)]
pub struct SimDisk(Arc<Shared>);

type Matches = Box<dyn FnMut(&Op) -> bool + Send>;
type Hook = Box<dyn FnOnce() + Send>;
type Watch = Arc<dyn Fn(&Op, CrashPoint) + Send + Sync>;

pub(super) struct Shared(Mutex<Inner>);

struct Inner {
    state: State,
    faults: Faults,
    hooks: Vec<(Matches, Hook)>,
    watch: Option<Watch>,
    log: Option<Vec<Op>>,
    clock: Option<Arc<ManualClock>>,
    operations: u64,
    /// The mount that counts; handles of earlier ones are dead.
    life: u64,
    mounted: bool,
    powered: bool,
    power_off_at: Option<u64>,
    aside: bool,
}

/// The disk is mounted already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the simulated disk is mounted already")]
pub struct AlreadyMounted;

const CAPACITY: u64 = 1 << 40;

impl Default for SimDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl SimDisk {
    /// An empty disk with more room than any test needs.
    #[must_use]
    pub fn new() -> Self {
        Self::of(&Image::default())
    }

    /// A disk that holds `image`, durably, with more room than any test needs.
    #[must_use]
    pub fn of(image: &Image) -> Self {
        Self::at(|capacity| State::of(image, capacity))
    }

    pub(super) fn at(state: impl FnOnce(u64) -> State) -> Self {
        Self(Arc::new(Shared(Mutex::new(Inner {
            state: state(CAPACITY),
            faults: Faults::default(),
            hooks: Vec::new(),
            watch: None,
            log: None,
            clock: None,
            operations: 0,
            life: 0,
            mounted: false,
            powered: true,
            power_off_at: None,
            aside: false,
        }))))
    }

    /// Takes the disk for one user.
    ///
    /// # Errors
    /// [`AlreadyMounted`]
    pub fn mount(&self) -> Result<SimDir, AlreadyMounted> {
        let mut inner = self.0.0.lock();
        if inner.mounted {
            return Err(AlreadyMounted);
        }
        inner.mounted = true;
        inner.life += 1;
        Ok(SimDir::new(Arc::clone(&self.0), inner.life))
    }

    /// How many operations there have been; the next has this number plus one.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.0.0.lock().operations
    }

    /// Begins to keep a log, or empties it.
    pub fn record(&self) {
        self.0.0.lock().log = Some(Vec::new());
    }

    /// The operations since [`SimDisk::record`], those that failed too.
    #[must_use]
    pub fn log(&self) -> Vec<Op> {
        self.0.0.lock().log.clone().unwrap_or_default()
    }

    /// Room for so many bytes in all, in whole blocks. Less than is used means that nothing is free.
    pub fn set_capacity(&self, bytes: u64) {
        self.0.0.lock().state.set_capacity(bytes);
    }

    /// From now on blocks of a file without a name are free only after the next sync of the directory, as on a journaling file system.
    pub fn free_late(&self) {
        self.0.0.lock().state.free_late();
    }

    /// Bytes of blocks in use, those of files without a name but with an open handle among them.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.0.0.lock().state.used_bytes()
    }

    /// Lets the operation of this number, and no other, meet `fault`.
    pub fn fail_at(&self, number: u64, fault: Fault) {
        self.inject(1, fault, move |op| op.number == number);
    }

    /// Lets the next `times` operations that match meet `fault`. Of several that match, the one injected first counts.
    pub fn inject(&self, times: usize, fault: Fault, matches: impl FnMut(&Op) -> bool + Send + 'static) {
        if times > 0 {
            self.0.0.lock().faults.inject(Box::new(matches), times, fault);
        }
    }

    /// Lets every read of a file opened by this name that touches `range` fail with `EIO`.
    pub fn make_unreadable(&self, name: &str, range: Range<u64>) {
        self.0.0.lock().faults.unreadable(name, range);
    }

    /// Takes every fault back that was not met.
    pub fn mend(&self) {
        self.0.0.lock().faults.clear();
    }

    /// How many operations met a fault.
    #[must_use]
    pub fn faults_met(&self) -> u64 {
        self.0.0.lock().faults.met
    }

    /// The sum of all [`Fault::Slow`] that were met.
    #[must_use]
    pub fn slowness(&self) -> Duration {
        self.0.0.lock().faults.slowness
    }

    /// Lets [`Fault::Slow`] move this clock: when the operation is done, and before its caller goes on.
    pub fn tell_time(&self, clock: Arc<ManualClock>) {
        self.0.0.lock().clock = Some(clock);
    }

    /// Turns over one bit of a file, on the disk and in the cache. Past the end nothing happens.
    ///
    /// # Errors
    /// `NotFound`
    pub fn flip_bit(&self, name: &str, offset: u64, bit: u8) -> io::Result<()> {
        self.0.0.lock().state.flip(name, offset, bit)
    }

    /// Runs `hook` on the thread of the first operation that matches, before it. What the hook does to the disk comes first and
    /// is numbered first. It must not take what the caller of that operation holds.
    pub fn when(&self, matches: impl FnMut(&Op) -> bool + Send + 'static, hook: impl FnOnce() + Send + 'static) {
        self.0.0.lock().hooks.push((Box::new(matches), Box::new(hook)));
    }

    /// Calls `watch` after every operation that changed something, with what a power loss then may leave. It must not use the disk.
    pub fn watch(&self, watch: impl Fn(&Op, CrashPoint) + Send + Sync + 'static) {
        self.0.0.lock().watch = Some(Arc::new(watch));
    }

    /// Ends the watch.
    pub fn unwatch(&self) {
        self.0.0.lock().watch = None;
    }

    /// Runs `looks`, whose operations are not numbered and not logged, meet no fault and run no hook: for a test that looks at what a running
    /// store serves. They must be reads, and no other thread may use the disk meanwhile.
    pub fn aside<T>(&self, looks: impl FnOnce() -> T) -> T {
        self.0.0.lock().aside = true;
        let seen = looks();
        self.0.0.lock().aside = false;
        seen
    }

    /// Lets the power go before operation `number`: it and all later ones fail and do nothing.
    pub fn power_off_at(&self, number: u64) {
        self.0.0.lock().power_off_at = Some(number);
    }

    /// Lets the power go now.
    pub fn power_off(&self) {
        self.0.0.lock().powered = false;
    }

    /// Whether the power is on.
    #[must_use]
    pub fn is_powered(&self) -> bool {
        self.0.0.lock().powered
    }

    /// What a power loss now may leave.
    #[must_use]
    pub fn crash_point(&self) -> CrashPoint {
        self.0.0.lock().state.crash_point()
    }

    /// What is on the disk as its user sees it, whether or not it is durable.
    #[must_use]
    pub fn image(&self) -> Image {
        self.0.0.lock().state.image()
    }
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.0.0.lock();
        f.debug_struct("SimDisk").field("operations", &inner.operations).field("files", &inner.state.image()).finish()
    }
}

impl Shared {
    /// Runs one operation: hooks, its number, its fault, the thing itself, and then the watch.
    pub(super) fn run<T>(
        &self,
        life: u64,
        mut op: Op,
        does: impl FnOnce(&mut State, Option<Fault>) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut inner = self.0.lock();
        if inner.aside {
            return does(&mut inner.state, None);
        }
        loop {
            op.number = inner.operations + 1;
            let Some(at) = inner.hooks.iter_mut().position(|(matches, _)| matches(&op)) else { break };
            let (_, hook) = inner.hooks.remove(at);
            drop(inner);
            hook();
            inner = self.0.lock();
        }
        if inner.power_off_at.is_some_and(|at| op.number >= at) {
            inner.powered = false;
        }
        if !inner.powered || inner.life != life {
            return Err(io::Error::other("the power is off"));
        }
        inner.operations = op.number;
        if let Some(log) = &mut inner.log {
            log.push(op.clone());
        }
        let slowness = inner.faults.slowness;
        let fault = inner.faults.of(&op);
        let result = does(&mut inner.state, fault);
        if let Some(clock) = &inner.clock {
            clock.advance(inner.faults.slowness.saturating_sub(slowness));
        }
        if op.kind.changes()
            && let Some(watch) = inner.watch.clone()
        {
            let point = inner.state.crash_point();
            drop(inner);
            watch(&op, point);
        }
        result
    }

    pub(super) fn unmount(&self, life: u64) {
        let mut inner = self.0.lock();
        if inner.life == life {
            inner.mounted = false;
        }
    }

    pub(super) fn release(&self, inode: Inode) {
        self.0.lock().state.release(inode);
    }
}

/// Matches the `nth` operation, counted from 1, for which `matches` holds.
pub fn nth(
    nth: u64,
    mut matches: impl FnMut(&Op) -> bool + Send + 'static,
) -> impl FnMut(&Op) -> bool + Send + 'static {
    let mut seen = 0;
    move |op| {
        let matched = matches(op);
        seen += u64::from(matched);
        matched && seen == nth
    }
}

/// Matches every operation of this kind whose name ends so.
pub fn on(kind: OpKind, suffix: &str) -> impl FnMut(&Op) -> bool + Send + 'static {
    let suffix = suffix.to_owned();
    move |op| op.kind == kind && (op.name.ends_with(&suffix) || op.to.ends_with(&suffix) && !op.to.is_empty())
}
