//! Owns one round of a standby, in whichever format the log is: the boundary first, then what lies below it, and a second reading
//! before a doubtful one counts.

use ha_types::LeaderGuard;
#[cfg(feature = "legacy")]
use oplog_core::Seq;
use oplog_core::{DurablePrefix, StateMachine};

use crate::Standby;
use crate::held::Held;
use crate::stop::Stop;

/// How a round ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// There is no log.
    Empty,
    /// The state follows a log that was not cut over, or is still below its base.
    #[cfg(feature = "legacy")]
    PerEntry(Seq),
    /// The state equals the log up to this prefix.
    At(DurablePrefix),
}

impl<S: StateMachine> Standby<S> {
    /// One round: up to the boundary as it is read now. With a guard it stops when leadership ends. What a stale or torn reading could
    /// explain is read a second time before it counts.
    pub(crate) async fn round(&mut self, guard: Option<&dyn LeaderGuard>) -> Result<Ended, Stop> {
        let mut doubted_at = None;
        loop {
            let fault = match self.read_and_apply(guard).await {
                Err(Stop::Fault(fault)) if fault.needs_second_read() && doubted_at != Some(self.held.position()) => {
                    fault
                }
                ended => {
                    let dispelled = doubted_at.is_some() && ended.is_ok();
                    self.follower.publisher.update(|m| m.unconfirmed += u64::from(dispelled));
                    return ended;
                }
            };
            tracing::warn!(%fault, "a doubtful reading; reading again");
            // A later doubt, after progress, is another one.
            doubted_at = Some(self.held.position());
            tokio::time::sleep(self.follower.config.retry_min).await;
        }
    }

    async fn read_and_apply(&mut self, guard: Option<&dyn LeaderGuard>) -> Result<Ended, Stop> {
        let boundary = self.follower.boundary(&self.held).await?;
        #[cfg(feature = "legacy")]
        if let Some(ended) = self.legacy_round(&boundary).await? {
            return Ok(ended);
        }
        match &mut self.held {
            Held::Batches(replica) => self.follower.batches(replica, &boundary, guard).await,
            #[cfg(feature = "legacy")]
            Held::PerEntry(legacy) => Ok(Ended::PerEntry(legacy.replica().applied())),
        }
    }
}
