//! Owns what a standby holds: a state, and in which format's log it stands.

#[cfg(feature = "legacy")]
use oplog_core::legacy::LegacyFollower;
#[cfg(feature = "legacy")]
use oplog_core::{BatchId, Epoch, Seq};
use oplog_core::{Position, Replica, StateMachine};

/// A state and its place.
#[derive(Debug)]
pub(crate) enum Held<S> {
    /// In batch records, or nowhere yet.
    Batches(Replica<S>),
    /// In the legacy log.
    #[cfg(feature = "legacy")]
    PerEntry(Box<LegacyFollower<S>>),
}

impl<S: StateMachine> Held<S> {
    pub(crate) fn machine(&self) -> &S {
        match self {
            Self::Batches(replica) => replica.machine(),
            #[cfg(feature = "legacy")]
            Self::PerEntry(legacy) => legacy.replica().machine(),
        }
    }

    /// The last entry applied.
    #[cfg(feature = "legacy")]
    pub(crate) fn applied(&self) -> Seq {
        match self {
            Self::Batches(replica) => replica.applied(),
            #[cfg(feature = "legacy")]
            Self::PerEntry(legacy) => legacy.replica().applied(),
        }
    }

    /// The end of the last batch; in the legacy log the last entry, as no batch.
    pub(crate) fn position(&self) -> Position {
        match self {
            Self::Batches(replica) => replica.position(),
            #[cfg(feature = "legacy")]
            Self::PerEntry(legacy) => {
                let last_seq = legacy.replica().applied();
                Position { batch_id: BatchId::ZERO, last_seq, epoch: Epoch::ZERO, crc: 0 }
            }
        }
    }

    /// The state among the batches, if it stands there.
    pub(crate) fn into_batches(self) -> Result<Replica<S>, Self> {
        match self {
            Self::Batches(replica) => Ok(replica),
            #[cfg(feature = "legacy")]
            Self::PerEntry(_) => Err(self),
        }
    }

    /// The position among the batches that a prefix is judged by: nothing, while the state stands in the legacy log.
    pub(crate) fn among_batches(&self) -> Position {
        match self {
            Self::Batches(replica) => replica.position(),
            #[cfg(feature = "legacy")]
            Self::PerEntry(_) => Position::default(),
        }
    }
}
