//! Owns the names of the model's steps, as a counterexample lists them.

/// One step of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A transaction under way arrives: this one, in their order.
    Arrives(usize),
    /// A node does something.
    Node(usize, Step),
    /// A truncation decides how far it goes.
    PlanTruncation,
    /// It deletes one batch.
    Truncate,
    /// A follower catalogues a snapshot; whether it can be restored.
    Snapshot(usize, bool),
    /// A catalogued snapshot is restored, and marked if that works.
    Verify(usize),
    /// The store loses its last transaction.
    StoreLosesLast,
    /// The store loses the prefix.
    StoreLosesPrefix,
    /// An old primary is elected under the original's key, or its lease has run out.
    OldElection(bool),
}

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Reads the prefix, or `/latest` if there is none.
    StartUp,
    /// Reads the prefix and catches up with it.
    Follow,
    /// Reads the prefix in order to be promoted.
    Campaign,
    /// Reads the batches up to the prefix it read.
    CatchUp,
    /// Reads the catalogue after a miss.
    ReadCatalogue,
    /// Sends its transaction.
    Send(Fate),
    /// Reads what its next decision needs.
    Look,
    /// Catches up for the last time, and serves.
    Promote,
    /// Seals a batch of so many entries.
    Seal(u8),
    /// Commits a legacy entry.
    LegacyCommit,
    /// Puts `/latest` (the original's writer).
    PutLatest,
    /// A read that its next decision needs fails.
    FailRead,
    /// Is told to stop.
    Stop,
    /// Dies, and starts again with nothing.
    Crash,
}

/// What becomes of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrives and is answered.
    Answered,
    /// It arrives, and the answer does not.
    Unanswered,
    /// It never arrives, and the sender cannot know.
    Lost,
    /// The sender hears nothing, and it may arrive at any later time.
    Late,
}
