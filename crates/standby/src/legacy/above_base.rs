//! Owns the alarm after the cutover: a legacy entry above the base, which somebody wrote and which is not in the log.

use oplog_core::legacy::entry_above_base;
use oplog_core::{Seq, StateMachine};

use super::Legacy;
use crate::follower::Follower;
use crate::stop::Stop;

impl<S: StateMachine> Legacy<S> {
    /// Looks for an entry above `base`, unless it did so a short while ago, and raises the alarm or takes it back.
    pub(super) async fn watch_above(&mut self, base: Seq, follower: &Follower) -> Result<(), Stop> {
        let now = follower.clock.now();
        let interval = self.mode.config.above_base_interval;
        if self.looked_above.is_some_and(|at| now.saturating_since(at) < interval) {
            return Ok(());
        }
        let key = self.log.keys().legacy_entry(base);
        let above = entry_above_base(&self.log, base).await.map_err(|error| Stop::from_log(&key, error))?;
        self.looked_above = Some(now);
        let alarm = above.map(|fault| fault.to_string());
        let mut before = None;
        follower.publisher.update(|m| before = std::mem::replace(&mut m.legacy.alarm, alarm.clone()));
        match (alarm, before) {
            (Some(alarm), before) if before.as_ref() != Some(&alarm) => {
                tracing::error!(%alarm, "a legacy entry lies above the base at which the log was cut over");
            }
            (None, Some(_)) => tracing::info!("no legacy entry lies above the base any more"),
            _ => {}
        }
        Ok(())
    }
}
