//! Owns what all calls of a serving master share, and the few steps that several of them take.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use ha_types::{Clock, Epoch, LeaderGuard, MonoTime, ObjectIncarnation, ObjectKey, Owner, Seq, TenantId};
use oplog_core::{CommitError, OrderedWriter, Outcome, Reservation, ReserveError, Ticket};

use parking_lot::Mutex;

use crate::gate::{Gate, WritePass};
use crate::grants::Grants;
use crate::locks;
use crate::state::{MasterState, Place, Replica, ServingTerm, TenantIx};
use crate::{MasterConfig, MasterError};

/// The claim under which this master serves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Term {
    pub(crate) epoch: Epoch,
    pub(crate) owner: Owner,
    pub(crate) serving: ServingTerm,
    /// Until when no range that the log does not cover is handed out (M7).
    pub(crate) quarantine_until: MonoTime,
}

/// What all calls share.
pub(crate) struct Inner {
    pub(crate) state: MasterState,
    pub(crate) writer: OrderedWriter,
    pub(crate) gate: Arc<Gate>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) guard: Arc<dyn LeaderGuard>,
    pub(crate) config: MasterConfig,
    pub(crate) term: Term,
    pub(crate) incarnations: AtomicU64,
    pub(crate) grants: Grants,
    pub(crate) running_puts: AtomicUsize,
    pub(crate) pending_removals: AtomicU64,
    pub(crate) leases_granted: AtomicU64,
    pub(crate) next_segment: AtomicUsize,
    /// Until when grants and leases of times before the ones now in the log may run.
    pub(crate) earlier_grants_until: Mutex<MonoTime>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Master").field("term", &self.term).field("config", &self.config).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.gate.close("the master was dropped");
    }
}

impl Inner {
    pub(crate) fn now(&self) -> MonoTime {
        self.clock.now()
    }

    /// Call after the state was read and before the reply leaves (S9).
    pub(crate) fn check_serving(&self) -> Result<(), MasterError> {
        self.gate.check()?;
        self.check_leadership()
    }

    fn check_leadership(&self) -> Result<(), MasterError> {
        if self.guard.holds() {
            return Ok(());
        }
        Err(MasterError::NotLeader { reason: "its leadership is over or cannot be confirmed".into() })
    }

    /// The same for a call whose entry is committed already: it is not refused any more, so it cannot say *ask another node*,
    /// which would be asked to do it a second time.
    pub(crate) fn check_still_serving(&self) -> Result<(), MasterError> {
        self.check_serving().map_err(|e| MasterError::Unknown { reason: format!("it was accepted, and then {e}") })
    }

    /// A refusal rests on the state as much as an answer does: past leadership it is none (S9).
    pub(crate) fn refusal<T>(&self, result: Result<T, MasterError>) -> Result<T, MasterError> {
        if result.is_err() {
            self.check_serving()?;
        }
        result
    }

    /// Lets one write in.
    pub(crate) fn enter_write(&self) -> Result<WritePass<'_>, MasterError> {
        let pass = self.gate.enter()?;
        self.check_leadership()?;
        Ok(pass)
    }

    /// A place in the log, waited for before any lock is taken.
    pub(crate) async fn admission(&self) -> Result<Reservation, MasterError> {
        locks::assert_none_held();
        self.writer.ready().await.map_err(|e| self.not_admitted(e))
    }

    /// The same for one of many entries of a call, so that others need not wait behind all of them.
    pub(crate) async fn bulk_admission(&self) -> Result<Reservation, MasterError> {
        locks::assert_none_held();
        self.writer.ready_bulk().await.map_err(|e| self.not_admitted(e))
    }

    fn not_admitted(&self, error: ReserveError) -> MasterError {
        if let Err(closed) = self.gate.check() {
            return closed;
        }
        match error {
            ReserveError::QueueFull => MasterError::RetryAfter { ms: 10, reason: error.to_string() },
            ReserveError::Unavailable { .. } | ReserveError::OutOfRange { .. } => {
                MasterError::NotApplied { reason: error.to_string() }
            }
        }
    }

    /// What a refused commit means for the caller: no sequence was used, nothing has changed.
    pub(crate) fn not_committed(&self, error: CommitError) -> MasterError {
        match error {
            CommitError::TooLarge { .. } | CommitError::Invalid(_) => MasterError::Invalid(error.to_string()),
            CommitError::Terminal(_) => MasterError::NotApplied { reason: error.to_string() },
        }
    }

    /// Waits until the log has said what became of an entry.
    pub(crate) async fn outcome(&self, ticket: Ticket) -> Result<(), MasterError> {
        locks::assert_none_held();
        self.judge(ticket.await)
    }

    /// What an outcome means for the caller. Anything but durable ends serving: the state is ahead of the log for good.
    pub(crate) fn judge(&self, outcome: Outcome) -> Result<(), MasterError> {
        if outcome == Outcome::Durable {
            return Ok(());
        }
        let reason = self.end_of_log();
        self.gate.close(&reason);
        match outcome {
            Outcome::Never => Err(MasterError::NotApplied { reason }),
            _ => Err(MasterError::Unknown { reason }),
        }
    }

    pub(crate) fn end_of_log(&self) -> String {
        match &self.writer.status().borrow().terminal {
            Some(terminal) => format!("the log has ended: {terminal:?}"),
            None => "the log has ended".into(),
        }
    }

    /// Waits until the entry `seq`, which somebody else committed, is durable. For answers that rest on it.
    pub(crate) async fn durable(&self, seq: Seq) -> Result<(), MasterError> {
        locks::assert_none_held();
        let mut status = self.writer.status();
        loop {
            {
                let status = status.borrow_and_update();
                if status.durable.last_seq >= seq {
                    return Ok(());
                }
                if let Some(terminal) = &status.terminal {
                    return Err(MasterError::Unknown { reason: format!("the log has ended: {terminal:?}") });
                }
            }
            if status.changed().await.is_err() {
                return Err(MasterError::Unknown { reason: "the log has ended".into() });
            }
        }
    }

    /// Where the key lives; `None` if its tenant never had an object.
    pub(crate) fn find(&self, tenant: &TenantId, key: &ObjectKey) -> Option<(TenantIx, Place)> {
        let tenant = self.state.tenants.read().get(tenant.as_str())?;
        Some((tenant, self.state.shards.place(tenant, key.as_bytes())))
    }

    /// A name that no object has, had or will have (M8).
    pub(crate) fn next_incarnation(&self) -> ObjectIncarnation {
        let counter = self.incarnations.fetch_add(1, Ordering::Relaxed) + 1;
        ObjectIncarnation::of_claim(self.term.epoch, self.term.owner, counter)
            .expect("the epoch was checked before serving began, and the counter starts at 1")
    }

    /// Makes ranges free at `until`. Ranges of segments that are gone went with them.
    pub(crate) fn release(&self, replicas: &[Replica], size: u64, until: MonoTime) {
        let now = self.now();
        let segments = self.state.segments.read();
        for replica in replicas {
            if let Some(segment) = segments.get(replica.segment) {
                segment.space.lock().space.give_back_at(replica.address..replica.address + size, until, now);
            }
        }
    }

    pub(crate) fn margin(&self) -> Duration {
        self.config.clock_margin
    }

    pub(crate) fn ms_until(&self, until: MonoTime) -> u64 {
        let left = until.saturating_since(self.now());
        u64::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}
