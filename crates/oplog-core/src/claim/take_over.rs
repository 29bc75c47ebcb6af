//! Owns the claim of a log that Mooncake writes (design §3.4): refusals, the watch for a primary that is alive, the transaction.

use std::time::Duration;

use ha_kv::TxnOutcome;

use super::claimant::{Claimant, Swap};
use super::verdict::Verdict;
use super::{ClaimError, TakeOverRefused};
use crate::storage::{OldLog, TakeOver};
use crate::{DurablePrefix, LogError, StateMachine};

/// For so long prefix and producer view must stay as they are, unless the old primary is said to have stopped.
const WATCH: Duration = Duration::from_secs(5);

/// How often leadership is asked meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(250);

impl<S: StateMachine> Claimant<'_, S> {
    /// Takes the log over at `expected` if it is Mooncake's; `None` if it is not.
    pub(super) async fn take_over(&mut self, expected: &DurablePrefix) -> Result<Option<Swap>, ClaimError> {
        let first = self.old_log().await?;
        if first.is_none() && !expected.is_mooncakes() {
            return Ok(None);
        }
        let mine = self.next_claim(expected)?;
        let Some(first) = first else { return self.settled(expected, &mine).await.map(Some) };
        let permit = self.storage.take_over_permitted().ok_or(TakeOverRefused::NotPermitted)?;
        let mut old = self.watched(first, permit).await?;
        loop {
            if boundary_of(&old) != Some(*expected) {
                return self.settled(expected, &mine).await.map(Some);
            }
            let view = self.storage.next_view(&old)?;
            self.check_leadership()?;
            match self.storage.take_over(&old, &mine, view).await {
                Ok(TxnOutcome::Committed) => return Ok(Some(Swap::TakenOver(mine))),
                Ok(TxnOutcome::CompareFailed) => self.silence.broken(),
                Err(error) if error.is_unknown() => {
                    tracing::warn!(%error, "whether the take-over was applied is unknown; reading the prefix");
                    if self.is_silent_too_long(&error)? {
                        return Err(LogError::from(error).into());
                    }
                }
                Err(error) => self.recover(error.into()).await?,
            }
            match self.judged(expected, &mine).await? {
                // The same boundary: nothing has happened, or the old primary changed what is compared beside it. The claim
                // stays the same one, so that it is recognised whenever an earlier attempt lands.
                Verdict::Resend => self.pause().await?,
                verdict => return self.swap(expected, &mine, verdict).map(Some),
            }
            let Some(now) = self.old_log().await? else { return self.settled(expected, &mine).await.map(Some) };
            self.refuse_if_alive(&old, &now, permit)?;
            old = now;
        }
    }

    /// The old log once it has been quiet for the whole watch.
    async fn watched(&mut self, first: OldLog, permit: TakeOver) -> Result<OldLog, ClaimError> {
        self.refuse_if_alive(&first, &first, permit)?;
        if permit.old_primary_stopped {
            return Ok(first);
        }
        tracing::info!(watch = ?WATCH, "watching whether Mooncake's primary still writes");
        let until = self.clock.now().saturating_add(WATCH);
        loop {
            let left = until.saturating_since(self.clock.now());
            if left.is_zero() {
                break;
            }
            tokio::time::sleep(left.min(LOOK_EVERY)).await;
            self.check_leadership()?;
        }
        // One look at the end is enough: a prefix never goes back to what it was.
        match self.old_log().await? {
            Some(now) => {
                self.refuse_if_alive(&first, &now, permit)?;
                Ok(now)
            }
            // Ours by now: the loop finds out whose.
            None => Ok(first),
        }
    }

    /// Whether a primary of the old kind is elected, or has written between the two readings.
    fn refuse_if_alive(&self, before: &OldLog, now: &OldLog, permit: TakeOver) -> Result<(), TakeOverRefused> {
        if permit.old_primary_stopped {
            return Ok(());
        }
        let keys = self.storage.keys();
        let shown = |key: bytes::Bytes| key.escape_ascii().to_string();
        if now.election.is_some() {
            return Err(TakeOverRefused::OldPrimaryElected { key: shown(keys.old_master_view()) });
        }
        let changed = match (before.prefix == now.prefix, before.view == now.view) {
            (true, true) => return Ok(()),
            (false, _) => keys.durable_prefix(),
            (true, false) => keys.producer_view(),
        };
        Err(TakeOverRefused::OldPrimaryWrites { key: shown(changed), watched: WATCH })
    }

    async fn old_log(&mut self) -> Result<Option<OldLog>, ClaimError> {
        loop {
            match self.storage.read_old_log().await {
                Ok(old) => return Ok(old),
                Err(error) => self.recover(error).await?,
            }
        }
    }

    /// What a prefix that is no longer the expected one means.
    async fn settled(&mut self, expected: &DurablePrefix, mine: &DurablePrefix) -> Result<Swap, ClaimError> {
        let verdict = self.judged(expected, mine).await?;
        if verdict == Verdict::Resend {
            self.pause().await?;
        }
        self.swap(expected, mine, verdict)
    }

    fn swap(&self, expected: &DurablePrefix, mine: &DurablePrefix, verdict: Verdict) -> Result<Swap, ClaimError> {
        match verdict {
            Verdict::Claimed => Ok(Swap::TakenOver(*mine)),
            Verdict::CatchUp(found) => Ok(Swap::Moved(found)),
            Verdict::Superseded(found) => Err(ClaimError::Superseded(found)),
            Verdict::Corrupt(found) => Err(self.corrupt(expected, found).into()),
            // It reads as the expected one again: begin anew.
            Verdict::Resend => Ok(Swap::Moved(*expected)),
        }
    }
}

fn boundary_of(old: &OldLog) -> Option<DurablePrefix> {
    DurablePrefix::decode(&old.prefix).ok()
}
