//! Owns how a batch ends well, and how everything ends.

use std::time::Duration;

use ha_types::{MonoTime, Seq};

use super::Core;
use crate::writer::DrainError;
use crate::writer::notifier::Callback;
use crate::{Outcome, Terminal};

/// What a durable batch leaves to do outside the lock.
#[derive(Debug)]
pub(in crate::writer) struct Finished {
    /// Everything up to here is durable.
    pub(in crate::writer) through: Seq,
    pub(in crate::writer) callbacks: Vec<(Seq, Callback)>,
    /// How long it was in flight.
    pub(in crate::writer) took: Duration,
}

/// What the end leaves to do outside the lock.
#[derive(Debug)]
pub(in crate::writer) struct Ended {
    /// Everything up to here is durable.
    pub(in crate::writer) durable_through: Seq,
    /// Everything above that and up to here is unknown; what is above is never.
    pub(in crate::writer) unknown_through: Seq,
    /// Callbacks of the batch in flight, and what became of it.
    pub(in crate::writer) batch: (Vec<(Seq, Callback)>, Outcome),
    /// Callbacks of what never left.
    pub(in crate::writer) never: Vec<(Seq, Callback)>,
}

impl Core {
    /// The batch in flight is durable (RFC batch record §11): the gate opens again.
    pub(in crate::writer) fn finish(&mut self, now: MonoTime) -> Finished {
        let flying = self.flying.take().expect("a batch in flight is finished");
        let flight = flying.flight.expect("a batch is sealed before it is durable");
        assert_eq!(flight.expected, self.durable, "L3: the prefix moves from where it was");
        self.durable = flight.new;
        self.chain = flying.crc;
        self.failing = None;
        let took = now.saturating_since(flying.sealed_at);
        self.counters.retries += flight.retries();
        self.counters.batches += 1;
        self.counters.durable += flying.entries as u64;
        self.counters.bytes += flying.record_bytes as u64;
        self.counters.writing.record(took);
        Finished { through: self.durable.last_seq, callbacks: flying.callbacks, took }
    }

    /// Everything is over; `batch` is what became of the one in flight. Later calls find nothing to resolve.
    pub(in crate::writer) fn end(&mut self, batch: Outcome) -> Ended {
        self.latch(Terminal::Shutdown);
        self.ended = true;
        let mut unknown_through = self.durable.last_seq;
        let mut callbacks = Vec::new();
        if let Some(flying) = self.flying.take() {
            callbacks = flying.callbacks;
            if let Some(flight) = flying.flight {
                self.counters.retries += flight.retries();
                match batch {
                    Outcome::Durable => {
                        self.durable = flight.new;
                        unknown_through = flight.new.last_seq;
                        self.counters.batches += 1;
                        self.counters.durable += flying.entries as u64;
                        self.counters.bytes += flying.record_bytes as u64;
                    }
                    Outcome::Unknown => unknown_through = flight.new.last_seq,
                    Outcome::Never => {}
                }
            }
        }
        let slots = self.waiting.slots();
        let never = self.waiting.end();
        self.admission.release(slots, &mut self.wake);
        Ended { durable_through: self.durable.last_seq, unknown_through, batch: (callbacks, batch), never }
    }

    /// The driver is gone without having ended: what became of the batch in flight.
    pub(in crate::writer) fn fate_without_driver(&self) -> Outcome {
        let flight = self.flying.as_ref().and_then(|f| f.flight.as_ref());
        if flight.is_some() { Outcome::Unknown } else { Outcome::Never }
    }

    /// Callbacks of a batch have run: the first began `began` after the outcome was known, the last had run after `took`.
    pub(in crate::writer) fn callbacks_ran(&mut self, ran: usize, panicked: usize, began: Duration, took: Duration) {
        self.callbacks_waiting -= ran;
        self.counters.callback_panics += panicked as u64;
        self.counters.notifying.record(began);
        self.counters.calling_back.record(took);
        self.reopen();
    }

    /// The owner stops the writer.
    pub(in crate::writer) fn stop(&mut self) {
        self.latch(Terminal::Shutdown);
    }

    /// No handle is left: the writer ends once nothing waits.
    pub(in crate::writer) fn orphan(&mut self) {
        self.orphaned = true;
    }

    pub(in crate::writer) fn is_orphaned(&self) -> bool {
        self.orphaned
    }

    /// Closes admission for good.
    pub(in crate::writer) fn start_drain(&mut self) {
        self.draining = true;
        self.admission.refuse_all(&mut self.wake);
    }

    /// Whether the drain is over: `None` while something is open that may still close.
    pub(in crate::writer) fn drained(&self) -> Option<Result<(), DrainError>> {
        let open = self.open();
        let nothing_open = open.waiting == 0 && open.reserved == 0 && open.callbacks == 0;
        let no_more_comes = self.ended && open.callbacks == 0;
        match (nothing_open, no_more_comes) {
            (true, _) => Some(Ok(())),
            // A reservation can only be refused now, so it is nothing to wait for.
            (false, true) if open.waiting == 0 => Some(Ok(())),
            (false, true) => Some(Err(open)),
            (false, false) => None,
        }
    }

    /// What is still open.
    pub(in crate::writer) fn open(&self) -> DrainError {
        DrainError {
            waiting: self.not_durable(),
            reserved: self.reserved() as u64,
            callbacks: self.callbacks_waiting() as u64,
        }
    }
}
