//! Owns one term of serving from its begin to its end: first the calls end, then the gate closes, then leadership is given up.

use std::fmt;
use std::time::Duration;

use ha_types::{Clock, Epoch, MonoTime};
use leadership::{Leadership, LossReason};
use master::{Master, Serving};
use tokio::sync::watch;

use super::role::Role;
use super::shared::Shared;
use super::shutdown::Shutdown;

/// One term of serving.
#[derive(Clone, Debug)]
pub(crate) struct Term {
    /// The claimed epoch.
    pub(crate) epoch: Epoch,
    /// The master that answers.
    pub(crate) master: Master,
    step_down: watch::Sender<bool>,
}

/// Why a term ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TermEnd {
    /// Leadership was lost; another node may serve already.
    Lost(LossReason),
    /// The log's writer, or the master, cannot go on.
    Failed(String),
    /// An operator asked; another node should lead.
    SteppedDown,
    /// The node ends.
    Shutdown,
}

impl fmt::Display for TermEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(why) => why.fmt(f),
            Self::Failed(why) => f.write_str(why),
            Self::SteppedDown => f.write_str("the leader was asked to step down"),
            Self::Shutdown => f.write_str("the node ends"),
        }
    }
}

/// After the gate is closed, for so long the calls cut short may take to be told.
const TOLD_WITHIN: Duration = Duration::from_secs(1);

impl Term {
    /// A term that begins.
    pub(crate) fn new(epoch: Epoch, master: Master) -> Self {
        Self { epoch, master, step_down: watch::Sender::new(false) }
    }

    /// Asks for this term to end.
    pub(crate) fn ask_to_step_down(&self) {
        self.step_down.send_replace(true);
    }

    async fn asked_to_step_down(&self) {
        // The sender is ours, so the channel cannot close.
        let _ = self.step_down.subscribe().wait_for(|asked| *asked).await;
    }

    /// Serves until the term ends, and ends it.
    pub(super) async fn run(
        self,
        shared: &Shared,
        leadership: Leadership,
        clock: &dyn Clock,
        drain: Duration,
        shutdown: &Shutdown,
    ) -> TermEnd {
        shared.set_term(Some(self.clone()));
        shared.set_role(Role::Leader, None);
        let end = self.last(&leadership, shutdown).await;
        match &end {
            TermEnd::Lost(_) | TermEnd::Failed(_) => {
                let why = &end.to_string();
                tracing::warn!(epoch = %self.epoch, reason = why, "serving ends");
                shared.set_role(Role::Draining, Some(why.clone()));
                shared.set_term(None);
                self.close(shared, why).await;
            }
            TermEnd::SteppedDown | TermEnd::Shutdown => {
                let why = &end.to_string();
                shared.set_role(Role::Draining, Some(why.clone()));
                let deadline = clock.now().saturating_add(drain);
                // A store that is silent to the writer holds the drain up, but not leadership.
                tokio::select! {
                    biased;
                    () = self.hand_out_last_replies(shared, clock, deadline) => {}
                    lost = self.enforced(&leadership) => {
                        tracing::warn!(epoch = %self.epoch, reason = %lost, "the last calls are cut short");
                        shared.set_term(None);
                    }
                }
                self.close(shared, why).await;
            }
        }
        let given_up = leadership.resign().await;
        tracing::info!(epoch = %self.epoch, ?given_up, "the term has ended");
        end
    }

    /// Waits for whatever ends the term.
    async fn last(&self, leadership: &Leadership, shutdown: &Shutdown) -> TermEnd {
        let mut serving = self.master.serving();
        let mut writer = self.master.writer().status();
        tokio::select! {
            biased;
            // Dropping the status borrow at once keeps the writer free to publish.
            ended = async { writer.wait_for(|s| s.terminal.is_some()).await.ok().and_then(|s| s.terminal.clone()) } => {
                TermEnd::Failed(ended.map_or_else(|| "the log's writer is gone".to_owned(), |t| format!("the log's writer ended: {t:?}")))
            }
            closed = async { serving.wait_for(|s| matches!(s, Serving::Closed { .. })).await.map(|s| s.clone()) } => {
                match closed {
                    Ok(Serving::Closed { reason }) => TermEnd::Failed(reason),
                    _ => TermEnd::Failed("the master is gone".to_owned()),
                }
            }
            lost = self.enforced(leadership) => TermEnd::Lost(lost),
            _ = shutdown.wanted() => TermEnd::Shutdown,
            () = self.asked_to_step_down() => TermEnd::SteppedDown,
        }
    }

    /// Applies the stop rule (design §4) until leadership ends.
    async fn enforced(&self, leadership: &Leadership) -> LossReason {
        let silence = self.master.writer().status();
        leadership.enforce(move || silence.borrow().unanswered_since).await
    }

    /// Writes on their way are finished, then no call enters any more, then the last one leaves.
    async fn hand_out_last_replies(&self, shared: &Shared, clock: &dyn Clock, deadline: MonoTime) {
        if let Err(error) = self.master.drain(deadline).await {
            tracing::warn!(%error, "not everything was finished in time");
        }
        shared.set_term(None);
        let left = deadline.saturating_since(clock.now());
        if tokio::time::timeout(left, shared.in_flight.none()).await.is_err() {
            tracing::warn!(calls = shared.in_flight.now(), "calls were still being answered at the deadline");
        }
    }

    /// Closes the gate, tells every waiting call the truth, and waits until it is told.
    async fn close(&self, shared: &Shared, why: &str) {
        self.master.close(why);
        self.master.stop().await;
        if tokio::time::timeout(TOLD_WITHIN, shared.in_flight.none()).await.is_err() {
            tracing::warn!(calls = shared.in_flight.now(), "calls cut short were not all told");
        }
    }
}
