//! Owns the segment registry: which segments are mounted, where, and which ids ever were. Each segment's bytes are its
//! [`Space`]'s business.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use ha_types::{MonoTime, SegmentId, Seq};
use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;

use crate::ReplicaRange;
#[cfg(feature = "mooncake")]
use crate::state::MooncakeSegment;
use crate::state::{Replica, Space};

/// The number of one mount of a segment within this process. Never used again, so that a replica of a mount that is gone
/// stays recognisable without a pass over all objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SegmentIx(u32);

/// From when on space of a segment may be handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// It was mounted when the log was claimed: after the quarantine of the claim.
    AfterQuarantine,
    /// Its mount is not durable yet; or it was mounted under Mooncake, which does not say where it lies, and not again since.
    AwaitsMount,
    /// Its mount is durable.
    At(MonoTime),
}

/// The bytes of a segment, with what only a serving master knows about them.
#[derive(Debug)]
pub(crate) struct SegmentSpace {
    pub(crate) space: Space,
    pub(crate) opening: Opening,
    pub(crate) running_puts: u64,
    /// When the last grant into this segment ends.
    pub(crate) granted_until: MonoTime,
}

/// One mounted segment.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) id: SegmentId,
    pub(crate) endpoint: Arc<str>,
    pub(crate) base: u64,
    pub(crate) size: u64,
    /// The entry that mounted it.
    pub(crate) mounted_by: Seq,
    /// The last entry about it.
    pub(crate) seq: Seq,
    /// The innermost lock but one (see [`crate::locks`]).
    pub(crate) space: Mutex<SegmentSpace>,
    /// What Mooncake says of it; until a mount of ours says at which addresses it lies, it spans them all, and none is handed out.
    #[cfg(feature = "mooncake")]
    pub(crate) mooncake: Option<Box<MooncakeSegment>>,
}

impl Segment {
    pub(crate) fn addresses(&self) -> Range<u64> {
        self.base..self.base + self.size
    }

    /// A range of it, for a client.
    pub(crate) fn range(&self, address: u64, length: u64) -> ReplicaRange {
        ReplicaRange { segment: self.id.clone(), endpoint: self.endpoint.clone(), address, length }
    }

    /// Whether nobody has said yet at which addresses it lies.
    pub(crate) fn is_unplaced(&self) -> bool {
        #[cfg(feature = "mooncake")]
        return self.mooncake.is_some();
        #[cfg(not(feature = "mooncake"))]
        false
    }

    /// Its bytes as Mooncake says them, while nobody has said at which addresses it lies.
    pub(crate) fn capacity(&self) -> Option<u64> {
        #[cfg(feature = "mooncake")]
        return self.mooncake.as_deref().map(|mooncake| mooncake.capacity);
        #[cfg(not(feature = "mooncake"))]
        None
    }

    pub(crate) fn place(&self) -> String {
        format!("{} bytes at {:#x} of {}", self.size, self.base, self.endpoint)
    }
}

/// When a segment left under this primary.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    pub(crate) at: MonoTime,
    pub(crate) seq: Seq,
}

/// The registry.
#[derive(Debug, Default)]
pub(crate) struct Segments {
    slots: Vec<Option<Box<Segment>>>,
    by_id: HashMap<SegmentId, SegmentIx>,
    by_place: BTreeMap<(Arc<str>, u64), SegmentIx>,
    /// Every id that ever occurred in the log.
    known: HashSet<SegmentId>,
    /// Those of them that left under this primary.
    left: HashMap<SegmentId, Left>,
    /// The entry of the last of those unmounts.
    last_left: Seq,
}

impl Segments {
    pub(crate) fn get(&self, ix: SegmentIx) -> Option<&Segment> {
        self.slots.get(ix.0 as usize)?.as_deref()
    }

    pub(crate) fn is_mounted(&self, ix: SegmentIx) -> bool {
        self.get(ix).is_some()
    }

    pub(crate) fn find(&self, id: &str) -> Option<SegmentIx> {
        self.by_id.get(id).copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether the id ever occurred in the log.
    pub(crate) fn knows(&self, id: &SegmentId) -> bool {
        self.known.contains(id)
    }

    pub(crate) fn known(&self) -> impl Iterator<Item = &SegmentId> {
        self.known.iter()
    }

    pub(crate) fn left(&self, id: &SegmentId) -> Option<Left> {
        self.left.get(id).copied()
    }

    /// The last unmount of this primary; zero if there was none.
    pub(crate) fn last_left(&self) -> Seq {
        self.last_left
    }

    /// The mounted segments, in no order.
    pub(crate) fn mounted(&self) -> impl ExactSizeIterator<Item = &Segment> {
        self.by_id.values().map(|ix| self.at(*ix))
    }

    /// The mounted segments from the `start`th on, and then those before it.
    pub(crate) fn mounted_from(&self, start: usize) -> impl Iterator<Item = (SegmentIx, &Segment)> {
        let start = start % self.slots.len().max(1);
        let slots = || self.slots.iter().enumerate().filter_map(|(i, s)| Some((SegmentIx(i as u32), s.as_deref()?)));
        slots()
            .skip_while(move |(ix, _)| (ix.0 as usize) < start)
            .chain(slots().take_while(move |(ix, _)| (ix.0 as usize) < start))
    }

    /// The segment that `addresses` of `endpoint` would overlap, but for `itself`.
    pub(crate) fn overlapping(
        &self,
        endpoint: &Arc<str>,
        addresses: &Range<u64>,
        itself: Option<SegmentIx>,
    ) -> Option<&Segment> {
        let before = (endpoint.clone(), addresses.end);
        self.by_place
            .range(..before)
            .rev()
            .take_while(|((at, _), _)| at == endpoint)
            .filter(|(_, ix)| Some(**ix) != itself)
            .map(|(_, ix)| self.at(*ix))
            .next()
            .filter(|other| addresses.start < other.addresses().end)
    }

    /// Adds a segment that is neither mounted nor overlaps one.
    ///
    /// # Panics
    /// If it is mounted; the caller has checked under the same lock.
    pub(crate) fn add(
        &mut self,
        id: SegmentId,
        endpoint: Arc<str>,
        addresses: Range<u64>,
        seq: Seq,
        opening: Opening,
    ) -> SegmentIx {
        let ix = SegmentIx(u32::try_from(self.slots.len()).expect("fewer than 2^32 mounts in the life of one process"));
        let space = SegmentSpace {
            space: Space::new(addresses.clone()),
            opening,
            running_puts: 0,
            granted_until: MonoTime::ZERO,
        };
        let (base, size) = (addresses.start, addresses.end - addresses.start);
        assert!(self.by_id.insert(id.clone(), ix).is_none(), "segment {id} is mounted twice");
        self.by_place.insert((endpoint.clone(), base), ix);
        self.known.insert(id.clone());
        self.left.remove(&id);
        self.slots.push(Some(Box::new(Segment {
            id,
            endpoint,
            base,
            size,
            mounted_by: seq,
            seq,
            space: Mutex::new(space),
            #[cfg(feature = "mooncake")]
            mooncake: None,
        })));
        ix
    }

    pub(crate) fn remove(&mut self, ix: SegmentIx) -> Option<Box<Segment>> {
        let segment = self.slots.get_mut(ix.0 as usize)?.take()?;
        self.by_id.remove(&segment.id);
        self.by_place.remove(&(segment.endpoint.clone(), segment.base));
        Some(segment)
    }

    /// Removes a segment that this primary unmounts.
    pub(crate) fn leave(&mut self, ix: SegmentIx, left: Left) {
        if let Some(segment) = self.remove(ix) {
            self.last_left = left.seq;
            self.left.insert(segment.id, left);
        }
    }

    pub(crate) fn move_to(&mut self, ix: SegmentIx, endpoint: Arc<str>, seq: Seq) {
        let Some(segment) = self.slots.get_mut(ix.0 as usize).and_then(Option::as_deref_mut) else { return };
        self.by_place.remove(&(segment.endpoint.clone(), segment.base));
        self.by_place.insert((endpoint.clone(), segment.base), ix);
        segment.endpoint = endpoint;
        segment.seq = seq;
    }

    /// The segment that begins at `base` of `endpoint`.
    #[cfg(feature = "mooncake")]
    pub(super) fn at_place(&self, endpoint: &Arc<str>, base: u64) -> Option<(SegmentIx, &Segment)> {
        let ix = *self.by_place.get(&(endpoint.clone(), base))?;
        Some((ix, self.at(ix)))
    }

    /// Gives a segment another id, and another first address in the order of places.
    #[cfg(feature = "mooncake")]
    pub(super) fn rename(&mut self, ix: SegmentIx, id: SegmentId, base: u64) {
        let Some(segment) = self.slots.get_mut(ix.0 as usize).and_then(Option::as_deref_mut) else { return };
        self.by_id.remove(&segment.id);
        self.by_place.remove(&(segment.endpoint.clone(), segment.base));
        self.by_id.insert(id.clone(), ix);
        self.by_place.insert((segment.endpoint.clone(), base), ix);
        self.known.insert(id.clone());
        self.left.remove(&id);
        segment.id = id;
    }

    /// There was memory of Mooncake's at that endpoint, though no mount in the log says so. An endpoint that is no segment id can be
    /// no mount of Mooncake's either.
    #[cfg(feature = "mooncake")]
    pub(super) fn note_memory_at(&mut self, endpoint: &str) {
        if !self.known.contains(endpoint)
            && let Ok(id) = SegmentId::new(endpoint)
        {
            self.known.insert(id);
        }
    }

    /// Whether a segment of that id, or one of Mooncake's at that endpoint, ever occurred in the log.
    pub(crate) fn knows_memory_of(&self, id: &SegmentId, endpoint: &str) -> bool {
        self.knows(id) || (cfg!(feature = "mooncake") && self.known.contains(endpoint))
    }

    pub(crate) fn get_mut(&mut self, ix: SegmentIx) -> Option<&mut Segment> {
        self.slots.get_mut(ix.0 as usize)?.as_deref_mut()
    }

    /// Whether the segment is one of Mooncake's at that endpoint, which a mount of ours may adopt.
    pub(crate) fn is_mooncakes_at(&self, ix: SegmentIx, endpoint: &str) -> bool {
        self.get(ix).is_some_and(|segment| segment.is_unplaced() && *segment.endpoint == *endpoint)
    }

    /// Makes the ranges of an object free, in replay.
    pub(crate) fn free_in_replay(&mut self, replicas: &[Replica], size: u64) {
        for replica in replicas {
            if let Some(segment) = self.get_mut(replica.segment) {
                segment.space.get_mut().space.give_back(replica.address..replica.address + size);
            }
        }
    }

    fn at(&self, ix: SegmentIx) -> &Segment {
        self.get(ix).expect("an index of the mounted segments names a mounted segment")
    }
}
