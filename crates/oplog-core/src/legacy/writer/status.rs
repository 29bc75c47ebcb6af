//! Owns what anyone may watch of a legacy writer.

use ha_types::{MonoTime, Seq};

use super::LegacyTerminal;
use crate::Closed;

/// What anyone may watch of a legacy writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyWriterStatus {
    /// Whether entries are taken, but for a queue that is full.
    pub accepting: bool,
    /// Why not, for programs: `None` exactly while it accepts.
    pub closed: Option<Closed>,
    /// Why not, in words: the first cause and what the store said last.
    pub reason: Option<String>,
    /// The last entry that is durable.
    pub durable: Seq,
    /// Entries committed and not decided.
    pub undecided: usize,
    /// Since when the store has not answered, as [`WriterStatus::unanswered_since`](crate::WriterStatus::unanswered_since).
    pub unanswered_since: Option<MonoTime>,
    /// How it ended.
    pub terminal: Option<LegacyTerminal>,
}
