//! Owns the writer's state: admission, the sequence, the waiting queue, the batch in flight and the latch of the end. Events in,
//! actions out; no clock, no I/O, no runtime, and it wakes nobody: wakers are handed out to be woken without the lock.

mod answers;
mod departure;
mod ending;

use std::task::Waker;
use std::time::Duration;

use ha_types::{MonoTime, Seq};

use super::admission::{Admission, Turn};
use super::class::{Class, Slots};
use super::flight::Flight;
use super::notifier::Callback;
use super::waiting::WaitingQueue;
use super::{Closed, CommitError, Phase, Refusal, ReserveError, Terminal, WriterConfig, WriterMetrics, WriterStatus};
use crate::record::OpenBatch;
use crate::{DurablePrefix, NewEntry};

pub(super) use departure::Sealed;
pub(super) use ending::Ended;

/// Callbacks that may wait for each entry that may wait, before admission closes: a slow callback holds up no transaction, so
/// something else has to bound the line.
const CALLBACKS_PER_SLOT: usize = 64;

/// All state behind the writer's lock.
#[derive(Debug)]
pub(super) struct Core {
    config: WriterConfig,
    admission: Admission,
    waiting: WaitingQueue,
    next_seq: Seq,
    durable: DurablePrefix,
    /// CRC of the last durable batch record.
    chain: u32,
    flying: Option<Flying>,
    /// Why the store fails; `None` while it does not.
    failing: Option<(Closed, String)>,
    /// The last failure, kept after it is cured.
    failed: Closed,
    draining: bool,
    /// No handle is left: nothing more can come.
    orphaned: bool,
    terminal: Option<Terminal>,
    /// Everything is resolved; the driver is gone.
    ended: bool,
    /// Largest record of one entry.
    entry_bytes: usize,
    /// The driver is woken when so many entries wait.
    wake_at: usize,
    callbacks_waiting: usize,
    counters: WriterMetrics,
    /// To be woken as soon as the lock is gone.
    wake: Vec<Waker>,
}

/// The batch that left the queue, with what it owes.
#[derive(Debug)]
struct Flying {
    first_seq: Seq,
    entries: usize,
    callbacks: Vec<(Seq, Callback)>,
    /// When its first entry was committed.
    committed_at: MonoTime,
    sealed_at: MonoTime,
    /// Its fate, once it is sealed.
    flight: Option<Flight>,
    record_bytes: usize,
    /// With a raw body: what a batch is filled and cut by.
    raw_bytes: usize,
    crc: u32,
    phase: Phase,
}

impl Core {
    pub(super) fn new(config: WriterConfig, durable: DurablePrefix, chain: u32) -> Self {
        let next_seq = durable.last_seq.next().expect("a decoded prefix leaves room for the next entry");
        Self {
            admission: Admission::new(config.oplog_batch_max_entries),
            waiting: WaitingQueue::new(config.oplog_batch_max_bytes),
            next_seq,
            durable,
            chain,
            flying: None,
            failing: None,
            failed: Closed::Prefix,
            draining: false,
            orphaned: false,
            terminal: None,
            ended: false,
            entry_bytes: config.oplog_batch_max_bytes,
            wake_at: usize::MAX,
            callbacks_waiting: 0,
            counters: WriterMetrics::default(),
            wake: Vec::new(),
            config,
        }
    }

    /// Who is to be woken now that the lock is gone.
    pub(super) fn take_wakers(&mut self) -> Vec<Waker> {
        // Mostly nobody, and then nothing is written either.
        if self.wake.is_empty() { Vec::new() } else { std::mem::take(&mut self.wake) }
    }

    // ---- admission (RFC batch record §7)

    /// What keeps admission closed, whether or not there is room.
    fn closed(&self) -> Option<Closed> {
        let ended = self.terminal.as_ref().map(|_| Closed::Ended);
        let failing = || self.failing.as_ref().map(|(closed, _)| *closed);
        ended.or_else(failing).or_else(|| self.draining.then_some(Closed::Draining))
    }

    /// The same in words.
    fn closed_because(&self) -> Option<String> {
        let state = match &self.terminal {
            Some(terminal) => Some(format!("it has ended: {terminal}")),
            None => self.draining.then(|| "it is being drained".into()),
        };
        // The first cause stays in sight whatever follows it.
        let failing = self.failing.as_ref().map(|(_, why)| format!("the store fails: {why}"));
        match (state, failing) {
            (Some(state), Some(failing)) => Some(format!("{state}; {failing}")),
            (state, failing) => state.or(failing),
        }
    }

    fn is_closed(&self) -> bool {
        self.terminal.is_some() || self.draining || self.failing.is_some()
    }

    #[cold]
    fn unavailable(&mut self) -> ReserveError {
        // Who lost its place in the line while the store failed may look when it works again.
        let closed = self.closed().unwrap_or(self.failed);
        self.counters.refused.count(Refusal::Closed(closed));
        let why = self.closed_because();
        ReserveError::Unavailable {
            closed,
            reason: why.unwrap_or_else(|| "the store failed while the caller waited; try again".into()),
        }
    }

    /// RFC `Reserve()`, `n` times or not at all.
    pub(super) fn reserve(&mut self, class: Class, n: usize) -> Result<(), ReserveError> {
        let limit = self.admission.limit(class);
        if !(1..=limit).contains(&n) {
            return Err(ReserveError::OutOfRange { asked: n, limit });
        }
        if self.is_closed() {
            return Err(self.unavailable());
        }
        if !self.admission.take(class, n) {
            self.counters.refused.count(self.full_of(class, n));
            return Err(ReserveError::QueueFull);
        }
        Ok(())
    }

    /// What there is too much of, while no slot is free.
    fn full_of(&self, class: Class, n: usize) -> Refusal {
        let bulk_entries = self.admission.used().bulk + n > self.admission.limit(Class::Bulk);
        match () {
            () if class == Class::Bulk && bulk_entries => Refusal::BulkEntries,
            () if class == Class::Bulk && !self.has_bulk_room() => Refusal::BulkBytes,
            () if self.waiting.bytes() >= self.config.oplog_waiting_max_bytes => Refusal::QueueBytes,
            () if self.callbacks_waiting >= self.most_callbacks() => Refusal::Callbacks,
            () => Refusal::QueueEntries,
        }
    }

    fn most_callbacks(&self) -> usize {
        self.config.oplog_batch_max_entries.saturating_mul(CALLBACKS_PER_SLOT)
    }

    /// The first look of one who is ready to wait: `None` if the slot is the caller's, else its number in the line.
    pub(super) fn reserve_or_join(&mut self, class: Class, waker: &Waker) -> Result<Option<u64>, ReserveError> {
        if self.is_closed() {
            return Err(self.unavailable());
        }
        Ok((!self.admission.take(class, 1)).then(|| self.admission.join(class, waker.clone())))
    }

    /// A later look: whether the slot is the caller's now.
    pub(super) fn turn(&mut self, class: Class, number: u64, waker: &Waker) -> Result<bool, ReserveError> {
        match self.admission.turn(class, number, waker, &mut self.wake) {
            Turn::Granted => Ok(true),
            Turn::Waiting => Ok(false),
            Turn::Refused => Err(self.unavailable()),
        }
    }

    /// Leaves the line without another look.
    pub(super) fn leave(&mut self, class: Class, number: u64) {
        self.admission.leave(class, number, &mut self.wake);
    }

    /// RFC `Abort()`.
    pub(super) fn abort(&mut self, class: Class) {
        self.admission.release(Slots::of(class, 1), &mut self.wake);
    }

    /// Opens or closes admission by what waits; slots are counted apart.
    fn reopen(&mut self) {
        let room = self.waiting.bytes() < self.config.oplog_waiting_max_bytes
            && self.callbacks_waiting < self.most_callbacks();
        let bulk_room = self.has_bulk_room();
        self.admission.set_open(room, bulk_room, &mut self.wake);
    }

    /// Bulk that waits leaves room in the batch it waits for: a waiter's entry is in the next transaction but one at the latest.
    fn has_bulk_room(&self) -> bool {
        self.waiting.bulk_bytes() < Class::share(self.waiting.seal_bytes())
    }

    // ---- commit (RFC batch record §7, §9)

    /// RFC `Commit()` on a slot the caller holds. On success the slot is the entry's, the callback was taken, and the flag says
    /// whether the driver must be woken; on an error both are still the caller's: to drop a callback is to run code of its
    /// owner's, which may come back to this lock.
    pub(super) fn commit(
        &mut self,
        class: Class,
        entry: &NewEntry<'_>,
        callback: &mut Option<Callback>,
        now: impl FnOnce() -> MonoTime,
    ) -> Result<(Seq, bool), CommitError> {
        if let Some(terminal) = &self.terminal {
            self.counters.refused.count(Refusal::Closed(Closed::Ended));
            return Err(CommitError::Terminal(terminal.clone()));
        }
        let bytes = OpenBatch::entry_len(entry).saturating_add(OpenBatch::HEADER_BOUND);
        if bytes > self.entry_bytes {
            self.counters.refused.count(Refusal::TooLarge);
            return Err(CommitError::TooLarge { bytes, limit: self.entry_bytes });
        }
        let seq = self.next_seq;
        let Some(next) = seq.next() else {
            return Err(CommitError::Invalid("the log has used all its sequence numbers".into()));
        };
        let calls_back = callback.is_some();
        if let Err(e) = self.waiting.push(class, seq, entry, callback, now) {
            self.counters.refused.count(Refusal::Invalid);
            return Err(CommitError::Invalid(e.to_string()));
        }
        self.next_seq = next;
        self.counters.committed += 1;
        if calls_back {
            self.callbacks_waiting += 1;
        }
        let no_bulk_room = class == Class::Bulk && !self.has_bulk_room();
        if no_bulk_room || self.waiting.bytes() >= self.config.oplog_waiting_max_bytes {
            self.reopen();
        }
        let wake = self.waiting.entries() >= self.wake_at;
        if wake {
            self.wake_at = usize::MAX;
        }
        Ok((seq, wake))
    }

    // ---- what can be seen

    /// Entries committed and not known durable.
    pub(super) fn not_durable(&self) -> u64 {
        self.next_seq.get() - 1 - self.durable.last_seq.get()
    }

    /// Reservations neither committed nor aborted.
    pub(super) fn reserved(&self) -> usize {
        self.admission.used().all - self.waiting.entries()
    }

    pub(super) fn callbacks_waiting(&self) -> usize {
        self.callbacks_waiting
    }

    /// Entries of each part that a cut left over.
    #[cfg(test)]
    pub(super) fn cut_parts(&self) -> Vec<usize> {
        self.waiting.cut_parts()
    }

    pub(super) fn terminal(&self) -> Option<&Terminal> {
        self.terminal.as_ref()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    pub(super) fn status(&self) -> WriterStatus {
        let flight = self.flying.as_ref().and_then(|f| f.flight.as_ref());
        WriterStatus {
            accepting: !self.is_closed(),
            closed: self.closed(),
            reason: self.closed_because(),
            terminal: self.terminal.clone(),
            durable: self.durable,
            unanswered_since: flight.and_then(|flight| flight.trouble().unanswered_since()),
        }
    }

    fn phase(&self) -> Phase {
        match &self.flying {
            _ if self.ended => Phase::Ended,
            Some(flying) => flying.phase,
            None if self.waiting.all_entries() > 0 => Phase::Waiting,
            None => Phase::Idle,
        }
    }

    /// When the oldest entry that is not known durable was committed.
    fn oldest_open(&self) -> Option<MonoTime> {
        self.flying.as_ref().map(|flying| flying.committed_at).or_else(|| self.waiting.oldest())
    }

    pub(super) fn metrics(&self, now: MonoTime) -> WriterMetrics {
        let flight = self.flying.as_ref().and_then(|f| f.flight.as_ref());
        let age = self.flying.as_ref().map_or(0, |f| millis(now.saturating_since(f.sealed_at)));
        WriterMetrics {
            retries: self.counters.retries + flight.map_or(0, Flight::retries),
            slots: self.admission.used().all as u64,
            bulk_slots: self.admission.used().bulk as u64,
            waiting_entries: self.waiting.all_entries() as u64,
            waiting_bytes: self.waiting.bytes() as u64,
            phase: self.phase(),
            prefix_lag_entries: self.not_durable(),
            prefix_lag_ms: self.oldest_open().map_or(0, |since| millis(now.saturating_since(since))),
            callbacks_waiting: self.callbacks_waiting as u64,
            stuck_batch_age_ms: age,
            seal_bytes: self.waiting.seal_bytes() as u64,
            ..self.counters.clone()
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
