//! Owns the processor time of the whole process, threads that have ended included.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Time on a processor of all threads so far.
pub(crate) fn now() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.expect("time runs forward"), nanos.expect("below a second"))
}
