//! Owns the state of one client's connection.

/// How one client is connected to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Both directions work.
    Up,
    /// Nothing passes; calls fail at once with `Unavailable`. A write's effect is `Unknown`: a cut client cannot tell. Watches end.
    Cut,
    /// Requests arrive and apply, replies are lost: `Timeout`, `Unknown`.
    RepliesCut,
    /// Nothing passes and nothing fails: calls wait until the link is set to something else, and then end with `Timeout`,
    /// `Unknown`. Hints are lost, watches stay.
    BlackHole,
}
