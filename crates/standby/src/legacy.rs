//! Owns the legacy mode of a standby (feature `legacy`, design §3.4 and §4): following the per-entry log until it is cut over, and the
//! crossing to batch records at the base. What an entry is and how a gap is found are `oplog_core::legacy`'s.

mod above_base;
mod bounded_kv;
mod crossing;
mod gap;
mod out_of_order;
mod round;
mod settings;

use std::fmt;
use std::sync::Arc;

use ha_types::{MonoTime, Seq};
use oplog_core::legacy::{LegacyFollower, LegacyLog, LegacyReplica};
use oplog_core::{BatchStorage, StateMachine};

use self::bounded_kv::BoundedKv;
use self::out_of_order::{Doubt, RollBacks};
use crate::follower::Follower;
use crate::{Standby, StandbyError};

pub use settings::LegacyConfig;

/// Switches the legacy mode on.
pub struct LegacyMode<S> {
    /// Its settings.
    pub config: LegacyConfig,
    /// Makes a state that has applied nothing: one that went above the base is thrown away, and following starts again.
    pub fresh: Arc<dyn Fn() -> S + Send + Sync>,
}

impl<S> Clone for LegacyMode<S> {
    fn clone(&self) -> Self {
        Self { config: self.config.clone(), fresh: Arc::clone(&self.fresh) }
    }
}

impl<S> fmt::Debug for LegacyMode<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LegacyMode").field("config", &self.config).finish_non_exhaustive()
    }
}

/// What the legacy mode remembers between rounds.
#[derive(Debug)]
pub(crate) struct Legacy<S> {
    mode: LegacyMode<S>,
    /// The log for reading, each request bounded and counted.
    storage: BatchStorage,
    log: LegacyLog,
    /// Where the log was cut over, once that was read.
    base: Option<Seq>,
    /// Whether the state went on behind a hole before there was a base.
    skipped: bool,
    /// The reading that is not believed.
    doubt: Option<Doubt>,
    roll_backs: RollBacks,
    /// When entries above the base were looked for last.
    looked_above: Option<MonoTime>,
}

impl<S: StateMachine> Legacy<S> {
    fn new(mode: LegacyMode<S>, follower: &Follower) -> Self {
        let kv = BoundedKv::new(
            Arc::clone(follower.storage.kv()),
            follower.config.request_timeout,
            follower.publisher.counters(),
        );
        let storage = BatchStorage::open_for_reading(Arc::new(kv), follower.storage.keys().clone());
        let log = LegacyLog::beside(&storage);
        let (doubt, roll_backs) = (None, RollBacks::default());
        Self { mode, storage, log, base: None, skipped: false, doubt, roll_backs, looked_above: None }
    }

    /// A state that has applied nothing, at the beginning of the log.
    fn at_the_beginning(&self, follower: &Follower) -> Box<LegacyFollower<S>> {
        let replica = LegacyReplica::empty((self.mode.fresh)());
        let clock = Arc::clone(&follower.clock);
        Box::new(LegacyFollower::new(self.log.clone(), replica, clock, follower.config.page_bytes))
    }
}

impl<S: StateMachine> Standby<S> {
    /// The same standby, which also follows a legacy per-entry log: until it is cut over, and through its base afterwards.
    ///
    /// Before the cutover it is never promoted, and a log that was never written counts as one that is still to be cut over.
    ///
    /// # Errors
    /// [`StandbyError`] names the setting that cannot work, or says that a state made anew has applied something.
    pub fn with_legacy(mut self, mode: LegacyMode<S>) -> Result<Self, StandbyError> {
        mode.config.validate()?;
        let applied = (mode.fresh)().last_applied();
        if applied != Seq::ZERO {
            return Err(StandbyError::Position { applied, position: Seq::ZERO });
        }
        self.legacy = Some(Legacy::new(mode, &self.follower));
        Ok(self)
    }
}
