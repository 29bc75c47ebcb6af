//! Owns what one handle remembers of leases: which are its own, and since when it has seen the others unchanged. It reads no
//! clock and no file.

use std::collections::HashMap;
use std::time::Duration;

use ha_types::MonoTime;

use super::rows::LeaseRow;
use crate::LeaseId;

/// A lease that this handle granted.
#[derive(Clone, Copy, Debug)]
struct Own {
    /// The counter as last confirmed, and the highest it may be if a keep-alive's fate is not known.
    beat: i64,
    beat_at_most: i64,
    runs_until: MonoTime,
}

/// Somebody's lease as it was seen.
#[derive(Clone, Copy, Debug)]
struct Seen {
    beat: i64,
    since: MonoTime,
}

/// The most leases of others that are remembered; forgetting one only means watching it for another TTL.
const SEEN_AT_MOST: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct LeaseBook {
    own: HashMap<LeaseId, Own>,
    seen: HashMap<LeaseId, Seen>,
}

/// How a lease of this handle stands by its own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Not granted here, or given up.
    Unknown,
    /// Its TTL has passed since the last confirmed keep-alive.
    RanOut,
    /// It runs.
    Live,
}

impl LeaseBook {
    pub(super) fn granted(&mut self, id: LeaseId, runs_until: MonoTime) {
        self.own.insert(id, Own { beat: 0, beat_at_most: 0, runs_until });
    }

    pub(super) fn forget(&mut self, id: LeaseId) {
        self.own.remove(&id);
    }

    pub(super) fn standing(&self, id: LeaseId, now: MonoTime) -> Standing {
        match self.own.get(&id) {
            None => Standing::Unknown,
            Some(own) if own.runs_until <= now => Standing::RanOut,
            Some(_) => Standing::Live,
        }
    }

    /// Before a keep-alive is sent: from now on the counter may be one higher, whatever becomes of the call.
    pub(super) fn keep_alive_sent(&mut self, id: LeaseId) {
        if let Some(own) = self.own.get_mut(&id) {
            own.beat_at_most = own.beat_at_most.saturating_add(1);
        }
    }

    /// Whether the file's row is what this handle wrote: an older counter means that the file itself went back.
    pub(super) fn is_mine(&self, row: LeaseRow) -> bool {
        self.own.get(&row.id).is_some_and(|own| own.beat <= row.beat && row.beat <= own.beat_at_most)
    }

    pub(super) fn kept_alive(&mut self, id: LeaseId, beat: i64, runs_until: MonoTime) {
        if let Some(own) = self.own.get_mut(&id) {
            own.beat = own.beat.max(beat);
            own.beat_at_most = own.beat_at_most.max(beat);
            own.runs_until = own.runs_until.max(runs_until);
        }
    }

    /// Notes that `row` was in the file at `now`, read no earlier than the row. `true` once it has been the same for its whole TTL.
    pub(super) fn observe(&mut self, row: LeaseRow, now: MonoTime) -> bool {
        if self.seen.get(&row.id).is_some_and(|seen| seen.beat == row.beat) {
            return self.has_run_out(row, now);
        }
        if self.seen.len() >= SEEN_AT_MOST {
            self.seen.clear();
        }
        self.seen.insert(row.id, Seen { beat: row.beat, since: now });
        false
    }

    /// Whether `row`, as it is now, was already seen unchanged for its whole TTL at `now`. Notes nothing.
    pub(super) fn has_run_out(&self, row: LeaseRow, now: MonoTime) -> bool {
        self.seen.get(&row.id).is_some_and(|seen| seen.beat == row.beat && now.saturating_since(seen.since) >= ttl(row))
    }

    pub(super) fn ended(&mut self, id: LeaseId) {
        self.seen.remove(&id);
    }
}

pub(super) fn ttl(row: LeaseRow) -> Duration {
    Duration::from_millis(row.ttl_ms.max(0).cast_unsigned())
}
