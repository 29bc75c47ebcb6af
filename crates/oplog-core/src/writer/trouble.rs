//! Owns what went wrong with what is on its way to the store: the cause in words and for programs, since when the store is silent, and how
//! much of the retry budget that has used up. It reads no clock, and what follows from it others decide.

use std::time::Duration;

use ha_kv::{ErrorClass, KvError, KvErrorKind};
use ha_types::MonoTime;

use super::Closed;

/// The trouble with one transaction, from its first attempt to its end.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    budget: Option<Duration>,
    /// Time without an answer to a transaction so far.
    spent: Duration,
    /// Set while the time since then is without an answer.
    counting_from: Option<MonoTime>,
    unanswered_since: Option<MonoTime>,
    /// The first failure, in words: the cause.
    cause: Option<String>,
    /// The last one, if it says something else.
    lately: Option<String>,
    /// The last failure, for programs.
    closed: Option<Closed>,
}

/// The store was silent for the whole retry budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfBudget;

impl Trouble {
    /// None yet. Without a budget there never is too much of it.
    pub(crate) fn new(budget: Option<Duration>) -> Self {
        Self {
            budget,
            spent: Duration::ZERO,
            counting_from: None,
            unanswered_since: None,
            cause: None,
            lately: None,
            closed: None,
        }
    }

    /// Why nothing is durable yet: the first cause, and the last one beside it. `None` before the first failure.
    pub(crate) fn failure(&self) -> Option<String> {
        let cause = self.cause.as_ref()?;
        Some(self.lately.as_ref().map_or_else(|| cause.clone(), |lately| format!("{cause}; lately: {lately}")))
    }

    /// The last failure, for programs. `None` before the first.
    pub(crate) fn closed(&self) -> Option<Closed> {
        self.closed
    }

    /// Since when no transaction was answered.
    pub(crate) fn unanswered_since(&self) -> Option<MonoTime> {
        self.unanswered_since
    }

    /// By when the store must have answered a request sent at `now`, or the budget is used up.
    pub(crate) fn answer_by(&self, now: MonoTime) -> Option<MonoTime> {
        Some(now.saturating_add(self.budget?.saturating_sub(self.spent)))
    }

    /// A transaction sent at `began` has no answer yet: until one comes, it may have been applied.
    pub(crate) fn not_answered_yet(&mut self, began: MonoTime) {
        self.unanswered_since.get_or_insert(began);
    }

    /// Something went wrong.
    pub(crate) fn failed(&mut self, closed: Closed, why: String) {
        self.closed = Some(closed);
        match &self.cause {
            None => self.cause = Some(why),
            Some(cause) => self.lately = (why != *cause).then_some(why),
        }
    }

    /// The compares of a transaction did not hold: an answer.
    pub(crate) fn on_failed_compare(&mut self, why: &str) {
        self.answered();
        self.failed(Closed::Prefix, why.into());
    }

    /// A transaction sent at `began` may have been applied; that was known at `now`.
    pub(crate) fn on_unknown(&mut self, e: &KvError, began: MonoTime, now: MonoTime) -> Result<(), OutOfBudget> {
        self.failed(Closed::Store(e.kind), e.to_string());
        if e.class() == ErrorClass::Operator {
            // The store said so itself, so it is not silent; and yet it may have applied what it complains about.
            self.answered();
            return Ok(());
        }
        self.unanswered_since.get_or_insert(began);
        self.unanswered(began, now)
    }

    /// A transaction was certainly not applied.
    pub(crate) fn on_refusal(&mut self, e: &KvError) {
        self.failed(Closed::Store(e.kind), e.to_string());
        if matches!(e.kind, KvErrorKind::Unavailable | KvErrorKind::Timeout) {
            // Not applied, and not said by the store either: it neither starts nor ends the time without an answer.
            self.counting_from = None;
        } else {
            self.answered();
        }
    }

    /// A read sent at `began` failed at `now`. An answered one is not told here: it ends no silence, for a store that reads and
    /// does not write is of no use to a log.
    pub(crate) fn on_failed_read(&mut self, e: &KvError, began: MonoTime, now: MonoTime) -> Result<(), OutOfBudget> {
        self.failed(Closed::Store(e.kind), e.to_string());
        match e.class() {
            ErrorClass::Permanent => Ok(()),
            ErrorClass::Operator => {
                self.counting_from = None;
                Ok(())
            }
            ErrorClass::Transient => self.unanswered(began, now),
        }
    }

    /// A pause ended at `now`: it belongs to the time without an answer, if that goes on.
    pub(crate) fn on_pause_over(&mut self, now: MonoTime) -> Result<(), OutOfBudget> {
        if let Some(from) = self.counting_from {
            self.spent += now.saturating_since(from);
            self.counting_from = Some(now);
        }
        self.within_budget()
    }

    fn answered(&mut self) {
        self.unanswered_since = None;
        self.counting_from = None;
    }

    fn unanswered(&mut self, began: MonoTime, now: MonoTime) -> Result<(), OutOfBudget> {
        self.spent += now.saturating_since(self.counting_from.unwrap_or(began).max(began));
        self.counting_from = Some(now);
        self.within_budget()
    }

    fn within_budget(&self) -> Result<(), OutOfBudget> {
        match self.budget {
            Some(budget) if self.spent >= budget => Err(OutOfBudget),
            _ => Ok(()),
        }
    }
}

/// Whether an error that no retry cures says that what is stored, or the store itself, is not what it was. Any other one is about what
/// was asked of it.
pub(crate) fn is_damage(e: &KvError) -> bool {
    matches!(e.kind, KvErrorKind::Corrupt | KvErrorKind::WrongStore)
}

#[cfg(test)]
mod tests {
    use ha_kv::Effect;

    use super::*;

    fn at(seconds: u64) -> MonoTime {
        MonoTime::from_origin(Duration::from_secs(seconds))
    }

    fn error(kind: KvErrorKind) -> KvError {
        KvError::new(kind, Effect::Unknown, format!("{kind:?}"))
    }

    /// Two seconds of silence, of a budget of ten.
    fn silent() -> Trouble {
        let mut trouble = Trouble::new(Some(Duration::from_secs(10)));
        assert_eq!(trouble.on_unknown(&error(KvErrorKind::Timeout), at(1), at(3)), Ok(()));
        assert_eq!(trouble.unanswered_since(), Some(at(1)));
        assert_eq!(trouble.answer_by(at(3)), Some(at(11)));
        trouble
    }

    #[test]
    fn w16_pauses_and_failed_reads_belong_to_the_silence_and_it_ends_at_the_budget_exactly() {
        let mut trouble = silent();
        assert_eq!(trouble.on_pause_over(at(4)), Ok(()));
        assert_eq!(trouble.on_failed_read(&error(KvErrorKind::Busy), at(4), at(6)), Ok(()));
        // A read that was answered in between is not told, and refills nothing.
        assert_eq!(trouble.on_pause_over(at(10)), Ok(()));
        assert_eq!(trouble.answer_by(at(10)), Some(at(11)));
        let mut by_a_pause = trouble.clone();
        assert_eq!(by_a_pause.on_pause_over(at(11)), Err(OutOfBudget));
        let mut by_a_read = trouble.clone();
        assert_eq!(by_a_read.on_failed_read(&error(KvErrorKind::Timeout), at(10), at(11)), Err(OutOfBudget));
        assert_eq!(trouble.on_unknown(&error(KvErrorKind::Unavailable), at(10), at(11)), Err(OutOfBudget));
        assert_eq!(trouble.unanswered_since(), Some(at(1)), "since the first of them");
        let words = trouble.failure().expect("a failure");
        assert!(words.starts_with("Timeout") && words.contains("; lately: Unavailable"), "{words}");
    }

    #[test]
    fn w16_what_did_not_reach_the_store_neither_starts_nor_ends_the_silence() {
        for kind in [KvErrorKind::Unavailable, KvErrorKind::Timeout] {
            let mut trouble = silent();
            trouble.on_refusal(&error(kind));
            assert_eq!(trouble.unanswered_since(), Some(at(1)), "{kind:?}");
            assert_eq!(trouble.on_pause_over(at(1000)), Ok(()), "{kind:?}: nor does its time count");
            assert_eq!(trouble.answer_by(at(1000)), Some(at(1008)), "{kind:?}");
            let mut trouble = Trouble::new(None);
            trouble.on_refusal(&error(kind));
            assert_eq!((trouble.unanswered_since(), trouble.closed()), (None, Some(Closed::Store(kind))));
        }
    }

    #[test]
    fn w16_an_answer_to_a_transaction_ends_the_silence_and_what_was_spent_stays_spent() {
        let answers: [fn(&mut Trouble); 3] = [
            |trouble| trouble.on_failed_compare("not as it was"),
            |trouble| trouble.on_refusal(&error(KvErrorKind::NoSpace)),
            |trouble| trouble.on_unknown(&error(KvErrorKind::NoSpace), at(3), at(4)).expect("no silence"),
        ];
        for answer in answers {
            let mut trouble = silent();
            answer(&mut trouble);
            assert_eq!((trouble.unanswered_since(), trouble.on_pause_over(at(1000))), (None, Ok(())));
            assert_eq!(trouble.answer_by(at(1000)), Some(at(1008)));
        }
    }

    #[test]
    fn w16_a_read_that_an_operator_must_cure_is_no_silence_and_no_answer_to_a_transaction() {
        let mut trouble = silent();
        assert_eq!(trouble.on_failed_read(&error(KvErrorKind::Auth), at(3), at(4)), Ok(()));
        assert_eq!(trouble.unanswered_since(), Some(at(1)));
        assert_eq!((trouble.on_pause_over(at(1000)), trouble.answer_by(at(1000))), (Ok(()), Some(at(1008))));
    }
}
