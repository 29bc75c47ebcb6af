//! Owns unmount: one entry, one change under one lock; the memory of what went with the segment is collected afterwards.

use std::sync::Arc;

use ha_types::{OpType, SegmentId, Seq};
use oplog_core::{Reservation, Ticket};

use super::segment::entry_about;
use crate::after_commit::AfterCommit;
use crate::inner::Inner;
use crate::payload;
use crate::state::Left;
use crate::{Master, MasterError};

enum Unmounted {
    Now(Ticket),
    Before(Seq),
}

impl Master {
    /// Unmounts a segment; its replicas are gone at once, and so are objects that have no other. The reply promises durability.
    ///
    /// # Errors
    /// * [`MasterError::SegmentBusy`]: puts into it run; it says when the last grant has ended.
    /// * [`MasterError::SegmentNotFound`]; if another unmount is on its way, after that is durable.
    /// * [`MasterError::NotApplied`], [`MasterError::Unknown`], [`MasterError::NotLeader`], [`MasterError::RetryAfter`].
    ///
    /// # Cancel safety
    /// See [`Master`].
    pub async fn unmount_segment(&self, segment: &SegmentId) -> Result<(), MasterError> {
        let inner = &self.inner;
        let _pass = inner.enter_write()?;
        let slot = inner.admission().await?;
        inner.take_back_expired(inner.now(), usize::MAX);
        match inner.refusal(inner.begin_unmount(segment, slot))? {
            Unmounted::Now(ticket) => {
                tokio::spawn(collect(inner.clone()));
                inner.outcome(ticket).await
            }
            Unmounted::Before(seq) => {
                inner.durable(seq).await?;
                inner.check_serving()?;
                Err(MasterError::SegmentNotFound { segment: segment.clone() })
            }
        }
    }
}

impl Inner {
    fn begin_unmount(&self, id: &SegmentId, slot: Reservation) -> Result<Unmounted, MasterError> {
        let mut segments = self.state.segments.write();
        let Some((ix, segment)) = segments.find(id.as_str()).and_then(|ix| Some((ix, segments.get(ix)?))) else {
            return match segments.left(id) {
                Some(left) => Ok(Unmounted::Before(left.seq)),
                None => Err(MasterError::SegmentNotFound { segment: id.clone() }),
            };
        };
        {
            let space = segment.space.lock();
            if space.running_puts > 0 {
                return Err(MasterError::SegmentBusy {
                    segment: id.clone(),
                    running_puts: space.running_puts,
                    retry_after_ms: self.ms_until(space.granted_until.saturating_add(self.margin())).max(1),
                });
            }
        }
        self.check_serving()?;
        let ticket = slot
            .commit(entry_about(OpType::SegmentUnmount, id, &payload::UNMOUNT))
            .map_err(|e| self.not_committed(e))?;
        let after = AfterCommit::arm(&self.gate);
        segments.leave(ix, Left { at: self.now(), seq: ticket.seq() });
        after.followed();
        Ok(Unmounted::Now(ticket))
    }
}

/// Collects the memory of replicas and objects that went with a segment. They are unreadable since its commit; no answer
/// depends on this pass.
async fn collect(inner: Arc<Inner>) {
    for shard in 0..inner.state.shards.count() {
        inner.state.shards.with_shard(shard, |shard| {
            let segments = inner.state.segments.read();
            shard.retain_objects(|object| object.keep_mounted(&segments));
        });
        if shard % 16 == 15 {
            tokio::task::yield_now().await;
        }
    }
}
