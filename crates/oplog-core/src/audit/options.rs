//! Owns the audit's settings, and what it says while it goes on.

use std::time::Duration;

/// How a log is audited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditOptions {
    /// How many bytes are read at once. Default 4 MiB.
    pub page_bytes: usize,
    /// How many faults are listed; all are counted. Default 1000.
    pub max_faults: usize,
    /// How long the audit waits before it reads a second time what another writer may just be writing. Default 1 s, after which the
    /// original looks again, too.
    pub second_look: Duration,
    /// How often a read is tried that fails in a way that may pass. Default 5.
    pub read_attempts: u32,
    /// Whether holes in the legacy log were accepted at cutover: then they are noted and no faults. Default no.
    pub accept_holes: bool,
}

impl Default for AuditOptions {
    fn default() -> Self {
        Self {
            page_bytes: 4 << 20,
            max_faults: 1000,
            second_look: Duration::from_secs(1),
            read_attempts: 5,
            accept_holes: false,
        }
    }
}

/// How far an audit is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditProgress {
    /// Keys looked at.
    pub keys: u64,
    /// Bytes of their values.
    pub bytes: u64,
    /// About how many keys there are; others may add some.
    pub expected_keys: u64,
    /// Faults found.
    pub faults: u64,
}
