//! Owns the one clock that all processes of the demo share: the host's monotonic clock.

/// Nanoseconds of the host's monotonic clock. Readings of different processes on one host can be compared.
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

/// Milliseconds from `earlier` to `later`, zero if they are the other way round.
pub(crate) fn ms_between(earlier: u64, later: u64) -> f64 {
    later.saturating_sub(earlier) as f64 / 1e6
}
