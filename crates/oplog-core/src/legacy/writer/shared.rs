//! Owns what the handles and the driver share: the line of entries, admission, the tail in memory, and the callbacks that are owed.

use std::sync::{Arc, Weak};

use ha_types::{MonoTime, Seq};

use super::group::{Limits, Pending, entry_bytes};
use super::queue::{Next, Queue};
use super::waiter::{Waiter, tell_tickets};
use super::{LegacyCommitError, LegacyTerminal, LegacyWriterConfig, LegacyWriterStatus};
use crate::legacy::{KeySequences, LegacyEntry, LegacyLog, TailBuffer, TailMiss};
use crate::sync::{Mutex, Notify, Runtime, watch};
use crate::writer::notifier::{AfterNotice, Notice, Notifier};
use crate::writer::trouble::Trouble;
use crate::{NewEntry, Outcome, WriterEnv};

/// Callbacks that may be owed for each entry that may wait, before admission closes.
const OWED_PER_SLOT: usize = 64;

pub(super) struct Shared {
    queue: Mutex<Queue>,
    tail: Mutex<TailBuffer>,
    notifier: Arc<Notifier>,
    status: watch::Sender<LegacyWriterStatus>,
    /// Held from reading the status to publishing it, so that an older one is never published later.
    publishing: Mutex<()>,
    /// There is something to do for an idle driver.
    pub(super) work: Notify,
    /// The driver is to break off.
    pub(super) stop: Notify,
    pub(super) config: LegacyWriterConfig,
    limits: Limits,
    pub(super) env: WriterEnv,
    pub(super) log: LegacyLog,
    myself: Weak<Self>,
}

/// Held by every handle: the last one to go ends the writer.
pub(super) struct Held(pub(super) Arc<Shared>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.queue.lock().orphaned = true;
        self.0.work.notify_one();
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
    ) -> Arc<Self> {
        let queue = Queue::new(last, key_sequences);
        let status = watch::Sender::new(queue.status());
        Arc::new_cyclic(|myself| Self {
            queue: Mutex::new(queue),
            tail: Mutex::new(TailBuffer::new(last, config.tail_entries, config.tail_bytes)),
            notifier: Arc::new(Notifier::new(Runtime::current())),
            status,
            publishing: Mutex::new(()),
            work: Notify::new(),
            stop: Notify::new(),
            config,
            limits,
            env,
            log,
            myself: Weak::clone(myself),
        })
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    pub(super) fn now(&self) -> MonoTime {
        self.env.clock.now()
    }

    pub(super) fn status(&self) -> watch::Receiver<LegacyWriterStatus> {
        self.status.subscribe()
    }

    /// Changes what is shared, and shows it. Whoever watches is woken when the lock is gone.
    fn change<T>(&self, change: impl FnOnce(&mut Queue) -> T) -> T {
        let result = change(&mut self.queue.lock());
        self.publish();
        result
    }

    fn publish(&self) {
        let _in_order = self.publishing.lock();
        let status = self.queue.lock().status();
        self.status.send_if_modified(|shown| {
            let changed = *shown != status;
            if changed {
                *shown = status;
            }
            changed
        });
    }

    pub(super) fn commit(&self, new: &NewEntry<'_>, waiter: Waiter) -> Result<Seq, LegacyCommitError> {
        let mut queue = self.queue.lock();
        let (entry, key, value) = match self.check(&queue, new) {
            Ok(checked) => checked,
            Err(error) => {
                // The waiter is its caller's code: it is dropped without the lock.
                drop(queue);
                return Err(error);
            }
        };
        let seq = entry.seq;
        queue.key_sequences.record(&entry, self.env.clock.now());
        queue.callbacks += usize::from(waiter.is_callback());
        let pending = Pending { entry, key, value, waiter };
        queue.last = seq;
        queue.bytes += pending.bytes();
        queue.waiting.push_back(pending);
        queue.undecided += 1;
        drop(queue);
        self.publish();
        self.work.notify_one();
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
        if let Some(closed) = queue.closed() {
            let reason = queue.reason().unwrap_or_default();
            return Err(LegacyCommitError::Unavailable { closed, reason });
        }
        let config = &self.config;
        let owed = queue.callbacks >= config.max_waiting_entries.saturating_mul(OWED_PER_SLOT);
        let full = queue.waiting.len() >= config.max_waiting_entries || queue.bytes >= config.max_waiting_bytes;
        if owed || full {
            return Err(LegacyCommitError::QueueFull);
        }
        // The last number is never used, so that the base of a cutover always has one after it.
        let Some(seq) = queue.last.next().filter(|seq| seq.get() < u64::MAX) else {
            return Err(LegacyCommitError::Exhausted);
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

    /// What there is to do for the driver: at most `most` entries.
    pub(super) fn next(&self, most: usize) -> Next {
        self.queue.lock().next(most, &self.limits)
    }

    /// Puts entries back to the front of the line, for the store has certainly not taken them.
    pub(super) fn put_back(&self, pending: Vec<Pending>) {
        self.queue.lock().put_back(pending);
    }

    /// The store fails, or is silent: nothing is taken until it has answered.
    pub(super) fn trouble(&self, trouble: &Trouble) {
        self.change(|queue| {
            queue.failing = trouble.closed().zip(trouble.failure());
            queue.unanswered_since = trouble.unanswered_since();
        });
    }

    /// The entries are durable: they go into the tail, and those who wait are told.
    pub(super) fn durable(&self, pending: Vec<Pending>) {
        let count = pending.len();
        let mut decided = Vec::with_capacity(count);
        let mut durable = None;
        {
            let mut tail = self.tail.lock();
            for Pending { entry, waiter, .. } in pending {
                decided.push((entry.seq, waiter, Outcome::Durable));
                durable = Some(entry.seq);
                tail.push(Arc::new(entry));
            }
        }
        self.tell(decided);
        self.change(|queue| {
            (queue.failing, queue.unanswered_since) = (None, None);
            queue.durable = durable.unwrap_or(queue.durable);
            queue.undecided -= count;
        });
    }

    /// The writer has ended: `last` are the entries that were being written, with what became of them; all others never will be.
    pub(super) fn end(&self, last: Vec<(Pending, Outcome)>, terminal: LegacyTerminal) {
        let waiting = {
            let mut queue = self.queue.lock();
            queue.ended.get_or_insert(terminal);
            (queue.bytes, queue.unanswered_since) = (0, None);
            std::mem::take(&mut queue.waiting)
        };
        let never = waiting.into_iter().map(|pending| (pending, Outcome::Never));
        let decided = last.into_iter().chain(never);
        self.tell(decided.map(|(pending, outcome)| (pending.entry.seq, pending.waiter, outcome)));
        self.change(|queue| queue.undecided = 0);
    }

    /// Tells tickets at once, and leaves callbacks to a blocking thread: one may take a lock or a while.
    fn tell(&self, decided: impl IntoIterator<Item = (Seq, Waiter, Outcome)>) {
        let since = self.now();
        let after: Weak<dyn AfterNotice> = self.myself.clone();
        for (callbacks, outcome) in tell_tickets(decided) {
            self.notifier.push(Notice { callbacks, outcome, since }, &after);
        }
    }

    pub(super) fn entries_since(&self, since: Seq, limit: usize) -> Result<Vec<Arc<LegacyEntry>>, TailMiss> {
        self.tail.lock().entries_since(since, limit)
    }

    pub(super) fn refuse_more(&self) {
        self.change(|queue| queue.draining = true);
    }

    /// Ends the writer: what waits is not sent any more.
    pub(super) fn stop(&self) {
        self.queue.lock().stopped = true;
        self.stop.notify_one();
        self.work.notify_one();
    }
}

impl AfterNotice for Shared {
    fn now(&self) -> MonoTime {
        self.env.clock.now()
    }

    fn after_notice(&self, ran: usize, _panicked: usize, _since: MonoTime, _began: MonoTime) {
        self.queue.lock().callbacks -= ran;
    }
}
