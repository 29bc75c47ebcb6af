//! Owns what tells whether an old primary still writes: its election key, and `latest` at two moments.

use bytes::Bytes;
use ha_types::{Clock, MonoTime};

use super::{CutoverError, OLD_PRIMARY_QUIET};
use crate::LogError;
use crate::legacy::LegacyLog;
use crate::legacy::entry::excerpt;

/// What an old primary's keys held at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) latest: Option<Bytes>,
    pub(super) master_view: Option<Bytes>,
    /// When the keys had been read.
    pub(super) at: MonoTime,
}

impl Look {
    pub(super) async fn take(log: &LegacyLog, clock: &dyn Clock) -> Result<Self, LogError> {
        let master_view = log.kv().get(&log.keys().old_master_view()).await?;
        let latest = log.kv().get(&log.keys().legacy_latest()).await?;
        Ok(Self { latest, master_view, at: clock.now() })
    }

    /// Refuses while somebody is elected.
    pub(super) fn check_nobody_elected(&self, log: &LegacyLog) -> Result<(), CutoverError> {
        match &self.master_view {
            None => Ok(()),
            Some(value) => {
                let key = log.keys().old_master_view().escape_ascii().to_string();
                Err(CutoverError::OldPrimaryElected { key, found: excerpt(value) })
            }
        }
    }

    /// Refuses a later look that shows anything else.
    pub(super) fn check_same(&self, later: &Self, log: &LegacyLog) -> Result<(), CutoverError> {
        let pairs = [
            (log.keys().legacy_latest(), &self.latest, &later.latest),
            (log.keys().old_master_view(), &self.master_view, &later.master_view),
        ];
        for (key, expected, found) in pairs {
            if expected != found {
                let key = key.escape_ascii().to_string();
                return Err(CutoverError::OldPrimaryWrites { key, expected: shown(expected), found: shown(found) });
            }
        }
        Ok(())
    }

    /// Waits until the old primary has been quiet for long enough since this look, and looks again.
    pub(super) async fn check_quiet(&self, log: &LegacyLog, clock: &dyn Clock) -> Result<(), CutoverError> {
        loop {
            let left = OLD_PRIMARY_QUIET.saturating_sub(clock.now().saturating_since(self.at));
            if left.is_zero() {
                let later = Self::take(log, clock).await?;
                return self.check_same(&later, log);
            }
            tokio::time::sleep(left).await;
        }
    }
}

pub(super) fn shown(value: &Option<Bytes>) -> String {
    value.as_ref().map_or_else(|| "no such key".to_owned(), |value| format!("\"{}\"", excerpt(value)))
}
