//! Owns the stop rule (design §4): when a leader whose store is silent to its writer must let the lease run out.
//!
//! A store may answer keep-alives and yet never answer the writer, and then this node leads for ever without being able to log
//! anything. Another node may reach the store better. A *definite* refusal is different: a full store refuses everybody, and
//! refuses lease grants too, so stepping down there would leave nobody able to lead. An idle writer says nothing at all.

use std::time::Duration;

use ha_types::MonoTime;

/// The rule, for one granted TTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopRule {
    ttl: Duration,
}

/// What the rule says now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum StopVerdict {
    /// The store answers the writer, or was asked nothing.
    KeepOn,
    /// The store has been silent, not yet for long enough.
    SilentFor {
        /// How long until the rule stops the keep-alive, if the silence lasts.
        stops_in: Duration,
    },
    /// The store has been silent for a whole TTL: stop the keep-alive.
    Stop {
        /// How long it has been silent.
        silent_for: Duration,
    },
}

impl StopRule {
    /// The rule for a lease granted for `ttl`.
    #[must_use]
    pub const fn new(ttl: Duration) -> Self {
        Self { ttl }
    }

    /// Judges. `unanswered_since` is when the oldest request of the writer was sent to which the store has given no answer at
    /// all; `None` while it answers, definite refusals included, and while nothing is in flight.
    pub fn verdict(&self, now: MonoTime, unanswered_since: Option<MonoTime>) -> StopVerdict {
        let Some(since) = unanswered_since else { return StopVerdict::KeepOn };
        let silent_for = now.saturating_since(since);
        match self.ttl.checked_sub(silent_for) {
            Some(stops_in) if !stops_in.is_zero() => StopVerdict::SilentFor { stops_in },
            _ => StopVerdict::Stop { silent_for },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> MonoTime {
        MonoTime::from_origin(Duration::from_millis(ms))
    }

    #[test]
    fn w16_stops_at_a_whole_ttl_of_silence_and_not_a_moment_before() {
        let rule = StopRule::new(Duration::from_millis(3000));
        assert_eq!(rule.verdict(at(9_999_999), None), StopVerdict::KeepOn, "an idle writer never stops a leader");
        assert_eq!(rule.verdict(at(1000), Some(at(1000))), StopVerdict::SilentFor { stops_in: Duration::from_secs(3) });
        assert_eq!(
            rule.verdict(at(3999), Some(at(1000))),
            StopVerdict::SilentFor { stops_in: Duration::from_millis(1) }
        );
        assert_eq!(rule.verdict(at(4000), Some(at(1000))), StopVerdict::Stop { silent_for: Duration::from_secs(3) });
        assert_eq!(rule.verdict(at(500), Some(at(1000))), StopVerdict::SilentFor { stops_in: Duration::from_secs(3) });
    }
}
