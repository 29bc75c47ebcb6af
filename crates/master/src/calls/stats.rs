//! Owns the figures for metrics and status pages.

use std::sync::atomic::Ordering;

use crate::inner::Inner;
use crate::state::{Opening, Segment};
use crate::{Master, MasterStats, SegmentInfo};

impl Master {
    /// Figures, for metrics; answered whether or not this node still leads.
    #[must_use]
    pub fn stats(&self) -> MasterStats {
        let inner = &*self.inner;
        let segments = inner.segment_infos();
        let sum = |f: fn(&SegmentInfo) -> u64| segments.iter().map(f).fold(0, u64::saturating_add);
        MasterStats {
            objects: inner.state.objects(),
            running_puts: inner.running_puts.load(Ordering::Relaxed) as u64,
            pending_removals: inner.pending_removals.load(Ordering::Relaxed),
            tenants: inner.state.tenants.read().len() as u64,
            leases_granted: inner.leases_granted.load(Ordering::Relaxed),
            total_bytes: sum(|s| s.size),
            free_bytes: sum(|s| s.free_bytes),
            quarantined_bytes: sum(|s| if s.quarantined_ms == Some(0) { 0 } else { s.free_bytes }),
            held_bytes: sum(|s| s.held_bytes),
            quarantine_ms: inner.ms_until(inner.term.quarantine_until),
            policy: inner.state.policy.read().in_force(),
            durable_seq: inner.writer.status().borrow().durable.last_seq,
            segments,
        }
    }
}

impl Inner {
    pub(super) fn segment_infos(&self) -> Vec<SegmentInfo> {
        let segments = self.state.segments.read();
        let mut infos: Vec<SegmentInfo> = segments.mounted().map(|segment| self.segment_info(segment)).collect();
        infos.sort_by(|a, b| a.segment.cmp(&b.segment));
        infos
    }

    fn segment_info(&self, segment: &Segment) -> SegmentInfo {
        let mut space = segment.space.lock();
        space.space.release_due(self.now());
        let (free_bytes, held_bytes) = (space.space.free_bytes(), space.space.held_bytes());
        let used_bytes = segment.size - free_bytes - held_bytes;
        // Of a segment that lies nobody knows where nothing can be handed out, so none of its bytes is free.
        let (size, free_bytes) = segment.capacity().map_or((segment.size, free_bytes), |capacity| (capacity, 0));
        SegmentInfo {
            segment: segment.id.clone(),
            endpoint: segment.endpoint.clone(),
            base: segment.base,
            size,
            free_bytes,
            used_bytes,
            held_bytes,
            running_puts: space.running_puts,
            quarantined_ms: match space.opening {
                Opening::AfterQuarantine => Some(self.ms_until(self.term.quarantine_until)),
                Opening::AwaitsMount => None,
                Opening::At(at) => Some(self.ms_until(at)),
            },
        }
    }
}
