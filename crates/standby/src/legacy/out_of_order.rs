//! Owns what a key sequence that does not rise means (RFC hot standby §5): the key is read again, then the state is rolled back and
//! replayed, or it is a verdict. Entries are never put into another order: nobody has ever served such a state.

use oplog_core::legacy::{KeyDisorder, KeyReading, LegacyFollower};
use oplog_core::{LogError, ReplayFault, Seq, StateMachine};

use super::Legacy;
use crate::follower::Follower;
use crate::stop::Stop;

/// How often the entries of a key are read again while no reading agrees with one before.
const READINGS: u32 = 3;

/// How often the state is rolled back without getting past the entry in doubt.
const ROLL_BACKS: u32 = 3;

/// A reading that is not believed. It outlives a store that fails: until it is settled, nothing is applied.
#[derive(Clone, Debug)]
pub(super) struct Doubt {
    disorder: KeyDisorder,
    /// How often the key was read again without an end.
    readings: u32,
}

impl Doubt {
    /// Whether the entry in doubt lies above `base`, and so in no log.
    pub(super) fn is_above(&self, base: Seq) -> bool {
        self.disorder.at.seq > base
    }
}

/// How often the state was rolled back before it got past the highest entry that was ever in doubt.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RollBacks {
    highest: Seq,
    count: u32,
}

impl RollBacks {
    /// Whether the state may be rolled back once more, for a doubt about the entry at `seq`.
    fn another(&mut self, seq: Seq) -> bool {
        if seq > self.highest {
            *self = Self { highest: seq, count: 0 };
        }
        self.count += 1;
        self.count <= ROLL_BACKS
    }
}

/// What came of a doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// The first reading was damaged; the state is at the beginning of the log again.
    RolledBack,
    /// The log was cut over meanwhile: what is in doubt may lie above the base. It is settled there.
    CutOver,
}

impl<S: StateMachine> Legacy<S> {
    /// Does not believe the reading that the state was fed from.
    pub(super) fn does_not_believe(&mut self, disorder: KeyDisorder, follower: &Follower) {
        let fault = disorder.fault(self.log.keys());
        tracing::warn!(%fault, "the sequence of a key does not rise in this reading; reading the key again");
        follower.publisher.update(|m| m.legacy.doubt = Some(fault.to_string()));
        self.doubt = Some(Doubt { disorder, readings: 0 });
    }

    /// The state was thrown away, and with it what was in doubt.
    pub(super) fn forget_doubt(&mut self, follower: &Follower) {
        self.doubt = None;
        follower.publisher.update(|m| m.legacy.doubt = None);
    }

    /// Settles the doubt, if there is one: reads the key again from its first entry, and rolls the state back if it is in order now.
    ///
    /// The verdict is a second reading that shows the same, a third that still shows something else, a log whose start is gone so that
    /// the state cannot be made anew, or a state that was rolled back too often.
    pub(super) async fn settle_doubt(
        &mut self,
        state: &mut Box<LegacyFollower<S>>,
        follower: &Follower,
    ) -> Result<Option<Settled>, Stop> {
        loop {
            let Some(Doubt { disorder, readings }) = self.doubt.clone() else { return Ok(None) };
            let fault = disorder.fault(self.log.keys());
            let entry_key = self.log.keys().legacy_entry(disorder.at.seq);
            let from_log = |error: LogError| Stop::from_log(&entry_key, error);
            let otherwise = match self.log.read_key(&disorder, follower.config.page_bytes).await.map_err(from_log)? {
                KeyReading::OutOfOrder(again) if again == disorder => return self.verdict(fault).await,
                KeyReading::OutOfOrder(other) => other.fault(self.log.keys()).to_string(),
                KeyReading::Absent => format!("no entry {}", disorder.at.seq),
                KeyReading::Undecodable(other) => other.to_string(),
                KeyReading::InOrder => match self.log.first_entry(Seq::ZERO).await.map_err(from_log)? {
                    Some(first) if first.get() == 1 => return self.roll_back(&disorder, state, follower).await,
                    first => {
                        let begins = first.map_or_else(|| "no entry".to_owned(), |first| format!("entry {first}"));
                        format!("in order, but the log begins with {begins}: the state cannot be made anew from it")
                    }
                },
            };
            let readings = readings + 1;
            tracing::warn!(%fault, readings, %otherwise, "the key was read again, and is otherwise");
            if readings >= READINGS {
                let found = format!("{}; read again {readings} times, lately: {otherwise}", fault.found);
                return self.verdict(ReplayFault { found, ..fault }).await;
            }
            if let Some(doubt) = &mut self.doubt {
                doubt.readings = readings;
            }
            tokio::time::sleep(follower.config.retry_min).await;
        }
    }

    /// The first reading was damaged, and the state may have been fed from it: it is made anew.
    async fn roll_back(
        &mut self,
        disorder: &KeyDisorder,
        state: &mut Box<LegacyFollower<S>>,
        follower: &Follower,
    ) -> Result<Option<Settled>, Stop> {
        let fault = disorder.fault(self.log.keys());
        if !self.roll_backs.another(disorder.at.seq) {
            let found = format!(
                "{}; the state was rolled back {ROLL_BACKS} times for this, and every replay met it again",
                fault.found
            );
            return self.verdict(ReplayFault { found, ..fault }).await;
        }
        let applied = state.replica().applied();
        tracing::warn!(%fault, %applied, "a damaged reading: in a second one the key's sequence rises; rolled back, replaying the log");
        *state = self.at_the_beginning(follower);
        self.skipped = false;
        self.forget_doubt(follower);
        follower.publisher.update(|m| {
            m.legacy.roll_backs += 1;
            m.unconfirmed += 1;
        });
        follower.publisher.per_entry(Seq::ZERO, Some(applied), 0);
        Ok(Some(Settled::RolledBack))
    }

    /// The verdict, unless the log was cut over: then its end decides first whether the entry counts at all.
    async fn verdict(&self, fault: ReplayFault) -> Result<Option<Settled>, Stop> {
        if self.base.is_none() {
            let key = self.log.keys().durable_prefix();
            if self.log.read_prefix().await.map_err(|error| Stop::from_log(&key, error))?.is_some() {
                return Ok(Some(Settled::CutOver));
            }
        }
        Err(Stop::Fault(fault.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_that_gets_no_further_is_rolled_back_a_few_times_only() {
        let seq = Seq::new;
        let mut roll_backs = RollBacks::default();
        // Doubts that come earlier on the way there count, too.
        assert_eq!([9, 4, 9, 9, 2].map(|at| roll_backs.another(seq(at))), [true, true, true, false, false]);
        assert_eq!([10, 10, 10, 3].map(|at| roll_backs.another(seq(at))), [true, true, true, false], "it got further");
    }
}
