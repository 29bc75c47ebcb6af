//! Owns what anyone may watch about a master: whether it serves, and why it no longer does.

/// Where a serving master is on its one-way road.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Serving {
    /// All calls are answered.
    Open,
    /// Writes are sent away, those on their way are finished, reads are answered.
    Draining,
    /// Nothing is answered any more.
    Closed {
        /// Why.
        reason: String,
    },
}
