//! Owns how long the store has been silent to a claimant: the stop rule of design §4 for a node that leads and has no writer
//! yet. Pure.

use std::time::Duration;

use ha_kv::{ErrorClass, KvError, KvErrorKind};
use ha_types::MonoTime;

/// Whether the store answers, and for how long a lease lets it be silent. A definite refusal is an answer: a full store refuses everybody, and giving up there would leave
/// nobody able to lead.
#[derive(Debug)]
pub(super) struct Silence {
    patience: Duration,
    since: Option<MonoTime>,
}

impl Silence {
    pub(super) const fn new() -> Self {
        Self { patience: Duration::ZERO, since: None }
    }

    /// The store did what it was asked, or refused it.
    pub(super) fn broken(&mut self) {
        self.since = None;
    }

    /// A request failed with `error`, noticed at `now`. Whether the silence has lasted for a whole lease: the most that was ever
    /// left of it, which is its TTL less the margin.
    pub(super) fn lasts_too_long(&mut self, error: &KvError, now: MonoTime, lease_left: Duration) -> bool {
        self.patience = self.patience.max(lease_left);
        // What an operator has to cure was said by the store itself, whether or not it applied the request all the same.
        let said = error.class() == ErrorClass::Operator;
        if said || !(error.is_unknown() || matches!(error.kind, KvErrorKind::Unavailable | KvErrorKind::Timeout)) {
            self.broken();
            return false;
        }
        let since = *self.since.get_or_insert(now);
        now.saturating_since(since) >= self.patience
    }
}

#[cfg(test)]
mod tests {
    use ha_kv::Effect;

    use super::*;

    #[test]
    fn only_unbroken_silence_counts() {
        let at = |s| MonoTime::from_origin(Duration::from_secs(s));
        let unknown = KvError::new(KvErrorKind::Timeout, Effect::Unknown, "silent");
        let away = KvError::read(KvErrorKind::Unavailable, "away");
        let full = KvError::new(KvErrorKind::NoSpace, Effect::NotApplied, "full");
        let mut silence = Silence::new();
        let mut ask = |error, s, left| silence.lasts_too_long(error, at(s), Duration::from_secs(left));
        assert!(!ask(&unknown, 10, 1));
        assert!(!ask(&away, 11, 3), "the lease was kept alive meanwhile");
        assert!(!ask(&away, 12, 2));
        assert!(ask(&unknown, 13, 1));
        assert!(!ask(&full, 20, 3), "a refusal is an answer");
        assert!(!ask(&full, 99, 3));
        let applied_and_full = KvError::new(KvErrorKind::NoSpace, Effect::Unknown, "full");
        assert!(!ask(&applied_and_full, 99, 3), "so is one that may have been applied");
        assert!(!ask(&unknown, 100, 3));
        silence.broken();
        assert!(!silence.lasts_too_long(&unknown, at(103), Duration::ZERO));
        assert!(silence.lasts_too_long(&unknown, at(106), Duration::ZERO));
    }
}
