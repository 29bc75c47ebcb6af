//! Owns what a gap of the legacy log means: wait and fetch again, then a verdict, or going on where the loss was accepted in words.

use oplog_core::legacy::{LegacyFollower, LegacyGap};
use oplog_core::{Seq, StateMachine};

use super::Legacy;
use crate::follower::Follower;
use crate::stop::Stop;

/// What became of a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gap {
    /// It is waited for; the next round fetches again.
    Waits,
    /// It was passed over, or is closed; there may be more behind it.
    Passed,
}

impl<S: StateMachine> Legacy<S> {
    /// Judges `gap`, which the round just found. Below a base every entry must be there; without one an end that `latest` only
    /// announces is no hole, for the original writes `latest` early, too.
    pub(super) async fn judge_gap(
        &mut self,
        state: &mut LegacyFollower<S>,
        gap: LegacyGap,
        follower: &Follower,
    ) -> Result<Gap, Stop> {
        follower.publisher.update(|m| m.legacy.missing_seq = Some(gap.missing.get()));
        let config = &self.mode.config;
        let waited = follower.clock.now().saturating_since(gap.since);
        // Below a base nobody of ours writes any more: what is accepted as lost need not be waited for.
        let patience_ends = waited >= config.gap_wait || (self.base.is_some() && config.accept_lost_entries);
        if !patience_ends || gap.looks < 2 {
            return Ok(Gap::Waits);
        }
        let applied = state.replica().applied();
        // A state that holds the start may see the original clean it up; only one without it has lost something by that.
        if self.base.is_none() && (!gap.start_gone || applied > Seq::ZERO) {
            let key = self.log.keys().legacy_entry(gap.missing);
            let next = self.log.first_entry(applied).await.map_err(|e| Stop::from_log(&key, e))?;
            match next {
                None => return Ok(Gap::Waits),
                Some(next) if next == gap.missing => return Ok(Gap::Passed),
                Some(_) => {}
            }
        }
        if gap.start_gone || !config.accept_lost_entries {
            return Err(Stop::Fault(gap.fault(self.log.keys()).into()));
        }
        state.pass_gap(&gap).map_err(|fault| Stop::Fault(fault.into()))?;
        let lost = gap.through.distance_from(gap.missing) + 1;
        tracing::warn!(missing = %gap.missing, through = %gap.through, ?waited, "entries of the legacy log are lost; going on");
        self.skipped |= self.base.is_none();
        follower.publisher.update(|m| m.legacy.skipped += lost);
        Ok(Gap::Passed)
    }
}
