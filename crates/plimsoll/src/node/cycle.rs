//! Owns the way from standby to leader and back: follow, campaign when close, promote, serve, drop the state, follow anew.

use std::sync::Arc;
use std::time::Duration;

use ha_types::{Backoff, Clock, Entropy};
use leadership::{CampaignError, Elector, Leadership, LossReason};
use master::{Master, MasterConfig, MasterState, ServeEnv};
use oplog_core::{BatchStorage, ClaimError, Replica, TakeOverRefused, WriterConfig};
use standby::{
    Fault, Health, LegacyConfig, LegacyMode, NotClose, Observer, PromoteError, Standby, StandbyConfig, StandbyEnv,
};

use super::role::Role;
use super::shared::Shared;
use super::shutdown::{Ending, Shutdown};
use super::term::{Term, TermEnd};
use crate::store::Store;

/// Everything the way needs. It was all checked before.
pub(super) struct Cycle {
    pub(super) shared: Arc<Shared>,
    pub(super) store: Store,
    pub(super) storage: BatchStorage,
    pub(super) elector: Arc<Elector>,
    pub(super) standby: StandbyConfig,
    pub(super) legacy: Option<LegacyConfig>,
    pub(super) master: MasterConfig,
    pub(super) writer: WriterConfig,
    pub(super) ttl: Duration,
    pub(super) drain: Duration,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) entropy: Arc<dyn Entropy>,
    pub(super) shutdown: Shutdown,
}

/// Where following ended.
enum Followed {
    Won(Leadership),
    Unhealthy(Fault),
    NoElection(CampaignError),
    Shutdown,
}

/// How a node that may lead goes on after one life as standby and perhaps leader.
enum Next {
    /// Anew, campaigning after the pause.
    Again { pause: Duration },
    /// Not at all.
    End,
}

impl Cycle {
    /// Goes round until the node ends.
    pub(super) async fn run(self) {
        let mut backoff = Backoff::new(Duration::from_millis(100), self.ttl.max(Duration::from_millis(100)) * 2);
        let mut pause = Duration::ZERO;
        while let Next::Again { pause: next } = self.life(pause, &mut backoff).await {
            pause = next;
        }
    }

    /// One life: from an empty state to the end of its serving.
    async fn life(&self, pause: Duration, backoff: &mut Backoff) -> Next {
        let mut standby = match self.new_standby() {
            Ok(standby) => standby,
            Err(error) => return self.fatal(error),
        };
        self.shared.set_standby(standby.observer());
        self.shared.set_role(Role::Standby, None);
        let mut pause = pause;
        loop {
            let leadership = match self.follow(&mut standby, pause).await {
                Followed::Won(leadership) => leadership,
                Followed::Unhealthy(fault) => return self.unhealthy(fault).await,
                // A setting is wrong: a restart with a better one cures it.
                Followed::NoElection(error @ CampaignError::TtlTooShort { .. }) => return self.fatal(error),
                Followed::NoElection(error) => return self.unhealthy(error).await,
                Followed::Shutdown => return Next::End,
            };
            self.shared.set_role(Role::Promoting, None);
            let guard = leadership.guard();
            let promoted = tokio::select! {
                promoted = standby.promote(&*guard) => promoted,
                _ = self.shutdown.wanted() => {
                    let _ = leadership.resign().await;
                    return Next::End;
                }
            };
            match promoted {
                Ok(caught_up) => {
                    backoff.reset();
                    return self.serve(caught_up, leadership).await;
                }
                Err(refused) => {
                    let _ = leadership.resign().await;
                    if let PromoteError::Unhealthy(fault) = refused.error {
                        return self.unhealthy(fault).await;
                    }
                    let why = format!("a promotion was refused: {}{}", refused.error, flag_for(&refused.error));
                    self.shared.set_role(Role::Standby, Some(why));
                    standby = refused.standby;
                    pause = backoff.next_pause(&*self.entropy);
                }
            }
        }
    }

    fn new_standby(&self) -> Result<Standby<MasterState>, standby::StandbyError> {
        let env = StandbyEnv {
            clock: Arc::clone(&self.clock),
            entropy: Arc::clone(&self.entropy),
            watch: Some(Arc::clone(&self.store.watch)),
        };
        let standby =
            Standby::new(self.storage.clone(), Replica::empty(MasterState::new()), self.standby.clone(), env)?;
        match &self.legacy {
            None => Ok(standby),
            Some(config) => {
                standby.with_legacy(LegacyMode { config: config.clone(), fresh: Arc::new(MasterState::new) })
            }
        }
    }

    /// Follows, and campaigns whenever that makes sense, but not before `pause` is over.
    async fn follow(&self, standby: &mut Standby<MasterState>, pause: Duration) -> Followed {
        let observer = standby.observer();
        let campaign = async {
            tokio::time::sleep(pause).await;
            self.campaign(&observer).await
        };
        tokio::select! {
            biased;
            _ = self.shutdown.wanted() => Followed::Shutdown,
            fault = standby.run() => Followed::Unhealthy(fault),
            won = campaign => match won {
                Some(Ok(leadership)) => Followed::Won(leadership),
                Some(Err(error)) => Followed::NoElection(error),
                None => match standby.health() {
                    Health::Unhealthy { fault } => Followed::Unhealthy(fault),
                    _ => Followed::Shutdown,
                },
            },
        }
    }

    /// Campaigns while the standby is close to the prefix; `None` if it never will be.
    async fn campaign(&self, observer: &Observer) -> Option<Result<Leadership, CampaignError>> {
        loop {
            match observer.close_to_prefix().await {
                Ok(()) => {}
                Err(NotClose::Unhealthy(_) | NotClose::Ended) => return None,
            }
            tokio::select! {
                won = self.elector.campaign() => return Some(won),
                () = no_longer_close(observer) => tracing::info!("not close to the log any more; the campaign rests"),
            }
        }
    }

    async fn serve(&self, caught_up: oplog_core::CaughtUp<MasterState>, leadership: Leadership) -> Next {
        let epoch = caught_up.claim().epoch;
        let env = ServeEnv {
            config: self.master.clone(),
            writer: self.writer.clone(),
            clock: Arc::clone(&self.clock),
            entropy: Arc::clone(&self.entropy),
            guard: leadership.guard(),
            ttl: self.ttl.max(leadership.ttl()),
        };
        let master = match Master::serve(caught_up, env) {
            Ok(master) => master,
            // Settings were checked before the state moved; what is left is a fault of this program.
            Err(failed) => {
                let _ = leadership.resign().await;
                return self.fatal(failed);
            }
        };
        let term = Term::new(epoch, master);
        let end = term.run(&self.shared, leadership, &*self.clock, self.drain, &self.shutdown).await;
        match end {
            TermEnd::Shutdown => Next::End,
            // Another node shall have the time to win: it was asked for, or it may reach the store better.
            TermEnd::SteppedDown | TermEnd::Failed(_) | TermEnd::Lost(LossReason::StoreSilent { .. }) => {
                Next::Again { pause: self.ttl }
            }
            TermEnd::Lost(_) => Next::Again { pause: Duration::ZERO },
        }
    }

    /// The log or its store is wrong: the node stays up to say so, and neither follows nor leads until it is restarted. To end
    /// would be worse: whoever restarts it would only loop, or make an empty store in place of one that was removed.
    async fn unhealthy(&self, fault: impl std::fmt::Display) -> Next {
        tracing::error!(%fault, "this node neither follows nor leads until an operator has acted");
        self.shared.set_role(Role::Unhealthy, Some(fault.to_string()));
        self.shutdown.wanted().await;
        Next::End
    }

    fn fatal(&self, error: impl std::fmt::Display) -> Next {
        self.shutdown.begin(Ending::Fatal(error.to_string()));
        Next::End
    }
}

/// The flag by which an operator says what a refused take-over wants to hear.
fn flag_for(error: &PromoteError) -> &'static str {
    match error {
        PromoteError::Claim(ClaimError::TakeOver(TakeOverRefused::NotPermitted)) => " (--take-over-mooncake)",
        PromoteError::Claim(ClaimError::TakeOver(_)) => " (--old-primary-stopped)",
        _ => "",
    }
}

async fn no_longer_close(observer: &Observer) {
    const LOOK_EVERY: Duration = Duration::from_millis(200);
    while observer.may_campaign() {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

#[cfg(test)]
mod tests;
