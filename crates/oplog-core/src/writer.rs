//! Owns the ordered writer: admission, sequence, batching, one transaction at a time, callbacks in order (RFC batch record
//! §§7–12, design §3.3). It does not know what an entry means, nor who leads.

mod admission;
mod class;
mod closed;
mod config;
mod contended;
mod core;
mod driver;
mod error;
pub(crate) mod flight;
mod metrics;
pub(crate) mod notifier;
pub(crate) mod patience;
mod phase;
mod ready;
mod reservation;
mod seal_delay;
mod shared;
mod status;
mod terminal;
#[cfg(test)]
mod tests;
mod ticket;
mod tickets;
mod to_wake;
pub(crate) mod trouble;
mod waiting;

use std::fmt;
use std::pin::pin;
use std::sync::Arc;

use ha_types::MonoTime;

pub use self::closed::{Closed, Refusal, Refusals};
pub use self::config::{WriterConfig, WriterEnv};
pub use self::error::{CommitError, DrainError, ReserveError};
pub use self::metrics::{StageMetrics, WriterMetrics};
pub use self::phase::Phase;
pub use self::reservation::Reservation;
pub use self::status::WriterStatus;
pub use self::terminal::Terminal;
pub use self::ticket::Ticket;

use self::class::Class;
use self::driver::Driver;
use self::ready::Ready;
use self::seal_delay::SealDelay;
use self::shared::{Handle, Shared};
use crate::ClaimedLog;
use crate::sync::{Runtime, sleep, watch};

/// The writer of a claimed log. Clones share it.
///
/// It goes on until it is [stopped](Self::stop) or meets a [`Terminal`] state; once the last clone, reservation and ticket is
/// dropped it writes what was committed and ends.
#[derive(Clone)]
pub struct OrderedWriter {
    handle: Arc<Handle>,
}

impl OrderedWriter {
    /// Starts on the current tokio runtime, with time enabled.
    ///
    /// # Errors
    /// The log back, and a sentence about the setting that is wrong for it or its store.
    ///
    /// # Panics
    /// Outside a tokio runtime, or in one without time.
    pub fn start(log: ClaimedLog, config: WriterConfig, env: WriterEnv) -> Result<Self, (Box<ClaimedLog>, String)> {
        if let Err(sentence) = config.validate_for_log(&log.storage).and_then(|()| has_room(&log)) {
            return Err((Box::new(log), sentence));
        }
        let compressor = match config.compressor() {
            Ok(compressor) => compressor,
            Err(sentence) => return Err((Box::new(log), sentence)),
        };
        let seal_delay = SealDelay::new(config.oplog_max_seal_delay);
        let shared = Shared::new(&log, config, env.clock);
        let driver = Driver::new(Arc::clone(&shared), log.storage, env.entropy, seal_delay, compressor);
        Runtime::current().spawn(driver.run());
        Ok(Self { handle: Arc::new(Handle(shared)) })
    }

    /// Takes a slot of the waiting queue, if one is free and nobody waits for it (RFC batch record §7). No sequence is used.
    ///
    /// # Errors
    /// [`ReserveError::QueueFull`], or [`ReserveError::Unavailable`] while the store fails, the writer is drained, or after its end.
    pub fn reserve(&self) -> Result<Reservation, ReserveError> {
        self.shared().with_core(|core| core.reserve(Class::Waiter, 1))?;
        Ok(Reservation::of_slot(Arc::clone(&self.handle), Class::Waiter))
    }

    /// Takes `n` slots at once, or none. The entries may still fall into two batches: admission is atomic, durability is not.
    ///
    /// # Errors
    /// As [`Self::reserve`], and [`ReserveError::OutOfRange`] for 0 and for more than `oplog_batch_max_entries`.
    pub fn reserve_many(&self, n: usize) -> Result<Vec<Reservation>, ReserveError> {
        self.reserve_class(Class::Waiter, n)
    }

    /// [`Self::reserve_many`] for a producer of many entries that waits for none of them before the next, such as a batch
    /// operation. *Bulk* may have at most seven eighths of the slots, and of the bytes of one batch (what is reserved may commit
    /// beyond that), so that whoever waits for its entry finds a slot at once and its entry is durable within two transactions
    /// however much bulk comes.
    ///
    /// # Errors
    /// As [`Self::reserve_many`], with bulk's share as the limit.
    pub fn reserve_bulk(&self, n: usize) -> Result<Vec<Reservation>, ReserveError> {
        self.reserve_class(Class::Bulk, n)
    }

    fn reserve_class(&self, class: Class, n: usize) -> Result<Vec<Reservation>, ReserveError> {
        self.shared().with_core(|core| core.reserve(class, n))?;
        Ok((0..n).map(|_| Reservation::of_slot(Arc::clone(&self.handle), class)).collect())
    }

    /// Waits for a slot, first come first served; [`Self::reserve`] does not overtake those who wait.
    ///
    /// # Errors
    /// [`ReserveError::Unavailable`] at once while the store fails, the writer is drained, or after its end, and as soon as one of
    /// these begins while it waits.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the line; a slot that was just granted goes to the next.
    pub async fn ready(&self) -> Result<Reservation, ReserveError> {
        Ready::new(&self.handle, Class::Waiter).await
    }

    /// Waits for a slot of [bulk](Self::reserve_bulk)'s share, first come first served: others pass while bulk has its share, and
    /// nobody who came later does once it has less.
    ///
    /// # Errors
    /// As [`Self::ready`].
    ///
    /// # Cancel safety
    /// As [`Self::ready`].
    pub async fn ready_bulk(&self) -> Result<Reservation, ReserveError> {
        Ready::new(&self.handle, Class::Bulk).await
    }

    /// Its status, now and whenever it changes.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<WriterStatus> {
        self.shared().subscribe()
    }

    /// Its figures.
    #[must_use]
    pub fn metrics(&self) -> WriterMetrics {
        let now = self.shared().now();
        self.shared().with_core(|core| core.metrics(now))
    }

    /// Closes admission for good and waits until all committed entries are durable, all reservations used or given back, and all
    /// callbacks have run. What is reserved may still commit.
    ///
    /// # Errors
    /// [`DrainError`] at the deadline, or when the writer ended with entries that are not durable.
    ///
    /// # Cancel safety
    /// Admission stays closed; another drain goes on waiting.
    pub async fn drain(&self, deadline: MonoTime) -> Result<(), DrainError> {
        let shared = self.shared();
        shared.with_core(core::Core::start_drain);
        shared.publish();
        loop {
            let mut progress = pin!(shared.progress.notified());
            progress.as_mut().enable();
            if let Some(result) = shared.with_core(|core| core.drained()) {
                return result;
            }
            let left = deadline.saturating_since(shared.now());
            if left.is_zero() {
                return Err(shared.with_core(|core| core.open()));
            }
            tokio::select! {
                biased;
                () = progress => {}
                () = sleep(left) => {}
            }
        }
    }

    /// Ends it with [`Terminal::Shutdown`], unless it has ended: what waits never becomes durable, the batch in flight gets a
    /// moment for its answer, and every ticket is told the truth. Callbacks may still run when it returns.
    ///
    /// # Cancel safety
    /// The writer ends all the same.
    pub async fn stop(&self) {
        let shared = self.shared();
        shared.with_core(core::Core::stop);
        shared.publish();
        shared.stop.notify_one();
        shared.work.notify_one();
        loop {
            let mut progress = pin!(shared.progress.notified());
            progress.as_mut().enable();
            if shared.with_core(|core| core.has_ended()) {
                return;
            }
            progress.await;
        }
    }

    fn shared(&self) -> &Shared {
        &self.handle.0
    }
}

impl fmt::Debug for OrderedWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrderedWriter").field("status", &*self.shared().subscribe().borrow()).finish_non_exhaustive()
    }
}

/// Whether the log's numbers leave room for another entry and batch.
fn has_room(log: &ClaimedLog) -> Result<(), String> {
    let prefix = log.prefix;
    let room = prefix.last_seq.checked_add(2).and(prefix.batch_id.checked_add(2));
    room.map(|_| ()).ok_or_else(|| {
        format!(
            "the durable prefix is at the end of its numbers (batch {}, entry {}); start a new cluster",
            prefix.batch_id, prefix.last_seq
        )
    })
}
