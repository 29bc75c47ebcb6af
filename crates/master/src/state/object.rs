//! Owns the record of one object: what the log says about it, and beside it the part that only a serving master knows.

use ha_types::{MonoTime, ObjectIncarnation, Seq};

use crate::ClientId;
#[cfg(feature = "mooncake")]
use crate::state::Imported;
use crate::state::{KeyBytes, SegmentIx, Segments, TenantIx};
use crate::visibility::{ReplicaStatus, Visibility, visibility};

/// Where one replica lies. Its length is the object's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replica {
    pub(crate) segment: SegmentIx,
    pub(crate) address: u64,
}

/// The replicas of one object. One is the rule, and needs no memory of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Replicas {
    One(Replica),
    Many(Box<[Replica]>),
    /// As Mooncake's log has them: of any kind, in any status.
    #[cfg(feature = "mooncake")]
    Imported(Box<Imported>),
}

impl Replicas {
    /// The ranges that are taken in segments.
    pub(crate) fn as_slice(&self) -> &[Replica] {
        match self {
            Self::One(replica) => std::slice::from_ref(replica),
            Self::Many(replicas) => replicas,
            #[cfg(feature = "mooncake")]
            Self::Imported(imported) => imported.ranges(),
        }
    }

    /// Those of [`Self::as_slice`] that were written to their end.
    pub(crate) fn written(&self) -> impl Iterator<Item = &Replica> {
        self.as_slice().iter().enumerate().filter(|(index, _)| self.is_written(*index)).map(|(_, replica)| replica)
    }

    fn is_written(&self, _index: usize) -> bool {
        match self {
            Self::One(_) | Self::Many(_) => true,
            #[cfg(feature = "mooncake")]
            Self::Imported(imported) => imported.is_complete(_index),
        }
    }

    /// How many more replicas there are than [`Self::as_slice`] has: they lie where this master cannot read.
    fn elsewhere(&self) -> usize {
        match self {
            Self::One(_) | Self::Many(_) => 0,
            #[cfg(feature = "mooncake")]
            Self::Imported(imported) => imported.elsewhere(),
        }
    }
}

impl From<Vec<Replica>> for Replicas {
    fn from(replicas: Vec<Replica>) -> Self {
        match replicas.as_slice() {
            [one] => Self::One(*one),
            _ => Self::Many(replicas.into_boxed_slice()),
        }
    }
}

/// One object. A million of these are the master's memory: fields are as small as their values allow.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) key: KeyBytes,
    pub(crate) tenant: TenantIx,
    pub(crate) incarnation: ObjectIncarnation,
    pub(crate) client: ClientId,
    pub(crate) size: u64,
    pub(crate) replicas: Replicas,
    /// The last entry about this object; that of the removal, if one is pending.
    pub(crate) seq: Seq,
    /// Whether its removal is committed: unreadable from then on, its ranges owned by the removal.
    pub(crate) removed: bool,
    pub(crate) serving: ServingPart,
}

impl Object {
    pub(crate) fn is(&self, tenant: TenantIx, key: &[u8]) -> bool {
        self.tenant == tenant && *self.key == *key
    }

    /// The status of each replica that lies in a mounted segment. One that lies elsewhere is there and cannot be read, as if it
    /// were still being written.
    pub(crate) fn statuses<'a>(&'a self, segments: &'a Segments) -> impl Iterator<Item = ReplicaStatus> + 'a {
        let status = move |written| match (self.removed, written) {
            (true, _) => ReplicaStatus::Removed,
            (false, true) => ReplicaStatus::Complete,
            (false, false) => ReplicaStatus::Processing,
        };
        let mounted = move |(_, replica): &(usize, &Replica)| segments.is_mounted(replica.segment);
        let in_segments = self.replicas.as_slice().iter().enumerate().filter(mounted);
        let elsewhere = std::iter::repeat_n(status(false), self.replicas.elsewhere());
        in_segments.map(move |(index, _)| status(self.replicas.is_written(index))).chain(elsewhere)
    }

    pub(crate) fn is_readable(&self, segments: &Segments) -> bool {
        visibility(self.statuses(segments)) == Visibility::Readable
    }

    /// Whether the key is taken: by an object that can be read, or by one of Mooncake's that is only kept.
    pub(crate) fn stands(&self, segments: &Segments) -> bool {
        visibility(self.statuses(segments)) != Visibility::NotFound
    }

    /// Forgets replicas in segments that are gone; `false` if none is left.
    pub(crate) fn keep_mounted(&mut self, segments: &Segments) -> bool {
        #[cfg(feature = "mooncake")]
        if let Replicas::Imported(imported) = &mut self.replicas {
            return imported.keep(|replica| segments.is_mounted(replica.segment));
        }
        let mounted = |replica: &Replica| segments.is_mounted(replica.segment);
        if self.replicas.as_slice().iter().all(mounted) {
            return true;
        }
        let kept: Vec<Replica> = self.replicas.as_slice().iter().copied().filter(mounted).collect();
        let some_left = !kept.is_empty();
        self.replicas = Replicas::from(kept);
        some_left
    }
}

/// What only a serving master knows about an object. Its tag says under which claim it was written; a part of another
/// claim, or of none, reads as untouched since the promotion (RFC hot standby §8 without a pass over all objects).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServingPart {
    lease_until_ns: u64,
    tag: u32,
}

/// One claim under which a master serves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServingTerm {
    pub(crate) tag: u32,
    /// Until when an object that nobody has touched since the promotion is leased: promotion + default lease.
    pub(crate) untouched_until: MonoTime,
}

impl ServingPart {
    /// The part of an object put under `term`: no lease yet.
    pub(crate) fn fresh(term: &ServingTerm) -> Self {
        Self { lease_until_ns: 0, tag: term.tag }
    }

    /// Until when readers may read.
    pub(crate) fn lease_until(&self, term: &ServingTerm) -> MonoTime {
        if self.tag == term.tag { from_ns(self.lease_until_ns) } else { term.untouched_until }
    }

    /// Lets readers read until `until`, or longer if they may already.
    pub(crate) fn extend_lease(&mut self, term: &ServingTerm, until: MonoTime) {
        let until = until.max(self.lease_until(term));
        *self = Self { lease_until_ns: to_ns(until), tag: term.tag };
    }
}

fn to_ns(time: MonoTime) -> u64 {
    u64::try_from(time.since_origin().as_nanos()).unwrap_or(u64::MAX)
}

fn from_ns(ns: u64) -> MonoTime {
    MonoTime::from_origin(std::time::Duration::from_nanos(ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_as_small_as_was_planned() {
        assert_eq!(size_of::<Object>(), 136);
        assert_eq!(size_of::<Option<Object>>(), 136);
    }
}
