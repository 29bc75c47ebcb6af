//! Owns how segments of Mooncake's come and how a mount of ours adopts them: what lies in them stays where it is.

use std::ops::Range;
use std::sync::Arc;

use ha_types::{SegmentId, Seq};

use super::segments::{Opening, SegmentIx, Segments};
use crate::state::MooncakeSegment;

/// Mooncake does not say at which addresses a segment lies, so it spans all of them.
const EVERYWHERE: Range<u64> = 0..u64::MAX;

impl Segments {
    /// A segment as Mooncake says it is, under its endpoint; replaces what was said before.
    pub(crate) fn import(&mut self, id: SegmentId, mooncake: MooncakeSegment, seq: Seq) {
        let endpoint: Arc<str> = id.as_str().into();
        let ix =
            self.find(id.as_str()).unwrap_or_else(|| self.add(id, endpoint, EVERYWHERE, seq, Opening::AwaitsMount));
        if let Some(segment) = self.get_mut(ix) {
            segment.mooncake = Some(Box::new(mooncake));
            segment.seq = seq;
        }
    }

    /// The segment of Mooncake's at `endpoint`.
    pub(crate) fn of_mooncakes_at(&self, endpoint: &Arc<str>) -> Option<SegmentIx> {
        let (ix, _) = self.at_place(endpoint, EVERYWHERE.start)?;
        self.is_mooncakes_at(ix, endpoint).then_some(ix)
    }

    /// Whether the segment may lie at `addresses`: it is memory, and everything that is taken in it lies within.
    ///
    /// # Errors
    /// One sentence.
    pub(crate) fn check_adoption(&self, ix: SegmentIx, addresses: &Range<u64>) -> Result<(), String> {
        let Some(segment) = self.get(ix) else { return Err("the segment is not mounted".into()) };
        if segment.mooncake.as_deref().is_some_and(|mooncake| !mooncake.is_memory) {
            return Err(format!("Mooncake mounted {} as something else than memory; unmount it first", segment.id));
        }
        match segment.space.lock().space.taken_outside(&EVERYWHERE, addresses) {
            None => Ok(()),
            Some(at) => Err(format!(
                "an object of Mooncake's lies at {at:#x} of {}, outside {addresses:#x?}; mount all of the segment",
                segment.endpoint
            )),
        }
    }

    /// Makes a segment of Mooncake's one of ours, of the id `id` and at `addresses`, as [`Self::check_adoption`] allowed.
    pub(crate) fn adopt(&mut self, ix: SegmentIx, id: SegmentId, addresses: Range<u64>, seq: Seq, opening: Opening) {
        self.rename(ix, id, addresses.start);
        if let Some(segment) = self.get_mut(ix) {
            (segment.base, segment.size) = (addresses.start, addresses.end - addresses.start);
            (segment.mounted_by, segment.seq, segment.mooncake) = (seq, seq, None);
            let space = segment.space.get_mut();
            space.opening = opening;
            space.space.narrow(&EVERYWHERE, &addresses);
        }
    }
}
