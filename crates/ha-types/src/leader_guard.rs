//! Owns the one question the log asks about leadership. Safety never rests on the answer; the fence does that.

use crate::MonoTime;

/// What holds leadership, asked just before a claim is sent and before every reply of a primary.
pub trait LeaderGuard: Send + Sync {
    /// Until when this node may act, by its own monotonic clock: *send time of the last confirmed keep-alive + TTL −
    /// margin*. `None` once leadership is lost or given up; it never comes back.
    fn serve_until(&self) -> Option<MonoTime>;

    /// Whether this node may act at this moment.
    fn holds(&self) -> bool;
}

/// Leadership that nobody takes, for tests of what must hold without any.
#[cfg(feature = "test-kit")]
#[derive(Clone, Copy, Debug)]
pub struct AlwaysLeads;

#[cfg(feature = "test-kit")]
impl LeaderGuard for AlwaysLeads {
    fn serve_until(&self) -> Option<MonoTime> {
        Some(MonoTime::from_origin(std::time::Duration::MAX))
    }

    fn holds(&self) -> bool {
        true
    }
}
