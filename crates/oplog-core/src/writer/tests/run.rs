//! Owns one run: the same events for the core and the model, compared after each.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use ha_kv::{Effect, KvError, KvErrorKind, TxnOutcome};
use ha_types::{MonoTime, SeededEntropy};
use parking_lot::Mutex;
use proptest::prelude::*;

use super::model::{Answer, End, Found, Full, Model, Next, Span, Stored};
use crate::record::{BatchCompressor, BatchRef, OpenBatch};
use crate::writer::class::Class;
use crate::writer::core::{Core, Sealed};
use crate::writer::flight::{Action, Moment, Then};
use crate::writer::notifier::{Callback, Notice, run_notice};
use crate::writer::{Refusal, ReserveError, WriterConfig};
use crate::{DurablePrefix, Epoch, LogError, NewEntry, Outcome, Owner, Seq, Terminal};

const LIMIT: usize = 6;
/// Room for a handful of entries, so that batches roll by bytes.
const BATCH_BYTES: usize = 900;

/// How long the store may be silent about one batch, in the runs that set a budget.
const BUDGET_MS: u64 = 64;

/// What happens next. Numbers pick among what is there.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Reserve(Class, usize),
    Join(Class),
    Look(usize),
    Leave(usize),
    Abort(Class),
    Commit {
        class: Class,
        payload: usize,
        calls_back: bool,
    },
    /// The driver takes the next step; what the store says is drawn here.
    Drive {
        answer: Answer,
        found: Found,
        stored: Stored,
        /// How long it takes, in milliseconds.
        took: u64,
    },
    Interrupt,
    Stop,
    Drain,
}

impl Event {
    pub(super) fn any() -> impl Strategy<Value = Self> {
        let answer = prop_oneof![
            6 => Just(Answer::Committed),
            2 => Just(Answer::CompareFailed),
            3 => prop_oneof![2 => Just(Answer::Unknown), 1 => Just(Answer::Full)],
            2 => Just(Answer::RefusedForNow),
            2 => Just(Answer::TooLarge),
            1 => prop_oneof![4 => Just(Answer::RefusedForNow), 1 => Just(Answer::RefusedForGood), 1 => Just(Answer::AnotherStore)],
        ];
        let found = prop_oneof![
            4 => Just(Found::New),
            6 => Just(Found::Expected),
            3 => Just(Found::Failed),
            1 => Just(Found::ClaimedHere),
            1 => Just(Found::ClaimedAndWritten),
            1 => prop_oneof![Just(Found::Lower), Just(Found::OtherOwner), Just(Found::Absent), Just(Found::Rubbish)],
        ];
        let stored = prop_oneof![1 => Just(Stored::Mine), 1 => Just(Stored::Higher), 1 => Just(Stored::Absent), 9 => Just(Stored::Failed)];
        let took = prop_oneof![8 => 0..3_u64, 1 => Just(BUDGET_MS / 2), 1 => Just(BUDGET_MS)];
        let class = || prop_oneof![Just(Class::Waiter), Just(Class::Bulk)];
        // The largest fill bulk's share of a batch before its slots are used up, or fit no batch.
        let payload = prop_oneof![3 => 0..300_usize, 2 => 700..830_usize];
        prop_oneof![
            8 => (class(), 0..LIMIT + 2).prop_map(|(class, n)| Self::Reserve(class, n)),
            8 => class().prop_map(Self::Join),
            3 => (0..4_usize).prop_map(Self::Look),
            1 => (0..4_usize).prop_map(Self::Leave),
            3 => class().prop_map(Self::Abort),
            16 => (class(), payload, any::<bool>())
                .prop_map(|(class, payload, calls_back)| Self::Commit { class, payload, calls_back }),
            24 => (answer, found, stored, took).prop_map(|(answer, found, stored, took)| Self::Drive { answer, found, stored, took }),
            1 => prop_oneof![3 => Just(Self::Drain), 1 => Just(Self::Stop), 1 => Just(Self::Interrupt)],
        ]
    }
}

/// What some run has to reach.
pub(super) const SITUATIONS: &[&str] = &[
    "a waiter passed bulk that waits for its share",
    "bulk had its share of a batch",
    "bulk had its share of the slots",
    "bulk reserved more than its share",
    "bulk was granted a slot in line",
    "batch cut",
    "batch rolled by bytes",
    "commit refused after the end",
    "commit refused as too large",
    "drained",
    "durable after a failure",
    "ended by a pause",
    "ended Corrupt Never",
    "ended Corrupt Unknown",
    "ended Fenced Durable",
    "ended Fenced Never",
    "ended Fenced Unknown",
    "ended RetryBudget Never",
    "ended RetryBudget Unknown",
    "ended Rejected Never",
    "ended Rejected Unknown",
    "ended Shutdown Never",
    "ended Shutdown Unknown",
    "full, and cured",
    "full, and durable all the same",
    "granted in line",
    "left the line with a slot",
    "queue full",
    "turned away",
    "unavailable",
];

struct Run {
    core: Core,
    model: Model,
    entropy: Arc<SeededEntropy>,
    /// Numbers in line: the core's.
    line: Vec<(u64, Class)>,
    sealed: Option<Sealed>,
    action: Option<Action>,
    told: Arc<Mutex<Vec<(u64, Outcome)>>>,
    ended: bool,
    reached: BTreeSet<&'static str>,
    /// The chain as the store would have it.
    chain: u32,
    now: Duration,
    /// The store was full for this batch.
    was_full: bool,
    /// The batch in flight was sent.
    was_sent: bool,
    /// The largest record of one entry, by what the store has refused.
    entry_limit: usize,
}

/// Runs `events` and says what they reached.
pub(super) fn run(events: &[Event]) -> BTreeSet<&'static str> {
    let config = WriterConfig {
        oplog_batch_max_entries: LIMIT,
        oplog_batch_max_bytes: BATCH_BYTES,
        oplog_waiting_max_bytes: 1 << 20,
        ..WriterConfig::default()
    };
    let budget = events.len().is_multiple_of(2).then_some(Duration::from_millis(BUDGET_MS));
    let config = WriterConfig { oplog_retry_budget: budget, ..config };
    let claimed = DurablePrefix { epoch: Epoch::new(5), owner: Owner::new(0xa), ..DurablePrefix::FRESH };
    let mut run = Run {
        core: Core::new(config, claimed, 0),
        model: Model::new(LIMIT, BATCH_BYTES, budget),
        entropy: Arc::new(SeededEntropy::new(events.len() as u64)),
        line: Vec::new(),
        sealed: None,
        action: None,
        told: Arc::default(),
        ended: false,
        now: Duration::ZERO,
        was_full: false,
        was_sent: false,
        reached: BTreeSet::new(),
        chain: 0,
        entry_limit: BATCH_BYTES,
    };
    for event in events {
        run.step(event);
        run.compare(event);
    }
    run.reached
}

impl Run {
    fn step(&mut self, event: &Event) {
        match event {
            Event::Reserve(class, n) => self.reserve(*class, *n),
            Event::Join(class) => self.join(*class),
            Event::Look(pick) => self.look(*pick),
            Event::Leave(pick) => self.leave(*pick),
            Event::Abort(class) if self.model.holds(*class) => {
                self.core.abort(*class);
                self.model.abort(*class);
            }
            Event::Commit { class, payload, calls_back } if self.model.holds(*class) => {
                self.commit(*class, *payload, *calls_back);
            }
            Event::Abort(_) | Event::Commit { .. } => {}
            Event::Drive { answer, found, stored, took } => self.drive(*answer, *found, *stored, *took),
            Event::Interrupt => self.interrupt(),
            Event::Stop => {
                self.core.stop();
                self.model.stop();
            }
            Event::Drain => {
                self.core.start_drain();
                self.model.drain();
                self.reached.insert("drained");
            }
        }
    }

    fn reserve(&mut self, class: Class, n: usize) {
        let full = self.model.full(class, n);
        let refused = self.core.metrics(MonoTime::ZERO).refused;
        let expected = self.model.reserve(class, n);
        match self.core.reserve(class, n) {
            Ok(()) => {
                assert!(expected);
                self.passed(class);
            }
            Err(ReserveError::OutOfRange { limit, .. }) => {
                assert_eq!(limit, self.model.most(class));
                assert!(n == 0 || n > limit);
                if n > 0 && n <= LIMIT {
                    self.reached.insert("bulk reserved more than its share");
                }
            }
            Err(ReserveError::Unavailable { .. }) => {
                self.reached.insert("unavailable");
                assert!(!expected && !self.model.accepting());
            }
            Err(ReserveError::QueueFull) => {
                assert!(!expected && self.model.accepting());
                let (why, situation) = match full.expect("nobody is refused who may have a slot") {
                    Full::BulkEntries => (Refusal::BulkEntries, "bulk had its share of the slots"),
                    Full::BulkBytes => (Refusal::BulkBytes, "bulk had its share of a batch"),
                    Full::Entries => (Refusal::QueueEntries, "queue full"),
                };
                let counted = self.core.metrics(MonoTime::ZERO).refused.of(why) - refused.of(why);
                assert_eq!(counted, 1, "{why:?}");
                self.reached.insert(situation);
            }
        }
    }

    /// Somebody of `class` got a slot.
    fn passed(&mut self, class: Class) {
        if class == Class::Waiter && self.model.somebody_waits(Class::Bulk) {
            self.reached.insert("a waiter passed bulk that waits for its share");
        }
    }

    fn join(&mut self, class: Class) {
        let accepting = self.model.accepting();
        match self.core.reserve_or_join(class, Waker::noop()) {
            Ok(None) => {
                assert!(self.model.join(class, u64::MAX));
                self.passed(class);
            }
            Ok(Some(number)) => {
                assert!(!self.model.join(class, number));
                self.line.push((number, class));
            }
            Err(_) => assert!(!accepting),
        }
    }

    fn look(&mut self, pick: usize) {
        let Some((number, class)) = self.line.get(pick).copied() else { return };
        let expected = self.model.turn(number);
        match self.core.turn(class, number, Waker::noop()) {
            Ok(true) => {
                self.reached.insert(match class {
                    Class::Waiter => "granted in line",
                    Class::Bulk => "bulk was granted a slot in line",
                });
                assert_eq!(expected, Some(true));
                self.line.remove(pick);
                self.passed(class);
            }
            Ok(false) => assert_eq!(expected, Some(false)),
            Err(_) => {
                self.reached.insert("turned away");
                assert_eq!(expected, None);
                self.line.remove(pick);
            }
        }
    }

    fn leave(&mut self, pick: usize) {
        if pick >= self.line.len() {
            return;
        }
        let (number, class) = self.line.remove(pick);
        if self.model.line.iter().any(|who| who.number == number && who.granted) {
            self.reached.insert("left the line with a slot");
        }
        self.core.leave(class, number);
        self.model.leave(number);
    }

    fn commit(&mut self, class: Class, payload: usize, calls_back: bool) {
        let mut bytes = vec![0; 8 + payload];
        bytes[..8].copy_from_slice(&self.model.next_seq.to_le_bytes());
        let entry = NewEntry { op_type: 1, tenant: "default", key: b"k", payload: &bytes };
        let told = Arc::clone(&self.told);
        let mut callback =
            calls_back.then(|| Callback::new(move |seq: Seq, outcome| told.lock().push((seq.get(), outcome))));
        let fits = OpenBatch::entry_len(&entry) + OpenBatch::HEADER_BOUND <= self.entry_limit;
        let waiting = |core: &Core| core.metrics(MonoTime::ZERO).waiting_bytes;
        let before = waiting(&self.core);
        let committed = self.core.commit(class, &entry, &mut callback, || MonoTime::ZERO);
        let bytes = usize::try_from(waiting(&self.core) - before).expect("a small entry");
        let expected = self.model.commit(class, calls_back, fits, bytes);
        match committed {
            Ok((seq, _)) => assert_eq!(Some(seq.get()), expected),
            Err(e) => {
                assert_eq!(expected, None, "{e}");
                let refused = if fits { "commit refused after the end" } else { "commit refused as too large" };
                self.reached.insert(refused);
                self.core.abort(class);
            }
        }
    }

    fn drive(&mut self, answer: Answer, found: Found, stored: Stored, took: u64) {
        if self.ended {
            return;
        }
        let entropy = Arc::clone(&self.entropy);
        let began = self.now;
        self.now += match self.action {
            None => Duration::ZERO,
            Some(Action::Pause(pause, _)) => pause,
            Some(_) => Duration::from_millis(took),
        };
        let span = Span { began, now: self.now };
        let (began, now) = (MonoTime::from_origin(began), MonoTime::from_origin(self.now));
        let at = Moment { began, now, entropy: &*entropy };
        let action = match self.action.take() {
            None => return self.depart(),
            Some(Action::Append) => {
                self.was_sent = true;
                let action = self.core.on_append(&append_answer(answer), at);
                let next = self.model.append(answer, span);
                self.same(&action, next);
                self.was_full |= matches!(answer, Answer::Full | Answer::RefusedForNow);
                if self.was_full && answer == Answer::Committed {
                    self.reached.insert("full, and cured");
                }
                if action == Action::Cut {
                    let refused = self.sealed.as_ref().expect("sealed").record.len();
                    self.entry_limit = self.entry_limit.min(refused - 1);
                }
                action
            }
            Some(Action::ReadPrefix) => {
                let read = self.prefix_read(found);
                let action = self.core.on_prefix(&read, at);
                let next = self.model.prefix(found, span);
                self.same(&action, next);
                if self.was_full && action == Action::Committed {
                    self.reached.insert("full, and durable all the same");
                }
                action
            }
            Some(Action::ReadBatch) => {
                let action = self.core.on_stored(&stored_read(stored), at);
                let next = self.model.stored(stored, span);
                self.same(&action, next);
                action
            }
            Some(Action::Pause(_, then)) => {
                let action = self.core.on_pause_over(then, now);
                if let Some(next) = self.model.pause_over(span.now) {
                    self.reached.insert("ended by a pause");
                    self.same(&action, next);
                }
                action
            }
            Some(Action::Committed | Action::Cut | Action::End(..)) => unreachable!("carried out at once"),
        };
        self.carry_out(action);
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Committed => {
                if self.model.failing {
                    self.reached.insert("durable after a failure");
                }
                self.chain = BatchRef::decode(&self.sealed.as_ref().expect("sealed").record).expect("decodes").crc();
                let finished = self.core.finish(MonoTime::ZERO);
                self.model.finish();
                assert_eq!(finished.through.get(), self.model.durable);
                self.tell(finished.callbacks, Outcome::Durable);
            }
            Action::Cut => {
                self.reached.insert("batch cut");
                let record = self.sealed.as_ref().expect("sealed").record.clone();
                let before = self.core.metrics(MonoTime::ZERO).waiting_entries;
                self.core.cut(&record);
                let parts = self.core.cut_parts();
                assert!(parts.len() > 1, "a cut makes parts");
                let after = self.core.metrics(MonoTime::ZERO).waiting_entries;
                let refused = self.was_sent.then_some(record.len());
                self.model.cut(&parts[..parts.len() - self.model.cut.len()], refused);
                assert_eq!(self.core.metrics(MonoTime::ZERO).seal_bytes as usize, self.model.seal_bytes());
                assert_eq!(after - before, BatchRef::decode(&record).expect("decodes").count() as u64);
            }
            Action::End(terminal, outcome) => {
                self.reached.insert(end_name(kind_of(&terminal), outcome));
                self.over(outcome);
            }
            action => self.action = Some(action),
        }
    }

    fn over(&mut self, outcome: Outcome) {
        let through = self.model.over(outcome);
        let ended = self.core.end(outcome);
        assert_eq!((ended.durable_through.get(), ended.unknown_through.get()), (self.model.durable, through));
        self.tell(ended.batch.0, ended.batch.1);
        self.tell(ended.never, Outcome::Never);
        self.ended = true;
    }

    fn depart(&mut self) {
        let Some(departure) = self.core.depart(0, MonoTime::ZERO) else {
            if self.model.end.is_some() {
                self.over(Outcome::Never);
            } else {
                assert!(self.model.waiting.is_empty() && self.model.cut.is_empty(), "work-conserving");
            }
            return;
        };
        let mut sealed = departure.seal(&mut BatchCompressor::off()).expect("it seals");
        let count = BatchRef::decode(&sealed.record).expect("it decodes").count();
        if self.model.cut.is_empty() && count < self.model.waiting.len() {
            self.reached.insert("batch rolled by bytes");
            let next = self.model.waiting[count].bytes;
            let filled = sealed.record.len() + next + 2 * OpenBatch::HEADER_BOUND;
            assert!(filled > self.model.seal_bytes(), "it left early");
        }
        self.model.depart(count);
        self.was_sent = false;
        self.check_record(&sealed);
        let action = self.core.take_off(&mut sealed);
        self.sealed = Some(sealed);
        self.carry_out(action);
    }

    /// The record holds the model's entries, numbered and chained.
    fn check_record(&self, sealed: &Sealed) {
        let batch = BatchRef::decode(&sealed.record).expect("it decodes");
        assert!(batch.count() == 1 || sealed.record.len() <= BATCH_BYTES);
        assert_eq!(batch.header().batch_id, sealed.new.batch_id);
        assert_eq!(batch.header().prev_crc, self.chain);
        assert_eq!(sealed.expected.last_seq.get(), self.model.durable);
        let flight = self.model.flight.as_ref().expect("departed");
        let payloads: Vec<_> =
            batch.entries().map(|e| u64::from_le_bytes(e.payload[..8].try_into().expect("eight"))).collect();
        assert_eq!(payloads, flight.entries.iter().map(|e| e.seq).collect::<Vec<_>>());
        assert_eq!(batch.header().first_seq.get(), payloads[0]);
    }

    fn interrupt(&mut self) {
        let Some(action) = self.action.take().filter(|_| !self.ended) else { return };
        let sent = action == Action::Append;
        let action = self.core.interrupt(Terminal::Shutdown, sent);
        let next = self.model.interrupt(sent);
        self.same(&action, next);
        self.carry_out(action);
    }

    fn tell(&mut self, callbacks: Vec<(Seq, Callback)>, outcome: Outcome) {
        let ran = callbacks.len();
        run_notice(Notice { callbacks, outcome, since: MonoTime::ZERO });
        if ran > 0 {
            self.core.callbacks_ran(ran, 0, std::time::Duration::ZERO, std::time::Duration::ZERO);
        }
    }

    /// A prefix as `found` describes it.
    fn prefix_read(&self, found: Found) -> Result<Option<DurablePrefix>, LogError> {
        let sealed = self.sealed.as_ref().expect("sealed");
        let (expected, new) = (sealed.expected, sealed.new);
        let claim = |at: DurablePrefix| DurablePrefix { epoch: Epoch::new(6), owner: Owner::new(0xb), ..at };
        match found {
            Found::New => Ok(Some(new)),
            Found::Expected => Ok(Some(expected)),
            Found::ClaimedHere => Ok(Some(claim(expected))),
            Found::ClaimedAndWritten => Ok(Some(claim(new))),
            Found::Lower => Ok(Some(DurablePrefix { epoch: Epoch::new(4), ..expected })),
            Found::OtherOwner => Ok(Some(DurablePrefix { owner: Owner::new(0xc), ..new })),
            Found::Absent => Ok(None),
            Found::Rubbish => Err(LogError::Refused("rubbish".into())),
            Found::Failed => Err(KvError::read(KvErrorKind::Unavailable, "gone").into()),
        }
    }

    fn same(&self, action: &Action, next: Next) {
        let seen = match action {
            Action::Append => Next::Append,
            Action::ReadPrefix => Next::ReadPrefix,
            Action::ReadBatch => Next::ReadBatch,
            Action::Pause(_, Then::Append) => Next::PauseAppend,
            Action::Pause(_, Then::ReadPrefix) => Next::PauseReadPrefix,
            Action::Pause(_, Then::ReadBatch) => Next::PauseReadBatch,
            Action::Committed => Next::Committed,
            Action::Cut => Next::Cut,
            Action::End(terminal, outcome) => Next::End(kind_of(terminal), *outcome),
        };
        assert_eq!(seen, next);
    }

    fn compare(&mut self, event: &Event) {
        let (core, model) = (&self.core, &self.model);
        let status = core.status();
        assert_eq!(status.accepting, model.accepting(), "after {event:?}");
        assert_eq!((status.closed.is_none(), status.reason.is_none()), (model.accepting(), model.accepting()));
        assert_eq!(status.terminal.as_ref().map(kind_of), model.end, "after {event:?}");
        assert_eq!(status.durable.last_seq.get(), model.durable, "after {event:?}");
        let metrics = core.metrics(MonoTime::ZERO);
        assert_eq!(metrics.slots as usize, model.slots(), "L9, after {event:?}");
        assert_eq!(metrics.bulk_slots as usize, model.bulk_slots(), "after {event:?}");
        let waiting = model.waiting.len() + model.cut.iter().map(Vec::len).sum::<usize>();
        assert_eq!(metrics.waiting_entries as usize, waiting, "after {event:?}");
        assert_eq!(core.not_durable(), model.next_seq - 1 - model.durable, "after {event:?}");
        assert_eq!(*self.told.lock(), model.told, "L6, L7: after {event:?}");
        drop(self.core.take_wakers());
    }
}

fn kind_of(terminal: &Terminal) -> End {
    match terminal {
        Terminal::Fenced { .. } => End::Fenced,
        Terminal::Corrupt { .. } => End::Corrupt,
        Terminal::Rejected { .. } => End::Rejected,
        Terminal::Shutdown => End::Shutdown,
        Terminal::RetryBudget => End::RetryBudget,
    }
}

fn end_name(end: End, outcome: Outcome) -> &'static str {
    let name = format!("ended {end:?} {outcome:?}");
    SITUATIONS.iter().find(|s| **s == name).copied().unwrap_or("another end")
}

fn append_answer(answer: Answer) -> Result<TxnOutcome, KvError> {
    let refused = |kind| Err(KvError::new(kind, Effect::NotApplied, "refused"));
    match answer {
        Answer::Committed => Ok(TxnOutcome::Committed),
        Answer::CompareFailed => Ok(TxnOutcome::CompareFailed),
        Answer::Unknown => Err(KvError::new(KvErrorKind::Timeout, Effect::Unknown, "silence")),
        Answer::Full => Err(KvError::new(KvErrorKind::NoSpace, Effect::Unknown, "full")),
        Answer::RefusedForNow => refused(KvErrorKind::NoSpace),
        Answer::TooLarge => refused(KvErrorKind::TooLarge),
        Answer::RefusedForGood => refused(KvErrorKind::InvalidArgument),
        Answer::AnotherStore => refused(KvErrorKind::WrongStore),
    }
}

fn stored_read(stored: Stored) -> Result<Option<Epoch>, KvError> {
    match stored {
        Stored::Mine => Ok(Some(Epoch::new(5))),
        Stored::Higher => Ok(Some(Epoch::new(6))),
        Stored::Absent => Ok(None),
        Stored::Failed => Err(KvError::read(KvErrorKind::Unavailable, "gone")),
    }
}
