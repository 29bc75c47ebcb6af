//! Owns mount, update and listing of segments. A change holds the registry exclusively from its check to its commit.

use std::sync::Arc;
use std::time::Duration;

use ha_types::{MonoTime, OpType, SegmentId, Seq};
use oplog_core::{NewEntry, Outcome, Reservation, Ticket};
use tokio::sync::oneshot;

use crate::after_commit::AfterCommit;
use crate::inner::Inner;
use crate::payload::{self, CLUSTER_TENANT, Mount};
use crate::state::{Opening, SegmentIx, Segments};
use crate::{Master, MasterError, MountSegment, SegmentInfo, locks};

/// A change that is committed by this call, or was by an earlier one.
enum Changed<T> {
    Now(T),
    Before(Seq),
}

impl Master {
    /// Mounts a segment; the reply promises durability, and nothing is handed out of it before. Mounting an identical segment
    /// again succeeds and changes nothing.
    ///
    /// # Errors
    /// * [`MasterError::Invalid`]: size 0, addresses beyond 2^64, an endpoint that is empty or too long, too many segments.
    /// * [`MasterError::SegmentAlreadyMounted`]: elsewhere, or with another size.
    /// * [`MasterError::SegmentOverlaps`]: its addresses belong to another segment of that endpoint.
    /// * [`MasterError::NotApplied`], [`MasterError::Unknown`], [`MasterError::NotLeader`], [`MasterError::RetryAfter`].
    ///
    /// # Cancel safety
    /// See [`Master`].
    pub async fn mount_segment(&self, request: MountSegment) -> Result<(), MasterError> {
        let inner = &self.inner;
        let _pass = inner.enter_write()?;
        check_endpoint(&request.endpoint)?;
        if request.size == 0 || request.base.checked_add(request.size).is_none() {
            return Err(MasterError::Invalid(format!(
                "segment {} would be {} bytes at {:#x}; give at least 1 byte, ending below 2^64",
                request.segment, request.size, request.base
            )));
        }
        let slot = inner.admission().await?;
        match inner.refusal(inner.begin_mount(request, slot))? {
            Changed::Now(answered) => {
                locks::assert_none_held();
                inner.judge(answered.await.unwrap_or(Outcome::Unknown))
            }
            Changed::Before(seq) => {
                inner.durable(seq).await?;
                inner.check_serving()
            }
        }
    }

    /// Changes where clients reach a segment; the reply promises durability. What lies in it stays.
    ///
    /// # Errors
    /// * [`MasterError::SegmentNotFound`], [`MasterError::SegmentOverlaps`].
    /// * [`MasterError::Invalid`]: the endpoint is empty or too long.
    /// * [`MasterError::NotApplied`], [`MasterError::Unknown`], [`MasterError::NotLeader`], [`MasterError::RetryAfter`].
    ///
    /// # Cancel safety
    /// See [`Master`].
    pub async fn update_segment(&self, segment: &SegmentId, endpoint: Arc<str>) -> Result<(), MasterError> {
        let inner = &self.inner;
        let _pass = inner.enter_write()?;
        check_endpoint(&endpoint)?;
        let slot = inner.admission().await?;
        match inner.refusal(inner.begin_update(segment, endpoint, slot))? {
            Changed::Now(ticket) => inner.outcome(ticket).await,
            Changed::Before(seq) => {
                inner.durable(seq).await?;
                inner.check_serving()
            }
        }
    }

    /// The mounted segments, in order of their ids.
    ///
    /// # Errors
    /// [`MasterError::NotLeader`].
    pub fn list_segments(&self) -> Result<Vec<SegmentInfo>, MasterError> {
        let segments = self.inner.segment_infos();
        self.inner.check_serving()?;
        Ok(segments)
    }
}

impl Inner {
    fn begin_mount(
        self: &Arc<Self>,
        request: MountSegment,
        slot: Reservation,
    ) -> Result<Changed<oneshot::Receiver<Outcome>>, MasterError> {
        let MountSegment { segment: id, endpoint, base, size } = request;
        let mut segments = self.state.segments.write();
        #[cfg(feature = "mooncake")]
        let adopted = segments.of_mooncakes_at(&endpoint);
        #[cfg(not(feature = "mooncake"))]
        let adopted = None;
        if let Some((ix, there)) = segments.find(id.as_str()).and_then(|ix| Some((ix, segments.get(ix)?)))
            && adopted != Some(ix)
        {
            if there.endpoint == endpoint && (there.base, there.size) == (base, size) {
                return Ok(Changed::Before(there.seq));
            }
            return Err(MasterError::SegmentAlreadyMounted { segment: id, mounted: there.place() });
        }
        check_free_place(&segments, &id, &endpoint, base..base + size, adopted)?;
        #[cfg(feature = "mooncake")]
        if let Some(ix) = adopted {
            segments.check_adoption(ix, &(base..base + size)).map_err(MasterError::Invalid)?;
        }
        if segments.len() >= self.config.max_segments {
            let most = self.config.max_segments;
            return Err(MasterError::Invalid(format!("segment {id} would be one too many; {most} may be mounted")));
        }
        self.check_serving()?;
        let opens = self.opens_at(&segments, &id, &endpoint);
        let (answer, answered) = oneshot::channel();
        let (inner, mounted) = (self.clone(), id.clone());
        let payload = Mount { endpoint: &endpoint, base, size }.encode();
        let seq = slot
            .commit_with(entry_about(OpType::SegmentMount, &id, &payload), move |seq, outcome| {
                if inner.judge(outcome).is_ok() {
                    inner.open_segment(&mounted, seq, opens);
                }
                let _ = answer.send(outcome);
            })
            .map_err(|e| self.not_committed(e))?;
        let after = AfterCommit::arm(&self.gate);
        match adopted {
            #[cfg(feature = "mooncake")]
            Some(ix) => segments.adopt(ix, id, base..base + size, seq, Opening::AwaitsMount),
            _ => drop(segments.add(id, endpoint, base..base + size, seq, Opening::AwaitsMount)),
        }
        after.followed();
        Ok(Changed::Now(answered))
    }

    /// From when on space of a segment mounted now may be handed out: at once if its id never occurred, else when no client
    /// of its earlier mounts can be using it (M7).
    fn opens_at(&self, segments: &Segments, id: &SegmentId, endpoint: &str) -> MonoTime {
        if !segments.knows_memory_of(id, endpoint) {
            return MonoTime::ZERO;
        }
        let left = segments.left(id).map_or(MonoTime::ZERO, |left| {
            let span = Duration::from_millis(self.state.policy.read().longest_quarantine_ms());
            left.at.saturating_add(span + self.margin())
        });
        left.max(self.term.quarantine_until)
    }

    fn open_segment(&self, id: &SegmentId, seq: Seq, opens: MonoTime) {
        let segments = self.state.segments.read();
        if let Some(segment) = segments.find(id.as_str()).and_then(|ix| segments.get(ix)) {
            let mut space = segment.space.lock();
            // Unmounted and mounted again meanwhile: that mount waits for its own entry.
            if space.opening == Opening::AwaitsMount && segment.mounted_by == seq {
                space.opening = Opening::At(opens);
            }
        }
    }

    fn begin_update(
        &self,
        id: &SegmentId,
        endpoint: Arc<str>,
        slot: Reservation,
    ) -> Result<Changed<Ticket>, MasterError> {
        let mut segments = self.state.segments.write();
        let not_found = || MasterError::SegmentNotFound { segment: id.clone() };
        let ix = segments.find(id.as_str()).ok_or_else(not_found)?;
        let there = segments.get(ix).ok_or_else(not_found)?;
        if there.endpoint == endpoint {
            return Ok(Changed::Before(there.seq));
        }
        check_free_place(&segments, id, &endpoint, there.addresses(), Some(ix))?;
        self.check_serving()?;
        let payload = payload::encode_endpoint(&endpoint);
        let ticket =
            slot.commit(entry_about(OpType::SegmentUpdate, id, &payload)).map_err(|e| self.not_committed(e))?;
        let after = AfterCommit::arm(&self.gate);
        segments.move_to(ix, endpoint, ticket.seq());
        after.followed();
        Ok(Changed::Now(ticket))
    }
}

pub(super) fn entry_about<'a>(op: OpType, id: &'a SegmentId, payload: &'a [u8]) -> NewEntry<'a> {
    NewEntry { op_type: op.number(), tenant: CLUSTER_TENANT, key: id.as_str().as_bytes(), payload }
}

fn check_endpoint(endpoint: &str) -> Result<(), MasterError> {
    let most = MountSegment::MAX_ENDPOINT_BYTES;
    if endpoint.is_empty() || endpoint.len() > most {
        return Err(MasterError::Invalid(format!("the endpoint has {} bytes; give 1 to {most}", endpoint.len())));
    }
    Ok(())
}

fn check_free_place(
    segments: &Segments,
    id: &SegmentId,
    endpoint: &Arc<str>,
    addresses: std::ops::Range<u64>,
    itself: Option<SegmentIx>,
) -> Result<(), MasterError> {
    match segments.overlapping(endpoint, &addresses, itself) {
        None => Ok(()),
        Some(other) => {
            Err(MasterError::SegmentOverlaps { segment: id.clone(), other: other.id.clone(), place: other.place() })
        }
    }
}
