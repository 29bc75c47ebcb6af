//! Owns the standby as its user sees it: step, run, observe. How a round works is the follower's, promotion is beside it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ha_kv::{Hints, KvError, WatchKv};
use ha_types::{Backoff, Clock, Entropy, Seq};
use oplog_core::{BatchStorage, DurablePrefix, Position, Replica, StateMachine};

use crate::follower::Follower;
use crate::held::Held;
#[cfg(feature = "legacy")]
use crate::legacy::Legacy;
use crate::observer::Publisher;
use crate::round::Ended;
use crate::seen::Seen;
use crate::stop::Stop;
use crate::{Fault, Health, Observer, StandbyConfig, StandbyConfigError};

/// What a standby is given instead of reaching for it.
#[derive(Clone, Debug)]
pub struct StandbyEnv {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Jitter, and the owner of a claim.
    pub entropy: Arc<dyn Entropy>,
    /// Hints at changes of the prefix, if the store has them.
    pub watch: Option<Arc<dyn WatchKv>>,
}

/// A state machine that follows the log, and can be promoted with proof.
///
/// It is never made of a state that has served (invariant S9): step-down drops that state, and the node starts again from an
/// empty or restored one.
#[derive(Debug)]
pub struct Standby<S> {
    pub(crate) held: Held<S>,
    pub(crate) follower: Follower,
    #[cfg(feature = "legacy")]
    pub(crate) legacy: Option<Legacy<S>>,
}

/// Why a standby could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StandbyError {
    /// A setting cannot work.
    #[error(transparent)]
    Config(#[from] StandbyConfigError),
    /// The replica says that it is empty or restored, and its state has applied something else.
    #[error("the state has applied entry {applied}, its position says {position}; restore both from one snapshot")]
    Position {
        /// By the state machine.
        applied: Seq,
        /// By the position.
        position: Seq,
    },
}

/// Where a round ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is no log yet.
    Empty,
    /// The state follows a legacy log up to this entry. From there nobody is promoted.
    PerEntry(Seq),
    /// The state equals the log up to this prefix.
    Reached(DurablePrefix),
}

/// Why a round did not reach the prefix.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The store failed. What was applied stays; the next step goes on from there.
    #[error(transparent)]
    Store(KvError),
    /// The log is wrong, now or since an earlier step.
    #[error(transparent)]
    Unhealthy(Fault),
}

impl<S: StateMachine> Standby<S> {
    /// A standby at the replica's position.
    ///
    /// # Errors
    /// [`StandbyError`] names the setting or the positions that do not fit.
    pub fn new(
        storage: BatchStorage,
        replica: Replica<S>,
        config: StandbyConfig,
        env: StandbyEnv,
    ) -> Result<Self, StandbyError> {
        config.validate()?;
        let (applied, position) = (replica.applied(), replica.position().last_seq);
        if applied != position {
            return Err(StandbyError::Position { applied, position });
        }
        let StandbyEnv { clock, entropy, watch } = env;
        let (seen, publisher) = (Seen::default(), Publisher::new(&config));
        publisher.place(&replica, None);
        Ok(Self {
            held: Held::Batches(replica),
            follower: Follower { storage, config, clock, entropy, watch, seen, publisher },
            #[cfg(feature = "legacy")]
            legacy: None,
        })
    }

    /// The state.
    pub fn machine(&self) -> &S {
        self.held.machine()
    }

    /// How far it has applied; in the legacy log the last entry, as no batch.
    pub fn position(&self) -> Position {
        self.held.position()
    }

    /// The view from outside, for while it runs.
    pub fn observer(&self) -> Observer {
        self.follower.publisher.observer()
    }

    /// How it is.
    pub fn health(&self) -> Health {
        self.follower.publisher.health()
    }

    /// One round: reads the prefix, then applies the batches at or below it; in legacy mode the entries up to the base.
    ///
    /// # Errors
    /// [`StepError`]. Once unhealthy, every step says so without reading.
    ///
    /// # Cancel safety
    /// Whole entries only are applied; dropping the future loses nothing.
    pub async fn step(&mut self) -> Result<Step, StepError> {
        if let Health::Unhealthy { fault } = self.health() {
            return Err(StepError::Unhealthy(fault));
        }
        let ended = self.round(None).await;
        let publisher = &self.follower.publisher;
        match ended {
            Ok(Ended::Empty) => Ok(Step::Empty),
            #[cfg(feature = "legacy")]
            Ok(Ended::PerEntry(applied)) => Ok(Step::PerEntry(applied)),
            Ok(Ended::At(prefix)) => Ok(Step::Reached(prefix)),
            Err(Stop::Store(error)) => {
                publisher.store_failed(&error.to_string());
                Err(StepError::Store(error))
            }
            Err(Stop::Fault(fault)) => {
                tracing::error!(%fault, "the standby is unhealthy");
                publisher.unhealthy(fault.clone());
                Err(StepError::Unhealthy(fault))
            }
            Err(Stop::NotLeader) => unreachable!("a round without a guard does not ask for leadership"),
        }
    }

    /// Follows until the log turns out to be wrong, and says how. A store that fails is waited for.
    ///
    /// # Cancel safety
    /// Dropping the future stops following at an entry's end; it may be run again, or promoted.
    pub async fn run(&mut self) -> Fault {
        let config = &self.follower.config;
        let (poll, mut backoff) = (config.poll, Backoff::new(config.retry_min, config.retry_max));
        let retry_max = config.retry_max;
        let (mut watched, mut hints) = (self.watched_keys(), self.hints(retry_max));
        loop {
            match self.step().await {
                Ok(_) => {
                    backoff.reset();
                    let keys = self.watched_keys();
                    if keys != watched {
                        (watched, hints) = (keys, self.hints(retry_max));
                    }
                    let hinted = tokio::time::timeout(poll, hints.next()).await.is_ok();
                    self.follower.publisher.update(|m| if hinted { m.hints += 1 } else { m.polls += 1 });
                }
                Err(StepError::Store(error)) => {
                    let pause = backoff.next_pause(&*self.follower.entropy);
                    tracing::warn!(%error, ?pause, at = %self.position().last_seq, "the log could not be read; trying again");
                    tokio::time::sleep(pause).await;
                }
                Err(StepError::Unhealthy(fault)) => return fault,
            }
        }
    }

    fn hints(&self, retry_max: Duration) -> Hints {
        let (start, end) = self.watched_keys();
        Hints::new(self.follower.watch.clone(), start, end, retry_max)
    }

    /// What is watched: the prefix; while the state stands in the legacy log, every key of the log, as each entry is a key.
    fn watched_keys(&self) -> (Bytes, Bytes) {
        let keys = self.follower.storage.keys();
        match &self.held {
            Held::Batches(_) => {
                let prefix = keys.durable_prefix();
                let end = [&prefix[..], &[0]].concat().into();
                (prefix, end)
            }
            #[cfg(feature = "legacy")]
            Held::PerEntry(_) => keys.whole_log(),
        }
    }
}
