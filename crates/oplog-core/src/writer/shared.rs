//! Owns what the driver, the handles and the callbacks share, and the one way to the core: wakers collected under its lock are
//! woken when it is gone.

use std::sync::{Arc, Weak};
use std::task::Waker;

use ha_types::{Clock, MonoTime};

use super::contended::lock;
use super::core::{Core, Ended};
use super::notifier::{AfterNotice, Callback, Notice, Notifier};
use super::tickets::Tickets;
use super::{WriterConfig, WriterStatus};
use crate::sync::{Mutex, Notify, Runtime, watch};
use crate::{ClaimedLog, Outcome, Seq};

pub(super) struct Shared {
    core: Mutex<Core>,
    pub(super) tickets: Tickets,
    pub(super) clock: Arc<dyn Clock>,
    /// There is something to do for an idle driver.
    pub(super) work: Notify,
    /// The driver is to break off.
    pub(super) stop: Notify,
    /// Something became durable, ran, or ended.
    pub(super) progress: Notify,
    notifier: Arc<Notifier>,
    status: watch::Sender<WriterStatus>,
    /// Held from reading the status to publishing it, so that an older one is never published later.
    publishing: Mutex<()>,
    myself: Weak<Self>,
}

impl Shared {
    pub(super) fn new(log: &ClaimedLog, config: WriterConfig, clock: Arc<dyn Clock>) -> Arc<Self> {
        let core = Core::new(config, log.prefix, log.position.crc);
        let status = watch::Sender::new(core.status());
        Arc::new_cyclic(|myself| Self {
            core: Mutex::new(core),
            tickets: Tickets::new(log.prefix.last_seq),
            clock,
            work: Notify::new(),
            stop: Notify::new(),
            progress: Notify::new(),
            notifier: Arc::new(Notifier::new(Runtime::current())),
            status,
            publishing: Mutex::new(()),
            myself: Weak::clone(myself),
        })
    }

    /// Runs `f` under the lock, then wakes whom it wants woken.
    #[inline]
    pub(super) fn with_core<T>(&self, f: impl FnOnce(&mut Core) -> T) -> T {
        let (result, wake) = self.with_core_waking_later(f);
        wake_all(wake);
        result
    }

    /// Runs `f` under the lock; the caller wakes.
    #[inline]
    pub(super) fn with_core_waking_later<T>(&self, f: impl FnOnce(&mut Core) -> T) -> (T, Vec<Waker>) {
        let mut core = lock(&self.core);
        let result = f(&mut core);
        (result, core.take_wakers())
    }

    pub(super) fn now(&self) -> MonoTime {
        self.clock.now()
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<WriterStatus> {
        self.status.subscribe()
    }

    /// Shows the status as it is now.
    pub(super) fn publish(&self) {
        let _in_order = self.publishing.lock();
        let status = lock(&self.core).status();
        self.status.send_if_modified(|shown| {
            let changed = *shown != status;
            if changed {
                *shown = status;
            }
            changed
        });
    }

    /// Hands callbacks over to be run.
    pub(super) fn notify(&self, callbacks: Vec<(Seq, Callback)>, outcome: Outcome) {
        if !callbacks.is_empty() {
            let after: Weak<dyn AfterNotice> = self.myself.clone();
            self.notifier.push(Notice { callbacks, outcome, since: self.now() }, &after);
        }
    }

    /// Tells everybody how everything ended.
    pub(super) fn end(&self, fate: impl FnOnce(&Core) -> Outcome) {
        let ended = self.with_core(|core| {
            let batch = fate(core);
            (!core.has_ended()).then(|| core.end(batch))
        });
        let Some(Ended { durable_through, unknown_through, batch, never }) = ended else { return };
        let mut wake = Vec::new();
        if durable_through > self.tickets.durable() {
            self.tickets.advance(durable_through, &mut wake);
        }
        self.tickets.end(unknown_through, &mut wake);
        self.publish();
        wake_all(wake);
        self.notify(batch.0, batch.1);
        self.notify(never, Outcome::Never);
        self.progress.notify_waiters();
    }
}

impl AfterNotice for Shared {
    fn now(&self) -> MonoTime {
        self.clock.now()
    }

    fn after_notice(&self, ran: usize, panicked: usize, since: MonoTime, began: MonoTime) {
        let took = self.clock.now().saturating_since(since);
        self.with_core(|core| core.callbacks_ran(ran, panicked, began.saturating_since(since), took));
        self.progress.notify_waiters();
    }
}

pub(super) fn wake_all(wake: Vec<Waker>) {
    for waker in wake {
        waker.wake();
    }
}

/// What every handle, reservation and ticket holds: the writer goes on until the last of them is gone.
pub(super) struct Handle(pub(super) Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.with_core(super::core::Core::orphan);
        self.0.work.notify_one();
    }
}
