//! Owns what a serving master is given instead of reaching for it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ha_types::{Clock, Entropy, LeaderGuard};
use oplog_core::{ClaimedLog, WriterConfig};

use crate::{MasterConfig, MasterState};

/// What a serving master is given instead of reaching for it.
#[derive(Clone)]
pub struct ServeEnv {
    /// Limits.
    pub config: MasterConfig,
    /// Settings of the ordered writer.
    pub writer: WriterConfig,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Jitter of the writer.
    pub entropy: Arc<dyn Entropy>,
    /// Leadership, asked before every reply.
    pub guard: Arc<dyn LeaderGuard>,
    /// The longest leadership TTL of any node of the cluster: for so long an older primary may go on serving after the claim.
    pub ttl: Duration,
}

impl fmt::Debug for ServeEnv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServeEnv")
            .field("config", &self.config)
            .field("writer", &self.writer)
            .field("ttl", &self.ttl)
            .finish_non_exhaustive()
    }
}

/// Serving did not start. State and log are given back; nothing has been served and nothing written.
#[derive(Debug, thiserror::Error)]
#[error("the master cannot serve: {reason}")]
pub struct ServeFailed {
    /// The state, as it was handed over.
    pub state: MasterState,
    /// The claimed log.
    pub log: ClaimedLog,
    /// Why, and the remedy.
    pub reason: String,
}
