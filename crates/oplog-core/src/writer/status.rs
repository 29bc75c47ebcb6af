//! Owns what anyone may watch of the writer.

use ha_types::MonoTime;

use super::Closed;
use crate::{DurablePrefix, Terminal};

/// What anyone may watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriterStatus {
    /// Whether `reserve` may succeed.
    pub accepting: bool,
    /// Why not, for programs: `None` exactly while it accepts.
    pub closed: Option<Closed>,
    /// Why not, in words.
    pub reason: Option<String>,
    /// The end.
    pub terminal: Option<Terminal>,
    /// The durable prefix as this writer knows it.
    pub durable: DurablePrefix,
    /// Since when the store has not answered: the send time of the first transaction whose outcome is unknown, or that is
    /// still without an answer after [`Self::NOTICED_AFTER_MS`]. `None` while the store answers, definite refusals included,
    /// or nothing is in flight. An answered read alone does not clear it: a store that reads but does not write must not keep
    /// its leader for ever.
    pub unanswered_since: Option<MonoTime>,
}

impl WriterStatus {
    /// How long a transaction may run before it shows in `unanswered_since`, in milliseconds.
    pub const NOTICED_AFTER_MS: u64 = 100;
}
