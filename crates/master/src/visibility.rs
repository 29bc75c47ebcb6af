//! Owns RFC batch record §13: what a reader sees of an object, by the status of its replicas. One table, one function.

/// The status of one replica that lies in a mounted segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplicaStatus {
    /// Its put has ended.
    Complete,
    /// Its put runs.
    Processing,
    /// Its removal is committed.
    Removed,
}

/// What a reader sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visibility {
    /// The complete replicas.
    Readable,
    /// REPLICA_IS_NOT_READY.
    NotReady,
    /// OBJECT_NOT_FOUND.
    NotFound,
}

/// | replicas | a reader sees |
/// |---|---|
/// | one or more complete | those |
/// | none complete, one or more in progress | REPLICA_IS_NOT_READY |
/// | only removed ones, or none | OBJECT_NOT_FOUND |
pub(crate) fn visibility(replicas: impl IntoIterator<Item = ReplicaStatus>) -> Visibility {
    let mut seen = Visibility::NotFound;
    for status in replicas {
        match status {
            ReplicaStatus::Complete => return Visibility::Readable,
            ReplicaStatus::Processing => seen = Visibility::NotReady,
            ReplicaStatus::Removed => {}
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::ReplicaStatus::{Complete, Processing, Removed};
    use super::*;

    #[test]
    fn the_rfcs_table() {
        let rows: [(&[ReplicaStatus], Visibility); 8] = [
            (&[], Visibility::NotFound),
            (&[Removed], Visibility::NotFound),
            (&[Removed, Removed], Visibility::NotFound),
            (&[Processing], Visibility::NotReady),
            (&[Removed, Processing], Visibility::NotReady),
            (&[Complete], Visibility::Readable),
            (&[Removed, Complete], Visibility::Readable),
            (&[Processing, Removed, Complete], Visibility::Readable),
        ];
        for (replicas, expected) in rows {
            assert_eq!(visibility(replicas.iter().copied()), expected, "{replicas:?}");
        }
    }
}
