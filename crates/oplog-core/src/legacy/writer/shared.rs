//! Owns what the handles and the driver share: the line of entries, admission, the tail in memory, and the callbacks that are owed.

use std::collections::VecDeque;
use std::sync::Arc;

use ha_types::Seq;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};

use super::group::{Limits, Pending, entry_bytes};
use super::waiter::{Tell, Waiter};
use super::{LegacyCommitError, LegacyTerminal, LegacyWriterConfig};
use crate::legacy::{KeySequences, LegacyEntry, LegacyLog, TailBuffer, TailMiss};
use crate::{NewEntry, Outcome, WriterEnv};

/// What anyone may watch of a legacy writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyWriterStatus {
    /// Whether entries are taken, but for a queue that is full.
    pub accepting: bool,
    /// Why not, or what the store said last.
    pub reason: Option<String>,
    /// The last entry that is durable.
    pub durable: Seq,
    /// Entries committed and not decided.
    pub undecided: usize,
    /// How it ended.
    pub terminal: Option<LegacyTerminal>,
}

/// Callbacks that may be owed for each entry that may wait, before admission closes.
const OWED_PER_SLOT: usize = 64;

pub(super) struct Shared {
    queue: Mutex<Queue>,
    tail: Mutex<TailBuffer>,
    owed: Mutex<Owed>,
    status: watch::Sender<LegacyWriterStatus>,
    stop: watch::Sender<bool>,
    pub(super) wake: Notify,
    runtime: Handle,
    pub(super) config: LegacyWriterConfig,
    limits: Limits,
    pub(super) env: WriterEnv,
    pub(super) log: LegacyLog,
}

struct Queue {
    last: Seq,
    waiting: VecDeque<Pending>,
    bytes: usize,
    key_sequences: KeySequences,
    /// The store fails: nothing is taken until it has answered.
    trouble: Option<String>,
    draining: bool,
    orphaned: bool,
    ended: Option<LegacyTerminal>,
}

/// Callbacks whose outcome is decided, in the order of sequences. At most one thread works on them.
#[derive(Default)]
struct Owed {
    notices: VecDeque<Vec<Waiter>>,
    callbacks: usize,
    working: bool,
}

/// Runs all callbacks that are owed when it is dropped: a runtime that shuts down drops what it does not run any more, and even
/// then every callback is called once, after those before it.
struct Worker(Arc<Shared>);

impl Drop for Worker {
    fn drop(&mut self) {
        while let Some(notice) = self.0.next_notice() {
            let count = notice.len();
            drop(notice);
            self.0.owed.lock().callbacks -= count;
        }
    }
}

/// Held by every handle: the last one to go ends the writer.
pub(super) struct Held(pub(super) Arc<Shared>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.queue.lock().orphaned = true;
        self.0.wake.notify_one();
    }
}

impl Shared {
    pub(super) fn new(
        last: Seq,
        key_sequences: KeySequences,
        config: LegacyWriterConfig,
        limits: Limits,
        env: WriterEnv,
        log: LegacyLog,
    ) -> Self {
        let status = LegacyWriterStatus { accepting: true, reason: None, durable: last, undecided: 0, terminal: None };
        let queue = Queue {
            last,
            waiting: VecDeque::new(),
            bytes: 0,
            key_sequences,
            trouble: None,
            draining: false,
            orphaned: false,
            ended: None,
        };
        Self {
            queue: Mutex::new(queue),
            tail: Mutex::new(TailBuffer::new(last, config.tail_entries, config.tail_bytes)),
            owed: Mutex::default(),
            status: watch::Sender::new(status),
            stop: watch::Sender::new(false),
            wake: Notify::new(),
            runtime: Handle::current(),
            config,
            limits,
            env,
            log,
        }
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    pub(super) fn commit(&self, new: &NewEntry<'_>, tell: Tell) -> Result<Seq, LegacyCommitError> {
        let mut queue = self.queue.lock();
        let waiter = Waiter::new(queue.last, tell);
        match self.admit(&mut queue, new, waiter) {
            Ok(seq) => {
                self.status.send_modify(|s| s.undecided += 1);
                drop(queue);
                self.wake.notify_one();
                Ok(seq)
            }
            Err((waiter, error)) => {
                drop(queue);
                waiter.dismiss();
                Err(error)
            }
        }
    }

    fn admit(&self, queue: &mut Queue, new: &NewEntry<'_>, waiter: Waiter) -> Result<Seq, (Waiter, LegacyCommitError)> {
        let pending = match self.check(queue, new) {
            Ok((entry, key, value)) => {
                let waiter = waiter.of(entry.seq);
                Pending { entry, key, value, waiter }
            }
            Err(error) => return Err((waiter, error)),
        };
        let seq = pending.entry.seq;
        queue.key_sequences.record(&pending.entry, self.env.clock.now());
        queue.last = seq;
        queue.bytes += pending.bytes();
        if pending.waiter.is_callback() {
            self.owed.lock().callbacks += 1;
        }
        queue.waiting.push_back(pending);
        Ok(seq)
    }

    /// The entry as it will be stored, if it is taken. Changes nothing.
    fn check(
        &self,
        queue: &Queue,
        new: &NewEntry<'_>,
    ) -> Result<(LegacyEntry, bytes::Bytes, bytes::Bytes), LegacyCommitError> {
        if let Some(terminal) = &queue.ended {
            return Err(LegacyCommitError::Terminal(terminal.clone()));
        }
        let unavailable = |reason: &str| Err(LegacyCommitError::Unavailable { reason: reason.to_owned() });
        if queue.draining {
            return unavailable("it is being drained");
        }
        if let Some(reason) = &queue.trouble {
            return unavailable(reason);
        }
        let config = &self.config;
        let owed = self.owed.lock().callbacks >= config.max_waiting_entries.saturating_mul(OWED_PER_SLOT);
        let full = queue.waiting.len() >= config.max_waiting_entries || queue.bytes >= config.max_waiting_bytes;
        if owed || full {
            return Err(LegacyCommitError::QueueFull);
        }
        // The last number is never used, so that the base of a cutover always has one after it.
        let Some(seq) = queue.last.next().filter(|seq| seq.get() < u64::MAX) else {
            return unavailable("the sequences have come to their end");
        };
        let now = self.env.clock.now().since_origin().as_millis();
        let mut entry = LegacyEntry::new(seq, u64::try_from(now).unwrap_or(u64::MAX), new)?;
        if config.key_sequence_ids {
            entry.key_sequence_id = Some(queue.key_sequences.next(&entry.tenant, &entry.key));
        }
        let (key, value) = (self.log.keys().legacy_entry(seq), entry.encode());
        let bytes = self.limits.around.saturating_add(entry_bytes(key.len(), value.len()));
        let limit = self.limits.bytes.min(self.limits.value);
        if bytes > limit {
            return Err(LegacyCommitError::TooLarge { bytes, limit });
        }
        Ok((entry, key, value))
    }

    /// The next entries for one transaction, at most `most`; none if none wait.
    pub(super) fn take(&self, most: usize) -> Vec<Pending> {
        let mut queue = self.queue.lock();
        let (mut bytes, mut taken) = (self.limits.around, Vec::new());
        while taken.len() < most {
            let Some(next) = queue.waiting.front() else { break };
            bytes += next.bytes();
            if bytes > self.limits.bytes && !taken.is_empty() {
                break;
            }
            let Some(next) = queue.waiting.pop_front() else { break };
            queue.bytes -= next.bytes();
            taken.push(next);
        }
        taken
    }

    /// Puts entries back to the front of the line, for the store has certainly not taken them.
    pub(super) fn put_back(&self, pending: Vec<Pending>) {
        let mut queue = self.queue.lock();
        for mut pending in pending.into_iter().rev() {
            pending.waiter.set(Outcome::Never);
            queue.bytes += pending.bytes();
            queue.waiting.push_front(pending);
        }
    }

    /// Whether nobody holds a handle any more.
    pub(super) fn is_orphaned(&self) -> bool {
        self.queue.lock().orphaned
    }

    /// The store failed: takes nothing until it has answered.
    pub(super) fn trouble(&self, reason: String) {
        self.queue.lock().trouble = Some(reason.clone());
        self.status.send_modify(|s| (s.accepting, s.reason) = (false, Some(reason)));
    }

    /// The entries are durable: they go into the tail, and those who wait are told.
    pub(super) fn durable(self: &Arc<Self>, pending: Vec<Pending>) {
        let accepting = {
            let mut queue = self.queue.lock();
            queue.trouble = None;
            !queue.draining && queue.ended.is_none()
        };
        let count = pending.len();
        let mut waiters = Vec::with_capacity(count);
        let mut durable = None;
        {
            let mut tail = self.tail.lock();
            for mut pending in pending {
                pending.waiter.set(Outcome::Durable);
                waiters.push(pending.waiter);
                durable = Some(pending.entry.seq);
                tail.push(Arc::new(pending.entry));
            }
        }
        self.tell(waiters);
        self.status.send_modify(|s| {
            (s.accepting, s.reason) = (accepting, None);
            s.durable = durable.unwrap_or(s.durable);
            s.undecided -= count;
        });
    }

    /// The writer has ended: `last` are the entries that were being written, whose outcomes are set; all others never will be.
    pub(super) fn end(self: &Arc<Self>, last: Vec<Pending>, terminal: LegacyTerminal) {
        let waiting = {
            let mut queue = self.queue.lock();
            queue.ended.get_or_insert_with(|| terminal.clone());
            queue.bytes = 0;
            std::mem::take(&mut queue.waiting)
        };
        self.tell(last.into_iter().chain(waiting).map(|pending| pending.waiter).collect());
        self.status.send_modify(|s| {
            (s.accepting, s.undecided) = (false, 0);
            s.reason = Some(terminal.to_string());
            s.terminal.get_or_insert(terminal);
        });
    }

    /// Tells tickets at once, and leaves callbacks to a blocking thread: one may take a lock or a while.
    fn tell(self: &Arc<Self>, waiters: Vec<Waiter>) {
        let (callbacks, tickets): (Vec<_>, Vec<_>) = waiters.into_iter().partition(Waiter::is_callback);
        drop(tickets);
        if callbacks.is_empty() {
            return;
        }
        {
            let mut owed = self.owed.lock();
            owed.notices.push_back(callbacks);
            if std::mem::replace(&mut owed.working, true) {
                return;
            }
        }
        let worker = Worker(Arc::clone(self));
        self.runtime.spawn_blocking(move || drop(worker));
    }

    fn next_notice(&self) -> Option<Vec<Waiter>> {
        let mut owed = self.owed.lock();
        let next = owed.notices.pop_front();
        owed.working = next.is_some();
        next
    }

    pub(super) fn entries_since(&self, since: Seq, limit: usize) -> Result<Vec<Arc<LegacyEntry>>, TailMiss> {
        self.tail.lock().entries_since(since, limit)
    }

    pub(super) fn status(&self) -> watch::Receiver<LegacyWriterStatus> {
        self.status.subscribe()
    }

    pub(super) fn refuse_more(&self) {
        self.queue.lock().draining = true;
        self.status.send_modify(|s| {
            s.accepting = false;
            s.reason.get_or_insert_with(|| "it is being drained".into());
        });
    }

    pub(super) fn stop(&self) {
        self.stop.send_replace(true);
    }

    pub(super) fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    pub(super) async fn stopped(&self) {
        // The sender lives as long as `self`, so the wait cannot fail.
        let _ = self.stop.subscribe().wait_for(|stop| *stop).await;
    }
}
