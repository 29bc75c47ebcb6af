//! Owns the writer's state: admission, the sequence, the waiting queue, the batch in flight and the latch of the end. Events in,
//! actions out; no clock, no I/O, no runtime, and it wakes nobody: wakers are handed out to be woken without the lock.

mod answers;
mod departure;
mod ending;

use std::task::Waker;

use ha_types::{MonoTime, Seq};

use super::admission::{Admission, Turn};
use super::flight::Flight;
use super::notifier::Callback;
use super::waiting::WaitingQueue;
use super::{CommitError, ReserveError, Terminal, WriterConfig, WriterMetrics, WriterStatus};
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
    failing: Option<String>,
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
    crc: u32,
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
        std::mem::take(&mut self.wake)
    }

    // ---- admission (RFC batch record §7)

    /// Why nothing is admitted, whether or not there is room.
    fn closed(&self) -> Option<String> {
        let state = match &self.terminal {
            Some(terminal) => Some(format!("it has ended: {terminal}")),
            None => self.draining.then(|| "it is being drained".into()),
        };
        // The first cause stays in sight whatever follows it.
        let failing = self.failing.as_ref().map(|why| format!("the store fails: {why}"));
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
        self.counters.refused_unavailable += 1;
        // Who lost its place in the line while the store failed may look when it works again.
        let reason = self.closed().unwrap_or_else(|| "the store failed while the caller waited; try again".into());
        ReserveError::Unavailable { reason }
    }

    /// RFC `Reserve()`, `n` times or not at all.
    pub(super) fn reserve(&mut self, n: usize) -> Result<(), ReserveError> {
        let limit = self.config.oplog_batch_max_entries;
        if !(1..=limit).contains(&n) {
            return Err(ReserveError::OutOfRange { asked: n, limit });
        }
        if self.is_closed() {
            return Err(self.unavailable());
        }
        if !self.admission.take(n) {
            self.counters.refused_queue_full += 1;
            return Err(ReserveError::QueueFull);
        }
        Ok(())
    }

    /// The first look of one who is ready to wait: `None` if the slot is the caller's, else its number in the line.
    pub(super) fn reserve_or_join(&mut self, waker: &Waker) -> Result<Option<u64>, ReserveError> {
        if self.is_closed() {
            return Err(self.unavailable());
        }
        Ok((!self.admission.take(1)).then(|| self.admission.join(waker.clone())))
    }

    /// A later look: whether the slot is the caller's now.
    pub(super) fn turn(&mut self, number: u64, waker: &Waker) -> Result<bool, ReserveError> {
        match self.admission.turn(number, waker) {
            Turn::Granted => Ok(true),
            Turn::Waiting => Ok(false),
            Turn::Refused => Err(self.unavailable()),
        }
    }

    /// Leaves the line without another look.
    pub(super) fn leave(&mut self, number: u64) {
        self.admission.leave(number, &mut self.wake);
    }

    /// RFC `Abort()`.
    pub(super) fn abort(&mut self) {
        self.admission.release(1, &mut self.wake);
    }

    /// Opens or closes admission by what waits; slots are counted apart.
    fn reopen(&mut self) {
        let room = self.waiting.bytes() < self.config.oplog_waiting_max_bytes
            && self.callbacks_waiting < self.config.oplog_batch_max_entries.saturating_mul(CALLBACKS_PER_SLOT);
        self.admission.set_open(room, &mut self.wake);
    }

    // ---- commit (RFC batch record §7, §9)

    /// RFC `Commit()` on a slot the caller holds. On success the slot is the entry's, and the flag says whether the driver must
    /// be woken; on an error it is still the caller's.
    pub(super) fn commit(
        &mut self,
        entry: &NewEntry<'_>,
        callback: Option<Callback>,
        now: impl FnOnce() -> MonoTime,
    ) -> Result<(Seq, bool), CommitError> {
        if let Some(terminal) = &self.terminal {
            return Err(CommitError::Terminal(terminal.clone()));
        }
        let bytes = OpenBatch::entry_len(entry).saturating_add(OpenBatch::HEADER_BOUND);
        if bytes > self.entry_bytes {
            self.counters.refused_too_large += 1;
            return Err(CommitError::TooLarge { bytes, limit: self.entry_bytes });
        }
        let seq = self.next_seq;
        let Some(next) = seq.next() else {
            return Err(CommitError::Invalid("the log has used all its sequence numbers".into()));
        };
        let calls_back = callback.is_some();
        if let Err(e) = self.waiting.push(seq, entry, callback, now) {
            self.counters.refused_invalid += 1;
            return Err(CommitError::Invalid(e.to_string()));
        }
        self.next_seq = next;
        self.counters.committed += 1;
        if calls_back {
            self.callbacks_waiting += 1;
        }
        if self.waiting.bytes() >= self.config.oplog_waiting_max_bytes {
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
        self.admission.used() - self.waiting.entries()
    }

    pub(super) fn callbacks_waiting(&self) -> usize {
        self.callbacks_waiting
    }

    /// Committed entries that hold slots.
    pub(super) fn waiting_entries(&self) -> usize {
        self.waiting.entries()
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
            reason: self.closed(),
            terminal: self.terminal.clone(),
            durable: self.durable,
            unanswered_since: flight.and_then(Flight::unanswered_since),
        }
    }

    pub(super) fn metrics(&self, now: MonoTime) -> WriterMetrics {
        let flight = self.flying.as_ref().and_then(|f| f.flight.as_ref());
        let age = self.flying.as_ref().map_or(0, |f| now.saturating_since(f.sealed_at).as_millis());
        WriterMetrics {
            retries: self.counters.retries + flight.map_or(0, Flight::retries),
            slots: self.admission.used() as u64,
            waiting_entries: self.waiting.all_entries() as u64,
            waiting_bytes: self.waiting.bytes() as u64,
            callbacks_waiting: self.callbacks_waiting as u64,
            stuck_batch_age_ms: u64::try_from(age).unwrap_or(u64::MAX),
            seal_bytes: self.waiting.seal_bytes() as u64,
            ..self.counters.clone()
        }
    }
}
